"""FedSARSA and its kin among the methods: three targets, with or without control variates."""

from dataclasses import dataclass, field
from typing import ClassVar

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.history import History
from fedsarsa.federation.servers import ControlVariates, Mean, Server
from fedsarsa.learning.features import FiniteFeatures, OneHot
from fedsarsa.learning.policies import Policy, Softmax
from fedsarsa.learning.step_sizes import StepSize
from fedsarsa.learning.targets import MAX, SAMPLED
from fedsarsa.methods.method import Task
from fedsarsa.methods.setting import Setting, learned_policies, mean_root
from fedsarsa.theory.round_limits import round_limit
from fedsarsa.worlds.fleet import Fleet, as_fleet


@dataclass(frozen=True, eq=False)
class SARSA(Setting):
    """Zhang, Wang, Mitra and Anderson 2024: FedSARSA, as one of the methods.

    ``fs.FedSARSA`` has more options, and trains in all kinds of worlds.

    Parameters
    ----------
    features : OneHot, ModuloFeatures or TabularFeatures
        Features of pairs.
    policy : Softmax, Greedy or EpsilonGreedy
        Who acts, and what is learned.
    step_size : float, ConstantStep, LinearDecay, PiecewiseDecay, or a list with one per agent
        alpha_t of the local steps.
    sync_every : int
        K, local steps per round.
    radius : float, optional
        Of the ball on which the server projects; no projection unless given.
    aim : {"sampled", "expected", "max"}
        The ``target`` of FedSARSA: Q(s', a'), its mean over the policy, or the largest.

    Raises
    ------
    ValueError, TypeError
        ``sync_every`` is no integer of at least 1, or another argument is out of its range.

    Notes
    -----
    With a ~ Gamma(theta_i), and y = Q(s', a'), its mean over the policy, or the largest Q(s', .),

        theta_i <- theta_i + alpha_t phi(s, a) (r + discount y - phi(s, a)'theta_i)

    and after K steps theta-bar = Proj(mean_i theta_i).

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(2, 0.5, 0.5, states=6, actions=2)
    >>> method = fs.methods.SARSA(policy=fs.Softmax(5.0), step_size=0.1)
    >>> method.policies(method.train(fleet, steps=100, runs=3)).shape
    (3, 6, 2)
    """

    features: FiniteFeatures = field(default_factory=OneHot)
    policy: Policy = field(default_factory=Softmax)
    step_size: StepSize = 0.01
    sync_every: int = 10
    radius: float | None = None
    aim: str = SAMPLED

    name: ClassVar[str] = "SARSA"
    task: ClassVar[Task] = "control"

    def __post_init__(self) -> None:
        _checks.integer("sync_every", self.sync_every, least=1)
        self.algorithm()

    def server(self) -> Server:
        """The mean."""
        return Mean(radius=self.radius)

    def algorithm(self) -> FedSARSA:
        """FedSARSA itself."""
        return FedSARSA(
            self.features,
            self.policy,
            self.step_size,
            self.sync_every,
            server=self.server(),
            target=self.aim,
        )

    def target(self, fleet: Fleet) -> Floats | None:
        """Where local steps and the average rest (`round_limit`), (d,).

        None with the largest value as target, and with policies that jump.

        Parameters
        ----------
        fleet : Fleet
            The agents' worlds.

        Returns
        -------
        (d,) array or None
            The point to which training converges, noise apart.
        """
        if self.aim == MAX or not isinstance(self.policy, Softmax):
            return None
        sampled = FedSARSA(self.features, self.policy, self.step_size, self.sync_every)
        return round_limit(as_fleet(fleet), sampled)  # the expected target has the same mean path

    def policies(self, history: History) -> Floats:
        """The policies (R, S, A) of the last central parameters.

        Parameters
        ----------
        history : History
            What ``train`` returned.

        Returns
        -------
        (R, S, A) array
            Probabilities of actions.
        """
        return learned_policies(history, self.features, self.policy)


@dataclass(frozen=True, eq=False)
class ScaffoldSARSA(SARSA):
    """FedSARSA with the control variates of SCAFFLSA (Mangold et al. 2024), for which no theory is known.

    The correction was made for fixed policies. Where the policy moves with the parameter it runs as well, and
    where it converges, the mean path rests at the federated point for every K; that it converges is proven
    nowhere.

    Parameters
    ----------
    features, policy, step_size, sync_every, radius, aim
        As for `SARSA`.

    Raises
    ------
    ValueError, TypeError
        As for `SARSA`.

    Notes
    -----
    With the direction g_i of `SARSA`,

        theta_i <- theta_i + alpha_t (g_i(theta_i) + xi_i)

    and after a round xi_i <- xi_i + (theta-bar - theta_i) / (alpha K).

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(2, 0.5, 0.5, states=6, actions=2)
    >>> method = fs.methods.ScaffoldSARSA(policy=fs.Softmax(5.0), step_size=0.1, sync_every=50)
    >>> method.train(fleet, steps=100, runs=3)
    History(3 runs, 2 agents, 100 steps, 3 records, d = 12)
    """

    name: ClassVar[str] = "ScaffoldSARSA"

    def server(self) -> Server:
        """The mean, with control variates."""
        return ControlVariates(self.radius)

    def target(self, fleet: Fleet) -> Floats | None:
        """The federated point, (d,); None with the largest value as target, and with policies that jump."""
        if self.aim == MAX or not isinstance(self.policy, Softmax):
            return None
        return mean_root(self, fleet)
