"""What a server rule is, and what it may know of a round."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.participation import Present
from fedsarsa.federation.servers.projection import checked_radius, of_present, project

Memory = dict[str, NDArray[Any]]


@dataclass(eq=False)
class Context:
    """What a rule may know of a round besides parameters, and what it keeps, for R runs at once.

    Attributes
    ----------
    t : int
        Steps taken before the round.
    steps : int
        K, the steps of the round.
    step_sums : (N,)
        The sum of each agent's step sizes in the round.
    left : (R, N, d)
        What the agents' steps have left, as ``Server.leaves`` asks; (R, N, 0) where they leave nothing.
    shift : (R, N, d)
        What was added to every direction of the round; the rule writes here what is added in the next one.
        (R, N, 0) unless ``Server.shifts``.
    memory : dict of arrays that begin with R
        What ``Server.memory`` has made and the rule has written since; the rule writes in place.
    noise : (R, d)
        Standard normal numbers of this round; (R, 0) unless ``Server.noisy``.
    present : (R, N) bool, optional
        Who took part in the round; everybody unless given.

    Examples
    --------
    What a rule is called with after a round of 10 steps in 2 runs of 3 agents with 4 parameters:

    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> none = np.empty((2, 3, 0))
    >>> context = fs.servers.Context(t=0, steps=10, step_sums=np.full(3, 0.1), left=none, shift=none)
    >>> fs.servers.Mean().combine(np.zeros((2, 4)), np.ones((2, 3, 4)), context).shape
    (2, 4)
    """

    t: int
    steps: int
    step_sums: Floats
    left: Floats
    shift: Floats
    memory: Memory = field(default_factory=dict)
    noise: Floats = field(default_factory=lambda: np.empty((0, 0)))
    present: Present = None

    def where_present(self, values: Floats, otherwise: Floats | float = 0.0) -> Floats:
        """Choose by who took part in the round.

        Parameters
        ----------
        values : (R, N, d)
            What counts for the agents that took part.
        otherwise : (R, N, d) or float
            What counts for the others.

        Returns
        -------
        (R, N, d) array
            A number of the one or the other for every agent.
        """
        return values if self.present is None else np.where(self.present[..., None], values, otherwise)


class RoundOfRun(NamedTuple):
    """A round of one run that is over, as ``Server.combine_run`` reads it.

    Attributes
    ----------
    weights, step_sums : (N,)
        The agents' weights in the mean, and the sums of their step sizes in the round.
    steps : int
        K, the steps of the round.
    coefficients : (n,)
        The rule's own numbers, ``Server.coefficients``.
    before, start : (1, d), or (N, d) if personal
        The start of the round that is over; where the rule writes the next one's, before any projection.
    after, left, shift : (N, d)
        The agents' parameters, what their steps have left, and what the rule adds to their directions, as in
        `Context`.
    mean : (d,)
        The weighted mean of ``after``.
    mean_before : (d,)
        The weighted mean of ``before``.
    room : (3, d)
        To work in.
    """

    weights: Floats
    step_sums: Floats
    steps: int
    coefficients: Floats
    before: Floats
    start: Floats
    after: Floats
    left: Floats
    shift: Floats
    mean: Floats
    mean_before: Floats
    room: Floats


class Server:
    """A server rule: a frozen dataclass that says how a round's end becomes the next one's start.

    A rule that looks at the agents' parameters alone defines ``estimate``. One that needs more overrides
    ``combine``, and says in its class what it needs.

    A rule of many short rounds may say the same once more in ``combine_run``: plain loops for one run, which
    engines compile into the round. Rules without are called after every round.

    Attributes
    ----------
    radius : float or None
        Of the ball on which the start is projected; None: it is not.
    personal : bool
        Whether every agent has a start of its own: ``before`` and the result of ``combine`` are then
        (R, N, d), and the central parameter is their mean.
    leaves : {None, "direction", "log-weights", "visits"}
        What steps leave for the rule in ``context.left`` (see `Step`).
    shifts : bool
        Whether the rule writes ``context.shift``, which is added to every direction of the next round.
    opens : bool
        Whether the rule sees every agent's first direction before a round, and makes the round's shift of
        them in ``opening``.
    noisy : bool
        Whether the rule asks for ``context.noise``.
    combine_run : callable or None
        ``combine`` of one `RoundOfRun`, where everybody took part, as Numba can compile it. No array that it
        writes is among the others.

    Raises
    ------
    ValueError, TypeError
        ``radius`` is not positive.

    Examples
    --------
    A rule that takes the largest of every parameter:

    >>> from dataclasses import dataclass
    >>> import fedsarsa as fs
    >>> @dataclass(frozen=True)
    ... class Largest(fs.servers.Server):
    ...     def estimate(self, theta):
    ...         return theta.max(axis=-2)
    >>> algo = fs.FedSARSA(server=Largest(), sync_every=20)
    >>> algo.train(fs.paper.fleet(agents=3), steps=100, runs=2)
    History(2 runs, 3 agents, 100 steps, 6 records, d = 25)
    """

    personal: ClassVar[bool] = False
    shifts: ClassVar[bool] = False
    opens: ClassVar[bool] = False
    noisy: ClassVar[bool] = False
    combine_run: ClassVar[Any] = None

    radius: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", checked_radius(self.radius))

    @property
    def fewest(self) -> int:
        """Agents below which the rule cannot work."""
        return 1

    @property
    def leaves(self) -> str | None:
        """What steps leave for the rule; a class that always asks for the same may have it as a constant."""
        return None

    @property
    def mixes(self) -> bool:
        """Whether agents act by what `acting` gives, not by their parameter."""
        return False

    def check(self, problem: Any) -> None:
        """Reject a training problem (`Problem`) whose features or step sizes the rule cannot take."""

    def shares(self, agents: int) -> Floats:
        """The agents' weights (N,) in the mean that histories record; 1/N each."""
        return np.full(agents, 1 / agents)

    def coefficients(self, agents: int) -> Floats:  # noqa: ARG002
        """The numbers (n,) that ``combine_run`` reads, if it needs any."""
        return np.empty(0)

    def memory(self, runs: int, agents: int, dim: int) -> Memory:  # noqa: ARG002
        """What the rule keeps from round to round, before the first one: arrays that begin with R.

        They are part of a training's state, and of its checkpoints.

        Parameters
        ----------
        runs : int
            R.
        agents : int
            N.
        dim : int
            d, the number of parameters.

        Returns
        -------
        dict of arrays
            By name; nothing unless the rule overrides this.
        """
        return {}

    def acting(self, starts: Floats, memory: Memory) -> tuple[Floats, Floats]:  # noqa: ARG002
        """What agents act by in the round that begins: ``own`` (R, N) theta + ``others`` (R, N, d)."""
        if self.mixes:
            raise NotImplementedError(f"{type(self).__name__} must define acting, as it mixes")
        return np.ones(starts.shape[:2]), np.zeros_like(starts)

    def personal_records(self, starts: Floats, memory: Memory) -> dict[str, Floats]:  # noqa: ARG002
        """What histories record of a personal rule: ``personal`` (R, N, d), and any ``weights`` (R, N, N)."""
        return {"personal": starts}

    def remark(self, memory: Memory) -> str | None:  # noqa: ARG002
        """What a user should know of a training that is over."""
        return None

    def opening(self, directions: Floats) -> Floats:
        """What is added to every direction of a round, (R, N, d), from the agents' first ones (R, N, d).

        Parameters
        ----------
        directions : (R, N, d) array
            Every agent's direction at its first sample of the round.

        Returns
        -------
        (R, N, d) array
            The shift of every agent.
        """
        raise NotImplementedError(f"{type(self).__name__} must define opening, as it opens rounds")

    def estimate(self, theta: Floats) -> Floats:
        """One parameter (..., d) of those of n agents, (..., n, d).

        Parameters
        ----------
        theta : (..., n, d) array
            The parameters of the agents that took part.

        Returns
        -------
        (..., d) array
            What takes their place, before any projection.
        """
        raise NotImplementedError(f"{type(self).__name__} must define estimate or combine")

    def combine(self, before: Floats, after: Floats, context: Context) -> Floats:
        """The start of the next round, for all runs at once.

        Parameters
        ----------
        before : (R, d), or (R, N, d) if personal
            The start of the round that is over.
        after : (R, N, d)
            The agents' parameters after it.
        context : Context
            Who took part, what else is known of the round, and what the rule keeps.

        Returns
        -------
        array of the shape of ``before``
            The start of the next round.
        """
        return project(of_present(self.estimate, self.fewest, before, after, context.present), self.radius)
