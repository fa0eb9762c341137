"""What callbacks get while a training runs: an event for every record."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import Episodes, State, Synchronisations


class Event:
    """A record of a training, for a callback.

    Attributes
    ----------
    t : int
        Steps per agent so far: 0 at first.
    steps : int
        Steps per agent that were asked for.
    central : (runs, d)
        Central parameters at t, read-only; NaN for failed runs.
    drift : (runs,)
        Client drift before this synchronisation, NaN at t = 0.
    why : str or None
        Why the training is to stop, once ``stop`` was called.

    Examples
    --------
    A callback that keeps what it sees, and stops early:

    >>> import fedsarsa as fs
    >>> norms = []
    >>> def watch(event):
    ...     norms.append(event.metrics["norm"])
    ...     if event.t >= 50:
    ...         event.stop("fifty steps are enough")
    >>> fs.FedSARSA().train(fs.paper.fleet(agents=2), steps=1000, runs=1, callback=watch)
    History(1 runs, 2 agents, 50 steps, 6 records, d = 25)
    >>> len(norms)
    6
    """

    why: str | None = None

    # Fast engines make many thousand records a second: one that no callback looks at makes no arrays.
    def __init__(
        self, problem: Problem, records: Synchronisations, episodes: Episodes | None, place: int, t: int
    ) -> None:
        self.t = t
        self._problem, self._records, self._episodes, self._place = problem, records, episodes, place

    @property
    def steps(self) -> int:
        """Steps per agent that were asked for."""
        return self._problem.steps

    @property
    def central(self) -> Floats:
        """Central parameters (runs, d) at t."""
        return self._record(self._records.central)

    @property
    def drift(self) -> Floats:
        """Client drift (runs,) before this synchronisation."""
        return self._record(self._records.drift)

    def _record(self, array: Floats) -> Floats:
        """What the history keeps of this record, which callbacks cannot write to."""
        own = array[:, self._place]
        own.flags.writeable = False
        return own

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Numbers by name, over runs and agents; a callback may add its own for those that come after it.

        ``norm``, the mean norm of the central parameters, and ``drift``. Where worlds are not finite,
        ``reward``, the mean of a step in the last complete time bin (1/200 of training); and ``return`` and
        ``length``, means over the episodes of the last complete bin in which some have ended.
        """
        numbers: dict[str, Any] = {"norm": float(np.linalg.norm(self.central, axis=1).mean())}
        if self.t:
            numbers["drift"] = float(self.drift.mean())
        problem, episodes = self._problem, self._episodes
        if problem.finite or episodes is None:
            return numbers
        over = int(problem.bin_of(self.t))  # stretches that are over at t
        for name, sums, each in (
            ("reward", episodes.rewards, episodes.steps),
            ("return", episodes.returns, episodes.episodes),
            ("length", episodes.lengths, episodes.episodes),
        ):
            counts = each[:, :, :over].sum(axis=(0, 1))
            if counts.any():
                last = int(np.flatnonzero(counts)[-1])
                numbers[name] = float(sums[:, :, last].sum() / counts[last])
        return numbers

    def stop(self, why: str = "a callback stopped it") -> None:
        """End the training with this record, as if so many steps had been asked for.

        Parameters
        ----------
        why : str
            The reason, which ``history.settings["stopped_early"]`` keeps.
        """
        self.why = why


Callback = Callable[[Event], object]


class Stop(NamedTuple):
    """At which record callbacks end a training, and why: what one said, or what one raised."""

    place: int
    why: str | None = None
    error: Exception | None = None


def checked(callback: Callback | Sequence[Callback] | None) -> list[Callback]:
    """The callbacks, one, several or none."""
    listed = [] if callback is None else list(callback) if isinstance(callback, Sequence) else [callback]
    for one in listed:
        if not callable(one) or isinstance(one, type):
            raise TypeError(f"callback must be a function of an event, or several, got {one!r}")
    return listed


def tell(
    callbacks: list[Callback],
    problem: Problem,
    state: State,
    records: Synchronisations,
    places: range,
    stride: int,
) -> Stop | None:
    """Call all callbacks with every record at ``places``; where the training is to stop, if it is."""
    for place in places:
        event = Event(problem, records, state.episodes, place, place * stride)
        try:
            for callback in callbacks:
                callback(event)
        except Exception as error:
            return Stop(place, error=error)
        if event.why is not None:
            return Stop(place, event.why)
    return None
