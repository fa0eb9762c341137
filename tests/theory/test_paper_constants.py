import math

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory import constants, paper_constants
from fedsarsa.theory.operators import operators
from fedsarsa.theory.paper_constants import contraction
from tests.theory.random_fleets import random_features, random_fleet

GAMMA = 0.5


def tiny_fleet():
    """Two agents whose next state depends on the action alone; the second differs by 0.2 in action 1."""
    worlds = []
    for last, reward in ((0.6, [[1.0, 0.0], [0.0, 2.0]]), (0.7, [[1.0, 0.0], [0.0, 1.5]])):
        rows = np.array([[0.7, 0.3], [1 - last, last]])
        worlds.append(fs.FiniteMDP(np.repeat(rows[:, None], 2, axis=1), reward, GAMMA))
    return fs.Fleet(worlds)


def condition(found, name):
    return next(one for one in found.conditions if one.name == name)


def test_by_hand():
    fleet = tiny_fleet()
    algo = fs.FedSARSA(features=fs.OneHot(), policy=fs.FixedPolicy(), step_size=1e-6, sync_every=5)
    c = constants(fleet, algo)
    assert (c.N, c.S, c.A, c.K, c.R, c.gamma, c.L) == (2, 2, 2, 5, 2.0, GAMMA, 0.0)
    # |0.3 - 0.4| twice; |2 - 1.5| / 2.
    assert c.eps_p == pytest.approx(0.2)
    assert c.eps_r == pytest.approx(0.25)
    # Rows [.7, .3] and [.3, .7] of agent 2: half their distance is 0.4.
    assert (c.m, c.rho) == (2.0, pytest.approx(0.4))
    assert c.sigma_prime == pytest.approx(1 + 0.8 / 0.6)
    assert c.sigma == pytest.approx(3 + 0.8 / 0.6)
    # Parameters are returns: at most R / (1 - gamma) = 4 each, four of them.
    np.testing.assert_allclose([c.G, c.H], [2 * 4.0, 2 + 1.5 * 8])
    assert c.Lambda == pytest.approx(2 * 0.25 + 14 * c.sigma * 0.2)
    # Uniform policy: state 0 with (.7 + .4) / 2 = .55 for agent 1 and (.7 + .3) / 2 = .5 for agent 2.
    np.testing.assert_allclose(c.lam_each, [0.475 / 2, 0.45 / 2, 0.5 / 2])
    assert c.lam == pytest.approx(0.225)
    for share, w in zip([0.525, 0.55, 0.5], c.w_each, strict=True):
        go = {0.525: 0.65, 0.55: 0.6, 0.5: 0.7}[share]
        mu = np.array([share, share, 1 - share, 1 - share]) / 2
        ahead = np.array([[0.7, 0.7, 0.3, 0.3], [1 - go, 1 - go, go, go]] * 2) / 2
        A = mu[:, None] * (GAMMA * ahead - np.eye(4))
        assert w == pytest.approx(-np.linalg.eigvalsh((A + A.T) / 2)[-1] / 2)
    assert c.w == c.w_each.min()
    assert c.visited == 4
    # Chains of rank one in the state: the second eigenvalue is P_00 - P_10 = 0 under the uniform policy.
    assert c.rate == pytest.approx(0, abs=1e-12)
    tau = math.ceil(math.log(2 / 1e-6) / math.log(1 / 0.4))
    beta = (c.w - 64e-6) / 8
    drift, H = 10 * 14, 14
    prog = 2 * (tau + 10) * (14 + 2e-6 * drift)
    big = 2 * H**2 + 8 * (1e-6 * drift) ** 2
    var = 48 * drift**2
    assert (c.alpha_0, c.tau, c.C_alpha, c.C_back) == (1e-6, tau, 1.0, 0.0)
    expected = {
        "beta": beta,
        "C_drift": drift,
        "H_drift": big**0.5,
        "C_prog": prog,
        "C_var": var,
        "C_1": 1 / beta + (2 * beta + 64e-6) / c.w**2,
        "C_2": 4 * (33 * (tau + 10) + 8) * H**2,
        "C_3": (1.5**2 * drift**2 + big + 5 * prog**2) / beta + 4 * prog * big**0.5,
        "C_4": (tau + 10) * (8448 * prog**2 + 4 * var + 16 * H**2) + var + 4 * H**2,
    }
    for name, value in expected.items():
        assert getattr(c, name) == pytest.approx(value), name
    floor = (c.C_1 + 6 / c.w) * c.Lambda**2 + 1e-6 * c.C_2 / 2 + 1e-12 * c.C_3 + 1e-18 * c.C_4
    np.testing.assert_allclose([c.B], [floor / c.w])
    assert c.alpha_printed == pytest.approx(c.w / (2120 * (18 + math.log(2 / (0.4 * c.w)))))


def test_softmax_and_projection_by_hand():
    algo = fs.FedSARSA(features=fs.OneHot(), policy=fs.Softmax(1e5), step_size=1e-3, sync_every=5, radius=9.0)
    c = constants(tiny_fleet(), algo)
    assert c.L == 1e-5
    assert c.G_bar == 9.0
    G = 2 * (18 + 2) / (1 - 16 * 25e-6 * GAMMA)
    np.testing.assert_allclose([c.G, c.H], [G, 2 + 1.5 * G])
    smooth = c.H * 1e-5 * c.sigma
    assert c.C_back == pytest.approx(c.tau * 1e-5 * c.C_prog)
    assert c.C_var == pytest.approx(
        4 * (4 * (3 + smooth**2) * c.C_drift**2 + 4 * smooth**2 * c.C_prog**2 + c.H**2 * c.C_back**2)
    )
    smooth_policy = condition(c, "smooth policy")
    assert smooth_policy.holds == (c.w / (c.H * c.sigma) >= 1e-5)
    assert smooth_policy.margin == pytest.approx(c.w / (c.H * c.sigma) / 1e-5)
    norm = max(np.linalg.norm(c.theta_each, axis=1).max(), np.linalg.norm(c.theta_star))
    assert condition(c, "projection").value == pytest.approx(norm)
    assert condition(c, "projection").holds


def test_step_limit_is_where_the_proofs_end():
    c = constants(tiny_fleet(), fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(), 1e-6, 5))

    def allowed(alpha):
        tau = math.ceil(math.log(2 / alpha) / math.log(1 / 0.4)) + 1
        beta = (c.w - 64 * alpha) / 8
        return 132 * alpha * (tau + 10) <= beta and 132 * alpha * (tau + 5) <= 1 and 20 * alpha <= 1

    assert allowed(c.alpha_limit * (1 - 1e-9))
    assert not allowed(c.alpha_limit * (1 + 1e-9))
    assert condition(c, "step size").limit == c.alpha_limit
    assert c.applies == condition(c, "step size").holds


def test_printed_step_limit_is_not_enough_in_slow_chains():
    """ln(m / (rho w)) grows with tau only while 1 / log(1 / rho) is forgotten."""
    slow = np.array([[[0.999, 0.001], [0.001, 0.999]]])
    fleet = fs.Fleet([fs.FiniteMDP(slow, [1.0, 0.0], 0.5)])
    c = constants(fleet, fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(), 1e-6, 1))
    assert c.alpha_limit < c.alpha_printed / 10


def test_decaying_steps():
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(), fs.LinearDecay(0.1, 999.0), 5)
    fleet = tiny_fleet()
    first, last = constants(fleet, algo), constants(fleet, algo, steps=10_000)
    assert first.alpha_0 == first.alpha_last == last.alpha_0 == pytest.approx(0.04)
    assert last.alpha_last == pytest.approx(40 / 10_999)
    assert last.tau > first.tau
    lag = last.tau + 5
    assert last.C_alpha == pytest.approx(1 + lag / 1000)  # alpha_0 / alpha_lag
    assert last.alpha_limit < first.alpha_limit  # the last step looks back further


def test_greedy_warns_and_keeps_what_stays_valid():
    algo = fs.FedSARSA(fs.OneHot(), fs.Greedy(), 1e-3, 5)
    with pytest.warns(UserWarning, match=r"Greedy\(\) jumps where two actions tie.*does not apply"):
        c = constants(tiny_fleet(), algo)
    assert math.isinf(c.L)
    assert not c.applies
    assert c.rho == pytest.approx(0.4)
    assert not condition(c, "smooth policy").holds


def test_without_a_fixed_point():
    rng = np.random.default_rng(158)
    mdp = fs.FiniteMDP(rng.dirichlet(np.ones(3), (2, 3)), rng.random((3, 2)), 0.9)
    features = fs.TabularFeatures(rng.normal(size=(3, 2, 2)), normalise=True)
    with pytest.warns(UserWarning, match="does not apply"):
        c = constants([mdp], fs.FedSARSA(features, fs.Greedy()))
    assert c.theta_star is None
    assert math.isnan(c.w)
    assert "no fixed point found" in condition(c, "fixed points").text
    assert c.rho < 1


def test_chains_that_do_not_mix():
    fleet = fs.Fleet([fs.FiniteMDP(np.eye(2)[None], [1.0, 0.0], 0.2)])
    c = constants(fleet, fs.FedSARSA(fs.OneHot(), fs.FixedPolicy()))
    assert (c.rho, c.sigma) == (1, math.inf)
    assert not condition(c, "ergodic under every policy").holds
    assert "{0}; {1}" in condition(c, "fixed points").text


def test_one_action_is_judged_on_what_it_visits():
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 1e-6, 5)
    c = constants(tiny_fleet(), algo)
    assert c.visited == 2
    assert c.lam == pytest.approx(0.3)
    assert c.w > 0
    assert "2 of 4 directions" in condition(c, "exploration").text


def test_agents_that_visit_different_features():
    """State 1 is visited by the second agent only: on that direction the first never learns."""
    stays = fs.FiniteMDP([[[1.0, 0.0], [1.0, 0.0]]], [1.0, 0.0], 0.2)
    moves = fs.FiniteMDP([[[0.5, 0.5], [0.5, 0.5]]], [1.0, 0.0], 0.2)
    for features in (fs.OneHot(), fs.TabularFeatures(np.eye(2)[:, None])):
        c = constants(fs.Fleet([stays, moves]), fs.FedSARSA(features, fs.FixedPolicy()))
        assert c.w == c.lam == 0
        assert not condition(c, "exploration").holds
        assert not c.applies


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"weights": [0.3, 0.7]}, "equal weights"),
        ({"step_size": [1e-6, 2e-6]}, "equal step sizes"),
        ({"step_size": fs.PiecewiseDecay([1e-7, 1e-6], [50])}, "steps never grow"),
        ({"sync_every": None}, "local steps"),
        ({"step_size": 0.1}, "step size"),
        ({"radius": 0.1}, "projection"),
        ({"features": fs.TabularFeatures(np.eye(4).reshape(2, 2, 4))}, "projection"),
    ],
)
def test_conditions_that_fail(changes, name):
    fine = {"features": fs.OneHot(), "policy": fs.FixedPolicy(), "step_size": 1e-7, "sync_every": 5}
    fleet = tiny_fleet()
    assert constants(fleet, fs.FedSARSA(**fine), steps=100).applies
    c = constants(fleet, fs.FedSARSA(**(fine | changes)), steps=100)
    assert not c.applies
    assert not condition(c, name).holds


def test_dense_features_without_a_radius_take_the_papers_proposal():
    features = fs.TabularFeatures(np.eye(4).reshape(2, 2, 4))
    c = constants(tiny_fleet(), fs.FedSARSA(features, fs.FixedPolicy(), 1e-6, 5))
    assert c.G_bar == pytest.approx(c.R / c.w)
    one_hot = constants(tiny_fleet(), fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(), 1e-6, 5))
    np.testing.assert_allclose(c.w_each, one_hot.w_each)
    np.testing.assert_allclose(c.lam_each, one_hot.lam_each)


@pytest.mark.parametrize("discount", [0.1, 0.9, 0.999])
def test_contraction_of_many_parameters(monkeypatch, discount):
    """Found from S x S matrices as from the d x d one."""
    rng = np.random.default_rng(0)
    fleet = random_fleet(rng, 2, 6, 5, sharpness=1.0, scale=1.0, discount=discount, apart=1.0, kind="dense")
    pi = rng.dirichlet(np.ones(5), size=6)
    for kind in ("one-hot", "modulo"):
        table = random_features(rng, 6, 5, kind).on(6, 5)
        each = [operators(mdp, table, pi) for mdp in fleet]
        dense = contraction(each)
        monkeypatch.setattr(paper_constants, "DENSE", 0)
        np.testing.assert_allclose(contraction(each)[0], dense[0], rtol=1e-9)
        monkeypatch.undo()


def test_published_setting():
    c = constants(fs.paper.fleet(agents=3), fs.FedSARSA())
    assert c.L == 0.01
    np.testing.assert_allclose([c.G], [5 * 10 / 0.8])
    assert c.lam == pytest.approx(1 / 25, rel=1e-2)
    assert c.scalars()["lam"] == c.lam
    assert "theta_star" not in c.scalars()
    # The paper's own experiments are far outside its theory.
    assert condition(c, "smooth policy").margin < 1e-3
    assert condition(c, "step size").margin < 1e-4


def test_conditions_that_are_yes_or_no_measure_nothing():
    c = constants(fs.paper.fleet(2, states=6, actions=3), fs.FedSARSA(fs.ModuloFeatures(3, 3)))
    found, explored, equal = (condition(c, name) for name in ("fixed points", "exploration", "equal weights"))
    assert found.holds
    assert np.isnan([found.value, found.limit, found.margin, explored.margin, equal.margin]).all()
    assert (explored.value, explored.limit, explored.above, explored.holds) == (c.w, 0.0, True, True)
