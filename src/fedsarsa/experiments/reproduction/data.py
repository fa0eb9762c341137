"""All trainings and predictions behind the paper's figures and claims, as one labelled dataset."""

import warnings
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedsarsa import _files, theory
from fedsarsa._checks import Floats
from fedsarsa._version import __version__
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments import store, sweep
from fedsarsa.experiments.grid import Cell, Grid
from fedsarsa.experiments.predictions import Predictions
from fedsarsa.experiments.progress_bars import sweep_bar
from fedsarsa.experiments.references import reference
from fedsarsa.experiments.reproduction import settings
from fedsarsa.experiments.reproduction.panels import figures
from fedsarsa.experiments.reproduction.settings import Scale
from fedsarsa.experiments.statistics import floor, floor_around
from fedsarsa.experiments.sweep import Sweep
from fedsarsa.federation.history import History
from fedsarsa.learning.policies import FixedPolicy, Greedy
from fedsarsa.learning.step_sizes import LinearDecay
from fedsarsa.theory.personal_planning import WAYS
from fedsarsa.worlds import paper
from fedsarsa.worlds.fleet import Fleet

PREDICTED = ("sarsa", "td", "tabular", "period", "symmetric")
PERSONAL = 1.0  # level of heterogeneity at which personalisation and returns are looked at
DERIVED = ("personalisation", "returns", "agents")  # parts that look at trainings of the sweep sarsa
# Steps that each agent trains on alone, and the step sizes then: from 0.01 on, decaying, so that an agent can
# come as near its own fixed point as its own data allow.
ALONE = (0, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
DECAY = LinearDecay(0.03, 13_000.0)


def compute(
    out: Path,
    scale: Scale,
    seed: int,
    parts: Collection[str],
    pool: ProcessPoolExecutor,
    say: Callable[[str], None],
    engine: str = "auto",
) -> dict[str, xr.Dataset]:
    """Train and predict what ``parts`` need and is not in ``out`` yet.

    A part is a sweep of ``settings.sweeps``, with ``error`` (..., run, t) to the reference, ``final``
    (..., run, d), ``final_error`` (..., run), ``late`` (..., run, d), the mean parameter over the last
    quarter, and, where there is one, ``predicted`` (..., t); or one of ``DERIVED``; or `mixtures`.
    """
    algo = FedSARSA()
    nominal = theory.fixed_point(paper.nominal(seed), algo.features, algo.policy)
    grids = settings.sweeps(scale, seed, float(np.linalg.norm(nominal)), engine)
    derived = set(DERIVED) & set(parts)
    wanted = [name for name in grids if name in parts or (name == "sarsa" and derived)]
    with ExitStack() as stack:
        sweeps: dict[str, Sweep] = {}
        coming: dict[str, Predictions] = {}
        for name in wanted:
            sweeps[name] = stack.enter_context(sweep.opened(grids[name], out / "cells" / name, say))
        for name in (name for name in wanted if name in PREDICTED):
            kept = store.opened(out / "predictions" / name, grids[name].identity(), say)
            shown = predicted_cells(name, grids[name], scale)
            coming[name] = Predictions(pool, stack.enter_context(kept), shown, grids[name].folder)
        report = stack.enter_context(sweep_bar(*sweeps.values()))
        measured = {name: sweep.run(work, _measure, report=report) for name, work in sweeps.items()}
        found = {name: sweep.arrange(grids[name], results) for name, results in measured.items()}
        # Predictions go on meanwhile.
        if "agents" in derived:
            found["agents"] = every_agent(found["sarsa"], nominal, scale.team, seed).to_dataset(name="error")
        if derived - {"agents"}:
            fleet = paper.fleet(scale.team, PERSONAL, PERSONAL, seed)
            trained = found["sarsa"]["final"].sel(eps_p=PERSONAL, eps_r=PERSONAL, agents=scale.team).values
            found["personalisation"] = personalisation(fleet, trained, seed).to_dataset(name="error")
            found["returns"] = returns(fleet, trained[0]).to_dataset(name="discounted_return")
        if "mixtures" in parts:
            found["mixtures"] = mixtures(scale, seed)
        for name, one in coming.items():
            predicted = one.beside([result["error"] for result in measured[name]])
            found[name] = found[name].merge(sweep.arrange(grids[name], predicted))
    return found


def _measure(cell: Cell, history: History) -> xr.Dataset:
    theta = reference(cell.config, Path())
    assert theta is not None  # the published worlds have fixed points
    distance = ((history.final - theta) ** 2).sum("d", skipna=False)
    measured = {
        "error": history.mse(theta),
        "final": history.final,
        "final_error": distance,
        "late": floor(history.central),
    }
    if "averaged" in history.data:
        measured["averaged"] = ((history.averaged - theta) ** 2).sum("d", skipna=False)
    return xr.Dataset(measured)


def every_agent(sarsa: xr.Dataset, reference: Floats, agents: int, seed: int) -> xr.DataArray:
    """Where the squared distance to every agent's own fixed point ends, (level, agent, run).

    Both heterogeneities are at ``level``; ``reference`` (d,) is what the errors of ``sarsa`` are measured to.
    """
    algo, levels = FedSARSA(), sarsa["eps_p"].values.tolist()
    found = []
    for level in levels:
        cell = sarsa.sel(eps_p=level, eps_r=level, agents=agents)
        own = [
            theory.fixed_point(world, algo.features, algo.policy)
            for world in paper.fleet(agents, level, level, seed).worlds
        ]
        each = [floor_around(cell, reference, point) for point in own]
        found.append(xr.concat(each * (agents if len(own) == 1 else 1), "agent"))
    return xr.concat(found, xr.DataArray(levels, dims="level", name="level"))


def personalisation(fleet: Fleet, start: Floats, seed: int) -> xr.DataArray:
    """Squared error of every agent to its own fixed point, (start, steps, run, agent).

    Each trains on alone, from the federated parameters ``start`` (run, d) or from scratch.
    """
    algo = FedSARSA(step_size=DECAY, sync_every=None)
    own = np.stack([theory.fixed_point(world, algo.features, algo.policy) for world in fleet])
    runs, dim = start.shape
    other = (seed + 2**32) % 2**64  # with the federation's random numbers, agents would walk its paths again
    errors = np.empty((2, len(ALONE), runs, len(fleet)))
    for row, origin in enumerate((start, np.zeros_like(start))):
        theta = np.broadcast_to(origin[:, None, :], (runs, len(fleet), dim))
        for column, steps in enumerate(ALONE):
            local = algo.train(fleet, steps, runs, other, theta0=theta).local.values if steps else theta
            errors[row, column] = ((local - own) ** 2).sum(axis=-1)
    return xr.DataArray(
        errors,
        dims=("start", "steps", "run", "agent"),
        coords={"start": ["federated", "scratch"], "steps": list(ALONE)},
    )


def mixtures(scale: Scale, seed: int) -> xr.Dataset:
    """Agents' mean squared error to their own fixed points, ``error`` (level, way, run), and ``predicted``.

    Agents learn alone, together, or alone with mixtures of all agents' parameters, of exact weights.
    """
    together = FedSARSA()
    alone = replace(together, sync_every=None)
    errors, predicted = [], []
    for level in scale.levels:
        fleet = paper.fleet(scale.team, level, level, seed)
        with warnings.catch_warnings(action="ignore"):  # of short trainings, whose predictions may be off
            best = theory.personal_weights(fleet, together, scale.steps)
        own = alone.train(fleet, scale.steps, scale.runs, seed).local.values
        central = together.train(fleet, scale.steps, scale.runs, seed, record_every=10**6).final.values
        ways = own, central[:, None], best.weights @ own
        errors.append([((theta - best.points) ** 2).sum(axis=-1).mean(axis=1) for theta in ways])
        predicted.append([each.mean() for each in (best.alone, best.together, best.personal)])
    return xr.Dataset(
        {"error": (("level", "way", "run"), errors), "predicted": (("level", "way"), predicted)},
        {"level": list(scale.levels), "way": list(WAYS)},
    )


def returns(fleet: Fleet, theta: Floats) -> xr.DataArray:
    """Every agent's exact discounted return, (policy, agent), with a federated parameter (d,).

    ``federated`` is the softmax policy that was trained, ``greedy`` takes the best action by the same
    parameter; ``uniform`` and ``optimal``, the best any policy can do, are there to compare with.
    """
    policies = {"uniform": FixedPolicy("uniform"), "federated": FedSARSA().policy, "greedy": Greedy()}
    found = [theory.evaluate(fleet, FedSARSA(policy=policy), theta) for policy in policies.values()]
    rows = [one["discounted_return"].values for one in found]
    rows.append(found[0]["optimal_return"].values)
    names = [*policies, "optimal"]
    return xr.DataArray(np.array(rows), dims=("policy", "agent"), coords={"policy": names})


def predicted_cells(name: str, grid: Grid, scale: Scale) -> list[Cell]:
    """The cells whose prediction some figure shows."""
    if name in ("tabular", "period", "symmetric"):
        return grid.cells
    panels = [panel for figure in figures(scale).values() for panel in figure.panels if panel.source == name]

    def shown(cell: Cell) -> bool:
        values: dict[str, Any] = dict(zip(grid.names, cell.values.values(), strict=True))
        # Beside the symmetric fleets: the largest, both heterogeneities at the same level.
        largest = values["agents"] == scale.sizes[-1] and values["eps_p"] == values.get("eps_r")
        return largest or any(panel.held.items() <= values.items() for panel in panels)

    return [cell for cell in grid.cells if shown(cell)]


def write(data: Mapping[str, xr.Dataset], scale: Scale, seed: int, path: Path) -> None:
    """Write the datasets as groups of one netCDF file, atomically."""
    about = {
        "fedsarsa_version": __version__,
        "seed": str(seed),
        "scale": repr(scale),
        "error": "squared distance of the central parameter to the reference",
        "predicted": "mean of error, from theory",
        "late": "mean of the central parameter over the last quarter of the steps",
        "eps_p": "level of kernel heterogeneity; of both where there is no eps_r",
        "radius": "of the projection; NaN: none",
    }
    tree = xr.DataTree.from_dict({name: part.drop_encoding() for name, part in data.items()})
    tree.attrs.update(about)
    # Made in memory: HDF5 crashes where a disk is full.
    _files.write(_files.sealed(bytes(tree.to_netcdf(engine="h5netcdf"))), path)
