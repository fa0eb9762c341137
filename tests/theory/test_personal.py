"""Personal weights: the published table, fleets whose weights are known, and bad input."""

from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory import fixed_point, personal_weights, predict
from tests.theory.against_training import ring, small_fleet

ALGO = fs.FedSARSA(fs.ModuloFeatures(4, 3), step_size=0.05)


def test_the_published_setting_at_once():
    """Levels and schemes are in ``test_personal_against_training``; this one is the fast one."""
    best = personal_weights(fs.paper.fleet(20, 0.5, 0.5), fs.FedSARSA(), 20_000)
    means = [errors.mean() for errors in (best.alone, best.together, best.personal)]
    np.testing.assert_allclose(means, [0.519, 0.840, 0.178], rtol=0.03)
    assert (best.personal <= np.minimum(best.alone, best.together)).all()


def test_alone_and_together_are_what_predict_says():
    fleet = small_fleet(2)
    best = personal_weights(fleet, ALGO, 2_000)
    for agent, world in enumerate(fleet):
        own = fixed_point(world, ALGO.features, ALGO.policy)
        np.testing.assert_array_equal(best.points[agent], own)
        alone = predict(fs.Fleet([world]), ALGO, 2_000, reference=own)
        together = predict(fleet, ALGO, 2_000, reference=own)
        assert best.alone[agent] == pytest.approx(float(alone.mse[-1]), rel=1e-9)
        np.testing.assert_allclose(best.covariances[agent], alone.covariance, rtol=1e-9, atol=1e-12)
        assert best.together[agent] == pytest.approx(
            float(together.mse[-1]), rel=5e-3
        )  # other nodes on its way


def test_before_the_first_round_together_is_the_start():
    best = personal_weights(small_fleet(2), ALGO, 5)  # K = 10
    np.testing.assert_allclose(best.together, (best.points**2).sum(axis=1), rtol=1e-12)


def test_agents_apart_together_are_their_plain_average():
    fleet, algo = small_fleet(4), replace(ALGO, sync_every=None)
    best = personal_weights(fleet, algo, 2_000)
    np.testing.assert_allclose(best.together, best.error(np.full((4, 4), 0.25)), rtol=1e-12)
    whole = predict(fleet, algo, 2_000)
    assert best.together[0] == pytest.approx(float(whole.mse[-1]), rel=5e-3)


def test_a_fleet_of_one():
    best = personal_weights(small_fleet(1), ALGO, 2_000)
    np.testing.assert_array_equal(best.weights, [[1.0]])
    assert best.alone == best.together == best.personal


def test_identical_worlds_weigh_alike():
    fleet = small_fleet(6, level=0.0)
    best = personal_weights(fleet, ALGO, 5_000)
    np.testing.assert_allclose(best.weights, 1 / 6, rtol=1e-12)
    # Nothing but noise is left, of which one in six.
    np.testing.assert_allclose(best.personal / best.alone, 1 / 6, rtol=0.02)
    # The federation has the same, but for what noise does to the policy: of the order of the step size.
    np.testing.assert_allclose(best.personal / best.together, 1, rtol=0.02)


def test_identical_worlds_with_other_steps_weigh_by_their_noise():
    """Variances grow with step sizes, and weights are their inverses where all have settled."""
    fleet, steps = small_fleet(3, level=0.0), [0.02, 0.02, 0.08]
    best = personal_weights(fleet, replace(ALGO, step_size=steps), 20_000)
    variances = np.trace(best.covariances, axis1=1, axis2=2)
    assert variances[2] > 3 * variances[0]
    np.testing.assert_allclose(best.weights[0], (1 / variances) / (1 / variances).sum(), rtol=0.02)
    np.testing.assert_array_equal(best.weights[:, 0], best.weights[:, 1])


def scaled(mdp, factor):
    """The same world with other rewards, and so with its fixed point elsewhere."""
    return fs.FiniteMDP(mdp.kernel, factor * np.asarray(mdp.reward), mdp.discount)


def test_one_agent_of_another_kind_is_left_out():
    world = small_fleet(1)[0]
    best = personal_weights([world] * 4 + [scaled(world, -1.0)], ALGO, 5_000)
    # By hand: four agents of variance v / 4 together, and one at the squared distance b2 from them.
    v, *_, other = np.trace(best.covariances, axis1=1, axis2=2)
    b2 = ((best.points[4] - best.points[0]) ** 2).sum()
    own, heard = np.array([b2 + other, b2 + v / 4]) / (b2 + v / 4 + other)
    np.testing.assert_allclose(best.weights[:4], [[*[own / 4] * 4, 1 - own]] * 4, atol=1e-4)
    np.testing.assert_allclose(best.weights[4], [*[(1 - heard) / 4] * 4, heard], atol=1e-4)
    assert max(1 - own, 1 - heard) < 0.002


def test_two_clusters_give_a_block_matrix():
    world = small_fleet(1)[0]
    best = personal_weights([world, scaled(world, -1.0)] * 3, ALGO, 5_000)
    # As by hand for one agent of another kind, weights across are variance over squared distance.
    block = np.equal.outer(np.arange(6) % 2, np.arange(6) % 2) / 3
    np.testing.assert_allclose(best.weights, block, atol=1e-3)
    np.testing.assert_allclose(best.personal, best.alone / 3, rtol=0.05)


def test_weights_of_either_sign_do_no_worse():
    fleet = small_fleet(5, level=0.5)
    best, signed = (personal_weights(fleet, ALGO, 3_000, nonnegative=sign) for sign in (True, False))
    np.testing.assert_allclose(signed.weights.sum(axis=1), 1, rtol=1e-12)
    assert (best.weights >= 0).all()
    assert (signed.personal <= best.personal * (1 + 1e-12)).all()
    np.testing.assert_allclose(signed.error(signed.weights), signed.personal, rtol=1e-9)


def test_no_other_weights_do_better():
    fleet = small_fleet(5, level=0.5)
    best = personal_weights(fleet, ALGO, 3_000)
    assert (best.personal <= best.alone * (1 + 1e-12)).all()
    np.testing.assert_allclose(best.error(best.weights), best.personal, rtol=1e-12)
    np.testing.assert_allclose(best.error(np.eye(5)), best.alone, rtol=1e-12)
    others = np.random.default_rng(0).dirichlet(np.full(5, 0.3), size=(200, 5))
    assert all((best.error(one) >= best.personal).all() for one in others)


def test_early_in_training_agents_listen_to_those_who_are_ahead():
    """The transient counts: of two agents in one world, the one with small steps listens to the other."""
    best = personal_weights(small_fleet(2, level=0.0), replace(ALGO, step_size=[0.001, 0.05]), 500)
    assert best.weights[0, 1] > 0.9
    assert best.personal[0] < 0.2 * best.alone[0]


def test_another_start_counts():
    fleet, theta0 = small_fleet(3), np.linspace(-20, 20, 12)
    best, moved = (personal_weights(fleet, ALGO, 200, theta0=start) for start in (None, theta0))
    assert np.abs(best.means - moved.means).max() > 0.1


def disjoint_fleet(slow):
    """Two agents with the same fixed point, of which each hardly ever visits the other's state."""
    often = np.array([1 - slow, slow])
    worlds = [np.stack([[visits, visits]]) for visits in (often, often[::-1])]
    return fs.Fleet([fs.FiniteMDP(chain, [1.0, 1.0], 0.5) for chain in worlds])


def test_the_federation_can_be_ahead_of_every_mixture():
    """Agents who know different features: the federation learns both, which no mixture of the two can."""
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 0.05, sync_every=1)
    best = personal_weights(disjoint_fleet(0.01), algo, 300)
    assert (best.together < 0.5 * best.personal).all()
    assert (best.personal <= best.alone).all()


def test_what_is_shown():
    best = personal_weights(small_fleet(2), ALGO, 1_000)
    assert repr(best).startswith("PersonalWeights(2 agents, 1000 steps, mean error alone ")
    lines = str(best).splitlines()
    assert lines[0] == "Errors to the agent's own fixed point after 1000 steps:"
    assert [line.split()[0] for line in lines[1:]] == ["agent", "0", "1", "mean"]


def test_warnings_are_told_once_and_kept():
    fleet = fs.Fleet([ring(15), ring(15, seed=1)])
    with pytest.warns(UserWarning, match="while the chain still mixes") as said:
        best = personal_weights(fleet, fs.FedSARSA(fs.OneHot(), fs.Softmax(20.0), 0.05, 1), 2_000)
    assert len(said) == len(best.warnings) == len(set(best.warnings))
    assert f"warning: {best.warnings[0]}" in str(best)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"algo": fs.FedSARSA(policy=fs.Greedy())},
            "policy must change smoothly .* a fixed point may not exist",
        ),
        ({"algo": fs.FedSARSA(ALGO.features, step_size=5.0)}, "step_size must be small enough"),
        ({"algo": fs.FedSARSA(ALGO.features, server=fs.servers.Median())}, "server must be the mean here"),
        ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
        ({"theta0": [1.0]}, r"theta0 must have shape \(12,\), got \(1,\)"),
    ],
    ids=["greedy", "diverges", "server", "steps", "start"],
)
def test_bad_input(change, message):
    arguments = {"algo": ALGO, "steps": 100} | change
    with pytest.raises(ValueError, match=message):
        personal_weights(small_fleet(2), **arguments)


def test_a_personal_server_means_agents_apart():
    fleet = small_fleet(3)
    best = personal_weights(fleet, ALGO, 1_000)
    told = personal_weights(fleet, replace(ALGO, server=fs.servers.Personal()), 1_000)
    for name in ("weights", "alone", "together", "personal"):
        np.testing.assert_array_equal(getattr(told, name), getattr(best, name))
    groups = [
        fs.theory.coalitions(fleet, replace(ALGO, server=rule), 1_000).groups
        for rule in (None, fs.servers.Personal(visits=True))
    ]
    assert groups[0] == groups[1]
    with pytest.raises(ValueError, match=r"server\.act must be 'own' here, .* got 'mixture'"):
        personal_weights(fleet, replace(ALGO, server=fs.servers.Personal("mixture")), 1_000)


def test_greedy_agents_are_told_of_learned_weights():
    with pytest.raises(ValueError, match="policy must change smoothly") as caught:
        personal_weights(small_fleet(2), fs.FedSARSA(policy=fs.Greedy()), 100)
    assert "fs.servers.Personal learns weights" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.4]], "weights must sum to one in every row, got 0.9 in row 1"),
        ([0.5, 0.5], r"weights must have shape \(2, 2\), got \(2,\)"),
        ([[0.5, 0.5], [np.nan, 1.0]], r"weights must be finite, got nan at \[1, 0\]"),
    ],
)
def test_weights_that_are_none(weights, message):
    best = personal_weights(small_fleet(2), ALGO, 100)
    with pytest.raises(ValueError, match=message):
        best.error(weights)


def test_worlds_that_are_not_finite():
    with pytest.raises(TypeError, match=r"fleet must be of finite worlds, .* got ControlFleet\(CartPole"):
        personal_weights(fs.control.fleet("CartPole", 2), ALGO, 100)
