"""The controls of the page: one for a key of the configuration, under the key's own name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedsarsa.experiments.algorithm_sections import FEATURES, POLICIES, SERVERS, STEP_SIZES
from fedsarsa.experiments.method_sections import OURS, SECTIONS
from fedsarsa.learning.policies import TIES
from fedsarsa.learning.targets import TARGETS, TRACES
from fedsarsa.worlds.control.registry import WORLDS
from fedsarsa.worlds.paper import SCHEMES

METHOD, WORLD = "algorithm.method", "fleet.world"
MAIN = (  # how keys begin whose controls come first
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


def _series(first: int, last: int) -> tuple[float, ...]:
    """1, 2, 5 times powers of ten from 10**first, up to 10**last."""
    numbers = [float(f"{digit}e{power}") for power in range(first, last) for digit in (1, 2, 5)]
    return (*numbers, float(f"1e{last}"))


COUNTS = (5, 10, 20, 50, 100, 200)
FLEET = (
    Control("fleet.agents", "agents N", range=(1, 60, 1), default=20),
    Control("fleet.eps_p", "kernels differ by eps_p", range=(0.0, 2.0, 0.05), default=1.0),
    Control("fleet.eps_r", "rewards differ by eps_r", range=(0.0, 2.0, 0.05), default=1.0),
    Control("fleet.scheme", "scheme", SCHEMES, default="released"),
    Control("fleet.seed", "seed of the worlds", default=0),
    Control("fleet.states", "states", COUNTS, default=100),
    Control("fleet.actions", "actions", COUNTS, default=100),
    Control("fleet.discount", "discount", range=(0.0, 0.95, 0.05), default=0.2),
)


def _of(section: str, kind: str, *controls: tuple[Any, ...]) -> tuple[Control, ...]:
    """The controls (name, label, default, options, range) of one kind of a section."""
    made = []
    for name, label, default, options, limits in controls:
        needs = (f"algorithm.{section}.kind", kind)
        made.append(Control(f"algorithm.{section}.{name}", label, options, limits, default, needs))
    return tuple(made)


_TIES = ("ties", "ties", "share", TIES, None)
_BETWEEN = (
    ("start", "at first", 0.05, _series(-4, 0), None),
    ("end", "at the end", 0.005, _series(-4, 0), None),
    ("steps", "reached at step", 10_000, tuple(int(number) for number in _series(2, 6)), None),
)
_RADIUS = ("radius", "radius (empty: none)", "", (), None)
ALGORITHM = (
    Control(
        "algorithm.features.kind",
        "features",
        tuple(kind for kind in FEATURES if kind in {"modulo", "one-hot"}),
        default="modulo",
    ),
    *_of("features", "modulo", ("d1", "d1", 5, (), (1, 20, 1)), ("d2", "d2", 5, (), (1, 20, 1))),
    Control("algorithm.policy.kind", "policy", tuple(POLICIES), default="softmax"),
    *_of("policy", "softmax", ("temperature", "temperature", 100.0, _series(-1, 3), None)),
    *_of("policy", "greedy", _TIES),
    *_of("policy", "epsilon-greedy", ("eps", "eps", 0.1, (), (0.0, 1.0, 0.01)), _TIES),
    *_of("policy", "fixed", ("pi", "action, or uniform", "uniform", (), None)),
    Control("algorithm.target", "target", tuple(TARGETS), default="sampled"),
    Control("algorithm.step_size.kind", "step size", tuple(STEP_SIZES), default="constant"),
    *_of("step_size", "constant", ("value", "value", 0.01, _series(-4, 0), None)),
    *_of("step_size", "linear", *_BETWEEN),
    *_of("step_size", "exponential", *_BETWEEN),
    *_of(
        "step_size",
        "linear-decay",
        ("w", "w", 0.05, _series(-3, 1), None),
        ("a", "a", 8000.0, _series(0, 5), None),
    ),
    *_of(
        "step_size",
        "piecewise-decay",
        ("values", "values", [0.05, 0.01], (), None),
        ("boundaries", "from step", [10_000], (), None),
    ),
    Control("algorithm.sync_every", "local steps K", (*PERIODS, "never"), default=10),
    Control("algorithm.server.kind", "server rule", tuple(SERVERS), default="mean"),
    *_of("server", "mean", _RADIUS),
    *_of("server", "median", _RADIUS),
    *_of("server", "trimmed-mean", ("share", "share", 0.2, (), (0.0, 0.45, 0.05)), _RADIUS),
    *_of("server", "krum", ("liars", "liars", 1, (), (0, 20, 1)), _RADIUS),
    *_of("server", "personal", ("act", "agents act by", "own", ("own", "mixture"), None), _RADIUS),
)
TRAINING = (
    Control("training.runs", "runs", range=(1, 50, 1), default=10),
    Control(
        "training.steps",
        "steps per agent",
        tuple(int(number) for number in _series(3, 6)),
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
    Control("algorithm.features.kind", "features", ("tile-coding", "fourier"), default="tile-coding"),
    *_of("features", "tile-coding", ("tilings", "tilings", 8, (), (1, 32, 1)), ("bins", "bins", 8, (), None)),
    *_of("features", "fourier", ("order", "order", 3, (), (1, 7, 1))),
    *(one for one in ALGORITHM if not one.key.startswith("algorithm.features.")),
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
    return keys if SECTIONS[method].source.task == "control" else keys & {"method", "step_size", "sync_every"}
