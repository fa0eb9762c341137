"""What views share in which controls start a training: errors beside controls, the newest result alone."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any

from fedsarsa.experiments.config import Config
from fedsarsa.explore import page
from fedsarsa.explore.control_values import (
    FILE,
    Base,
    SettingsError,
    config_of,
    content_of,
    foreign,
    from_query,
    whole_query,
)
from fedsarsa.explore.controls import Control
from fedsarsa.explore.downloads import Downloads
from fedsarsa.explore.form import Form
from fedsarsa.explore.jobs import Deliver, Latest
from fedsarsa.explore.session import Session

PATIENCE = 1.5  # seconds that a computation may take before the page says what is under way
TRAINING_WORDS = "Training. Kernels that are new to this machine are compiled first, in up to a minute."


class TrainingView(ABC):
    """Controls, and a training with their values that the next change replaces.

    A subclass has ``downloads``, ``answers`` (of `page.pinned`) and a layout, and draws what `train` and
    `sketch` deliver in `show`.
    """

    downloads: Downloads
    answers: Any

    def __init__(
        self, base: Base, query: str, session: Session, groups: Mapping[str, tuple[Control, ...]]
    ) -> None:
        self.base, self.session = base, session
        controls = tuple(control for group in groups.values() for control in group)
        self.controls, self.others = controls, foreign(query, controls)
        values, self.address_errors = from_query(query, base, controls)
        self.form = Form(base, groups, values, lambda moving: session.at_once(partial(self.changed, moving)))
        self.words = page.text()
        self.busy = page.Busy(self.stop, lambda: session.at_once(partial(self.compute, False)))
        self.pending: list[str] = []  # what is under way, in words
        self.turn, self.moving = 0, False
        self.drawn = True  # whether pictures are of the values that controls have now
        self.training = Latest()
        session.at_end(self.training.close)
        session.at_first(partial(self.compute, False))
        session.at_first(self.form.name_handles)

    @abstractmethod
    def forget(self) -> None:
        """Forget what was found with other values."""

    @abstractmethod
    def sketch(self, config: Config, deliver: Deliver, patient: bool) -> None:
        """Train a little, while the hand moves; ``patient``: after the sketch that is under way."""

    @abstractmethod
    def train(self, config: Config, deliver: Deliver) -> None:
        """Train in the place of what is under way."""

    @abstractmethod
    def show(self, result: Any, turn: int) -> None:
        """Draw what was found, unless another training has taken its place."""

    def changed(self, moving: bool) -> None:
        """Take what controls say; what was wrong with the address is past."""
        self.address_errors = {key: said for key, said in self.address_errors.items() if key == FILE}
        self.compute(moving)

    def compute(self, moving: bool) -> None:
        """Train with the values that controls have now, in the place of what is under way.

        While the hand moves, a picture that is under way comes first: there would be none otherwise.
        """
        still, self.moving = moving and self.moving, moving
        try:
            if FILE in self.address_errors:
                raise SettingsError({FILE: self.address_errors[FILE]})
            config = config_of(self.base, self.form.values)
        except SettingsError as wrong:
            self.complain(wrong.errors)
            return
        self.form.show_errors(self.address_errors)
        self.forget()
        self.drawn = False
        self.turn += not still
        deliver = partial(self.deliver, self.turn)
        self.pending = []
        self.busy.hide()
        if moving:
            self.sketch(config, deliver, still)
            return
        self.session.address(self.query())
        self.downloads.refresh(self.content())
        self.train(config, deliver)

    def begin(self, what: str) -> None:
        """Note that something is under way, which is said if it takes its time."""
        if what not in self.pending:
            self.pending.insert(0, what)
        self.session.after(PATIENCE, partial(self.tell, self.turn, what))

    def tell(self, turn: int, what: str) -> None:
        """Say what is under way, if it still is; until something is drawn, pictures are of other settings."""
        if turn == self.turn and what in self.pending:
            self.busy.show(self.pending[0])
            self.outdate("These settings are being trained.")

    def progress(self, share: float) -> None:
        """Say how far the training is, where it takes its time; kernels are compiled by then."""
        if self.busy.layout.visible and self.pending:
            self.busy.show(self.pending[0].partition(". ")[0], share)

    def fresh(self) -> None:
        """Something was drawn of the values that controls have now."""
        self.drawn = True
        page.stale(self.answers, False)

    def outdate(self, words: str) -> None:
        """Show pictures in grey, and say so on top, where nothing was drawn of the values of controls."""
        if not self.drawn:
            page.stale(self.answers, True)
            self.say(words)

    def done(self, what: str) -> None:
        """Say that something is no longer under way, and what still is."""
        if what in self.pending:
            self.pending.remove(what)
        if not self.pending:
            self.busy.hide()
        elif self.busy.layout.visible:
            self.busy.show(self.pending[0])

    def content(self) -> dict[str, Any]:
        """The configuration of the values that controls have now."""
        return content_of(self.base, self.form.values)

    def query(self) -> str:
        """The query of an address that restores the view."""
        return whole_query(self.base, self.form.values, self.controls, self.others)

    def halt(self) -> None:
        """Stop what is computed; what is drawn stays."""
        self.turn += 1
        self.training.stop()
        self.pending = []
        self.busy.hide()

    def stop(self) -> None:
        """Stop what is computed, and say so."""
        self.halt()
        self.outdate("These settings were not trained.")
        self.busy.stopped()

    def deliver(self, turn: int, result: Any) -> None:
        """Take a result from a computation's thread to the page."""
        self.session.later(partial(self.show, result, turn))

    def say(self, words: str, notes: tuple[str, ...] = (), wrong: str = "") -> None:
        """Say something on top, and what is wrong with the address as long as that is what is shown."""
        told = {FILE, *self.form.values}
        rest = [message for key, message in self.address_errors.items() if key not in told]
        self.words.object = page.paragraph(words, notes, "; ".join(filter(None, [wrong, *rest])))

    def complain(self, errors: dict[str, str]) -> None:
        """Show errors beside their controls and on top; pictures, which are of other settings, in grey."""
        self.halt()
        self.forget()
        self.downloads.forget()
        self.form.show_errors(self.address_errors | errors)
        page.stale(self.answers, True)
        self.say("", wrong=f"These settings cannot be trained: {'; '.join(errors.values())}")
