"""What holds for every world, every feature map and every policy alike."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation import engines
from fedsarsa.federation.problem import first_state
from fedsarsa.worlds.control import WORLDS

FEATURES = [fs.TileCoding(4, 3), fs.TileCoding(4, 6, memory=400), fs.FourierBasis(1), fs.RBF(2)]
POLICIES = [fs.Softmax(0.5), fs.Greedy(), fs.EpsilonGreedy(0.2), fs.FixedPolicy("uniform")]
STEPS, RUNS, AGENTS = 250, 2, 3
SORTS = [
    (name, actions)
    for name in WORLDS
    for actions in ([None] if WORLDS[name].action_count else [fs.GridActions(3), fs.RandomActions(3)])
]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("features", FEATURES, ids=repr)
@pytest.mark.parametrize(("name", "actions"), SORTS, ids=str)
def test_every_world_features_and_policy(name, actions, features, policy):
    group = fs.control.fleet(name, AGENTS, spread=0.2, time_limit=60)
    algo = fs.FedSARSA(features, policy, 0.2, 50, actions=actions)
    problem = algo.problem(group, STEPS, RUNS, 3)
    dim = problem.features.dim
    history = algo.train(group, STEPS, RUNS, seed=3)
    data = history.data

    # Shapes.
    assert data.central.shape == (RUNS, STEPS // 50 + 1, dim)
    assert data.local.shape == (RUNS, AGENTS, dim)
    assert data.episodes.shape == (RUNS, AGENTS, 200)
    # Determinism by seed, and by nothing else.
    assert algo.train(group, STEPS, RUNS, seed=3).data.equals(data)
    assert not algo.train(group, STEPS, RUNS, seed=4).data.equals(data)
    # Bounds: what the world can show is inside them, except where nothing holds it.
    state = first_state(problem, np.zeros(dim))
    engine = engines.build("cpu", problem, 1)
    engine.start(state)
    size = len(group.bounds[0])
    for _ in range(STEPS):
        engine.advance(state, 1)
        seen = state.episodes.seen[..., :size]
        limits = np.array([world.space for world in group])
        assert (seen >= limits[:, 0]).all()
        assert (seen <= limits[:, 1]).all()
        assert (state.actions < len(problem.candidates)).all()
        if group.action_bounds is not None:
            assert (state.episodes.numbers >= group.action_bounds[0]).all()
            assert (state.episodes.numbers <= group.action_bounds[1]).all()
    np.testing.assert_array_equal(state.theta, data.local)
    # Every step belongs to one episode.
    episodes = state.episodes
    np.testing.assert_array_equal(episodes.lengths.sum(axis=2) + episodes.elapsed, STEPS)
    assert (episodes.elapsed < 60).all()
    assert (episodes.episodes.sum(axis=2) >= STEPS // 60).all()
    assert (episodes.lengths.sum(axis=2) <= 60 * episodes.episodes.sum(axis=2)).all()
