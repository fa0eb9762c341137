"""Step-size schedules alpha_t, t = 0, 1, ..."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.schedules import ExponentialSchedule, LinearSchedule
from fedsarsa.learning.schedules import Schedule as Schedule

MOST_AT_ONCE = 100_000  # step sizes that are held to be summed or compared


@dataclass(frozen=True)
class ConstantStep:
    """alpha_t = value (Corollary on constant steps, ``cor:err-con``).

    Parameters
    ----------
    value : float
        Positive.

    Raises
    ------
    ValueError, TypeError
        ``value`` is no positive number.

    Notes
    -----
    alpha_t = value

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.FedSARSA(step_size=fs.ConstantStep(0.05)).step_size
    ConstantStep(value=0.05)
    """

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _checks.positive("step_size", self.value))

    def at(self, t: NDArray[np.int64]) -> Floats:
        """alpha_t for an array of time steps.

        Parameters
        ----------
        t : (n,) array of int
            Time steps, counted from 0.

        Returns
        -------
        (n,) array
            Step sizes.
        """
        return np.full(len(t), self.value)


@dataclass(frozen=True)
class LinearDecay:
    """alpha_t = 4 / (w (1 + t + a)) (Corollary on decaying steps, ``cor:err-dec``).

    A history trained with it also holds theta-tilde, the average of the central parameters
    theta_0 .. theta_T with weights a + t.

    Parameters
    ----------
    w, a : float
        Positive.

    Raises
    ------
    ValueError, TypeError
        ``w`` or ``a`` is no positive number.

    Notes
    -----
    alpha_t = 4 / (w (1 + t + a)),
    theta-tilde = sum_t (a + t) theta-bar_t / sum_t (a + t)

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.LinearDecay(w=2.0, a=9.0).at(np.array([0, 10]))
    array([0.2, 0.1])
    """

    w: float
    a: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "w", _checks.positive("w", self.w))
        object.__setattr__(self, "a", _checks.positive("a", self.a))

    def at(self, t: NDArray[np.int64]) -> Floats:
        """alpha_t for an array of time steps.

        Parameters
        ----------
        t : (n,) array of int
            Time steps, counted from 0.

        Returns
        -------
        (n,) array
            Step sizes.
        """
        return np.asarray(4.0 / (self.w * (1.0 + t + self.a)), dtype=np.float64)


@dataclass(frozen=True)
class PiecewiseDecay:
    """``values[k]`` from step ``boundaries[k - 1]`` on.

    Parameters
    ----------
    values : list of float
        Positive step sizes.
    boundaries : list of int
        The steps at which the second and later values begin; they increase.

    Raises
    ------
    ValueError, TypeError
        A value is not positive, the boundaries do not increase, or there is not one value more than
        boundaries.

    Notes
    -----
    alpha_t = values[k] with k the number of boundaries of at most t

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.PiecewiseDecay([0.1, 0.01], [5000]).at(np.array([4999, 5000]))
    array([0.1 , 0.01])
    """

    values: Sequence[float]
    boundaries: Sequence[int]

    def __post_init__(self) -> None:
        for name in ("values", "boundaries"):
            if not isinstance(getattr(self, name), (list, tuple, np.ndarray)):
                raise TypeError(f"{name} must be a list, got {getattr(self, name)!r}")
        values = tuple(_checks.positive(f"values[{k}]", v) for k, v in enumerate(self.values))
        object.__setattr__(self, "values", values)
        if len(self.boundaries) != len(self.values) - 1:
            raise ValueError(
                f"boundaries must be one fewer than values, got {len(self.boundaries)} boundaries "
                f"for {len(self.values)} values"
            )
        edges = [0, *(_checks.integer("boundaries", b, least=1) for b in self.boundaries)]
        object.__setattr__(self, "boundaries", tuple(edges[1:]))
        if any(b <= a for a, b in itertools.pairwise(edges)):
            raise ValueError(f"boundaries must increase, got {list(self.boundaries)}")

    def at(self, t: NDArray[np.int64]) -> Floats:
        """alpha_t for an array of time steps.

        Parameters
        ----------
        t : (n,) array of int
            Time steps, counted from 0.

        Returns
        -------
        (n,) array
            Step sizes.
        """
        return np.asarray(self.values, dtype=float)[
            np.searchsorted(np.asarray(self.boundaries), t, side="right")
        ]


StepSize = float | Schedule | Sequence[float | Schedule]


def schedules(step_size: StepSize) -> list[Schedule]:
    """The schedules in ``step_size``: one for all agents, or one per agent."""
    many = isinstance(step_size, (list, tuple)) or (isinstance(step_size, np.ndarray) and step_size.ndim > 0)
    if many and len(step_size) == 0:  # type: ignore[arg-type]
        raise ValueError(f"step_size must be one or one per agent, got {step_size!r}")
    return [_schedule(one) for one in (step_size if many else [step_size])]  # type: ignore[union-attr]


def _schedule(one: Any) -> Schedule:
    if isinstance(one, type) or not isinstance(one, Schedule):
        return ConstantStep(_checks.positive("step_size", one))
    return one


def step_sizes_at(schedules: Sequence[Schedule], times: NDArray[np.int64]) -> Floats:
    """alpha_t of every schedule, (schedules, len(times)): positive, or an error that names the step."""
    sizes = np.stack([np.asarray(schedule.at(times), dtype=np.float64) for schedule in schedules])
    if sizes.shape[1:] != times.shape:
        raise ValueError(f"step_size must give one number per step, got {sizes.shape[1:]} for {len(times)}")
    bad = np.argwhere(~(np.isfinite(sizes) & (sizes > 0)))
    if len(bad):
        which, when = bad[0]
        raise ValueError(
            f"step_size must be positive, got {sizes[which, when]} at step {times[when]} "
            f"from {schedules[which]!r}"
        )
    return sizes


def largest_step_size(schedules: Sequence[Schedule], steps: int) -> float:
    """The largest alpha_t of all schedules and the first ``steps`` steps."""
    return max(float(step_sizes_at([one], times).max()) for one in schedules for times in _times(one, steps))


def _times(schedule: Schedule, steps: int) -> Iterator[NDArray[np.int64]]:
    """Steps among which a schedule has its largest step size; all of them unless more is known of it."""
    if isinstance(schedule, PiecewiseDecay):
        yield np.array([0, *(begin for begin in schedule.boundaries if begin < steps)])
    elif isinstance(schedule, ConstantStep | LinearDecay | LinearSchedule | ExponentialSchedule):
        yield np.array([0, steps - 1])  # they rise or fall all the way
    else:
        for t in range(0, steps, MOST_AT_ONCE):
            yield np.arange(t, min(t + MOST_AT_ONCE, steps))


def average_offset(step_size: StepSize) -> float | None:
    """The a in theta-tilde's weights a + t; None where the step size has no such average."""
    offsets = {s.a if isinstance(s, LinearDecay) else None for s in schedules(step_size)}
    return offsets.pop() if len(offsets) == 1 else None
