"""The arrays that kernels on a GPU work on, where many problems are trained side by side."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64

RUNS = U64(2**64 - 1)  # in Federations.failed_at: parameters are finite so far
ONE = U64(1)


class Shape(NamedTuple):
    """What kernels are compiled for: classes of actions, the policy, and which numbers are kept.

    ``shifted`` worlds have rows that do not depend on the action. ``cached`` keeps softmax masses,
    ``averaged`` what theta-tilde gathers. Rewards are ``known`` when the action is, where the next state has
    no part in them. States are ``rotated`` by more actions than there are states. Step sizes are ``steady``
    where they are the same in all steps, and weights ``even`` where all agents of a federation have the same.
    ``whole`` says whether blocks have whole federations, ``single`` whether numbers are float32, and
    ``threads`` how many a block has.
    """

    width: int
    policy: int
    shifted: bool
    dense: bool
    cached: bool
    averaged: bool
    known: bool
    rotated: bool
    steady: bool
    even: bool
    whole: bool
    single: bool
    threads: int

    @property
    def rows(self) -> int:
        """Numbers in shared memory per parameter and agent."""
        return 1 + self.cached + self.averaged

    @property
    def registers(self) -> int:
        """Of a thread: with more, fewer threads would run at a time than shared memory allows."""
        return 112 if self.single else 128


class Cells(NamedTuple):
    """Problems that are trained side by side, (C,) each.

    ``agents`` is how many a federation has, whose worlds, weights and schedules begin at ``first_agent`` in
    `Agents`. ``stream`` is the number of the first one's random stream. ``parameter`` is the policy's number,
    and ``inverse`` one over it; ``offset`` and ``radius`` are those of `RoundSettings`.
    """

    agents: NDArray[np.uint64]
    first_agent: NDArray[np.uint64]
    stream: NDArray[np.uint64]
    seed: NDArray[np.uint64]
    discount: Floats
    parameter: Floats
    inverse: Floats
    offset: Floats
    radius: Floats


class Agents(NamedTuple):
    """Agents of all cells, one after another: world, weight in the mean, and schedule of step sizes."""

    world: NDArray[np.uint64]
    weight: Floats
    schedule: NDArray[np.uint64]


class Federations(NamedTuple):
    """Runs of all cells, (F,) each: cell, number of the run, and the place of the first agent's state.

    ``central`` and ``weighted_sum`` are (F, d). ``failed_at`` is the step at which parameters stopped being
    finite, or RUNS.
    """

    cell: NDArray[np.uint64]
    run: NDArray[np.uint64]
    first_lane: NDArray[np.uint64]
    central: Floats
    weighted_sum: Floats
    failed_at: NDArray[np.uint64]


class Blocks(NamedTuple):
    """What blocks of threads have, (B,) each.

    They are so many ``federations`` from ``first`` on, and of each ``agents`` agents from ``first_agent`` on.
    """

    first: NDArray[np.uint64]
    federations: NDArray[np.uint64]
    first_agent: NDArray[np.uint64]
    agents: NDArray[np.uint64]


class Lanes(NamedTuple):
    """What agents hold, (L,), and their parameters (L, d); ``progress`` is empty without theta-tilde."""

    states: NDArray[np.uint32]
    actions: NDArray[np.uint32]
    theta: Floats
    progress: Floats


class Records(NamedTuple):
    """Central parameters (F, m, d) and drifts (F, m) after the rounds that are recorded.

    In blocks with parts of federations, sums over their agents: ``parts`` (B, 3, d) of parameters, of squared
    distances from the round's start, and of progress.
    """

    central: Floats
    drift: Floats
    parts: Floats


class Held(NamedTuple):
    """What an agent's steps read: its world's tables, its step sizes, and what its random numbers depend on.

    Numbers of tables are unsigned and of 32 bits, with which a GPU calculates at once.
    """

    states: int
    alias: NDArray[np.uint64]
    action_size: int
    turns: int
    reward: Floats
    reward_state: int
    reward_action: int
    reward_next: int
    sizes: Floats
    seed: int
    run: int
    stream: int


class Ahead(NamedTuple):
    """What an agent has drawn and read a step ahead, so that it never waits for memory.

    ``second`` is the step's second random word; the first is split into ``column`` and ``fraction``, whose
    ``entry`` of the alias table is there. So is the ``reward`` of the pair, if it is known. ``here`` is where
    the pair's parameter stands.
    """

    second: int
    column: int
    fraction: int
    entry: int
    reward: float
    here: int
