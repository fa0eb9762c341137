"""Synchronous federated Q-learning: agents that draw a transition of every pair at every step."""

from dataclasses import dataclass, replace
from typing import ClassVar

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.history import History
from fedsarsa.federation.problem import Problem
from fedsarsa.learning.features import OneHot
from fedsarsa.learning.policies import Greedy
from fedsarsa.learning.random import PURPOSE_BITS
from fedsarsa.learning.step_sizes import StepSize, largest_step_size, schedules
from fedsarsa.learning.targets import ALL_PAIRS, MAX, Step
from fedsarsa.methods.method import Knowledge, Task
from fedsarsa.methods.setting import Setting, learned_policies
from fedsarsa.theory.optimality import optimal_values
from fedsarsa.worlds.fleet import Fleet, as_fleet


@dataclass(frozen=True, eq=False)
class FedSynQ(Setting):
    """Woo, Joshi and Chi 2023: FedSynQ, synchronous federated Q-learning with a simulator.

    At every step every agent draws s' for all pairs (s, a), and moves all entries of its table at once
    towards r + discount max Q(s', .). The server averages every K steps.

    Parameters
    ----------
    step_size : float, ConstantStep, LinearDecay, PiecewiseDecay, or a list with one per agent
        At most 1.
    sync_every : int
        K, local steps per round.

    Raises
    ------
    ValueError, TypeError
        ``sync_every`` is no integer of at least 1, or a step size is above 1.

    Notes
    -----
    For all pairs at once, with a successor s'(s, a) of each,

        Q(s, a) <- (1 - alpha_t) Q(s, a) + alpha_t (r + discount max_b Q(s'(s, a), b))

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(2, 0.5, 0.5, states=6, actions=2)
    >>> method = fs.methods.FedSynQ(step_size=0.1)
    >>> method.policies(method.train(fleet, steps=100, runs=3)).shape
    (3, 6, 2)
    """

    step_size: StepSize = 0.1
    sync_every: int = 10

    name: ClassVar[str] = "FedSynQ"
    task: ClassVar[Task] = "control"
    knows: ClassVar[Knowledge] = "simulator"

    def __post_init__(self) -> None:
        _checks.integer("sync_every", self.sync_every, least=1)
        _check_largest(largest_step_size(schedules(self.step_size), 1))
        self.algorithm()

    def algorithm(self) -> FedSARSA:
        """FedSARSA with a table and the largest value as target."""
        return FedSARSA(OneHot(), Greedy(), self.step_size, self.sync_every, target=MAX)

    def step(self, step: Step) -> Step:
        """A step of all pairs."""
        return replace(step, sampling=ALL_PAIRS)

    def problem(self, fleet: Fleet, steps: int, runs: int, seed: int) -> Problem:
        """The training problem of this method on a fleet, checked."""
        problem = super().problem(fleet, steps, runs, seed)
        _check_largest(problem.largest_step_size)
        pairs = problem.fleet.states * len(problem.order)
        if problem.steps * pairs >= 2**PURPOSE_BITS:
            raise ValueError(
                f"steps must be below {2**PURPOSE_BITS // pairs} with {pairs} pairs, got {problem.steps}"
            )
        return problem

    def target(self, fleet: Fleet) -> Floats:
        """The optimal Q of the mean world, (S A,), up to terms of the order of the step size times K.

        Parameters
        ----------
        fleet : Fleet
            The agents' worlds.

        Returns
        -------
        (S A,) array
            The point to which training converges, noise apart.
        """
        return optimal_values(as_fleet(fleet).central()).ravel()

    def policies(self, history: History) -> Floats:
        """The greedy policies (R, S, A) of the last central parameters.

        Parameters
        ----------
        history : History
            What ``train`` returned.

        Returns
        -------
        (R, S, A) array
            Probabilities of actions.
        """
        return learned_policies(history, OneHot(), Greedy())


def _check_largest(step_size: float) -> None:
    """Refuse step sizes above 1."""
    if step_size > 1:
        raise ValueError(
            f"step_size must be at most 1 at every step, as values grow without bound otherwise, got "
            f"{step_size:g}; FedSARSA with target 'max' takes larger ones"
        )
