"""The federation view: settings on controls, what training gives, and what theory says of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import panel as pn
import xarray as xr

from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.config import Config
from fedsarsa.explore import exports, measurements, page, theory_answers
from fedsarsa.explore.control_values import Base, blamed
from fedsarsa.explore.controls import ALGORITHM, FLEET, METHODS, TRAINING, main_first
from fedsarsa.explore.downloads import Downloads
from fedsarsa.explore.jobs import Deliver, Latest, Progress, Stopped, StoppedError, in_process, reporter
from fedsarsa.explore.measurements import Trained
from fedsarsa.explore.pictures import (
    NO_FIXED_POINTS,
    NOT_COMPARED,
    DriftPicture,
    ErrorPicture,
    FloorPicture,
    GainsPicture,
    PointsPicture,
    ReturnsPicture,
    explain,
)
from fedsarsa.explore.sentence import sentences
from fedsarsa.explore.session import Session
from fedsarsa.explore.theory_answers import ByNumber, Gains, Points, Predicted, Unknown
from fedsarsa.explore.training_view import TRAINING_WORDS, TrainingView

GROUPS = main_first({"Fleet": FLEET, "Algorithm": (METHODS, *ALGORITHM), "Training": TRAINING})
CONTROLS = tuple(control for group in GROUPS.values() for control in group)
ALONE_WORDS = "Training agents alone, to compare. Exact returns follow."
THEORY_WORDS = "Theory is being asked about these settings."
DRAGGED_RUNS = 2  # while the hand moves


@dataclass(frozen=True, eq=False)
class Sketched:
    """A training with few runs, to draw while the hand moves."""

    trained: Trained


@dataclass(frozen=True)
class Answered:
    """Theory has said all that it can."""


@dataclass(frozen=True, eq=False)
class Apart:
    """What agents learn alone, (run, agent, d), and exact returns."""

    local: xr.DataArray
    returns: xr.Dataset


class FederationView(TrainingView):
    """One tab: its controls, its pictures, and the two computations behind them."""

    def __init__(self, base: Base, query: str, session: Session) -> None:
        super().__init__(base, query, session, GROUPS)
        self.error, self.floor, self.drift = ErrorPicture(), FloorPicture(), DriftPicture()
        self.points, self.gains, self.returns = PointsPicture(), GainsPicture(), ReturnsPicture()
        self.trained: Trained | None = None
        self.apart: Apart | None = None
        self.told: dict[type, Any] = {}
        self.unknown: dict[type, str] = {}
        self.cleared = 0
        self.theory = Latest()
        session.at_end(self.theory.close)
        self.downloads = Downloads("federation", exports.FILES)
        rest = (self.floor, self.points, self.returns, self.drift)
        self.answers = page.pinned(
            pn.Column(self.form.layout, self.downloads.layout),
            (self.error.figure, self.gains.figure),
            page.grid(*(one.figure for one in rest)),
        )
        self.layout = page.whole(
            session.head,
            self.words,
            self.busy.layout,
            self.answers,
        )

    def forget(self) -> None:
        """Forget what was found with other values."""
        self.told, self.unknown, self.trained, self.apart = {}, {}, None, None

    def sketch(self, config: Config, deliver: Deliver, patient: bool) -> None:
        """Train a few runs, and predict nothing."""
        self.theory.stop()
        self.training.submit(partial(_sketched, config, self.base.folder), deliver, patient)

    def train(self, config: Config, deliver: Deliver) -> None:
        """Train and predict."""
        folder = self.base.folder
        self.begin(THEORY_WORDS)
        self.begin(TRAINING_WORDS)
        self.training.submit(partial(_trained, config, folder, deliver), deliver)
        self.theory.submit(partial(_answers, config, folder), deliver)

    def halt(self) -> None:
        """Stop all computations; what is drawn stays."""
        super().halt()
        self.theory.stop()

    def _clear(self) -> None:
        """Take away what was said of other settings, together with their curve."""
        if self.cleared != self.turn:
            self.cleared = self.turn
            self.error.predict(self.told.get(Predicted))
            self.gains.predict(self.told.get(Gains))
            self.gains.show(None, None)
            self.returns.show(None)

    def show(self, result: Any, turn: int) -> None:
        """Draw what a computation found, unless another has taken its place."""
        if turn != self.turn:
            return
        match result:
            case Progress(share):
                self.progress(share)
                return
            case Answered():
                self.done(THEORY_WORDS)
            case Sketched(trained):
                self.fresh()
                self._clear()
                self.error.show(trained)
                self.drift.show(trained)
                return
            case Trained():
                self.trained = result
                self.fresh()
                self._clear()
                self.error.show(result)
                self.downloads.offer((result, self.told.get(Predicted)), self.content())
                self.done(TRAINING_WORDS)
                self.session.later(partial(self._show_rest, result, turn))
                return
            case Apart():
                self.apart = result
                self.done(ALONE_WORDS)
                self.returns.show(result.returns)
            case Predicted():
                self.told[Predicted] = result
                self.error.predict(result)
                if self.trained is not None:
                    self.downloads.offer((self.trained, result), self.content())
            case Gains():
                self.told[Gains] = result
                self.gains.predict(result)
            case Points() | ByNumber():
                self.told[type(result)] = result
            case Unknown(part, why):
                self.unknown[part] = why
                self.gains.predict(self.told.get(Gains), silent=part in (Gains, Predicted))
            case Exception() if self.trained is not None:  # what came after the training failed
                self.unknown[Exception] = str(result)
                self.done(ALONE_WORDS)
            case Exception():
                self.complain({blamed(str(result), self.form.values): str(result)})
                return
        self._combine(type(result))

    def _show_rest(self, trained: Trained, turn: int) -> None:
        """Draw what else a training says when its curve is on the way to the browser, and continue."""
        if turn != self.turn:
            return
        self.drift.show(trained)
        self._combine(Trained)
        if isinstance(trained.algo, FedSARSA):  # other methods have no settings for agents alone
            self.begin(ALONE_WORDS)
            deliver = partial(self.deliver, turn)
            self.training.submit(partial(_apart, trained, deliver), deliver)

    def _combine(self, changed: type) -> None:
        """Draw what needs the answers of both computations, where both are there."""
        points = self.told.get(Points)
        if changed in (Trained, Predicted, Unknown):
            self.floor.show(self.trained, self.told.get(Predicted))
        if self.trained is None:
            return
        if changed in (Trained, Points, Unknown):
            self.points.show(points, self.trained.history.final.values)
        ours = isinstance(self.trained.algo, FedSARSA)
        missing = NO_FIXED_POINTS if points is None and THEORY_WORDS not in self.pending else ""
        explain(self.points.note, missing)
        explain(self.gains.note, missing if ours else NOT_COMPARED)
        explain(self.returns.note, "" if ours else NOT_COMPARED)
        measured = None
        if points is not None and self.apart is not None:
            own = points.own
            measured = measurements.errors_alone(self.apart.local, own), self.trained.errors_to(own)
            self.gains.show(*measured)
        said = sentences(self.trained, self.told.get(Predicted), measured, self.told.get(ByNumber))
        notes = self.trained.remarks + (self.told[Predicted].warnings if Predicted in self.told else ())
        after = [reason for part, reason in self.unknown.items() if part is Exception]
        # Where theory is silent about one part, it is about the next ones, in similar words.
        why = [f"No prediction: {reason}" for part, reason in self.unknown.items() if part is not Exception]
        self.say(said, (*notes, *why[:1], *after))


def _trained(config: Any, folder: Any, deliver: Any, stopped: Stopped) -> Iterator[Any]:
    """A training."""
    yield measurements.train(config, folder, stopped, reporter(deliver))


def _answers(config: Any, folder: Any, stopped: Stopped) -> Iterator[Any]:
    """What theory says, from a process of its own."""
    try:
        yield from in_process(theory_answers.answers, config, folder, stopped=stopped)
    except StoppedError:
        raise
    except Exception as error:  # whatever it is, the training is worth seeing without it
        yield Unknown(Predicted, str(error))
    yield Answered()


def _apart(trained: Trained, deliver: Deliver, stopped: Stopped) -> Iterator[Any]:
    """What the agents of a training learn alone."""
    local = measurements.train_alone(trained, stopped, reporter(deliver))
    if not stopped():
        yield Apart(local, measurements.returns(trained, local))


def _sketched(config: Any, folder: Any, stopped: Stopped) -> Iterator[Any]:
    """A training with few runs."""
    yield Sketched(measurements.train(config, folder, stopped, runs=DRAGGED_RUNS))
