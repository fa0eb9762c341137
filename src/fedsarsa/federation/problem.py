"""A training problem, checked and complete: all that decides a training."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation import servers
from fedsarsa.federation.participation import NO_FAULTS, Faults
from fedsarsa.federation.servers import Server
from fedsarsa.learning.continuous_features import BoxMap
from fedsarsa.learning.features import FeatureMap
from fedsarsa.learning.policies import Policy
from fedsarsa.learning.schedules import HELD, Scheduled
from fedsarsa.learning.step_sizes import MOST_AT_ONCE, Schedule, largest_step_size, step_sizes_at
from fedsarsa.learning.targets import Step
from fedsarsa.worlds.contract import AnyFleet as AnyFleet
from fedsarsa.worlds.fleet import Fleet

MOST_STEPS = 10**14  # per agent: years of computing, and far from what 64 bits can count
DOUBLE, SINGLE = PRECISIONS = ("float64", "float32")
BINS = 200  # stretches of time in which episodes are summed up


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that decides a training, for ``runs`` federations of one fleet.

    Attributes
    ----------
    fleet : Fleet, ControlFleet or GymFleet
        The agents' worlds.
    features : Aggregation, DenseTable or BoxMap
        phi on these worlds.
    schedule_of : (N,) int
        Which of ``schedules`` is agent i's step size.
    server : Server
        How the agents' parameters become the start of the next round.
    step : Step
        What the local step does beyond that of Algorithm ``alg``.
    average_offset : float or None
        The a in the weights a + t of theta-tilde; None: no such average is kept.
    candidates : (A,)
        The actions as numbers; where features are joint, and in Gymnasium, only how many they are matters.
    action_bounds : (float, float)
        The lowest and the highest action.
    per_number : int or None
        How many values each number of an action may have among the candidates, where they are a grid.
    asked : int or None
        How many agents take part in a round; None: all.
    faults : Faults
        What goes wrong with them.
    stage : int
        For how many steps the policy keeps its number, where that follows a schedule.
    precision : {"float64", "float32"}
        Of the numbers that are computed.
    """

    fleet: AnyFleet
    features: FeatureMap | BoxMap
    policy: Policy
    schedules: list[Schedule]
    schedule_of: NDArray[np.int64]
    sync_every: int | None
    server: Server
    step: Step
    average_offset: float | None
    steps: int
    runs: int
    seed: int
    candidates: Floats
    action_bounds: tuple[float, float]
    per_number: int | None = None
    asked: int | None = None
    faults: Faults = NO_FAULTS
    stage: int = HELD
    precision: str = DOUBLE

    def at_step(self, t: int) -> "Problem":
        """The problem with the policy's number of step ``t``; itself, unless that follows a schedule."""
        policy = self.policy
        if isinstance(policy, Scheduled) and policy.changes:
            return replace(self, policy=policy.at_step(t))
        return self

    @property
    def agents(self) -> int:
        """N."""
        return len(self.fleet)

    @property
    def finite(self) -> bool:
        """Whether worlds are finite, and never end."""
        return self.fleet.finite

    @property
    def finite_worlds(self) -> tuple[Fleet, FeatureMap]:
        """The fleet and its features, of a problem in finite worlds."""
        assert isinstance(self.fleet, Fleet)
        assert not isinstance(self.features, BoxMap)
        return self.fleet, self.features

    @property
    def holds_pairs(self) -> bool:
        """Whether agents hold a pair (s, a) of a finite world and nothing else."""
        return self.finite and self.step.trace_decay == 0 and not self.step.mixes

    @property
    def partial(self) -> bool:
        """Whether agents may be missing in a round."""
        some = self.asked is not None and self.asked < self.agents
        return self.sync_every is not None and (some or self.faults.absent > 0)

    @property
    def compiled_rounds(self) -> bool:
        """Whether rounds end with a rule that engines compile into them, and with what all agents learned."""
        return servers.compiled_place(self.server) >= 0 and not self.partial and not self.faults.liars

    @property
    def takes_mean(self) -> bool:
        """Whether rounds end with the mean of what all agents learned, and no other rule."""
        place = servers.compiled_place(self.server)
        return self.compiled_rounds and servers.COMPILED[place] is servers.Mean

    @property
    def weights(self) -> Floats:
        """The weights (N,) of the mean of the agents' parameters."""
        return self.server.shares(self.agents)

    @property
    def radius(self) -> float | None:
        """Of the ball on which the server projects."""
        return self.server.radius

    @property
    def order(self) -> NDArray[np.int64]:
        """Actions in the order in which policies draw them, (A,)."""
        return np.arange(len(self.candidates)) if isinstance(self.features, BoxMap) else self.features.order

    @property
    def bins(self) -> int:
        """In how many bins of time episodes and rewards are summed up; 0 where there are no episodes."""
        return 0 if self.finite else min(BINS, self.steps)

    def bin_of(self, t: Any) -> Any:
        """The bin of step ``t``, or of an array of steps."""
        return t * self.bins // self.steps

    @property
    def step_factor(self) -> float:
        """What step sizes are multiplied by."""
        return 1 / self.features.most_active if self.step.step_per_feature else 1.0

    def step_sizes(self, t: int, steps: int) -> Floats:
        """The step sizes of every schedule, (schedules, steps), from step ``t`` on."""
        return step_sizes_at(self.schedules, np.arange(t, t + steps)) * self.step_factor

    @property
    def largest_step_size(self) -> float:
        """The largest step size of all agents and steps."""
        return largest_step_size(self.schedules, self.steps) * self.step_factor

    def schedule_sums(self, begun: int, end: int) -> Floats:
        """The sum (schedules,) of each schedule's step sizes from step ``begun`` to ``end`` - 1."""
        total = np.zeros(len(self.schedules))
        for t in range(begun, end, MOST_AT_ONCE):
            total += self.step_sizes(t, min(MOST_AT_ONCE, end - t)).sum(axis=1)
        return total

    def step_sums(self, begun: int, end: int) -> Floats:
        """The sum (N,) of each agent's step sizes from step ``begun`` to ``end`` - 1."""
        sums: Floats = self.schedule_sums(begun, end)[self.schedule_of]
        return sums
