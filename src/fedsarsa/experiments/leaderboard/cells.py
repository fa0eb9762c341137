"""One cell of the leaderboard: a method on a fleet, with settings chosen on some runs, measured on others."""

import inspect
import itertools
import math
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from fedsarsa._checks import Floats
from fedsarsa.experiments.leaderboard.entries import BOARDS, COMPARISON, CONTROL, PREDICTION, Entry
from fedsarsa.experiments.leaderboard.fleets import Ground
from fedsarsa.experiments.leaderboard.scale import Scale
from fedsarsa.federation.history import History
from fedsarsa.methods import ControlMethod, Method
from fedsarsa.theory import best_common_policy, federated_point, fixed_point, returns_of
from fedsarsa.worlds.fleet import Fleet

KIND = "leaderboard cell"
TUNING = 1_000_003  # added to the seed of runs on which settings are chosen
ROUNDING = 1e-9  # share of a return that an exact one may be off
Setting = tuple[float, float | None]  # step size and temperature
OWN, FEDERATED, AGENTS = ERRORS = ("own_error", "federated_error", "agents_error")


class Training(NamedTuple):
    """A training that a cell needs; of its rounds the last is recorded alone."""

    method: Method
    fleet: Fleet
    steps: int
    runs: int
    seed: int

    def history(self) -> History:
        """What it gives, on one thread."""
        return self.method.train(
            self.fleet, steps=self.steps, runs=self.runs, seed=self.seed, threads=1, record_every=self.steps
        )


# Yields trainings that do not need each other, is sent their histories, and returns numbers to be stored.
Stages = Generator[list[Training], Iterable[History], xr.Dataset]


@dataclass(frozen=True, eq=False)
class Cell:
    """A method on a fleet of a board; without an entry, the yardsticks of the fleet."""

    number: int
    board: str
    ground: Ground
    entry: Entry | None

    @property
    def added(self) -> str:
        """The ``module:Method`` of a user's own method, or nothing."""
        return self.entry.added if self.entry else ""

    @property
    def label(self) -> str:
        """Which cell it is, in words."""
        return f"{self.board}, {self.ground.name}, {self.entry.label if self.entry else 'yardsticks'}"

    def measured(self, scale: Scale, seed: int) -> xr.Dataset:
        """The cell's numbers, to be stored."""
        return one_by_one(self.stages(scale, seed))

    def stages(self, scale: Scale, seed: int) -> Stages:
        """The same, where the trainings are somebody else's work."""
        if self.entry is None:
            found = yardsticks(self.ground, self.board, scale, seed)
        else:
            try:
                found = yield from stages(self.ground, self.board, self.entry, scale, seed)
            except ValueError as error:  # a method that cannot take these worlds says why
                found = xr.Dataset(attrs={"refused": str(error)})
            except Exception as error:
                if not self.added:
                    raise
                found = xr.Dataset(attrs={"error": _told(error, self.entry)})  # costs its row, not the board
        return found.assign_attrs(fedsarsa_file=KIND, cell=self.label)


def yardsticks(ground: Ground, board: str, scale: Scale, seed: int) -> xr.Dataset:
    """What all rows of a fleet are compared with, exact."""
    fleet = ground.fleet
    if board == PREDICTION:
        return xr.Dataset(
            {
                "federated_point": ("d", federated_point(fleet, ground.state_features, ground.policy)),
                "fixed_points": (("agent", "d"), own_points(ground)),
            }
        )
    # Ascents in many states and actions take long, and find one point from everywhere.
    small = fleet.states * fleet.actions <= 1000
    starts = scale.starts if small else 1
    best = best_common_policy(fleet, starts, seed, 400 if small else 60)
    common = returns_of(fleet, best.policy)
    return xr.Dataset(
        {
            "best_common": ("agent", common.discounted_return.values),
            "optimal_return": ("agent", common.optimal_return.values),
        },
        attrs={"stationarity_gap": best.gap, "starts": starts},
    )


def own_points(ground: Ground) -> Floats:
    """Every agent's fixed point, (N, d)."""
    fleet = ground.fleet
    known = [fixed_point(world, ground.state_features, ground.policy) for world in fleet.worlds]
    return np.array([known[place] for place in fleet.world_of])


def one_by_one(stages: Stages) -> xr.Dataset:
    """What stages return, with their trainings one after another."""
    try:
        wanted = next(stages)
        while True:
            wanted = stages.send(one.history() for one in wanted)
    except StopIteration as end:
        found: xr.Dataset = end.value
        return found


def trained(ground: Ground, board: str, entry: Entry, scale: Scale, seed: int) -> xr.Dataset:
    """Choose step size and temperature on runs of their own, and measure others with the best ones."""
    return one_by_one(stages(ground, board, entry, scale, seed))


def methods(ground: Ground, entry: Entry, scale: Scale) -> dict[Setting, Method]:
    """The entry's method with every step size and temperature that it takes."""
    grid = itertools.product(scale.step_sizes, scale.temperatures if entry.acts else (None,))
    found: dict[Setting, Method] = {}
    refusal: ValueError | None = None
    for setting in grid if "step_size" in entry.names else [(math.nan, None)]:
        try:
            found[setting] = entry.method(ground, *setting)
        except ValueError as error:  # a step size that the method does not take
            refusal = error
    if refusal is not None and not found:
        raise refusal
    return found


def stages(ground: Ground, board: str, entry: Entry, scale: Scale, seed: int) -> Stages:
    """As `trained`: first the runs on which settings are chosen, then those that are measured."""
    measure = returns if board == CONTROL else errors
    known = methods(ground, entry, scale)
    worth = dict.fromkeys(known, 0.0)
    refusal: ValueError | None = None
    if len(known) > 1:
        tuning = [
            training(method, ground, board, scale, scale.tuning_runs, seed + TUNING)
            for method in known.values()
        ]
        histories = yield tuning
        for (setting, method), history in zip(known.items(), histories, strict=True):
            try:
                worth[setting] = _worth(measure(method, history, ground), board)
            except ValueError as error:  # a step size with which it tends to nothing
                refusal = error
                del worth[setting]
    if not worth and refusal is not None:
        raise refusal
    chosen = max(worth, key=lambda one: worth[one])
    method = known[chosen]
    (history,) = yield [training(method, ground, board, scale, scale.runs, seed)]
    found = measure(method, history, ground)
    up, _, per = method.communication(history.final.sizes["d"], len(ground.fleet))
    steps = history.settings["steps"]
    sent = math.nan if entry.block == COMPARISON else up * (1 if per is None else -(-steps // per))
    step, temperature = chosen
    return found.assign_attrs(
        step_size=step,
        temperature=math.nan if temperature is None else temperature,
        sent=float(sent),
        period=math.nan if per is None else float(per),
        samples=_samples(method, steps, ground.fleet),
        note=f"{steps} sweeps" if method.knows == "worlds" else "",
        failed=int((history.failed_at >= 0).sum()),
    )


def training(method: Method, ground: Ground, board: str, scale: Scale, runs: int, seed: int) -> Training:
    """The training of a method within the budget."""
    steps = _budget(board, scale)
    if method.knows == "worlds":
        steps = min(scale.planning_steps, ground.planning_steps)
    elif method.knows == "simulator":
        steps = max(1, steps // _samples(method, 1, ground.fleet))
    return Training(method, ground.fleet, steps, runs, seed)


def returns(method: Method, history: History, ground: Ground) -> xr.Dataset:
    """Exact returns of the learned policies in every agent's world, (run, agent); NaN of failed runs.

    Raises
    ------
    RuntimeError
        A policy beats an agent's own optimum: something is wrong.
    """
    assert isinstance(method, ControlMethod)
    fleet, sound = ground.fleet, history.failed_at.values < 0
    result = np.full((len(sound), len(fleet)), np.nan)
    if sound.any():
        with np.errstate(over="ignore"):  # of step sizes with which a method diverges
            policies = np.asarray(method.policies(history))
        agents, pairs = len(fleet), (fleet.states, fleet.actions)
        if policies.shape not in {(len(sound), *pairs), (len(sound), agents, *pairs)}:
            s, a = pairs
            raise TypeError(
                f"policies of {method.name} must have shape ({len(sound)}, {s}, {a}), or "
                f"({len(sound)}, {agents}, {s}, {a}) with one per agent, got {policies.shape}"
            )
        policies = policies[sound]
        exact = returns_of(fleet, policies if policies.ndim == 4 else policies[:, None])
        result[sound] = exact.discounted_return.values
        above = -(exact.gap / np.maximum(1.0, abs(exact.optimal_return))).values
        if above.max() > ROUNDING:
            run, agent = (int(place) for place in np.unravel_index(above.argmax(), above.shape))
            raise RuntimeError(
                f"{method.name} on {ground.name}: the policy of run {run} beats agent {agent}'s optimum, "
                f"{float(exact.optimal_return[agent])}, by {-float(exact.gap[run, agent])}"
            )
    return xr.Dataset({"discounted_return": (("run", "agent"), result)})


def errors(method: Method, history: History, ground: Ground) -> xr.Dataset:
    """Squared distances to the method's own target, the federated point and every agent's point, (run,).

    A method whose target is a point per agent is measured by what every agent ends with, any other one by the
    central parameter. Distances are means over agents, in units of the mean squared distance of theta = 0,
    where all begin, to the agents' points.
    """
    target = method.target(ground.fleet)
    personal = target is not None and target.ndim == 2
    theta = history.local.values if personal else history.final.values[:, None]
    federated = federated_point(ground.fleet, ground.state_features, ground.policy)
    points = {FEDERATED: federated, AGENTS: own_points(ground)}
    unit = (points[AGENTS] ** 2).sum(axis=-1).mean()
    points |= {} if target is None else {OWN: target}
    with np.errstate(over="ignore"):  # of step sizes with which a method diverges
        off = {
            name: ((theta - point) ** 2).sum(axis=-1).mean(axis=-1) / unit for name, point in points.items()
        }
    return xr.Dataset({name: ("run", off.get(name, np.full(len(theta), np.nan))) for name in ERRORS})


def _worth(found: xr.Dataset, board: str) -> float:
    """What the best setting has most of: the mean return, or minus the error to the method's own target."""
    if board == CONTROL:
        value = float(found.discounted_return.mean(skipna=False))
    else:
        missing = bool(found[OWN].isnull().all())
        value = -float(found[AGENTS if missing else OWN].mean(skipna=False))
    return value if math.isfinite(value) else -math.inf


def _samples(method: Method, steps: int, fleet: Fleet) -> int:
    """What an agent takes in so many steps: with a simulator, a sample of every pair in each."""
    return steps * {"worlds": 0, "simulator": fleet.states * fleet.actions, "samples": 1}[method.knows]


def _told(error: Exception, entry: Entry) -> str:
    """An error in a user's own method, and the line of its module that it came from."""
    module = inspect.getfile(entry.kind)
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == module]
    where = f" ({Path(module).name}, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{where}"


def _budget(board: str, scale: Scale) -> int:
    return scale.control_steps if board == CONTROL else scale.prediction_steps


def cells(
    grounds: Sequence[Ground], entries: Callable[[str], list[Entry]], yardsticks: bool = True
) -> list[Cell]:
    """All cells, board by board and fleet by fleet; each fleet begins with its yardsticks."""
    first = (None,) if yardsticks else ()
    rows = [
        (board, ground, one)
        for board in BOARDS
        for ground in grounds
        if ground.control or board == PREDICTION
        for one in (*first, *entries(board))
    ]
    return [Cell(number, *row) for number, row in enumerate(rows)]
