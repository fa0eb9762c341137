"""A training laid down on disk, to go on from as if nothing had happened.

Environments of Gymnasium cannot be laid down: there a training goes on with new episodes.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedsarsa import _netcdf
from fedsarsa._checks import Floats
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import Episodes, State, Synchronisations

KIND = "checkpoint"
ARRAYS = (
    "theta",
    "states",
    "actions",
    "server",
    "weighted_sum",
    "progress",
    "failed_at",
    "starts",
    "central",
    "drift",
)


def fingerprint(problem: Problem, engine: str, theta0: Floats, record_every: int) -> str:
    """A digest of all that decides a training and the state of its engine."""
    digest = hashlib.sha256()

    def add(*items: object) -> None:
        for item in items:
            data = np.ascontiguousarray(item).tobytes() if isinstance(item, np.ndarray) else item
            digest.update(data if isinstance(data, bytes) else repr(data).encode())
            digest.update(b";")

    step = problem.step
    add(problem.fleet.identity(), *problem.features.identity(), problem.candidates, problem.action_bounds)
    add(type(problem.policy).__name__, *vars(problem.policy).values())
    add(problem.schedules, problem.schedule_of, problem.sync_every, problem.radius, problem.weights)
    add(type(problem.server).__name__, *vars(problem.server).values())
    add(*vars(step).values(), *(one.pi for one in step.behaviour))
    if problem.partial or problem.faults.liars:
        add(problem.asked, problem.faults)
    add(problem.steps, problem.runs, problem.seed, theta0, record_every)
    if problem.average_offset is not None:  # engines gather theta-tilde in different ways
        add(engine)
    return digest.hexdigest()


def save(path: Path, mark: str, state: State, records: Synchronisations, known: int) -> None:
    """Write where a training stands and the first ``known`` of its records, atomically."""
    _netcdf.write(
        xr.Dataset(
            {
                "theta": (("run", "agent", "d"), state.theta),
                "states": (("run", "agent"), state.states),
                "actions": (("run", "agent"), state.actions),
                "server": (("run", "d"), state.central),
                "weighted_sum": (("run", "d"), state.weighted_sum),
                "progress": (("run", "agent", "kept"), state.progress),
                "failed_at": ("run", state.failed_at),
                "starts": (("run", "own", "d"), state.starts),
                "central": (("run", "record", "d"), records.central[:, :known]),
                "drift": (("run", "record"), records.drift[:, :known]),
            }
            | _named("held", {} if state.episodes is None else vars(state.episodes), ("run", "agent"))
            | _named("memory", state.memory, ("run",))
            | _named(
                "recorded",
                {name: one[:, :known] for name, one in records.personal.items()},
                ("run", "record"),
            ),
            attrs={
                "fedsarsa_file": KIND,
                "fingerprint": mark,
                "t": state.t,
                "reports": json.dumps(state.reports),
            },
        ),
        path,
    )


def _named(prefix: str, arrays: dict[str, Any], dims: tuple[str, ...]) -> dict[str, Any]:
    """Arrays that begin with ``dims``, each with further dimensions of its own."""
    return {
        f"{prefix}_{name}": (
            (*dims, *(f"{prefix}_{name}_{axis}" for axis in range(len(dims), array.ndim))),
            array,
        )
        for name, array in arrays.items()
    }


def load(path: Path, mark: str, records: Synchronisations) -> State:
    """Read a checkpoint of the training with this fingerprint, its records into ``records``."""
    data = _netcdf.read(path, KIND, (*ARRAYS, "fingerprint", "t", "reports"))
    if data.attrs["fingerprint"] != mark:
        raise ValueError(
            f"{path}: expected a checkpoint of this training, got one of another; "
            "remove it or choose another place"
        )
    known = data.sizes["record"]
    records.central[:, :known], records.drift[:, :known] = data["central"].values, data["drift"].values
    held, memory = (
        {str(name).removeprefix(prefix): data[name].values for name in data if str(name).startswith(prefix)}
        for prefix in ("held_", "memory_")
    )
    for name, array in records.personal.items():
        array[:, :known] = data[f"recorded_{name}"].values
    return State(
        t=int(data.attrs["t"]),
        theta=data["theta"].values,
        states=data["states"].values,
        actions=data["actions"].values,
        central=data["server"].values,
        weighted_sum=data["weighted_sum"].values,
        progress=data["progress"].values,
        failed_at=data["failed_at"].values,
        starts=data["starts"].values,
        memory=memory,
        episodes=Episodes(**held) if held else None,
        reports=json.loads(data.attrs["reports"]),
    )
