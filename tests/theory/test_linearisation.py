from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory.action_classes import classes, dynamics
from fedsarsa.theory.affine import Affine, mean_spread
from fedsarsa.theory.linearisation import linearise, poisson
from fedsarsa.theory.operators import operators
from fedsarsa.theory.smoothness import require_smooth
from tests.theory.brute_force import Pairs, jacobian, slope

STATES, ACTIONS = 4, 3


def world(rng, reward, kernel="dense"):
    shape = {"s": (STATES,), "sa": (STATES, ACTIONS), "sas": (STATES, ACTIONS, STATES)}[reward]
    rows = rng.dirichlet(np.full(STATES, 0.5), size=(ACTIONS, STATES))
    transition = rows if kernel == "dense" else fs.ShiftKernel(rows[0], ACTIONS)
    return fs.FiniteMDP(transition, 3 * rng.normal(size=shape), 0.7)


FEATURES = {
    "dense": lambda rng: fs.TabularFeatures(rng.normal(size=(STATES, ACTIONS, 5)), normalise=True),
    "modulo": lambda rng: fs.ModuloFeatures(2, 2),
    "one-hot": lambda rng: fs.OneHot(),
}
POLICIES = {
    "softmax": lambda rng: fs.Softmax(0.7),
    "fixed": lambda rng: fs.FixedPolicy(rng.dirichlet(np.ones(ACTIONS), size=STATES)),
}


@pytest.fixture(
    params=[(f, p, r) for f in FEATURES for p in POLICIES for r in ("s", "sa", "sas")], ids="-".join
)
def case(request):
    """A linearisation, and the same world as an explicit chain of pairs."""
    features, policy, reward = request.param
    rng = np.random.default_rng([7, *map(ord, features + policy + reward)])
    mdp = world(rng, reward, "shift" if features == "modulo" else "dense")
    table, gamma = FEATURES[features](rng).on(STATES, ACTIONS), POLICIES[policy](rng)
    theta = rng.normal(size=table.dim)
    kinds = classes(table, gamma, STATES, ACTIONS)
    return linearise(dynamics(mdp, kinds), kinds.at(theta)), Pairs(mdp, table, gamma), theta


def test_semi_gradient_and_its_jacobian(case):
    here, pairs, theta = case
    np.testing.assert_allclose(here.g, pairs.mean(theta), atol=1e-12)
    np.testing.assert_allclose(here.J, slope(pairs.mean, theta), atol=1e-6)


def test_agrees_with_operators_and_their_jacobian(case):
    here, pairs, theta = case
    policy = np.broadcast_to(pairs.policy.probabilities(pairs.features.values(theta)), (STATES, ACTIONS))
    there = operators(pairs.mdp, pairs.features, policy)
    np.testing.assert_allclose(here.g, there.semi_gradient(theta), atol=1e-12)
    np.testing.assert_allclose(here.gram, there.Phi, atol=1e-13)
    J = jacobian(pairs.mdp, pairs.features, pairs.policy, theta, there)
    np.testing.assert_allclose(here.J, J, atol=1e-11)


def test_noise_is_the_sum_of_all_lagged_covariances(case):
    here, pairs, theta = case
    instant, *lagged = pairs.lagged(theta, 400)
    np.testing.assert_allclose(here.instant_noise, instant, atol=1e-11)
    np.testing.assert_allclose(here.noise, instant + sum(c + c.T for c in lagged), atol=1e-9)


def test_noise_of_a_spread_parameter(case):
    here, pairs, theta = case
    root = np.random.default_rng(0).normal(size=(len(theta), len(theta)))
    # For a fixed chain, C_0 is quadratic in theta: its mean over theta ~ (theta, V) is C_0 + what V adds.
    frozen = pairs.chain(theta), pairs.stationary(theta)

    def instant(parameter):
        gradients = pairs.gradients(parameter)
        second = np.einsum("x,xy,xyd,xye->de", frozen[1], frozen[0], gradients, gradients)
        mean = np.einsum("x,xy,xyd->d", frozen[1], frozen[0], gradients)
        return second - np.outer(mean, mean)

    added = sum((instant(theta + u) + instant(theta - u)) / 2 - instant(theta) for u in root.T)
    np.testing.assert_allclose(here.shaken(root @ root.T), added, atol=1e-9)


@pytest.mark.parametrize(("weight", "period"), [(1.0, 1), (1.0, 7), (0.2, 1), (0.2, 5)])
def test_memory(case, weight, period):
    here, pairs, theta = case
    chain, mu = pairs.chain(theta), pairs.stationary(theta)
    moves = slope(pairs.poisson, theta)  # Du, (x, d, d)
    # E[Du(x_t) (g_{t - l} - g-bar)] for l = 1, 2, ...; a synchronisation takes the share 1 - weight back.
    after = np.einsum("x,xy,xyd->yd", mu, chain, pairs.gradients(theta) - pairs.mean(theta))
    lags = []
    for _ in range(period):
        lags.append(np.einsum("xdj,xj->d", moves, after))
        after = chain.T @ after
    expected = lags[0] - (1 - weight) / period * sum(lags)
    np.testing.assert_allclose(here.memory(weight, period), expected, atol=1e-7)


@pytest.mark.parametrize("period", [1, 2, 7, 12])
def test_mean_covariance_over_a_round(period):
    rng = np.random.default_rng(4)
    M, root, spread = np.eye(3) + 0.3 * rng.normal(size=(3, 3)), *rng.normal(size=(2, 3, 3))
    step = Affine(M, np.zeros(3), root @ root.T)
    covariances = [spread @ spread.T]
    while len(covariances) < period:
        covariances.append(M @ covariances[-1] @ M.T + step.Q)
    found = mean_spread(step, covariances[0], period)
    np.testing.assert_allclose(found, np.mean(covariances, axis=0))


def test_relaxation_time_of_a_lazy_walk():
    size = 12
    walk = 0.5 * np.eye(size) + 0.25 * (np.roll(np.eye(size), 1, axis=1) + np.roll(np.eye(size), -1, axis=1))
    assert poisson(walk).relaxation == pytest.approx(2 / (1 - np.cos(2 * np.pi / size)))


def test_periodic_chains_never_relax():
    assert poisson(np.array([[0.0, 1.0], [1.0, 0.0]])).relaxation == np.inf
    assert poisson(np.array([[0.05, 0.95], [0.95, 0.05]])).relaxation == pytest.approx(10)


def test_rotations_relax_by_the_modulus_of_their_eigenvalues():
    rotation = 0.9 * np.roll(np.eye(3), 1, axis=1) + 0.1 / 3
    assert poisson(rotation).relaxation == pytest.approx(10)


def test_independent_states_and_a_single_one_relax_at_once():
    assert poisson(np.full((4, 4), 0.25)).relaxation == pytest.approx(1)
    assert poisson(np.ones((1, 1))).relaxation == 1


@pytest.mark.parametrize("policy", [fs.Greedy(), fs.EpsilonGreedy(0.1)])
def test_policies_that_jump_are_refused_in_one_sentence(policy):
    with pytest.raises(ValueError, match=r"policy must change smoothly .* got (Eps|Greedy)"):
        require_smooth(policy, 2)


def test_chains_with_two_recurrent_classes_are_refused():
    mdp = fs.FiniteMDP(np.stack([np.eye(3), np.eye(3)]), np.zeros(3), 0.2)
    kinds = classes(fs.OneHot().on(3, 2), fs.Softmax(1.0), 3, 2)
    with pytest.raises(ValueError, match="recurrent class"):
        dynamics(mdp, kinds)


@pytest.mark.parametrize("features", [fs.ModuloFeatures(3, 2), fs.OneHot()], ids=repr)
def test_sums_with_an_aggregations_features_are_those_with_any(features):
    rng = np.random.default_rng(3)
    table = features.on(7, 4)
    point = classes(table, fs.Softmax(0.7), 7, 4).at(rng.normal(size=table.dim))
    dense = replace(point, rows=None)
    weights, right = rng.normal(size=point.pi.shape), rng.normal(size=(*point.pi.shape, 3))
    kernel, spread = rng.normal(size=(len(point.pi), 7, 7)), rng.normal(size=(table.dim, table.dim))
    for name, arguments in {
        "total": (weights,),
        "second_moment": (weights,),
        "moment_with": (weights, right),
        "flow_of": (weights, kernel),
        "variances": (spread,),
    }.items():
        few, all_of_them = (getattr(one, name)(*arguments) for one in (point, dense))
        np.testing.assert_allclose(few, all_of_them, rtol=0, atol=1e-13, err_msg=name)
