"""The federation view: settings on controls, what training gives, and what theory says of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import panel as pn
import xarray as xr

from fedsarsa.algorithm import FedSARSA
from fedsarsa.explore import exports, measurements, page, theory_answers
from fedsarsa.explore.control_values import (
    Base,
    SettingsError,
    blamed,
    config_of,
    content_of,
    from_query,
    to_query,
)
from fedsarsa.explore.controls import ALGORITHM, FLEET, METHODS, TRAINING
from fedsarsa.explore.downloads import Downloads
from fedsarsa.explore.form import Form
from fedsarsa.explore.jobs import Latest, Progress, Stopped, in_process, reporter
from fedsarsa.explore.measurements import Trained
from fedsarsa.explore.pictures import (
    DriftPicture,
    ErrorPicture,
    FloorPicture,
    GainsPicture,
    PointsPicture,
    ReturnsPicture,
)
from fedsarsa.explore.sentence import sentences
from fedsarsa.explore.session import Session
from fedsarsa.explore.theory_answers import ByNumber, Gains, Points, Predicted, Unknown

GROUPS = {"Fleet": FLEET, "Algorithm": (METHODS, *ALGORITHM), "Training": TRAINING}
CONTROLS = tuple(control for group in GROUPS.values() for control in group)
DRAGGED_RUNS = 2  # while the hand moves


@dataclass(frozen=True, eq=False)
class Sketched:
    """A training with few runs, to draw while the hand moves."""

    trained: Trained


@dataclass(frozen=True, eq=False)
class Apart:
    """What agents learn alone, (run, agent, d), and exact returns."""

    local: xr.DataArray
    returns: xr.Dataset


class FederationView:
    """One tab: its controls, its pictures, and the two computations behind them."""

    def __init__(self, base: Base, query: str, session: Session) -> None:
        self.base, self.session = base, session
        values, self.address_errors = from_query(query, base, CONTROLS)
        self.form = Form(base, GROUPS, values, lambda moving: session.at_once(partial(self.compute, moving)))
        self.words = page.text()
        self.busy = page.Busy(self.halt)
        self.error, self.floor, self.drift = ErrorPicture(), FloorPicture(), DriftPicture()
        self.points, self.gains, self.returns = PointsPicture(), GainsPicture(), ReturnsPicture()
        self.trained: Trained | None = None
        self.apart: Apart | None = None
        self.told: dict[type, Any] = {}
        self.unknown: dict[type, str] = {}
        self.turn, self.cleared, self.moving = 0, 0, False
        self.training, self.theory = Latest(), Latest()
        session.at_end(self.training.close)
        session.at_end(self.theory.close)
        self.downloads = Downloads(
            exports.FILES, lambda: self.trained and (self.trained, self.told.get(Predicted))
        )
        pictures = (self.error, self.gains, self.floor, self.points, self.returns, self.drift)
        self.layout = pn.Column(
            session.head,
            self.words,
            self.busy.layout,
            page.sides(
                pn.Column(self.form.layout, self.downloads.layout),
                page.grid(*(one.figure for one in pictures)),
            ),
            sizing_mode="stretch_width",
        )
        session.at_first(partial(self.compute, False))

    def compute(self, moving: bool) -> None:
        """Train and predict with the values that controls have now, in the place of what is under way.

        While the hand moves, a picture that is under way comes first: there would be none otherwise.
        """
        still, self.moving = moving and self.moving, moving
        try:
            config = config_of(self.base, self.form.values)
        except SettingsError as wrong:
            self.halt()
            self._complain(wrong.errors | self.address_errors)
            return
        self.form.show_errors({})
        self.told, self.unknown, self.trained, self.apart = {}, {}, None, None
        self.turn += not still
        deliver = partial(self._deliver, self.turn)
        folder = self.base.folder
        if moving:
            self.theory.stop()
            self.training.submit(partial(_sketched, config, folder), deliver, patient=still)
            return
        self.session.address(to_query(self.form.values))
        self.downloads.refresh(content_of(self.base, self.form.values))
        self.training.submit(partial(_trained, config, folder, deliver), deliver)
        self.theory.submit(
            lambda stopped: in_process(theory_answers.answers, config, folder, stopped=stopped), deliver
        )
        if self.address_errors:
            self._complain(self.address_errors)
            self.address_errors = {}

    def halt(self) -> None:
        """Stop all computations; what is drawn stays."""
        self.turn += 1
        self.training.stop()
        self.theory.stop()
        self.busy.hide()

    def _clear(self) -> None:
        """Take away what was said of other settings, together with their curve."""
        if self.cleared != self.turn:
            self.cleared = self.turn
            self.error.predict(self.told.get(Predicted))
            self.gains.predict(self.told.get(Gains))
            self.gains.show(None, None)
            self.returns.show(None)

    def _deliver(self, turn: int, result: Any) -> None:
        """Take a result from a computation's thread to the page."""
        self.session.later(partial(self.show, result, turn))

    def show(self, result: Any, turn: int) -> None:
        """Draw what a computation found, unless another has taken its place."""
        if turn != self.turn:
            return
        match result:
            case Progress(share):
                self.busy.show(share)
                return
            case Sketched(trained):
                self._clear()
                self.error.show(trained)
                self.drift.show(trained)
                return
            case Trained():
                self.trained = result
                self._clear()
                self.error.show(result)
                self.drift.show(result)
                self.busy.hide()
            case Apart():
                self.apart = result
                self.returns.show(result.returns)
            case Predicted():
                self.told[Predicted] = result
                self.error.predict(result)
            case Gains():
                self.told[Gains] = result
                self.gains.predict(result)
            case Points() | ByNumber():
                self.told[type(result)] = result
            case Unknown(part, why):
                self.unknown[part] = why
            case Exception():
                self._complain({blamed(str(result), self.form.values): str(result)})
                return
        self._combine(type(result))

    def _combine(self, changed: type) -> None:
        """Draw what needs the answers of both computations, where both are there."""
        points = self.told.get(Points)
        if changed in (Trained, Predicted, Unknown):
            self.floor.show(self.trained, self.told.get(Predicted))
        if self.trained is None:
            return
        if changed in (Trained, Points, Unknown):
            self.points.show(points, self.trained.history.final.values)
        measured = None
        if points is not None and self.apart is not None:
            own = points.own
            measured = measurements.errors_alone(self.apart.local, own), self.trained.errors_to(own)
            self.gains.show(*measured)
        said = sentences(self.trained, self.told.get(Predicted), measured, self.told.get(ByNumber))
        notes = self.told[Predicted].warnings if Predicted in self.told else ()
        why = tuple(dict.fromkeys(f"No prediction: {reason}" for reason in self.unknown.values()))
        self.words.object = page.paragraph(said, (*notes, *why))

    def _complain(self, errors: dict[str, str]) -> None:
        """Show errors beside their controls, the others on top."""
        self.busy.hide()
        self.form.show_errors(errors)
        rest = [message for key, message in errors.items() if key not in self.form.values]
        if rest:
            self.words.object = page.paragraph("", wrong=" ".join(rest))


def _trained(config: Any, folder: Any, deliver: Any, stopped: Stopped) -> Iterator[Any]:
    """A training, then what the agents learn alone."""
    trained = measurements.train(config, folder, stopped, reporter(deliver))
    yield trained
    if not isinstance(trained.algo, FedSARSA):
        return  # other methods have no settings for agents alone
    local = measurements.train_alone(trained, stopped)
    if not stopped():
        yield Apart(local, measurements.returns(trained, local))


def _sketched(config: Any, folder: Any, stopped: Stopped) -> Iterator[Any]:
    """A training with few runs."""
    yield Sketched(measurements.train(config, folder, stopped, runs=DRAGGED_RUNS))
