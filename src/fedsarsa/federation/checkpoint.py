"""A training saved on disk, to resume or to extend as if nothing had happened.

Gymnasium environments cannot be saved: there a training resumes with new episodes.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedsarsa import _netcdf
from fedsarsa._checks import Floats
from fedsarsa.federation.problem import DOUBLE, Problem
from fedsarsa.federation.state import Episodes, State, Synchronisations
from fedsarsa.learning.continuous_features import BoxMap
from fedsarsa.learning.features import FeatureMap

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
    "shift",
    "left",
    "central",
    "drift",
)


Fingerprint = dict[str, str]  # what decides a training, by the names that users know, each in words
SHORT = 100  # letters of words that an error shows; longer ones are kept as a digest
EXACT = " #"  # between what an error shows and the digest
BINNED = ("episodes", "returns", "lengths", "steps", "rewards")  # what agents hold by bins of time


def fingerprint(problem: Problem, engine: str, theta0: Floats, record_every: int) -> Fingerprint:
    """All that decides a training and the state of its engine, except for how many steps it has.

    Where theta-tilde is kept, engines gather it in different ways, round by round. A training that ended
    within a round cannot be extended, and one that stands within a round goes on with the same engine.
    """
    step, every = problem.step, problem.sync_every
    mark = {
        "fleet": _told(repr(problem.fleet), problem.fleet.identity()),
        "features": _told(_features(problem.features), *problem.features.identity()),
        "actions": _told(str(problem.candidates.tolist()), problem.candidates, problem.action_bounds),
        "policy": _words(*_parts(problem.policy)),
        "step_size": _told(_step_sizes(problem), problem.schedules, problem.schedule_of),
        "sync_every": _words(every),
        "server": _told(repr(problem.server), *_parts(problem.server), problem.radius, problem.weights),
        "options of the step": _words(*vars(step).values(), *(one.pi for one in step.behaviour)),
        "runs": _words(problem.runs),
        "seed": _words(problem.seed),
        "theta0": _told(f"{theta0.shape[-1]} numbers of norm {np.linalg.norm(theta0):.6g}", theta0),
        "record_every": _words(record_every),
    }
    if problem.partial or problem.faults.liars:
        mark |= {"participation and faults": _words(problem.asked, problem.faults)}
    if problem.precision != DOUBLE:
        mark |= {"precision": problem.precision}
    if problem.average_offset is not None:
        whole = every is not None and problem.steps % every == 0
        mark |= {"engine": engine, "steps": "whole rounds" if whole else _words(problem.steps)}
    return mark


def _words(*items: object) -> str:
    """Items in words, or their digest where those would be long or lose digits."""
    if not any(isinstance(item, np.ndarray) for item in items):  # they take long to put in words
        words = ", ".join(repr(item) for item in items)
        if len(words) <= SHORT:
            return words
    digest = hashlib.sha256()
    for item in items:
        data = np.ascontiguousarray(item).tobytes() if isinstance(item, np.ndarray) else repr(item).encode()
        digest.update(data + b";")
    return digest.hexdigest()


def _parts(setting: object) -> list[object]:
    """A setting by its repr, or where it holds arrays, of which a repr loses digits, by its fields."""
    held = list(vars(setting).values())
    return [type(setting).__name__, *held] if any(isinstance(one, np.ndarray) for one in held) else [setting]


def _told(shown: str, *items: object) -> str:
    """What an error shows of a setting, ``SHORT`` letters at most, and what tells it from others."""
    words = " ".join(shown.split())
    return f"{words if len(words) <= SHORT else f'{words[: SHORT - 4]} ...'}{EXACT}{_words(*items)}"


def _features(features: FeatureMap | BoxMap) -> str:
    """Features in words: how many parameters, and on which observations."""
    on = f" on {features.low.tolist()} to {features.high.tolist()}" if isinstance(features, BoxMap) else ""
    return f"of {features.dim} parameters{on}"


def _step_sizes(problem: Problem) -> str:
    """The step size of all agents, or of every agent."""
    each = [problem.schedules[one] for one in problem.schedule_of]
    return repr(each[0] if len(problem.schedules) == 1 else each)


def differences(known: Fingerprint, wanted: Fingerprint) -> str:
    """What differs between two trainings, with both values where words can tell them apart."""
    found = []
    for name in wanted | known:
        (there, one), (here, other) = (_parted(mark.get(name, "none")) for mark in (known, wanted))
        if one == other:
            continue
        if there == here:
            found.append(f"another {name}, which is also {here}")
        else:
            found.append(f"{name} {there} there, {here} here")
    return "; ".join(found)


def _parted(words: str) -> tuple[str, str]:
    """What an error shows of a setting, and what tells it from others."""
    shown, _, exact = words.rpartition(EXACT)
    return shown or exact, exact


def save(
    path: Path, mark: Fingerprint, state: State, records: Synchronisations, known: int, steps: int
) -> None:
    """Write where a training of ``steps`` stands and the first ``known`` of its records, atomically."""
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
                "shift": (("run", "agent", "shifted"), state.shift),
                "left": (("run", "agent", "left_behind"), state.left),
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
                "fingerprint": json.dumps(mark),
                "t": state.t,
                "steps": steps,
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


def load(path: Path, mark: Fingerprint, problem: Problem, records: Synchronisations) -> State:
    """Read a checkpoint of the training with this fingerprint, its records into ``records``.

    It may be one of fewer steps, which resumes; its bins of time are then put together.
    """
    data = _netcdf.read(path, KIND, (*ARRAYS, "fingerprint", "t", "steps", "reports"))
    known, t = json.loads(data.attrs["fingerprint"]), int(data.attrs["t"])
    theirs, ours = known.pop("engine", None), mark.get("engine")
    different = differences(known, {name: words for name, words in mark.items() if name != "engine"})
    within = t % (problem.sync_every or problem.steps) and t < data.attrs["steps"]
    if theirs != ours and within and not different:
        raise ValueError(
            f"{path}: expected a checkpoint of engine {ours!r}, got one of {theirs!r} after {t} steps, "
            f"inside a round, where engines sum up theta-tilde in other ways; resume with engine {theirs!r}"
        )
    if different:
        raise ValueError(
            f"{path}: expected a checkpoint of this training, got one of another ({different}); "
            "remove it or choose another place"
        )
    if t > problem.steps:
        raise ValueError(
            f"{path}: expected a checkpoint of at most {problem.steps} steps, got one after {t}; "
            "ask for more steps, remove it or choose another place"
        )
    known = data.sizes["record"]
    records.central[:, :known], records.drift[:, :known] = data["central"].values, data["drift"].values
    held, memory = (
        {str(name).removeprefix(prefix): data[name].values for name in data if str(name).startswith(prefix)}
        for prefix in ("held_", "memory_")
    )
    for name, array in records.personal.items():
        array[:, :known] = data[f"recorded_{name}"].values
    if data.attrs["steps"] != problem.steps:
        held |= {
            name: _put_together(held[name], int(data.attrs["steps"]), problem) for name in BINNED if held
        }
    return State(
        t=t,
        theta=data["theta"].values,
        states=data["states"].values,
        actions=data["actions"].values,
        central=data["server"].values,
        weighted_sum=data["weighted_sum"].values,
        progress=data["progress"].values,
        failed_at=data["failed_at"].values,
        starts=data["starts"].values,
        shift=data["shift"].values,
        left=data["left"].values,
        memory=memory,
        episodes=Episodes(**held) if held else None,
        reports=json.loads(data.attrs["reports"]),
    )


def _put_together(array: NDArray[Any], steps: int, problem: Problem) -> NDArray[Any]:
    """Sums in bins of ``steps`` in all, in the bins of a longer training: each in that of its last step."""
    bins = array.shape[-1]
    if bins == 0:
        return array
    last = -(-np.arange(1, bins + 1) * steps // bins) - 1
    result = np.zeros((*array.shape[:-1], problem.bins), array.dtype)
    for old, new in enumerate(problem.bin_of(last)):
        result[..., new] += array[..., old]
    return result
