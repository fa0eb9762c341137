"""A finite Markov decision process: one agent's world, M = (S, A, r, P, discount)."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.worlds.kernels import DenseKernel, Kernel, ShiftKernel


class FiniteMDP:
    """A world with S states and A actions (Section ``sec:pre-mdp`` of the paper).

    Parameters
    ----------
    transition : (A, S, S) array or ShiftKernel
        Probability of moving from s to s' under action a.
    reward : (S,), (S, A) or (S, A, S) array
        Reward of a state, of a pair, or of a transition (s, a, s').
    discount : float
        Discount factor in (0, 1).
    initial : (S,) array, optional
        Distribution of the first state; uniform unless given.
    """

    def __init__(
        self,
        transition: ArrayLike | ShiftKernel,
        reward: ArrayLike,
        discount: float = 0.2,
        initial: ArrayLike | None = None,
    ) -> None:
        self.kernel: Kernel = transition if isinstance(transition, ShiftKernel) else DenseKernel(transition)
        self.states = states = self.kernel.states
        self.actions = actions = self.kernel.actions
        self.reward = _checks.real_array("reward", reward)
        if self.reward.shape not in {(states,), (states, actions), (states, actions, states)}:
            raise ValueError(
                f"reward must have shape ({states},), ({states}, {actions}) or "
                f"({states}, {actions}, {states}), got {self.reward.shape}"
            )
        self.discount = _checks.number("discount", discount, "a number in (0, 1)")
        if not 0 < self.discount < 1:
            raise ValueError(f"discount must be a number in (0, 1), got {discount!r}")
        uniform = np.full(states, 1 / states)
        self.initial = _checks.distribution("initial", uniform if initial is None else initial)
        if self.initial.shape != (states,):
            raise ValueError(f"initial must have shape ({states},), got {self.initial.shape}")

    @property
    def transition(self) -> Floats:
        """The kernel written out, (A, S, S)."""
        return np.stack([self.kernel.matrix(a) for a in range(self.actions)])

    @property
    def reward_cap(self) -> float:
        """R, the largest absolute reward."""
        return float(np.abs(self.reward).max())

    @cached_property
    def expected_reward(self) -> Floats:
        """r(s, a), the mean reward of a pair, (S, A)."""
        if self.reward.ndim == 1:
            return np.broadcast_to(self.reward[:, None], (self.states, self.actions))
        if self.reward.ndim == 2:
            return self.reward
        matrices = (self.kernel.matrix(a) for a in range(self.actions))
        return np.stack([(P * self.reward[:, a]).sum(axis=1) for a, P in enumerate(matrices)], axis=1)

    def __repr__(self) -> str:
        return f"FiniteMDP(states={self.states}, actions={self.actions}, discount={self.discount:g})"
