import numpy as np
import pytest

import fedsarsa as fs
from tests.worlds_of_tests import world


@pytest.mark.parametrize("kind", ["dense", "shift"])
def test_values_solve_the_optimality_equation(kind):
    mdp = world(np.random.default_rng(0), states=6, actions=4, kind=kind, reward_axes=3, discount=0.95)
    best = fs.theory.optimal_values(mdp)
    ahead = mdp.expected_reward + 0.95 * mdp.kernel.expect(best.max(axis=1))
    np.testing.assert_allclose(best, ahead, rtol=0, atol=1e-12 * np.abs(best).max())


def test_a_fleet_has_no_optimal_values():
    with pytest.raises(TypeError, match=r"world must be a FiniteMDP, got Fleet\("):
        fs.theory.optimal_values(fs.paper.fleet(2, states=4, actions=2))
