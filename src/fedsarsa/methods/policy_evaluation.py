"""What the methods that evaluate a fixed policy have in common: their settings, and exact points."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.servers import Server
from fedsarsa.learning.features import FiniteFeatures, OneHot
from fedsarsa.learning.policies import FixedPolicy
from fedsarsa.learning.step_sizes import StepSize
from fedsarsa.learning.targets import Step
from fedsarsa.methods.method import Task, finite_fleet
from fedsarsa.methods.setting import Setting, mean_root
from fedsarsa.theory.federation_model import limiting_step_sizes
from fedsarsa.theory.operators import Operators, operators
from fedsarsa.theory.stationary import stationary_distribution
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet
from fedsarsa.worlds.kernels import ShiftKernel


@dataclass(frozen=True, eq=False)
class Prediction(Setting):
    """A method that learns the values of a fixed policy by TD(0).

    All take ``independent``: whether every step sees a pair of the agent's stationary distribution and what
    follows it, drawn apart from all others, as several papers assume; otherwise agents follow their chains.
    """

    features: FiniteFeatures = field(default_factory=OneHot)
    policy: FixedPolicy = field(default_factory=FixedPolicy)
    step_size: StepSize = 0.01
    independent: bool = field(default=False, kw_only=True)

    task: ClassVar[Task] = "prediction"

    def __post_init__(self) -> None:
        if not isinstance(self.policy, FixedPolicy):
            raise ValueError(
                f"policy must be a FixedPolicy, whose values {self.name} learns, got {self.policy!r}; "
                "FedSARSA learns with a policy that moves"
            )
        _checks.instance("independent", self.independent, bool, "True or False")
        self.algorithm()

    @property
    def every(self) -> int | None:
        """Steps from one exchange to the next."""
        return 1

    def server(self) -> Server | None:
        """The server rule; None: the mean."""
        return None

    def algorithm(self) -> FedSARSA:
        """FedSARSA with a fixed policy and this server rule."""
        return FedSARSA(self.features, self.policy, self.step_size, self.every, server=self.server())

    def step(self, step: Step) -> Step:
        """A step of the chain, or of a pair drawn anew."""
        return replace(step, independent=self.independent)

    def problem(self, fleet: Fleet, steps: int, runs: int, seed: int) -> Problem:
        """The training problem of this method on a fleet, checked."""
        fleet = finite_fleet(fleet, self.name)
        worlds = stationary(fleet, self.policy) if self.independent else fleet
        return super().problem(worlds, steps, runs, seed)

    def target(self, fleet: Fleet) -> Floats:
        """`federated_point`, (d,), whatever K is; agents count by their late step sizes.

        Parameters
        ----------
        fleet : Fleet
            The agents' worlds.

        Returns
        -------
        (d,) array
            The point to which training converges, noise apart.
        """
        return mean_root(self, fleet)


@dataclass(frozen=True, eq=False)
class PredictionInRounds(Prediction):
    """A method that learns the values of a fixed policy in rounds of K steps."""

    sync_every: int = 10
    radius: float | None = None

    def __post_init__(self) -> None:
        _checks.integer("sync_every", self.sync_every, least=1)
        super().__post_init__()

    @property
    def every(self) -> int:
        """K, local steps per round."""
        return self.sync_every


def stationary(fleet: Fleet, policy: FixedPolicy) -> Fleet:
    """The fleet with worlds that begin in their stationary distributions under a policy."""
    table = policy.table(fleet.states, fleet.actions)
    worlds = []
    for world in fleet.worlds:
        kernel = world.kernel if isinstance(world.kernel, ShiftKernel) else world.transition
        often = stationary_distribution(world.kernel.under(table))
        worlds.append(FiniteMDP(kernel, world.reward, world.discount, often))
    return Fleet([worlds[place] for place in fleet.world_of])


def each_operators(method: Prediction, fleet: Fleet) -> list[Operators]:
    """Every agent's operators under the policy."""
    fleet = as_fleet(fleet)
    features = method.algorithm().feature_map(fleet)
    table = method.policy.table(fleet.states, fleet.actions)
    known = [operators(world, features, table) for world in fleet.worlds]
    return [known[world] for world in fleet.world_of]


def late_steps(method: Setting, fleet: Fleet) -> Floats:
    """The step sizes (N,) that the agents' schedules tend to, 0 where they vanish."""
    problem = method.problem(fleet, 1, 1, 0)
    return limiting_step_sizes(problem, problem.schedule_of)[0]


def rest_point(each: Sequence[tuple[Floats, Floats]], alpha: Floats, steps: int) -> Floats:
    """Where rounds of ``steps`` steps theta + alpha_i (A_i theta + b_i) and the plain mean rest, (d,).

    ``each`` agent has its A_i (d, d) and b_i (d,).
    With M_i = (I + alpha_i A_i)^K a round is theta -> mean_i (M_i theta + c_i), so the point solves
    mean_i (I - M_i) theta = mean_i c_i. Where all step sizes vanish, it solves mean_i (A_i theta + b_i) = 0.
    Parameters that no agent moves are 0.
    """
    dim = len(each[0][1])
    left, right = np.zeros((dim, dim)), np.zeros(dim)
    if not np.any(alpha):
        steps, alpha = 1, np.ones(len(each))
    for (own, constant), size in zip(each, alpha, strict=True):
        whole, power, moved = np.eye(dim), np.eye(dim) + size * own, size * constant
        passed = np.zeros(dim)
        for bit in reversed(range(steps.bit_length())):  # by squaring, from the highest bit of K
            whole, passed = whole @ whole, whole @ passed + passed
            if steps >> bit & 1:
                whole, passed = power @ whole, power @ passed + moved
        left += np.eye(dim) - whole
        right += passed
    return np.asarray(np.linalg.lstsq(left, right, rcond=None)[0])
