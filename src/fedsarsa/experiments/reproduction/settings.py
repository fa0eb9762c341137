"""The trainings behind the paper's simulations (Section ``sec:apx-exp``), and some that go beyond it.

Each is a sweep over cells of the published setting, which is what every setting is by default.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsarsa.experiments import grid
from fedsarsa.experiments.grid import Grid

LEVELS = "fleet.eps_p, fleet.eps_r"  # both heterogeneities at the same level

# alpha_t = 4 / (w (1 + t + a)) of Corollary ``cor:err-dec``. Its w is a bound; this one is near the true
# contraction, so that the rate shows within the horizons below.
DECAY = {"kind": "linear-decay", "w": 0.03, "a": 2000.0}
# Transients fade as 1/T^2, the noise as 1/(NT): before this many steps the transients of large fleets rule.
SETTLED = 20_000
# Fleet sizes for long trainings and for the comparison with the released program.
COMPARED = (1, 5, 20)
# Radii of the projection in units of the reference's norm.
RADII = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Scale:
    """How much is trained: all of it, or enough for a first look.

    Parameters
    ----------
    sizes : tuple of int
        Numbers of agents.
    levels : tuple of float
        Levels of heterogeneity.
    steps, runs : int
        T, and federations per cell.
    record_every : int
        Every so many synchronisations are recorded.
    horizons : tuple of int
        Values of T with decaying step sizes.
    periods : tuple of int
        Values of K.
    period_runs : int
        Federations per value of K.
    team, small_team : int
        Agents where one fleet size is looked at, and where that takes longer.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from fedsarsa.experiments.reproduction import settings
    >>> replace(settings.QUICK, runs=2).sizes
    (1, 2, 5)
    """

    sizes: tuple[int, ...] = (1, 2, 5, 10, 20, 40)
    levels: tuple[float, ...] = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0)
    steps: int = 20_000
    runs: int = 10
    record_every: int = 10
    horizons: tuple[int, ...] = (5_000, 10_000, 20_000, 40_000, 80_000, 160_000)
    periods: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    period_runs: int = 20
    team: int = 20  # agents where one fleet size is looked at
    small_team: int = 10  # where that takes longer


FULL = Scale()
QUICK = Scale(
    sizes=(1, 2, 5),
    levels=(0.0, 1.0, 2.0),
    runs=6,
    horizons=(10_000, 20_000, 80_000),
    periods=(1, 10, 100, 1000),
    period_runs=8,
    small_team=5,
    team=5,
)


def sweeps(scale: Scale, seed: int, norm: float, engine: str = "auto") -> dict[str, Grid]:
    """Every sweep by its name; ``norm`` is the norm of the softmax reference."""
    levels, sizes, team = list(scale.levels), list(scale.sizes), {"agents": scale.team}
    compared = [size for size in sizes if size in COMPARED]
    both: dict[str, list[Any]] = {LEVELS: levels, "fleet.agents": sizes}
    fixed = {"policy": {"kind": "fixed", "pi": 0}}
    first, shared = ({"policy": {"kind": "greedy", "ties": ties}} for ties in ("first", "share"))
    small = {"states": 10, "actions": 10, "eps_p": 0.0, "eps_r": 0.0}
    last = {"record_every": 1000}
    described: dict[str, tuple[dict[str, Any], dict[str, list[Any]]]] = {
        "sarsa": ({}, {"fleet.eps_p": levels, "fleet.eps_r": levels, "fleet.agents": sizes}),
        "td": ({"algorithm": fixed}, both),
        "ql": ({"algorithm": first}, both),
        "ties": ({"fleet": {"eps_p": 0.0, "eps_r": 0.0}, "algorithm": shared}, {"fleet.agents": sizes}),
        "symmetric": ({"fleet": {"scheme": "symmetric", "agents": sizes[-1]}}, {LEVELS: levels}),
        "decay": (
            {"fleet": {"eps_p": 0.0, "eps_r": 0.0}, "algorithm": {"step_size": DECAY}, "training": last},
            {"fleet.agents": compared, "training.steps": list(scale.horizons)},
        ),
        "period": (
            {"fleet": {"agents": scale.small_team}, "training": {**last, "runs": scale.period_runs}},
            {LEVELS: [0.0, 1.0], "algorithm.sync_every": list(scale.periods)},
        ),
        "projection": (
            {"fleet": {**team, "eps_p": 0.0, "eps_r": 0.0}},
            {"algorithm.radius": [None, *(share * norm for share in RADII)]},
        ),
        "tabular": (
            {"fleet": small, "algorithm": {"features": {"kind": "one-hot"}, "step_size": 0.1}},
            {"fleet.agents": sizes},
        ),
        "released": (
            {"algorithm": {"redraw_actions": True}},
            {LEVELS: [0.0, 1.0], "fleet.agents": compared},
        ),
    }
    common = {
        "steps": scale.steps,
        "runs": scale.runs,
        "record_every": scale.record_every,
        "seed": seed,
        "engine": engine,
    }
    result = {}
    for name, (content, axes) in described.items():
        whole = {
            **content,
            "fleet": {"seed": seed, **content.get("fleet", {})},
            "training": {**common, **content.get("training", {})},
        }
        result[name] = grid.build(whole, axes, Path(), name)
    return result
