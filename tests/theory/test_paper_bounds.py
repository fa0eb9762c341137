import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsarsa as fs
from fedsarsa.theory import bounds, constants, federated_point, predict
from tests.theory.exact_errors import exact_errors
from tests.theory.random_fleets import random_fleet, settings_of_theory

NAMES = [
    "lem:distri-hetero",
    "lem:td-hetero A",
    "lem:td-hetero b",
    "lem:grad-hetero",
    "eq:w",
    "thm:fix-drift",
    "thm:fix-drift sharp",
    "federated point",
    "federated point sharp",
    "cor:G",
    "thm",
    "cor:err-con",
    "cor:err-dec",
    "cor:tab",
]


def holds(row, c):
    """exact <= bound, up to the precision of the exact value."""
    norm = c.R if c.theta_star is None else c.R + 2 * np.linalg.norm(c.theta_star)
    if "lem:" in row.name:
        slack = 1e-13 * max(1.0, norm)
    elif row.name == "eq:w":
        slack = 0.0
    else:
        # Two roots with residuals of that size, and the slope between them is at least 2w.
        slack = (1e-10 * min(1.0, c.R) + 1e-14 * norm) / c.w
    return row.exact <= row.bound * (1 + 1e-12) + slack


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(settings_of_theory())
def test_every_bound_holds_on_random_fleets(drawn):
    fleet, algo, _ = drawn
    found = bounds(fleet, algo, 50)
    assert [row.name for row in found] == NAMES
    for row in found:
        assert row.bound >= 0
        assert row.reason
        if row.applies:
            assert math.isfinite(row.bound)
            assert row.exact is None or holds(row, found.constants)
        else:
            assert row.reason.startswith("does not apply: ")


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1e-6, 1e-2, 0.3]),
    st.sampled_from([0.05, 0.5, 0.95]),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.sampled_from(["dense", "shift"]),
    st.floats(0.0, 4.0),
)
def test_fixed_points_within_reach_of_the_theory(seed, apart, discount, scale, kind, warmth):
    """Softmax just warm enough for Assumption ``asmp:lip`` (and, at warmth 0, only for the sharp form)."""
    rng = np.random.default_rng(seed)
    fleet = random_fleet(rng, 3, 3, 2, sharpness=3.0, scale=scale, discount=discount, apart=apart, kind=kind)
    features = fs.OneHot()
    cold = constants(fleet, fs.FedSARSA(features, fs.FixedPolicy()))
    temperature = (0.6 + warmth) * cold.H * cold.sigma / cold.w
    found = bounds(fleet, fs.FedSARSA(features, fs.Softmax(temperature)), 10)
    for name in NAMES[:9]:
        row = found[name]
        if row.applies:
            assert holds(row, found.constants)
    assert found["thm:fix-drift sharp"].applies
    assert found["thm:fix-drift"].applies == (1 / temperature <= found.constants.w / (cold.H * cold.sigma))


def small_case(seed, agents, discount, apart, features, pi):
    rng = np.random.default_rng(seed)
    fleet = random_fleet(
        rng, agents, 2, len(pi), sharpness=2.0, scale=1.0, discount=discount, apart=apart, kind="dense"
    )
    worlds = [
        fs.FiniteMDP(mdp.transition, mdp.reward, discount, initial=np.eye(2)[seed % 2]) for mdp in fleet
    ]
    algo = fs.FedSARSA(features=features, policy=fs.FixedPolicy(pi), sync_every=1 + seed % 3)
    return fs.Fleet(worlds), algo, rng


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 2),
    st.sampled_from([0.1, 0.5, 0.9]),
    st.sampled_from([0.0, 1e-3, 0.3]),
    st.sampled_from([fs.OneHot(), fs.ModuloFeatures(1, 1), fs.ModuloFeatures(2, 1)]),
    st.booleans(),
)
def test_errors_of_trainings_stay_below_their_bounds(seed, agents, discount, apart, features, decaying):
    """Against exact second moments, from an unlucky start: one state, and parameters far off."""
    fleet, algo, rng = small_case(seed, agents, discount, apart, features, [0.3, 0.7])
    limit = constants(fleet, algo).alpha_limit * 0.9
    box = fleet.reward_cap / (1 - discount)
    theta0 = rng.uniform(-box, box, size=features.on(2, 2).dim)
    steps = 150
    step_size = limit
    if decaying:
        w = constants(fleet, algo).w
        step_size = fs.LinearDecay(w, 4 / (w * limit * 0.9))
    algo = fs.FedSARSA(features, algo.policy, step_size, algo.sync_every)
    found = bounds(fleet, algo, steps, theta0)
    c = found.constants
    assert found["thm"].applies
    error = exact_errors(fleet, algo, steps, theta0, c.theta_star)
    assert (error <= found.curve * (1 + 1e-9)).all()
    assert (error <= found["cor:G"].bound).all()
    each = [exact_errors(fleet, algo, steps, theta0, own) for own in c.theta_each]
    if decaying:
        weights = step_size.a + np.arange(steps + 1)
        # E||theta-tilde - theta||^2 is at most the weighted mean of the errors.
        assert all(weights @ one / weights.sum() <= found["cor:err-dec"].bound for one in each)
        assert found["cor:tab"].applies == isinstance(features, fs.OneHot)
    else:
        assert found["cor:err-con"].applies
        assert all(one[-1] <= found["cor:err-con"].bound for one in each)


def test_one_step_theorem_is_false_before_anything_has_mixed():
    """The paper states Theorem ``thm`` "for any" t: before mixing, a good start moves the parameter away.

    That is at t = 0. Next states are uniform whatever happens, so chains mix in one step; one parameter,
    discount 0.2, rewards 1 and 0: theta_* = 0.5 / 0.8. From 1.1 and state 0 the first step goes up by
    alpha (1 - 0.8 * 1.1).
    """
    alpha, start = 1e-7, 1.1
    mdp = fs.FiniteMDP(np.full((1, 2, 2), 0.5), [1.0, 0.0], 0.2, initial=[1.0, 0.0])
    algo = fs.FedSARSA(fs.ModuloFeatures(1, 1), fs.FixedPolicy(), alpha, 1)
    found = bounds([mdp], algo, 100, [start])
    c = found.constants
    assert c.applies
    assert c.theta_star == pytest.approx(0.625)
    error = exact_errors(fs.Fleet([mdp]), algo, 100, [start], c.theta_star)
    assert error[1] - error[0] == pytest.approx(2 * alpha * (start - 0.625) * (1 - 0.8 * start), rel=1e-4)
    added = alpha**2 * c.C_2 + alpha**3 * c.C_3 + alpha**4 * c.C_4  # one agent: Lambda = 0
    assert error[1] > (1 - alpha * c.w) * error[0] + added
    assert (error <= found.curve).all()
    assert found["thm"].printed < found["thm"].bound


def test_before_mixing_no_constants_of_lower_order_than_one_over_alpha_will_do():
    """The same start with ever smaller steps: whatever w > 0 and C_2, C_3, C_4 = o(1 / alpha) are.

    Theorem ``thm`` allows an increase of at most alpha (alpha C_2 + alpha^2 C_3 + alpha^3 C_4), for one agent
    and even with w = 0. The first step brings 2 alpha (1.1 - 0.625) (1 - 0.8 * 1.1) and more: what is in
    brackets would have to stay above 0.114, and goes to 0 with all constants that are o(1 / alpha).
    """
    start, needed = 1.1, 2 * (1.1 - 0.625) * (1 - 0.8 * 1.1)
    mdp = fs.FiniteMDP(np.full((1, 2, 2), 0.5), [1.0, 0.0], 0.2, initial=[1.0, 0.0])
    printed = []
    for alpha in (1e-6, 1e-7, 1e-8, 1e-9):
        algo = fs.FedSARSA(fs.ModuloFeatures(1, 1), fs.FixedPolicy(), alpha, 1)
        c = constants([mdp], algo)
        assert c.alpha_0 <= c.alpha_limit  # the theorem's conditions hold
        error = exact_errors(fs.Fleet([mdp]), algo, 1, [start], c.theta_star)
        increase = (error[1] - error[0]) / alpha
        assert increase >= needed - 1e-6  # rounding of 1e-16 over alpha
        printed.append(alpha * c.C_2 + alpha**2 * c.C_3 + alpha**3 * c.C_4)
    # The printed ones are of that kind: powers of log(1 / alpha).
    assert (np.diff(printed) < 0).all()
    assert printed[-1] < 0.01 * printed[0]
    assert printed[-1] < needed


def test_bounds_of_a_simulated_training():
    """Softmax within the theory, simulated: the averaged error is below the bound."""
    fleet, algo, _ = small_case(3, 2, 0.5, 0.01, fs.OneHot(), [0.5, 0.5])
    base = constants(fleet, algo)
    temperature = 1.5 * base.H * base.sigma / base.w
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(temperature), 0.5 * base.alpha_limit, 2)
    found = bounds(fleet, algo, 400)
    assert found["thm"].applies
    history = algo.train(fleet, steps=400, runs=20, engine="reference")
    assert float(history.mse(found.constants.theta_star)[:, -1].mean()) <= found["thm"].bound
    for own in found.constants.theta_each:
        assert float(history.mse(own)[:, -1].mean()) <= found["cor:err-con"].bound


def test_curve_is_the_recursion():
    fleet, algo, _ = small_case(4, 2, 0.5, 0.1, fs.OneHot(), [0.5, 0.5])
    limit = constants(fleet, algo).alpha_limit
    algo = fs.FedSARSA(fs.OneHot(), algo.policy, 0.9 * limit, 1)
    long, short = bounds(fleet, algo, 3000), bounds(fleet, algo, 2000)
    np.testing.assert_allclose(long.curve[:2001], short.curve)
    assert len(long.curve) == 3001
    late = np.diff(long.curve[1000:])
    # A geometric approach to the floor: differences shrink by 1 - alpha w.
    np.testing.assert_allclose(late[1:] / late[:-1], 1 - 0.9 * limit * long.constants.w, rtol=1e-6)


def test_greedy_says_so_and_keeps_what_stays_valid():
    fleet, _, _ = small_case(5, 2, 0.5, 0.1, fs.OneHot(), [0.5, 0.5])
    found = bounds(fleet, fs.FedSARSA(fs.OneHot(), fs.Greedy()), 100)  # and warns of nothing
    for name in ("lem:distri-hetero", "lem:td-hetero A", "lem:td-hetero b", "cor:G"):
        assert found[name].applies
    for name in ("thm:fix-drift", "thm", "cor:err-con"):
        assert not found[name].applies
        assert "L = inf" in found[name].reason


def test_chains_that_do_not_mix():
    found = bounds([fs.FiniteMDP(np.eye(2)[None], [1.0, 0.0], 0.2)], fs.FedSARSA(fs.OneHot()), 10)
    assert not any(row.applies for row in found)
    assert found.federated is None
    assert "rho = 1 must be below 1" in found["thm"].reason


def test_steps_and_features_decide_which_corollary():
    fleet, algo, _ = small_case(6, 2, 0.5, 0.1, fs.OneHot(), [0.5, 0.5])
    constant = bounds(fleet, fs.FedSARSA(fs.OneHot(), algo.policy, 1e-9), 10)
    assert constant["cor:err-con"].applies
    assert "not a LinearDecay" in constant["cor:err-dec"].reason
    decaying = bounds(fleet, fs.FedSARSA(fs.ModuloFeatures(2, 2), algo.policy, fs.LinearDecay(0.1, 1e10)), 10)
    assert "decays" in decaying["cor:err-con"].reason
    assert decaying["cor:err-dec"].applies
    assert "not OneHot" in decaying["cor:tab"].reason
    # The tabular corollary needs no projection, whatever the radius.
    narrow = bounds(fleet, fs.FedSARSA(fs.OneHot(), algo.policy, fs.LinearDecay(0.1, 1e10), radius=1e-3), 10)
    assert not narrow["cor:err-dec"].applies
    assert narrow["cor:tab"].applies


def test_bad_arguments():
    fleet, algo, _ = small_case(7, 2, 0.5, 0.1, fs.OneHot(), [0.5, 0.5])
    with pytest.raises(ValueError, match=r"theta0 must have shape \(4,\), got \(3,\)"):
        bounds(fleet, algo, 10, np.zeros(3))
    with pytest.raises(ValueError, match="steps must be an integer of at least 1, got 0"):
        bounds(fleet, algo, 0)
    with pytest.raises(ValueError, match=r"name must be one of .*, got 'thm:fixdrift'; did you mean"):
        bounds(fleet, algo, 10)["thm:fixdrift"]
    far = bounds(fleet, algo, 10, np.full(4, 1e6))
    assert "theta0 exceeds R / (1 - gamma)" in far["cor:G"].reason


@pytest.mark.parametrize(
    ("step_size", "late"),
    [
        ([0.01, 0.05], [1.0, 5.0]),
        ([fs.LinearDecay(0.1, 1e4), fs.LinearDecay(0.2, 1e4)], [2.0, 1.0]),
        ([0.02, fs.LinearDecay(0.1, 1e4)], [1.0, 0.0]),
    ],
    ids=["constant", "decaying", "one vanishes"],
)
def test_the_federated_point_is_that_of_the_prediction(step_size, late):
    fleet = fs.paper.fleet(2, 1.0, 1.0, states=8, actions=4)
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 2), step_size=step_size, weights=[0.3, 0.7])
    found = bounds(fleet, algo, 100).federated
    np.testing.assert_allclose(found, predict(fleet, algo, 100).federated_point, atol=1e-9)
    shares = np.array(late) * [0.3, 0.7]  # an agent pulls by its weight times its late step size
    expected = federated_point(fleet, algo.features, algo.policy, shares / shares.sum())
    np.testing.assert_allclose(found, expected, atol=1e-9)
