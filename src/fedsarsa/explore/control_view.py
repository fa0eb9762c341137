"""The control view: carts, cars and acrobots that learn together, and what they have learned, at play."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import panel as pn
import xarray as xr

from fedsarsa.experiments.config import Config
from fedsarsa.experiments.statistics import mean_and_margin
from fedsarsa.explore import control_measurements, exports, measurements, page
from fedsarsa.explore.control_measurements import LEAST, Episode, Learned
from fedsarsa.explore.control_pictures import LatePicture, LearningPicture, ValuePicture, WorldPicture
from fedsarsa.explore.control_values import Base, blamed, whole_query, without
from fedsarsa.explore.controls import (
    CONTROL_ALGORITHM,
    CONTROL_FLEET,
    TRAINING,
    WORLD,
    main_first,
    settings_of,
)
from fedsarsa.explore.downloads import Downloads
from fedsarsa.explore.drawn_worlds import look_of
from fedsarsa.explore.jobs import Deliver, Progress, Stopped, reporter
from fedsarsa.explore.session import Session
from fedsarsa.explore.training_view import TRAINING_WORDS, TrainingView

GROUPS = main_first({"Fleet": CONTROL_FLEET, "Algorithm": CONTROL_ALGORITHM, "Training": TRAINING})
CONTROLS = tuple(control for group in GROUPS.values() for control in group)
SEATS = 4  # worlds that are seen side by side
PICTURES = 250  # of a film at most
INTERVAL = 40  # milliseconds between two of them
PLAY_WORDS = "Playing what was learned."
OWN = ("watch", "plane")  # keys of the address that no configuration has


@dataclass(frozen=True)
class Wanted:
    """Whose episodes to watch, and over which two numbers of an observation to see values; None: as usual."""

    agents: tuple[int, ...] | None = None
    plane: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False)
class Sketched:
    """A training with one run, to draw while the hand moves."""

    learned: Learned


@dataclass(frozen=True, eq=False)
class Played:
    """Episodes of the learned policy, and its values over two numbers of the observation."""

    plane: tuple[int, int]
    episodes: list[Episode]
    values: xr.DataArray


class ControlView(TrainingView):
    """One tab: its controls, its pictures, and the training behind them."""

    def __init__(self, base: Base, query: str, session: Session) -> None:
        own, rest = without(query, OWN)
        self.wanted = _wanted(own)
        super().__init__(base, rest, session, GROUPS)
        self.world = self.form.values.get(WORLD)
        self.curve, self.late, self.value = LearningPicture(), LatePicture(), ValuePicture()
        self.player = pn.widgets.Player(
            name="Play the greedy policy of the first run",
            start=0,
            end=1,
            interval=INTERVAL,
            loop_policy="once",
            show_loop_controls=False,
            width=280,
        )
        self.seats = [WorldPicture(self.player) for _ in range(SEATS)]
        self.watch = pn.widgets.MultiChoice(name="agents to watch", max_items=SEATS, width=280)
        self.across = pn.widgets.Select(name="values along", width=135)
        self.up = pn.widgets.Select(name="and along", width=135)
        for widget in (self.watch, self.across, self.up):
            widget.param.watch(lambda _: session.at_once(self.choose), "value")
        self.learned: Learned | None = None
        self.choosing, self.plane = False, (0, 1)
        self.downloads = Downloads("control", exports.CONTROL_FILES)
        choices = pn.Card(
            pn.FlexBox(self.watch, pn.Row(self.across, self.up), self.player),
            title="What to see",
            sizing_mode="stretch_width",
            css_classes=["group"],
            margin=(8, 0),
        )
        self.answers = page.pinned(
            pn.Column(self.form.layout, self.downloads.layout),
            (self.curve.figure, self.late.figure),
            pn.Column(
                choices,
                page.grid(self.value.figure, *(one.figure for one in self.seats)),
                stylesheets=[page.DARK],
                sizing_mode="stretch_width",
            ),
        )
        self.layout = page.whole(
            session.head,
            self.words,
            self.busy.layout,
            self.answers,
        )

    def changed(self, moving: bool) -> None:
        """Take what controls say; another world begins with physics and settings of its own."""
        world = self.form.values.get(WORLD)
        if world != self.world:
            assert world is not None  # a world that was chosen
            self.world, self.wanted = world, Wanted()
            self.form.set(settings_of(world))
        else:
            self.compute(moving)

    def forget(self) -> None:
        """Forget what was learned with other values."""
        self.learned = None

    def sketch(self, config: Config, deliver: Deliver, patient: bool) -> None:
        """Train one run."""
        self.training.submit(partial(_sketched, config, self.base.folder), deliver, patient)

    def train(self, config: Config, deliver: Deliver) -> None:
        """Train, then play."""
        self.begin(TRAINING_WORDS)
        self.training.submit(partial(_learned, config, self.base.folder, self.wanted, deliver), deliver)

    def choose(self) -> None:
        """Play and map what was chosen to be seen, with what was learned already."""
        if self.choosing or self.learned is None:
            return
        names = self.across.options
        plane = names.index(self.across.value), names.index(self.up.value)
        if plane[0] == plane[1]:  # the one that was not changed takes the other's place
            plane = (self.plane[1], plane[1]) if plane[0] == self.plane[0] else (plane[0], self.plane[0])
        self.wanted = Wanted(tuple(self.watch.value), plane)
        self.session.address(self.query())
        self.begin(PLAY_WORDS)
        self.training.submit(partial(_played, self.learned, self.wanted), partial(self.deliver, self.turn))

    def show(self, result: Any, turn: int) -> None:
        """Draw what was found, unless another training has taken its place."""
        if turn != self.turn:
            return
        match result:
            case Progress(share):
                self.progress(share)
            case Sketched(learned):
                self.fresh()
                self.curve.show(learned)
                self.late.show(learned)
            case Learned():
                self.learned = result
                self.fresh()
                self.curve.show(result)
                self.late.show(result)
                self.say(sentence(result), measurements.remarks(result.fleet, result.algo, result.history))
                self.downloads.offer(result, self.content())
                self.begin(PLAY_WORDS)
                self.done(TRAINING_WORDS)
            case Played():
                self._show_played(result)
                self.done(PLAY_WORDS)
            case Exception() if self.learned is not None:  # what came after the training failed
                self.done(PLAY_WORDS)
                self.say(sentence(self.learned), wrong=str(result))
            case Exception():
                self.complain({blamed(str(result), self.form.values): str(result)})

    def _show_played(self, played: Played) -> None:
        assert self.learned is not None  # it came before
        names = look_of(self.learned.fleet.world).dimensions(self.learned.fleet[0])
        across, up = (names[place] for place in played.plane)
        self.plane = played.plane
        watched = [one.agent for one in played.episodes]
        self.choosing = True
        self.watch.param.update(options=list(range(len(self.learned.fleet))), value=watched)
        self.across.param.update(options=list(names), value=across)
        self.up.param.update(options=list(names), value=up)
        self.choosing = False
        whose = f" of agent {(watched or [0])[0]}" if self.learned.apart else ""
        self.value.show(played.values, across, up, whose)
        longest = max((len(one.states) for one in played.episodes), default=1)
        stride = math.ceil(longest / PICTURES)
        for place, seat in enumerate(self.seats):
            seat.show(played.episodes[place] if place < len(played.episodes) else None, stride)
        self.player.param.update(value=0, end=max(1, math.ceil(longest / stride)), direction=1)

    def query(self) -> str:
        """The query of an address that restores the settings and what is seen."""
        own = zip(OWN, (self.wanted.agents, self.wanted.plane), strict=True)
        seen = {key: "|".join(map(str, numbers)) for key, numbers in own if numbers is not None}
        return whole_query(self.base, self.form.values, self.controls, self.others | seen)


def sentence(learned: Learned) -> str:
    """What was learned, in words."""
    steps = f"{learned.history.settings['steps']:,}".replace(",", " ")
    failed = int((learned.history.failed_at >= 0).sum())
    if failed:
        runs = len(learned.history.failed_at)
        return f"In {failed} of {runs} runs parameters stopped being finite: try a smaller step size."
    kind = "a return of" if learned.curves.attrs["of"] == "return" else "a reward per step of"
    late = learned.history.late_return().mean("agent")
    mean, margin = (float(part) for part in mean_and_margin(late))
    known = int(late.notnull().sum()) >= LEAST
    band = f" (95%: {mean - margin:.4g} to {mean + margin:.4g})" if known else ""
    who = "one agent" if len(learned.fleet) == 1 else f"{len(learned.fleet)} agents"
    said = f"After {steps} steps each, {who} have {kind} {mean:.4g} on the mean{band}."
    each = learned.late["mean"].values
    if len(each) > 1 and np.isfinite(each).all():
        best, worst = int(np.argmax(each)), int(np.argmin(each))
        serves = "Policies of their own serve" if learned.apart else "One policy serves"
        differ = learned.late["low"].values[best] > learned.late["high"].values[worst]
        said += (
            f" {serves} agent {best} best, with {each[best]:.4g}, "
            f"and agent {worst} worst, with {each[worst]:.4g}."
            if differ and known
            else f" {serves} all agents alike, as far as the runs tell."
        )
    return said


def _wanted(given: dict[str, str]) -> Wanted:
    """What an address wants to be seen; what is not a number counts for nothing."""
    numbers = {key: [int(one) for one in text.split("|") if one.isdecimal()] for key, text in given.items()}
    plane = numbers.get("plane", [])
    return Wanted(
        tuple(numbers["watch"][:SEATS]) if "watch" in numbers else None,
        (plane[0], plane[1]) if len(plane) == 2 else None,
    )


def _learned(
    config: Config, folder: Any, wanted: Wanted, deliver: Deliver, stopped: Stopped
) -> Iterator[Any]:
    """A training, then what is seen of it."""
    learned = control_measurements.train(config, folder, stopped, reporter(deliver))
    yield learned
    if not stopped():
        yield from _played(learned, wanted, stopped)


def _sketched(config: Config, folder: Any, stopped: Stopped) -> Iterator[Any]:
    """A training with one run."""
    yield Sketched(control_measurements.train(config, folder, stopped, runs=1))


def _played(learned: Learned, wanted: Wanted, stopped: Stopped) -> Iterator[Played]:
    """Episodes and values as wanted; as is usual where that is not said, or not there."""
    fleet, look = learned.fleet, look_of(learned.fleet.world)
    last = len(look.dimensions(fleet[0])) - 1
    known = wanted.plane is not None and max(wanted.plane) <= last
    plane = wanted.plane if wanted.plane is not None and known else (look.plane[0], min(look.plane[1], last))
    agents = range(min(3, len(fleet))) if wanted.agents is None else wanted.agents
    seen = [agent for agent in agents if agent < len(fleet)]
    episodes = []
    for agent in seen:
        if stopped():
            return
        episodes.append(control_measurements.play(learned, agent))
    yield Played(plane, episodes, control_measurements.value_map(learned, *plane, agent=(seen or [0])[0]))
