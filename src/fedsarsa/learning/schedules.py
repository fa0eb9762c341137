"""Numbers that change while agents learn: of step sizes, and of policies that explore less and less."""

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats

HELD = 100  # steps for which a policy keeps its number, at least
LAST = 2**62  # a step that no training reaches


@runtime_checkable
class Schedule(Protocol):
    """A number for every time step.

    Examples
    --------
    A step size of your own is any object with ``at``:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> @dataclass(frozen=True)
    ... class RootDecay:
    ...     first: float
    ...     def at(self, t):
    ...         return self.first / np.sqrt(1 + t)
    >>> fs.FedSARSA(step_size=RootDecay(0.1)).train(fs.paper.fleet(agents=2), steps=20, runs=1)
    History(1 runs, 2 agents, 20 steps, 3 records, d = 25)
    """

    def at(self, t: NDArray[np.int64]) -> Floats:
        """The numbers of an array of time steps.

        Parameters
        ----------
        t : (n,) array of int
            Time steps, counted from 0.

        Returns
        -------
        (n,) array
            A number for each of them.
        """
        ...


@dataclass(frozen=True)
class _Between:
    """What schedules from one number to another share."""

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            object.__setattr__(self, name, self.checked(name, getattr(self, name)))
        object.__setattr__(self, "steps", _checks.integer("steps", self.steps, least=1))

    def checked(self, name: str, value: float) -> float:
        """Return a number that the schedule can start or end with."""
        return _checks.positive(name, value)

    def share(self, t: NDArray[np.int64]) -> Floats:
        """How much of the way is behind, in [0, 1]."""
        return np.minimum(np.asarray(t, dtype=np.float64) / self.steps, 1.0)


@dataclass(frozen=True)
class LinearSchedule(_Between):
    """start + (end - start) t / steps, and ``end`` from step ``steps`` on.

    For step sizes, and for the ``eps`` or ``temperature`` of a policy.

    Parameters
    ----------
    start, end : float
        At least 0.
    steps : int
        When ``end`` is reached.

    Raises
    ------
    ValueError, TypeError
        ``start`` or ``end`` is below 0, or ``steps`` below 1.

    Notes
    -----
    x_t = start + (end - start) min(t / steps, 1)

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.LinearSchedule(1.0, 0.1, steps=1000).at(np.array([0, 500, 5000]))
    array([1.  , 0.55, 0.1 ])
    """

    def checked(self, name: str, value: float) -> float:
        """Return a number that the schedule can start or end with."""
        given = _checks.number(name, value, "a number of at least 0")
        if given < 0:
            raise ValueError(f"{name} must be a number of at least 0, got {value!r}")
        return given

    def at(self, t: NDArray[np.int64]) -> Floats:
        """The numbers of an array of time steps.

        Parameters
        ----------
        t : (n,) array of int
            Time steps, counted from 0.

        Returns
        -------
        (n,) array
            A number for each of them.
        """
        share = self.share(t)
        return (1 - share) * self.start + share * self.end


@dataclass(frozen=True)
class ExponentialSchedule(_Between):
    """start (end / start)^(t / steps), and ``end`` from step ``steps`` on.

    For step sizes, and for the ``eps`` or ``temperature`` of a policy.

    Parameters
    ----------
    start, end : float
        Positive.
    steps : int
        When ``end`` is reached.

    Raises
    ------
    ValueError, TypeError
        ``start`` or ``end`` is not positive, or ``steps`` below 1.

    Notes
    -----
    x_t = start (end / start)^min(t / steps, 1)

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.ExponentialSchedule(1.0, 0.01, steps=1000).at(np.array([0, 500, 5000]))
    array([1.  , 0.1 , 0.01])
    """

    def at(self, t: NDArray[np.int64]) -> Floats:
        """The numbers of an array of time steps.

        Parameters
        ----------
        t : (n,) array of int
            Time steps, counted from 0.

        Returns
        -------
        (n,) array
            A number for each of them.
        """
        share = self.share(t)
        return np.asarray(self.start ** (1 - share) * self.end**share, dtype=np.float64)


class Scheduled:
    """A policy whose one number may change while agents learn.

    ``number`` names it. The policy itself acts by the number that its schedule ends with.
    """

    number: ClassVar[str]

    @property
    def changes(self) -> bool:
        """Whether the number follows a schedule."""
        given = getattr(self, self.number)
        return isinstance(given, Schedule) and not isinstance(given, type)

    @property
    def parameter(self) -> float:
        """The one number of the policy: at the end, if it follows a schedule."""
        given = getattr(self, self.number)
        return float(given.at(np.array([LAST]))[0]) if self.changes else float(given)

    def check_ends(self) -> None:
        """Raise ``ValueError`` if the schedule begins or ends with a number that the policy cannot have."""
        self.at_step(0)
        self.at_step(LAST)

    def at_step(self, t: int) -> Self:
        """Return the policy with the number of step ``t``; itself, unless its number follows a schedule.

        Parameters
        ----------
        t : int
            A time step, counted from 0.

        Returns
        -------
        policy
            One of the same kind, with a constant number.

        Raises
        ------
        ValueError
            The schedule gives a number there that the policy cannot have.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> fs.EpsilonGreedy(fs.LinearSchedule(1.0, 0.1, steps=1000)).at_step(500)
        EpsilonGreedy(eps=0.55)
        """
        if not self.changes:
            return self
        schedule = getattr(self, self.number)
        value = np.asarray(schedule.at(np.array([t])), dtype=np.float64)
        if value.shape != (1,):
            raise ValueError(
                f"{self.number} must be one number per step, got {value.shape} from {schedule!r}"
            )
        try:
            return replace(self, **{self.number: float(value[0])})  # type: ignore[type-var]
        except ValueError as error:
            when = "at its end" if t == LAST else f"at step {t}"
            raise ValueError(f"{error} {when}, from {schedule!r}") from None


def stage_of(sync_every: int | None) -> int:
    """For how many steps a policy keeps its number: whole rounds, and at least a hundred steps."""
    every = sync_every or HELD
    return every * -(-HELD // every)
