"""The controls of the page: one for a key of the configuration, under the key's own name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from fedsarsa.experiments.algorithm_sections import FEATURES, POLICIES, SERVERS, STEP_SIZES
from fedsarsa.experiments.fleet_sections import OF_PAPERS, GymTablesSection, PaperFleet
from fedsarsa.experiments.method_sections import OURS, SECTIONS
from fedsarsa.experiments.section import DerivedSection
from fedsarsa.federation.servers.consensus import GRAPHS
from fedsarsa.federation.servers.personal import ACTS
from fedsarsa.learning.features import FINITE
from fedsarsa.learning.targets import TARGETS, TRACES
from fedsarsa.methods.q_avg import FORMS
from fedsarsa.worlds.control.registry import WORLDS

METHOD, WORLD, FLEET_KIND = "algorithm.method", "fleet.world", "fleet.kind"
MAIN = (  # how keys begin whose controls come first
    FLEET_KIND,
    WORLD,
    "fleet.agents",
    "fleet.eps_",
    "fleet.spread",
    "algorithm.sync_every",
    "algorithm.step_size",
    "training.runs",
    "training.steps",
)
PERIODS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


Place = tuple[str, tuple[str, str] | None]


@dataclass(frozen=True)
class Control:
    """A control: its key, its label, and what it offers.

    Attributes
    ----------
    options : tuple
        Values to choose from; a slider over numbers, a list of words otherwise.
    range : (start, end, step) or None
        Of a slider over evenly spaced numbers.
    default : any
        Its value when it appears, as a policy's number does when that policy is chosen.
    needs : (key, value) or None
        The control is there while another key has this value.

    With neither options nor range it is a field for any value that TOML can write; an empty one leaves the
    key out.
    """

    key: str
    label: str
    options: tuple[Any, ...] = ()
    range: tuple[float, float, float] | None = None
    default: Any = ""
    needs: tuple[str, str] | None = None

    @property
    def chooses_kind(self) -> bool:
        """Whether other controls come and go with its value."""
        return self.key.endswith(".kind") or self.key in (METHOD, WORLD)

    @property
    def has_words(self) -> bool:
        """Whether it is a list of words."""
        return bool(self.options) and all(isinstance(one, str) for one in self.options)

    @property
    def place(self) -> Place:
        """Where it stands: kinds may have keys of one name, each with numbers of its own."""
        return self.key, self.needs


def _series(first: int, last: int) -> tuple[float, ...]:
    """1, 2, 5 times powers of ten from 10**first, up to 10**last."""
    numbers = [float(f"{digit}e{power}") for power in range(first, last) for digit in (1, 2, 5)]
    return (*numbers, float(f"1e{last}"))


def _whole(first: int, last: int) -> tuple[int, ...]:
    """The same as whole numbers."""
    return tuple(int(number) for number in _series(first, last))


COUNTS = (2, 5, 10, 20, 50, 100, 200)
TOY_TEXT = ("FrozenLake-v1", "CliffWalking-v1", "Taxi-v3")
# How keys look that their types say too little of: label, options, range, default.
LOOKS: dict[str, dict[str, Any]] = {
    "fleet.agents": {"label": "agents N", "range": (1, 60, 1), "default": 4},
    "fleet.eps_p": {"label": "kernels differ by eps_p", "range": (0.0, 2.0, 0.05)},
    "fleet.eps_r": {"label": "rewards differ by eps_r", "range": (0.0, 2.0, 0.05)},
    "fleet.seed": {"label": "seed of the worlds"},
    "fleet.states": {"options": COUNTS},
    "fleet.actions": {"options": COUNTS},
    "fleet.discount": {"range": (0.0, 0.99, 0.01)},
    "fleet.restart": {"range": (0.0, 1.0, 0.05)},
    "fleet.id": {"label": "environment", "options": TOY_TEXT, "default": TOY_TEXT[0]},
    "features.d1": {"range": (1, 20, 1)},
    "features.d2": {"range": (1, 20, 1)},
    "features.tilings": {"range": (1, 32, 1)},
    "features.order": {"range": (1, 7, 1)},
    "policy.temperature": {"options": _series(-1, 3)},
    "policy.eps": {"range": (0.0, 1.0, 0.01)},
    "policy.pi": {"label": "action, or uniform"},
    "step_size.value": {"options": _series(-4, 0), "default": 0.01},
    "step_size.start": {"label": "at first", "options": _series(-4, 0), "default": 0.05},
    "step_size.end": {"label": "at the end", "options": _series(-4, 0), "default": 0.005},
    "step_size.steps": {"label": "reached at step", "options": _whole(2, 6), "default": 10_000},
    "step_size.w": {"options": _series(-3, 1), "default": 0.05},
    "step_size.a": {"options": _series(0, 5), "default": 8000.0},
    "step_size.values": {"default": [0.05, 0.01]},
    "step_size.boundaries": {"label": "from step", "default": [10_000]},
    "server.share": {"range": (0.0, 0.45, 0.05)},
    "server.liars": {"range": (0, 20, 1)},
    "server.act": {"label": "agents act by", "options": ACTS},
    "server.graph": {"options": GRAPHS},
    "server.size": {"label": "size of the server's step", "options": _series(-2, 1)},
    "server.clip": {"label": "longest change, others are clipped", "options": _series(-2, 2)},
    "server.noise": {"label": "noise, in clips", "options": _series(-2, 1)},
    "server.own": {"label": "weight of the own direction"},
    "n": {"label": "steps n of a return", "range": (1, 20, 1)},
    "form": {"options": FORMS},
    "graph": {"options": GRAPHS},
    "server_step": {"label": "size of the server's step", "options": _series(-2, 1)},
    "own": {"label": "weight of the own direction"},
}
# Keys without a control of their own: what chooses a section, tables, and what has a control for all methods.
WITHOUT = {"kind", "method", "bounds", "options", "each"}
WITHOUT |= {"features", "policy", "step_size", "sync_every", "behaviour"}


def _of(place: str, kinds: Mapping[str, type[DerivedSection]]) -> tuple[Control, ...]:
    """A control for every key of the sections at ``place``, such as algorithm.policy; there with its kind."""
    chooser = METHOD if place == "algorithm" else f"{place}.kind"
    return tuple(
        _derived(f"{place}.{name}", field, (chooser, kind))
        for kind, section in kinds.items()
        for name, field in section.model_fields.items()
        if name not in WITHOUT
    )


def _derived(key: str, field: FieldInfo, needs: tuple[str, str]) -> Control:
    """A control for a key of a section, by the key's default and its words."""
    look = LOOKS.get(key.removeprefix("algorithm."), {})
    known = None if field.is_required() else field.default
    default = look.get("default", "") if known is None else known
    label = key.rpartition(".")[2].replace("_", " ") + (" (empty: none)" if default == "" else "")
    words = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    options = look.get("options", words)
    return Control(key, look.get("label", label), options, look.get("range"), default, needs)


FLEETS: dict[str, type[DerivedSection]] = {
    "paper": PaperFleet,
    **OF_PAPERS,
    "gym-tables": GymTablesSection,
}
FLEET = (Control(FLEET_KIND, "worlds", tuple(FLEETS), default="paper"), *_of("fleet", FLEETS))
OF_PAIRS = {kind: FEATURES[kind] for kind in ("modulo", "one-hot")}  # tables come from files
OF_NUMBERS = {kind: one for kind, one in FEATURES.items() if one.source not in FINITE.values()}
LEARNING = (
    Control("algorithm.policy.kind", "policy", tuple(POLICIES), default="softmax"),
    *_of("algorithm.policy", POLICIES),
    Control("algorithm.target", "target", tuple(TARGETS), default="sampled"),
    Control("algorithm.step_size.kind", "step size", tuple(STEP_SIZES), default="constant"),
    *_of("algorithm.step_size", STEP_SIZES),
    Control("algorithm.sync_every", "local steps K", (*PERIODS, "never"), default=10),
    Control("algorithm.server.kind", "server rule", tuple(SERVERS), default="mean"),
    *_of("algorithm.server", SERVERS),
)
ALGORITHM = (
    Control("algorithm.features.kind", "features", tuple(OF_PAIRS), default="modulo"),
    *_of("algorithm.features", OF_PAIRS),
    *LEARNING,
    *_of("algorithm", SECTIONS),
)
TRAINING = (
    Control("training.runs", "runs", range=(1, 50, 1), default=10),
    Control(
        "training.steps",
        "steps per agent",
        _whole(3, 6),
        default=20_000,
    ),
    Control("training.seed", "seed of the runs", default=0),
)
METHODS = Control(METHOD, "method", (OURS, *SECTIONS), default=OURS)
TARGET = Control("target", "error to reach", default=1.0)


def _physics(world: str) -> tuple[Control, ...]:
    """A slider for everything in which worlds of a kind may differ, from half of its value to twice that."""
    made = []
    for name in WORLDS[world].varied:
        value = getattr(WORLDS[world], name)
        limits = (value / 2, 2 * value, value / 20)
        label = name.replace("_", " ")
        made.append(Control(f"fleet.physics.{name}", label, (), limits, value, (WORLD, world)))
    return tuple(made)


PICTURED = ("CartPole", "MountainCar", "Acrobot")  # worlds to choose from; others may come from a file
CONTROL_FLEET = (
    Control(WORLD, "world", PICTURED, default="CartPole"),
    Control("fleet.agents", "agents N", range=(1, 32, 1), default=16),
    Control("fleet.spread", "physics differ by a share of", range=(0.0, 0.6, 0.05), default=0.2),
    Control("fleet.seed", "seed of the worlds", default=0),
    *(control for world in PICTURED for control in _physics(world)),
    Control("fleet.physics.angles", "sees angles", default=True, needs=(WORLD, "Acrobot")),
    Control("fleet.discount", "discount", (0.9, 0.95, 0.98, 0.99, 0.995, 1.0), default=0.99),
)
CONTROL_ALGORITHM = (
    Control("algorithm.features.kind", "features", tuple(OF_NUMBERS), default="tile-coding"),
    *_of("algorithm.features", OF_NUMBERS),
    *LEARNING,
    Control("algorithm.trace_decay", "trace decay", range=(0.0, 1.0, 0.05), default=0.0),
    Control("algorithm.traces", "traces", TRACES, default="accumulating"),
)
_TILES = {"algorithm.features.kind": "tile-coding", "algorithm.features.tilings": 8}
_GREEDY = {"algorithm.policy.kind": "greedy", "algorithm.policy.ties": "share"}
_TRACES = {"algorithm.trace_decay": 0.9, "algorithm.traces": "replacing"}
# What is learned with in a world, as in the examples that are named after them.
LEARNED_WITH: dict[str, dict[str, Any]] = {
    "CartPole": _TILES
    | {
        "fleet.discount": 0.99,
        "algorithm.features.bins": [2, 4, 8, 8],
        "algorithm.policy.kind": "epsilon-greedy",
        "algorithm.policy.eps": 0.01,
        "algorithm.step_size.value": 0.3,
        "algorithm.trace_decay": 0.0,
        "algorithm.traces": "accumulating",
    },
    "MountainCar": _TILES
    | _GREEDY
    | _TRACES
    | {"fleet.discount": 1.0, "algorithm.features.bins": 8, "algorithm.step_size.value": 0.6},
    "Acrobot": _TILES
    | _GREEDY
    | _TRACES
    | {"fleet.discount": 1.0, "algorithm.features.bins": 6, "algorithm.step_size.value": 0.3},
}
EVERY = (*FLEET, METHODS, *ALGORITHM, *TRAINING, TARGET, *CONTROL_FLEET, *CONTROL_ALGORITHM)  # of all views


def main_first(groups: Mapping[str, tuple[Control, ...]]) -> dict[str, tuple[Control, ...]]:
    """The groups, after one of the controls that are moved most."""
    every = [one for group in groups.values() for one in group]
    main = tuple(one for start in MAIN for one in every if one.key.startswith(start))
    rest = {title: tuple(one for one in group if one not in main) for title, group in groups.items()}
    return {"Main settings": main} | rest


def shown(controls: tuple[Control, ...], values: Mapping[str, Any]) -> list[Control]:
    """The controls that are there when keys have these values."""
    kept = _keys_of(values.get(METHOD, OURS))
    return [
        one
        for one in controls
        if (one.needs is None or values.get(one.needs[0]) == one.needs[1])
        and (kept is None or not one.key.startswith("algorithm.") or one.key.split(".")[1] in kept)
    ]


def settings_of(world: str) -> dict[str, Any]:
    """The values of controls with which agents learn well in a kind of world, and its own physics."""
    own = {one.key: one.default for one in CONTROL_FLEET if one.needs == (WORLD, world)}
    constant = {"algorithm.step_size.kind": "constant", "algorithm.sync_every": 1000}
    return own | constant | LEARNED_WITH[world]


def _keys_of(method: str) -> set[str] | None:
    """The keys of the algorithm that controls offer for a method; None: all of them.

    Methods that evaluate a given policy have features of states, and keep their own.
    """
    if method == OURS or method not in SECTIONS:
        return None
    keys = set(SECTIONS[method].key_names) | {"method"}
    return keys if SECTIONS[method].source.task == "control" else keys - {"features", "policy"}
