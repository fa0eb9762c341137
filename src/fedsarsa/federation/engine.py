"""What an engine must be able to do."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import State, Synchronisations, joined
from fedsarsa.learning.policies import Policy

FIRST_SPAN = 100_000  # agent-steps of compiled worlds, before it is known how long they take


class Engine(ABC):
    """Trains a problem on ``threads`` threads, all cores if None.

    Where the policy's number follows a schedule, training goes stage by stage: a number holds for whole
    rounds, and for at least a hundred steps. ``problem`` has the present one.

    Attributes
    ----------
    first_agent : int
        The number of the problem's first agent in the federation that it is a part of.
    can_be_saved : bool
        Whether a `State` is all that training resumes from; Gymnasium environments have their own.
    opens_rounds : bool
        Whether it lets the server rule open rounds by itself, where the rule does.
    opened : bool
        Whether what the engine needs to train, such as environments, is there.
    """

    name: ClassVar[str]
    can_be_saved: ClassVar[bool] = True
    opens_rounds: bool = False
    opened: bool = True

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        self.problem, self.threads, self.first_agent = problem.at_step(0), threads, first_agent
        self.given = problem
        self.scheduled = self.problem is not problem

    @property
    def first_steps(self) -> int:
        """Steps to take at first, before it is known how long they take."""
        return max(1, FIRST_SPAN // (self.problem.agents * self.problem.runs))

    @property
    def identity(self) -> dict[str, str]:
        """What decides a training besides its problem, by name, in words; nothing for most."""
        return {}

    @abstractmethod
    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action."""

    def advance(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place.

        Either whole rounds, or a part of one round, which may end with its synchronisation. Fewer where no
        agent is left: training then ends with the round in which the last one stopped.
        """
        if not self.scheduled:
            return self.take_steps(state, steps)
        stage, end, seen = self.given.stage, state.t + steps, []
        while state.t < end:
            begun = state.t - state.t % stage
            self.follow(self.given.at_step(begun).policy)
            until = min(begun + stage, end)
            seen.append(self.take_steps(state, until - state.t))
            if state.t < until:
                break
        return joined(seen)

    @abstractmethod
    def take_steps(self, state: State, steps: int) -> Synchronisations:
        """As `advance`, by the present policy."""

    def follow(self, policy: Policy) -> None:
        """Act by the policy with another number from now on."""
        self.problem = replace(self.problem, policy=policy)

    def warm(self, state: State) -> None:
        """Compile all that training calls; ``state`` is of no use afterwards."""
        self.start(state)
        self.advance(state, 1)

    def close(self) -> None:  # noqa: B027  # most have nothing to close
        """Give back what the engine holds; it can start again."""


class Together(Protocol):
    """Trains problems side by side, which have rounds of one length and as many steps."""

    name: str

    @property
    def first_steps(self) -> int:
        """Steps to take at first, before it is known how long they take."""

    def start(self, states: Sequence[State]) -> None:
        """Draw the first state of every agent of all problems, and its first action."""

    def advance(self, states: Sequence[State], steps: int, record_every: int) -> list[Synchronisations]:
        """Train every run of every problem for ``steps`` more steps, in place.

        Of all synchronisations of the training every ``record_every``-th is given.
        """

    def close(self) -> None:
        """Give back what the engine holds."""
