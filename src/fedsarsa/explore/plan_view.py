"""The plan view: a target error in, N, K and step size out, and their training beside the prediction."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import panel as pn
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.models.annotations import Span

from fedsarsa._checks import positive
from fedsarsa.experiments.config import Config
from fedsarsa.experiments.method_sections import OURS
from fedsarsa.explore import exports, measurements, page, plans, theory_answers
from fedsarsa.explore.control_values import (
    FILE,
    Base,
    SettingsError,
    Values,
    blamed,
    config_of,
    content_of,
    foreign,
    from_query,
    whole_query,
    without,
)
from fedsarsa.explore.controls import ALGORITHM, FLEET, METHOD, METHODS, TARGET
from fedsarsa.explore.downloads import Downloads
from fedsarsa.explore.form import Form
from fedsarsa.explore.jobs import Deliver, Latest, Progress, Stopped, Work, in_process, reporter
from fedsarsa.explore.measurements import Trained
from fedsarsa.explore.pictures import ErrorPicture, blank_log, finish, limit
from fedsarsa.explore.plans import Planned
from fedsarsa.explore.results_exports import PLAN_FILES
from fedsarsa.explore.session import Session
from fedsarsa.explore.theory_answers import Predicted, Unknown

CHOSEN = ("algorithm.step_size", "algorithm.sync_every")  # by the plan
FEATURES = tuple(one for one in ALGORITHM if not one.key.startswith(CHOSEN))
AGENTS = "fleet.agents"
OWN = PLANNED, TRAINED = "planned", "trained"  # keys of the address that no configuration has
GROUPS = {"Target": (TARGET,), "Fleet": FLEET, "Algorithm": (METHODS, *FEATURES)}
CONTROLS = tuple(control for group in GROUPS.values() for control in group)


class ChoicesPicture:
    """Steps to the target by the number of agents, and the bias that no step size takes away."""

    def __init__(self) -> None:
        self.source = ColumnDataSource({"agents": [], "least_error": [], "bias": [], "steps": []})
        self.figure = blank_log("What N agents can reach", "agents N", "error")
        for name, colour, label in (
            ("least_error", page.BLUE, "least error of any step size"),
            ("bias", page.RED, "bias"),
        ):
            style = {"source": self.source, "color": colour, "legend_label": label}
            self.figure.line("agents", name, width=2, **style)
            self.figure.scatter("agents", name, size=8, **style)
        self.target = Span(location=1.0, dimension="width", line_dash=[6, 4], line_color="black")
        self.figure.add_layout(self.target)
        tips = [("N", "@agents"), ("steps to target", "@steps"), ("least error", "@least_error{0.000a}")]
        self.figure.add_tools(HoverTool(tooltips=tips))
        finish(self.figure)

    def show(self, plan: Planned) -> None:
        """Draw what a plan compared; the dashed line is its target."""
        choices = plan.choices
        steps = ["never" if np.isinf(one) else f"{one:.0f}" for one in choices["steps"].values]
        columns = {name: choices[name].values for name in ("agents", "least_error", "bias")}
        self.source.data = columns | {"steps": steps}
        self.target.location = plan.target
        limit(self.figure, np.concatenate([columns["least_error"], columns["bias"], [plan.target]]))


class PlanView:
    """One tab: a target, the plan for it, and its training."""

    def __init__(self, base: Base, query: str, session: Session) -> None:
        self.base, self.session = base, session
        own, query = without(query, OWN)
        self.wanted = {key for key, text in own.items() if text == "1"}  # by a link, still to be done
        values, self.address_errors = from_query(query, base, CONTROLS)
        self.others = foreign(query, CONTROLS)
        self.form = Form(base, GROUPS, values, self.changed)
        self.words = page.text()
        self.go = pn.widgets.Button(name="Plan", button_type="primary", width=100)
        self.train = pn.widgets.Button(name="Train this", width=100, disabled=True)
        self.busy = page.Busy(self.stop, lambda: self.again())
        self.again = self.plan  # what was begun last
        self.go.on_click(lambda _: self.plan())
        self.train.on_click(lambda _: self.run())
        self.choices, self.error = ChoicesPicture(), ErrorPicture()
        self.downloads = Downloads("plan", exports.FILES | PLAN_FILES)
        self.found: Planned | None = None
        self.content: dict[str, Any] = {}  # what is trained
        self.predicted: Predicted | None = None
        self.turn = 0
        self.work = Latest()
        session.at_end(self.work.close)
        session.at_first(self.begin)
        session.at_first(self.form.name_handles)
        self.answers = page.pinned(
            pn.Column(pn.Row(self.go, self.train), self.form.layout, self.downloads.layout),
            (self.choices.figure, self.error.figure),
        )
        self.layout = page.whole(session.head, self.words, self.busy.layout, self.answers)

    def begin(self) -> None:
        """Show what an address says, with its plan."""
        wanted = set(self.wanted)
        self.changed()
        self.wanted = wanted
        if PLANNED in wanted:
            self.plan()

    def changed(self, moving: bool = False) -> None:
        """Check the values, and put them into the address."""
        if moving:
            return
        self.halt()
        self.found, self.train.disabled, self.wanted = None, True, set()
        self.downloads.forget()
        page.stale(self.answers, bool(len(self.choices.source.data["agents"])))
        config = self.config()
        if config is not None or self.form.values.get(METHOD, OURS) != OURS:  # other views train all methods
            self._address()

    def _address(self, *own: str) -> None:
        """Put the values into the address, and what was asked for with them."""
        query = whole_query(self.base, self.form.values, CONTROLS, self.others)
        self.session.address(query, "".join(f"&{key}=1" for key in own))

    def config(self) -> Config | None:
        """The configuration of the controls; None where a value is wrong, which is shown beside it."""
        errors = dict(self.address_errors)
        self.address_errors = {key: said for key, said in errors.items() if key == FILE}
        values = dict(self.form.values)
        try:
            if values.get(METHOD, OURS) != OURS:
                said = f"{METHOD}: expected {OURS} for a plan, got {values[METHOD]!r}"
                raise SettingsError({METHOD: said})
            positive("target", values.pop(TARGET.key))
            config = config_of(self.base, values)
        except SettingsError as wrong:
            errors |= wrong.errors
        except (TypeError, ValueError) as wrong:
            errors[TARGET.key] = str(wrong)
        self.form.show_errors(errors)
        rest = [message for key, message in errors.items() if key not in self.form.values]
        self.words.object = page.paragraph("" if errors else "Press Plan.", wrong=" ".join(rest))
        return None if errors else config

    def plan(self) -> None:
        """Look for the plan, in the place of what is under way."""
        config = self.config()
        if config is None:
            return
        target, folder = float(self.form.values[TARGET.key]), self.base.folder
        self.again = self.plan
        self._address(PLANNED)
        self._begin("Planning: settings are compared to first order, then predicted in full.")
        self._submit(lambda stopped: in_process(plans.plan, config, folder, target, stopped=stopped))

    def run(self) -> None:
        """Train the plan that was found, beside its prediction."""
        if self.found is None:
            return
        self.predicted = None
        values = self.planned(self.found)
        try:
            config = config_of(self.base, values)
        except SettingsError as wrong:
            self.words.object = page.paragraph(self.found.sentence(), wrong=str(wrong))
            return
        self.again = self.run
        self._address(PLANNED, TRAINED)
        self.words.object = page.paragraph(self.found.sentence())
        self._begin("Training the plan.")
        self._submit(partial(_beside, config, self.base.folder, self._deliver(self.turn + 1)))

    def planned(self, found: Planned) -> Values:
        """The values of controls that train a plan."""
        values = {key: value for key, value in self.form.values.items() if key != TARGET.key}
        values = {key: value for key, value in values.items() if not key.startswith(CHOSEN)}
        chosen = found.values()
        if found.agents == found.fleet:  # also worlds of a file, which are as many as they are
            chosen = {key: value for key, value in chosen.items() if key != AGENTS or key in values}
        return values | chosen

    def _submit(self, work: Work) -> None:
        """Do work in the place of what is under way; what that still finds is not shown."""
        self.turn += 1
        self.work.submit(work, self._deliver(self.turn))

    def _deliver(self, turn: int) -> Deliver:
        """What takes results from a computation's thread to the page."""
        return lambda result: self.session.later(partial(self.show, result, turn))

    def halt(self) -> None:
        """Stop what is under way."""
        self.turn += 1
        self.work.stop()
        self._done()

    def stop(self) -> None:
        """Stop what is under way, and say so."""
        self.halt()
        self.words.object = page.paragraph("" if self.found is None else self.found.sentence())
        self.busy.stopped()

    def show(self, result: Any, turn: int) -> None:
        """Draw what a computation found, unless another has taken its place."""
        if turn != self.turn:
            return
        match result:
            case Progress(share):
                self.busy.show("Training the plan.", share)
            case Planned():
                self.found = result
                page.stale(self.answers, False)
                self.choices.show(result)
                self.error.clear()
                self.content = content_of(self.base, self.planned(result))
                self.downloads.refresh(self.content)
                self.downloads.offer(result, self.content, PLAN_FILES)
                self.words.object = page.paragraph(result.sentence(), result.warnings)
                self._done()
                if TRAINED in self.wanted:
                    self.wanted = set()
                    self.run()
            case Predicted():
                self.predicted = result
                self.error.predict(result)
            case Trained():
                self.error.show(result)
                self.downloads.offer((result, self.predicted), self.content, exports.FILES)
                last = result.curves.isel(t=-1)
                assert self.found is not None
                numbers = (float(last[name]) for name in ("error", "low", "high"))
                said = f"{self.found.sentence()} {self.found.verdict(*numbers)}"
                self.words.object = page.paragraph(said, self.found.warnings)
                self._done()
            case Exception():
                key = blamed(str(result), self.form.values)
                self.form.show_errors({key: str(result)})
                self.words.object = page.paragraph("", wrong="" if key else str(result))
                self._done()

    def _begin(self, words: str) -> None:
        self.busy.show(words)
        self.train.disabled = True

    def _done(self) -> None:
        self.busy.hide()
        self.train.disabled = self.found is None


def _beside(config: Config, folder: Path, deliver: Deliver, stopped: Stopped) -> Iterator[Any]:
    """The prediction of a plan, then its training."""
    for answer in in_process(theory_answers.answers, config, folder, stopped=stopped):
        if isinstance(answer, Predicted | Unknown):
            yield answer
            break
    yield measurements.train(config, folder, stopped, reporter(deliver))
