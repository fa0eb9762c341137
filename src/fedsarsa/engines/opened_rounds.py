"""Rounds that begin with an exchange of directions, on any engine that can take the same step twice.

A step is a function of the state and of (seed, run, agent, t). So one step of a copy of the state gives the
first direction of a round: it leaves its direction and moves no parameter. Then the round is taken.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.engine import Engine
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.rounds import open_round
from fedsarsa.federation.servers import Mean
from fedsarsa.federation.state import Episodes, State, Synchronisations, joined
from fedsarsa.learning.policies import Policy
from fedsarsa.learning.targets import DIRECTION


class OpeningEngine(Engine):
    """Trains by ``inner``, round by round; before each, ``probe`` takes one step of a copy of the state."""

    def __init__(self, problem: Problem, inner: Engine, probe: Engine) -> None:
        super().__init__(problem, inner.threads, inner.first_agent)
        self.inner, self.probe = inner, probe
        self.name = inner.name  # type: ignore[misc]

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action."""
        self.inner.start(state)

    def follow(self, policy: Policy) -> None:
        """Act by the policy with another number from now on."""
        self.inner.follow(policy)
        self.probe.follow(policy)

    def take_steps(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place."""
        every, end = self.problem.sync_every or self.problem.steps, state.t + steps
        seen = []
        while state.t < end:
            if state.t % every == 0:
                open_round(self.problem, state, self.first_directions(state))
            seen.append(self.inner.advance(state, min(every - state.t % every, end - state.t)))
        return joined(seen)

    def first_directions(self, state: State) -> Floats:
        """The direction (R, N, d) of every agent's next step, which is not taken."""
        held = {} if state.episodes is None else _copies(state.episodes)
        arrays = ("theta", "states", "actions", "central", "weighted_sum", "failed_at")
        copy = replace(
            state,
            **{name: getattr(state, name).copy() for name in arrays},
            starts=state.starts[:, :0],
            progress=state.progress[:, :, :0],
            shift=state.theta[:, :, :0],
            left=np.zeros_like(state.theta),
            memory={},
            episodes=None if state.episodes is None else replace(state.episodes, **held),
        )
        self.probe.advance(copy, 1)
        return copy.left

    def close(self) -> None:
        """Give back what both engines hold."""
        self.inner.close()
        self.probe.close()


def probing(problem: Problem) -> Problem:
    """The problem in which steps leave their directions, and agents never meet."""
    step = replace(problem.step, leaves=DIRECTION, shifted=False, mixes=False)
    return replace(problem, step=step, server=Mean(), sync_every=None, average_offset=None)


def _copies(held: Episodes) -> dict[str, Any]:
    """Copies of what agents hold, by their names."""
    return {name: array.copy() for name, array in vars(held).items()}
