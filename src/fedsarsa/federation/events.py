"""What callbacks are told while a training runs: an event for every record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import Episodes, State, Synchronisations


@dataclass(eq=False)
class Event:
    """A record of a training, for a callback.

    Attributes
    ----------
    t : int
        Steps per agent so far: 0 at first.
    steps : int
        Steps per agent that were asked for.
    central : (runs, d)
        Central parameters at t; of failed runs NaN. Not to be written to.
    drift : (runs,)
        Client drift before this synchronisation, NaN at t = 0.
    why : str or None
        Why the training is to stop, once ``stop`` was called.
    """

    t: int
    steps: int
    central: Floats
    drift: Floats
    why: str | None = None
    bins: int = field(default=0, repr=False)
    episodes: Episodes | None = field(default=None, repr=False)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Numbers by name, over runs and agents; a callback may add its own for those that come after it.

        ``norm``, the mean norm of the central parameters; ``drift``; and in worlds with episodes ``return``
        and ``length``, means over the episodes of the last stretch of time, a 200th of the training, in which
        some have ended.
        """
        numbers: dict[str, Any] = {"norm": float(np.linalg.norm(self.central, axis=1).mean())}
        if self.t:
            numbers["drift"] = float(self.drift.mean())
        if self.episodes is None or not self.bins:
            return numbers
        over = self.t * self.bins // self.steps  # stretches that are over at t
        counts = self.episodes.episodes[:, :, :over].sum(axis=(0, 1))
        if counts.any():
            last = int(np.flatnonzero(counts)[-1])
            for name, sums in (("return", self.episodes.returns), ("length", self.episodes.lengths)):
                numbers[name] = float(sums[:, :, last].sum() / counts[last])
        return numbers

    def stop(self, why: str = "a callback stopped it") -> None:
        """End the training with this record, as if so many steps had been asked for."""
        self.why = why


Callback = Callable[[Event], object]


def checked(callback: Callback | Sequence[Callback] | None) -> list[Callback]:
    """The callbacks, one, several or none."""
    listed = [] if callback is None else list(callback) if isinstance(callback, Sequence) else [callback]
    for one in listed:
        if not callable(one) or isinstance(one, type):
            raise TypeError(f"callback must be a function of an event, or several, got {one!r}")
    return listed


def tell(
    callbacks: list[Callback], problem: Problem, state: State, records: Synchronisations, place: int, t: int
) -> str | None:
    """Call all callbacks with the record at ``place``; why the training is to stop, if it is."""
    own = None if problem.finite else state.episodes
    event = Event(
        t, problem.steps, records.central[:, place], records.drift[:, place], None, problem.bins, own
    )
    for callback in callbacks:
        callback(event)
    return event.why
