import itertools

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory import decompose, fixed_point
from fedsarsa.theory.decomposition import TERMS
from fedsarsa.theory.stationary import stationary_distribution
from tests.theory.brute_force import Pairs
from tests.theory.exact_errors import exact_errors


def tiny_fleet(agents=2, states=3):
    """Worlds that start in their stationary distribution under the only action."""
    rng = np.random.default_rng(5)
    worlds = []
    for _ in range(agents):
        moves = rng.dirichlet(np.ones(states), size=states)
        reward = 3 * rng.normal(size=states)
        worlds.append(fs.FiniteMDP(moves[None], reward, 0.6, stationary_distribution(moves)))
    return fs.Fleet(worlds)


def test_terms_sum_to_the_exact_change_of_the_first_step():
    fleet = tiny_fleet()
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 0.1, 1)
    theta0 = np.array([2.0, -1.0, 0.5])
    history = algo.train(fleet, steps=3, runs=1, theta0=theta0, engine="reference")
    for reference in (None, [1.0, 0.0, -1.0]):
        terms = decompose(history, fleet, algo, reference)
        target = fixed_point(fleet[0], algo.features, algo.policy) if reference is None else reference
        exact = exact_errors(fleet, algo, 1, theta0, np.asarray(target))
        # The first step knows no past: there is nothing for the lagged covariances to add yet.
        change = (terms["change"] - terms["markov"]).isel(run=0, t=0)
        assert float(change) == pytest.approx(exact[1] - exact[0])
        assert float(terms["distance"].isel(run=0, t=0)) == pytest.approx(exact[0])


def test_terms_as_the_lemma_writes_them():
    fleet = fs.paper.fleet(3, 1.0, 1.0, states=8, actions=4)
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 2), step_size=0.05, sync_every=4)
    history = algo.train(fleet, steps=40, runs=2, engine="reference")
    central = fixed_point(fleet.central(), algo.features, algo.policy)
    terms = decompose(history, fleet, algo, central)
    features = algo.feature_map(fleet)

    def pull(world, theta):
        here = fs.theory.operators.operators(
            world, features, algo.policy.probabilities(features.values(theta))
        )
        return here.semi_gradient(theta)

    for run, k in ((0, 0), (1, 5), (1, 10)):
        theta = history.central.values[run, k]
        e, mean = theta - central, np.mean([pull(world, theta) for world in fleet], axis=0)
        at = terms.isel(run=run, t=k)
        assert float(at["descent"]) == pytest.approx(0.1 * e @ pull(fleet.central(), theta), rel=1e-6)
        assert float(at["heterogeneity"]) == pytest.approx(
            0.1 * e @ (mean - pull(fleet.central(), theta)), abs=1e-9
        )
        assert float(at["descent"]) < 0
        assert float(at["variance"]) > 0.05**2 * mean @ mean


@pytest.mark.slow
def test_terms_balance_where_training_has_settled():
    fleet = fs.paper.fleet(4, 1.0, 1.0, states=8, actions=4)
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 2), step_size=0.05, sync_every=10)
    history = algo.train(fleet, steps=20_000, runs=20, engine="cpu", threads=1)
    late = history.data.isel(t=slice(500, None, 50))
    terms = decompose(fs.History(late), fleet, algo, records=100)
    means = terms[[*TERMS, "change"]].mean("t")
    average = means.mean("run")
    assert abs(float(average["change"])) < 3 * float(means["change"].std("run")) / np.sqrt(20)
    assert abs(float(average["change"])) < 0.1 * float(average["heterogeneity"])
    assert terms.attrs["limiting"] == "heterogeneity"


@pytest.mark.slow
def test_equal_agents_are_limited_by_variance():
    fleet = fs.paper.fleet(4, 0.0, 0.0, states=8, actions=4)
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 2), step_size=0.05)
    history = algo.train(fleet, steps=5_000, runs=3, engine="cpu", threads=1)
    terms = decompose(history, fleet, algo)
    assert terms.sizes["t"] <= 25
    assert {int(terms.t[0]), int(terms.t[-1])} == {0, 5_000}
    assert terms.attrs["limiting"] == "variance"
    np.testing.assert_allclose(terms["heterogeneity"], 0, atol=1e-9)  # fixed points are exact to 1e-10
    np.testing.assert_allclose(terms["change"], sum(terms[name] for name in TERMS))


def test_client_drift_is_what_long_rounds_add():
    """Two one-state agents: the drift of a whole round, known in closed form."""
    fleet = fs.Fleet(fs.FiniteMDP(np.ones((1, 1, 1)), [r], 0.5) for r in (1.0, 3.0))
    step_sizes, period = [0.01, 0.02], 5
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), step_sizes, period)
    history = algo.train(fleet, steps=10 * period, runs=1, engine="reference")
    reference = [7.0]
    terms = decompose(history, fleet, algo, reference).isel(run=0)
    theta = history.central.values[0, :, 0]
    for k in range(10):
        local = np.full(2, theta[k])
        exact = []
        for _ in range(period):
            mean = local.mean()
            apart = -0.5 * (local - mean)  # g_i(theta_i) - g_i(mean)
            exact.append(2 * (theta[k] - 7.0) * np.mean(step_sizes * apart))
            local = local + step_sizes * (np.array([1.0, 3.0]) - 0.5 * local)
        assert float(terms["drift"][k]) == pytest.approx(np.mean(exact), rel=0.05)
    assert (abs(terms["drift"][1:]) <= terms["drift_bound"][1:]).all()
    assert np.isnan(terms["drift_bound"][0])


def test_decaying_steps_shrink_all_terms():
    fleet = tiny_fleet()
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), fs.PiecewiseDecay([0.1, 0.01], [10]), 5)
    history = algo.train(fleet, steps=20, runs=1, engine="reference")
    terms = decompose(history, fleet, algo).isel(run=0)
    ratio = terms["variance"].sel(t=10) / terms["variance"].sel(t=5)
    assert 0.002 < float(ratio) < 0.05


def test_failed_runs_are_not_a_number():
    fleet, algo = tiny_fleet(), fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 0.1, 1)
    history = algo.train(fleet, steps=4, runs=2, engine="reference")
    history.data["central"][1, 2:] = np.nan
    terms = decompose(history, fleet, algo)
    assert np.isnan(terms["change"][1, 2:]).all()
    assert np.isfinite(terms["change"][0]).all()
    assert set(terms["limiting"].values) <= set(TERMS)


def choices_fleet(agents=2):
    """Worlds with two actions, whose rewards are known from (s, a, s') only."""
    rng = np.random.default_rng(11)
    return fs.Fleet(
        fs.FiniteMDP(rng.dirichlet(np.ones(3), size=(2, 3)), 2 * rng.normal(size=(3, 2, 3)), 0.6)
        for _ in range(agents)
    )


@pytest.mark.parametrize("policy", [fs.Greedy(), fs.EpsilonGreedy(0.2)], ids=repr)
@pytest.mark.parametrize("sync_every", [1, 4])
def test_policies_that_jump_keep_the_terms_that_need_no_jacobian(policy, sync_every):
    fleet, alpha = choices_fleet(), np.array([0.1, 0.05])
    weights = np.array([0.3, 0.7])
    algo = fs.FedSARSA(fs.OneHot(), policy, alpha.tolist(), sync_every, weights=weights)
    history = algo.train(fleet, steps=40, runs=2, engine="reference")
    target = np.linspace(-1, 1, 6)
    with pytest.warns(UserWarning, match="no Jacobian there: .*markov cannot be computed") as caught:
        terms = decompose(history, fleet, algo, target, records=100)
    assert terms.attrs["warnings"] == (str(caught[0].message),)
    features = algo.feature_map(fleet)
    central, *each = (Pairs(world, features, policy) for world in (fleet.central(), *fleet))
    for run, k in ((0, 0), (0, 3), (1, 10)):
        theta = history.central.values[run, k]
        at, e = terms.isel(run=run, t=k), theta - target
        down = (weights @ alpha) * (central.mean(theta) - central.mean(target))
        pull = sum(w * a * one.mean(theta) for w, a, one in zip(weights, alpha, each, strict=True))
        # Every joint move of the two agents, with its probability: E||sum_i w_i alpha_i g_i||^2.
        laws = [one.stationary(theta)[:, None] * one.chain(theta) for one in each]
        moves = [w * a * one.gradients(theta) for w, a, one in zip(weights, alpha, each, strict=True)]
        flat = [move.reshape(-1, 6) for move in moves]
        square = ((flat[0][:, None] + flat[1][None]) ** 2).sum(axis=2)
        assert float(at["descent"]) == pytest.approx(2 * e @ down)
        assert float(at["heterogeneity"]) == pytest.approx(2 * e @ (pull - down))
        assert float(at["variance"]) == pytest.approx(laws[0].ravel() @ square @ laws[1].ravel())
        assert float(at["distance"]) == pytest.approx(e @ e)
    assert np.isnan(terms["markov"]).all()
    assert np.isnan(terms["change"]).all()
    if sync_every == 1:
        assert (terms["drift"] == 0).all()  # agents leave theta-bar together
    else:
        assert np.isnan(terms["drift"]).all()
    assert set(terms["limiting"].values) <= {"heterogeneity", "variance", "drift"}


def test_greedy_agents_without_a_fixed_point_need_a_reference():
    rng = np.random.default_rng(16)
    kernel, reward = rng.dirichlet(np.full(2, 0.5), size=(2, 2)), rng.uniform(0, 1, (2, 2))
    fleet = fs.Fleet([fs.FiniteMDP(kernel, reward, 0.9)])
    features = fs.TabularFeatures(rng.normal(size=(2, 2, 2)), normalise=True)
    for best in itertools.product(range(2), repeat=2):  # what a policy leads to has another greedy policy
        pi = np.eye(2)[list(best)]
        theta = fixed_point(fleet[0], features, fs.FixedPolicy(pi))
        assert (fs.Greedy().probabilities(features.on(2, 2).values(theta)) != pi).any()
    algo = fs.FedSARSA(features, fs.Greedy(), 0.1)
    history = algo.train(fleet, steps=20, runs=1, engine="reference")
    with pytest.raises(
        ValueError, match=r"reference must be given .* got None: no fixed point found for Gre"
    ):
        decompose(history, fleet, algo)
    with pytest.warns(UserWarning, match="Jacobian there: markov cannot be computed"):
        terms = decompose(history, fleet, algo, [0.0, 0.0])
    assert np.isfinite(terms["variance"]).all()


def test_greed_that_splits_the_states_is_refused():
    # Staying pays best: the greedy chain has as many recurrent classes as states.
    stay, swap = np.eye(2), np.eye(2)[::-1]
    fleet = fs.Fleet([fs.FiniteMDP(np.stack([stay, swap]), [[1.0, 0.0], [1.0, 0.0]], 0.5)])
    algo = fs.FedSARSA(fs.OneHot(), fs.Greedy(), 0.1)
    history = algo.train(fleet, steps=200, runs=1, theta0=[1.0, 0.0, 1.0, 0.0], engine="reference")
    with pytest.raises(ValueError, match="one recurrent class, got 2"):
        decompose(history, fleet, algo, np.zeros(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fleet": tiny_fleet(3)}, "it has agents 2, got 3"),
        ({"fleet": tiny_fleet(2, 4)}, "it has states 3, got 4"),
        ({"algo": fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 0.1, 2)}, "it has sync_every 1, got 2"),
        ({"algo": fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 0.1, None)}, "must hold synchronisations"),
        ({"algo": fs.FedSARSA(fs.ModuloFeatures(2, 1), fs.FixedPolicy(0), 0.1, 1)}, "must have 2 parameters"),
        ({"reference": [0.0]}, r"reference must have shape \(3,\), got \(1,\)"),
        ({"records": 0}, "records must be an integer of at least 1, got 0"),
    ],
)
def test_bad_input(change, message):
    fleet, algo = tiny_fleet(), fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 0.1, 1)
    history = algo.train(fleet, steps=2, runs=1, engine="reference")
    with pytest.raises(ValueError, match=message):
        decompose(**({"history": history, "fleet": fleet, "algo": algo} | change))


def test_the_markov_term_is_the_sum_of_lagged_covariances():
    # Two states that are rarely left, rewards +1 and -1, one feature, theta = 0: semi-gradients are the
    # rewards, with autocorrelation 0.98^k. Their lags add 2 * 0.98 / 0.02 to a variance of 1.
    chain = np.array([[[0.99, 0.01], [0.01, 0.99]]])
    fleet = fs.Fleet([fs.FiniteMDP(chain, [1.0, -1.0], 0.5)])
    algo = fs.FedSARSA(fs.TabularFeatures(np.ones((2, 1, 1))), fs.FixedPolicy(0), 0.001)
    history = algo.train(fleet, 10, runs=1)
    terms = fs.theory.decompose(history, fleet, algo, reference=[0.0]).isel(run=0, t=0)
    assert float(terms["variance"]) == pytest.approx(0.001**2)
    assert float(terms["markov"]) == pytest.approx(0.001**2 * 2 * 0.98 / 0.02)
    assert str(terms["limiting"].values) == "markov"
