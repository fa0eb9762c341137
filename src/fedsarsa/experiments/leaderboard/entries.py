"""The rows of the leaderboard: which methods, in which settings, and how a user's own joins them."""

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedsarsa import _checks
from fedsarsa.experiments.leaderboard.baselines import (
    AloneQ,
    AloneSARSA,
    AloneTD,
    PooledQ,
    PooledSARSA,
    PooledTD,
)
from fedsarsa.experiments.leaderboard.fleets import Ground
from fedsarsa.learning.policies import Softmax
from fedsarsa.methods import (
    PFLSA,
    SARSA,
    SCAFFLSA,
    ConsensusTD,
    DisSACC,
    FedHSA,
    FedQ,
    FedSynQ,
    FedTD,
    Method,
    NStepTD,
    OneShotTD,
    ProjPAvg,
    QAvg,
    ScaffoldSARSA,
    SoftPAvg,
)

CONTROL, PREDICTION = BOARDS = ("control", "prediction")
SAMPLES, SIMULATOR, WORLDS, COMPARISON = BLOCKS = (
    "learns from samples",
    "has a simulator of every pair",
    "knows the worlds",
    "for comparison",
)
BEST_COMMON, OPTIMUM = YARDSTICKS = ("best common policy", "own optimum")
KNOWS = {"samples": SAMPLES, "simulator": SIMULATOR, "worlds": WORLDS}


@dataclass(frozen=True, eq=False)
class Entry:
    """A row: its label, its method, settings that are not the board's, and whether it is for comparison.

    ``added`` is the ``module:Method`` of a user's own method.
    """

    label: str
    kind: type[Method]
    settings: Mapping[str, Any] = field(default_factory=dict)
    compared: bool = False
    added: str = ""

    @property
    def block(self) -> str:
        """The part of the table that it is in."""
        return COMPARISON if self.compared else KNOWS[self.kind.knows]

    @property
    def names(self) -> list[str]:
        """What the method can be given."""
        return list(inspect.signature(self.kind).parameters)

    @property
    def acts(self) -> bool:
        """Whether agents act by what they learn, so that a temperature must be chosen."""
        return self.kind.task == CONTROL and "policy" in self.names

    def method(self, ground: Ground, step_size: float, temperature: float | None) -> Method:
        """The method with the board's features, policy and step size, as far as it takes them."""
        offered: dict[str, Any] = {"step_size": step_size}
        if self.kind.task == PREDICTION:
            offered |= {"features": ground.state_features, "policy": ground.policy}
        else:
            offered |= {"features": ground.features, "behaviour": ground.behaviour}
            if temperature is not None:
                offered["policy"] = Softmax(temperature * ground.spread)
        taken = {name: value for name, value in offered.items() if name in self.names}
        return self.kind(**(taken | dict(self.settings)))


ENTRIES: tuple[Entry, ...] = (
    Entry("FedSARSA", SARSA),
    Entry("FedSARSA, expected target", SARSA, {"aim": "expected"}),
    Entry("FedSARSA, largest target", SARSA, {"aim": "max"}),
    Entry("FedSARSA with control variates", ScaffoldSARSA),
    Entry("FedQ, equal averaging", FedQ),
    Entry("FedQ, importance averaging", FedQ, {"averaging": "importance"}),
    Entry("FedSynQ", FedSynQ),
    Entry("QAvg, paper's form", QAvg),
    Entry("QAvg, released form", QAvg, {"form": "released"}),
    Entry("SoftPAvg", SoftPAvg),
    Entry("ProjPAvg", ProjPAvg),
    Entry("alone, SARSA", AloneSARSA, compared=True),
    Entry("alone, Q-learning", AloneQ, compared=True),
    Entry("pooled, SARSA", PooledSARSA, compared=True),
    Entry("pooled, Q-learning", PooledQ, compared=True),
    Entry("FedTD(0)", FedTD),
    Entry("FedTD(0), K = 100", FedTD, {"sync_every": 100}),
    Entry("3-step TD", NStepTD, {"n": 3}),
    Entry("consensus TD, ring", ConsensusTD),
    Entry("one-shot TD", OneShotTD),
    Entry("SCAFFLSA", SCAFFLSA),
    Entry("SCAFFLSA, K = 100", SCAFFLSA, {"sync_every": 100}),
    Entry("FedHSA", FedHSA),
    Entry("DisSACC", DisSACC),
    Entry("PF-LSA", PFLSA),
    Entry("alone, TD(0)", AloneTD, compared=True),
    Entry("pooled, TD(0)", PooledTD, compared=True),
)


def entries(board: str, added: Sequence[Entry] = ()) -> list[Entry]:
    """The rows of a board, block by block."""
    rows = [entry for entry in (*ENTRIES, *added) if entry.kind.task == board]
    return sorted(rows, key=lambda entry: BLOCKS.index(entry.block))


def added(name: str) -> Entry:
    """The row of a method of the user's own, given on the command line as ``module:Method``."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"add must be module:Method, such as my_methods:MyMethod, got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a user's module does
        raise ValueError(
            f"add must name a class that can be imported, got {name!r}: {type(error).__name__}: {error}"
        ) from None
    if not isinstance(found, type):
        raise TypeError(f"add must name a class of methods, got {name!r}, which is {found!r}")
    needed = ["name", "task", "knows", "train", "target", "communication"]
    needed += ["policies"] if getattr(found, "task", None) == CONTROL else []
    missing = [one for one in needed if not hasattr(found, one)]
    if missing:
        raise TypeError(
            f"add must name a method as fedsarsa.methods.Method describes it, got {name!r} without "
            f"{', '.join(missing)}"
        )
    kind: Any = found
    _checks.choice(f"{name}.task", kind.task, BOARDS)
    _checks.choice(f"{name}.knows", kind.knows, KNOWS)
    if kind.name in {*YARDSTICKS, *(entry.label for entry in ENTRIES)}:
        raise ValueError(f"{name}.name must differ from those of other rows, got {kind.name!r}")
    return Entry(kind.name, kind, added=name)


def all_added(names: Sequence[str]) -> list[Entry]:
    """The rows of all methods of the user's own, told apart by the names of their classes."""
    found: dict[str, Entry] = {}
    for entry in map(added, names):
        if entry.label in found:
            raise ValueError(
                f"{entry.added}.name must differ from those of other rows, got {entry.label!r}, "
                f"as {found[entry.label].added} has"
            )
        found[entry.label] = entry
    return list(found.values())
