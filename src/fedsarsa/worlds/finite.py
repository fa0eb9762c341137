"""A finite Markov decision process: one agent's world, M = (S, A, r, P, discount)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.worlds.contract import NEVER
from fedsarsa.worlds.kernels import DenseKernel, Kernel, ShiftKernel


class FiniteMDP:
    """A world with S states and A actions (Section 3.2, ``sec:pre-mdp`` of the paper).

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

    Raises
    ------
    ValueError
        Shapes do not fit, rows do not sum to one, or ``discount`` is out of its range.

    Examples
    --------
    Two states and two actions: stay or go, and state 1 pays.

    >>> import fedsarsa as fs
    >>> fs.FiniteMDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], reward=[0, 1], discount=0.9)
    FiniteMDP(states=2, actions=2, discount=0.9)
    """

    time_limit: ClassVar[int] = NEVER

    def __init__(
        self,
        transition: ArrayLike | ShiftKernel,
        reward: ArrayLike,
        discount: float,
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

    def begin(self, x: NDArray[np.uint32], uniforms: Sequence[float]) -> None:
        """Draw a first state from a uniform number; with ``move`` and ``see``, what `World` asks for."""
        x[0] = _drawn(_alias_rows(self)[0], uniforms[0])

    def move(self, x: NDArray[np.uint32], action: float, uniform: float) -> tuple[float, bool]:
        """s' ~ P_a(s, .): a row of the kernel, then the action's rotation for shift kernels; r(s, a, s')."""
        s, a, kernel = int(x[0]), int(action), self.kernel
        row = s if kernel.shift else a * self.states + s
        s_next = (_drawn(_alias_rows(self)[1 + row], uniform) + kernel.shift * a) % self.states
        x[0] = s_next
        return float(self.reward[(s, a, s_next)[: self.reward.ndim]]), False

    def see(self, x: NDArray[np.uint32], seen: Floats) -> None:
        """The state's number."""
        seen[0] = x[0]

    def __repr__(self) -> str:
        return f"FiniteMDP(states={self.states}, actions={self.actions}, discount={self.discount:g})"


@lru_cache(maxsize=128)
def _alias_rows(world: FiniteMDP) -> NDArray[np.uint64]:
    """The initial distribution, then the kernel's rows, as alias tables, built once."""
    from fedsarsa.worlds import alias  # which is compiled

    return alias.build(np.vstack([world.initial, world.kernel.rows]))


def _drawn(entries: NDArray[np.uint64], uniform: float) -> int:
    """A column of one alias row: what is left of the number decides between the column and its alias."""
    from fedsarsa.worlds.alias import COLUMN_BITS, FRACTION_BITS

    whole = int(uniform * 2**FRACTION_BITS) * len(entries)
    column, fraction = divmod(whole, 1 << FRACTION_BITS)
    threshold, other = divmod(int(entries[column]), 1 << COLUMN_BITS)
    return column if fraction < threshold else other
