import numpy as np
import pytest

import fedsarsa as fs

UNIFORM = np.full((2, 3, 3), 1 / 3)


def test_reward_of_a_transition_is_averaged_over_the_kernel():
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.ones(3), size=(2, 3))
    reward = rng.normal(size=(3, 2, 3))
    mdp = fs.FiniteMDP(transition, reward, 0.2)
    for s in range(3):
        for a in range(2):
            assert mdp.expected_reward[s, a] == pytest.approx(transition[a, s] @ reward[s, a])
    assert mdp.reward_cap == np.abs(reward).max()


def test_reward_of_a_state_does_not_depend_on_the_action():
    mdp = fs.FiniteMDP(UNIFORM, [1.0, 2.0, 3.0], 0.2)
    np.testing.assert_array_equal(mdp.expected_reward, [[1, 1], [2, 2], [3, 3]])
    np.testing.assert_allclose(mdp.initial, 1 / 3)


def test_arrays_are_copies_that_nobody_can_write_to():
    reward = np.zeros(3)
    mdp = fs.FiniteMDP(UNIFORM, reward, 0.2)
    reward[0] = 5
    assert mdp.reward[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        mdp.reward[0] = 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"transition": np.full((2, 3, 3), 0.3)}, r"transition must sum to one .* got 0.9 in row \[0, 0\]"),
        ({"transition": np.full((3, 3), 1 / 3)}, r"transition must have shape \(A, S, S\), got \(3, 3\)"),
        ({"transition": "x"}, "transition must be an array of real numbers"),
        ({"reward": [1.0, 2.0]}, r"reward must have shape \(3,\), \(3, 2\) or \(3, 2, 3\), got \(2,\)"),
        ({"reward": [1.0, np.inf, 0.0]}, r"reward must be finite, got inf at \[1\]"),
        ({"discount": 1.0}, r"discount must be a number in \(0, 1\), got 1.0"),
        ({"discount": 0.0}, r"discount must be a number in \(0, 1\), got 0.0"),
        ({"discount": "high"}, r"discount must be a number in \(0, 1\), got 'high'"),
        ({"initial": [0.5, 0.5]}, r"initial must have shape \(3,\), got \(2,\)"),
        ({"initial": [0.5, 0.4, 0.0]}, "initial must sum to one along its last axis, got 0.9"),
    ],
)
def test_bad_worlds(arguments, message):
    sound = {"transition": UNIFORM, "reward": np.zeros(3), "discount": 0.5, "initial": None}
    with pytest.raises((ValueError, TypeError), match=message):
        fs.FiniteMDP(**(sound | arguments))
