"""Who runs the rounds: the registry of engines. Every one reproduces the trajectories of ``reference``."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from fedsarsa import _checks
from fedsarsa.engines.opened_rounds import OpeningEngine, probing
from fedsarsa.federation.engine import Engine, Together
from fedsarsa.federation.problem import DOUBLE, PRECISIONS, Problem
from fedsarsa.learning.continuous_features import BoxMap
from fedsarsa.learning.function_features import FunctionBasis
from fedsarsa.learning.targets import OWN_CHAIN
from fedsarsa.worlds.control import ControlFleet
from fedsarsa.worlds.fleet import Fleet
from fedsarsa.worlds.gym import GymFleet

__all__ = ["ENGINES", "Engine", "Entry", "build", "resolve"]

COMPUTED = (Fleet, ControlFleet)  # worlds that fedsarsa itself moves


@dataclass(frozen=True)
class Entry:
    """What there is to know of an engine before it is built.

    Attributes
    ----------
    place : callable
        Where its class is, "module:class", for a problem.
    worlds : tuple of types
        The fleets that it trains.
    about : str
        What it is for, in a few words.
    refuses : callable
        What of a problem in these worlds it does not take, in a few words; None unless there is such a thing.
    precisions : tuple of str
        Those that it computes in.
    pays : callable
        Whether ``auto`` takes it for a problem, where it works: it is faster there than all others.
    gpus : int
        How many it takes.
    cluster : bool
        Whether it takes all cores of a Ray cluster.
    together : str or None
        The module that puts many problems together (``batches``) and trains them side by side
        (``TogetherEngine``), if one does.
    needs : str or None
        A package without which it does not work.
    extra : str or None
        The extra of fedsarsa that brings the package, if it is called otherwise.
    device : callable or None
        What else is missing, such as a device, in a few words; called where the package is there.
    """

    place: Callable[[Problem], str]
    worlds: tuple[type, ...]
    about: str
    refuses: Callable[[Problem], str | None] = lambda _: None
    precisions: tuple[str, ...] = (DOUBLE,)
    pays: Callable[[Problem], bool] = lambda _: False
    gpus: int = 0
    cluster: bool = False
    together: str | None = None
    needs: str | None = None
    extra: str | None = None
    device: Callable[[], str | None] = lambda: None

    @property
    def missing(self) -> str | None:
        """Why the engine does not work here; None if it does."""
        if self.needs is not None and find_spec(self.needs) is None:
            return (
                f"it needs {self.needs.replace('_', '-')}: pip install 'fedsarsa[{self.extra or self.needs}]'"
            )
        return self.device()


def _at(place: str) -> Callable[[Problem], str]:
    return lambda _: f"fedsarsa.engines.{place}"


def _compiled(problem: Problem) -> str:
    """The fast path of finite worlds, or the one step of all worlds."""
    place = "fast_path:FastPathEngine" if problem.holds_pairs else "general:GeneralEngine"
    return f"fedsarsa.engines.{place}"


def _cuda(problem: Problem) -> str:
    """Parameters in shared memory where they fit, or every option of every world."""
    from fedsarsa.engines import cuda_batch

    place = "CudaFiniteEngine" if cuda_batch.serves(problem) else "CudaGeneralEngine"
    return f"fedsarsa.engines.cuda:{place}"


def _device() -> str | None:
    from fedsarsa.engines import cuda_device

    return cuda_device.missing()


def _other_samples(problem: Problem) -> str | None:
    """What engines refuse that hold no samples but the next one of every agent."""
    if problem.server.opens:
        return (
            f"{problem.server!r}, which sees the first sample of a round twice "
            "(fs.servers.ControlVariates() needs it once)"
        )
    step = problem.step
    if step.windowed or step.independent or step.sampling != OWN_CHAIN:
        return "steps that see other than the agent's next transition"
    return None


def _beyond_a_gpu(problem: Problem) -> str | None:
    """The same, and functions that only a processor can call."""
    basis = problem.features.basis if isinstance(problem.features, BoxMap) else None
    if isinstance(basis, FunctionBasis):
        return "features that are a function of your own, which a GPU cannot call"
    return _other_samples(problem)


# From where on a GPU is faster than sixteen cores, compiling included: agent-steps, and agents of all runs.
GPU_STEPS, GPU_LANES = 20_000_000_000, 2_000


def _large(problem: Problem) -> bool:
    """Whether a training is worth a GPU."""
    lanes = problem.agents * problem.runs
    return lanes >= GPU_LANES and lanes * problem.steps >= GPU_STEPS


ENGINES = {
    "cpu": Entry(_compiled, COMPUTED, "compiled, on all cores; the fastest one here"),
    "cuda": Entry(
        _cuda,
        COMPUTED,
        "one NVIDIA GPU; for thousands of agents",
        _beyond_a_gpu,
        PRECISIONS,
        _large,
        gpus=1,
        together="fedsarsa.engines.cuda_together",
        needs="numba_cuda",
        extra="cuda",
        device=_device,
    ),
    "gym": Entry(
        _at("gym_engine:GymEngine"),
        (GymFleet,),
        "Gymnasium environments; learning is compiled",
        _other_samples,
        needs="gymnasium",
    ),
    "ray": Entry(
        _at("ray:RayEngine"),
        COMPUTED,
        "compiled, a block of agents per core of a cluster",
        _other_samples,
        cluster=True,
        needs="ray",
    ),
    "reference": Entry(_at("reference:ReferenceEngine"), COMPUTED, "the specification, in plain NumPy; slow"),
}
AUTO = ("cpu", "gym")  # in this order, where no other one pays


def resolve(name: str, fleet: object = None) -> str:
    """The engine that ``name`` means for a fleet: itself, or the fastest one here for ``auto``."""
    _checks.choice("engine", name, ("auto", *ENGINES))
    able = [one for one, entry in ENGINES.items() if fleet is None or isinstance(fleet, entry.worlds)]
    if name == "auto":
        return next((one for one in AUTO if one in able), name)
    if name not in able:
        kind = type(fleet).__name__
        raise ValueError(f"engine {name!r} does not train a {kind}, got {fleet!r}; use {' or '.join(able)}")
    return name


def build(
    name: str,
    problem: Problem,
    threads: int | None = None,
    first_agent: int = 0,
) -> Engine:
    """The engine ``name`` for a problem.

    ``first_agent`` is the number of the problem's first agent in the federation that it is a part of.
    """
    _check(name, problem)
    built = _built(name, problem, threads, first_agent)
    if not problem.server.opens or built.opens_rounds:
        return built
    first = problem.at_step(0)
    inner, probe = (_built(name, one, threads, first_agent) for one in (first, probing(first)))
    return OpeningEngine(problem, inner, probe)


def entry_of(name: str) -> Entry:
    """The entry of an engine; for ``auto``, of the one that it means for most problems."""
    return ENGINES[resolve(name)]


def working(name: str, needed: str = "") -> Entry:
    """The entry of an engine, if that works here."""
    missing = ENGINES[name].missing
    if missing is not None:
        raise ValueError(f"engine {name!r}{needed} does not work here: {missing}")
    return ENGINES[name]


def batches(name: str, problems: Sequence[Problem], record_every: int = 1) -> list[list[int]]:
    """Places of problems that engine ``name`` trains side by side, batch by batch.

    Places that are in no batch have to be trained one by one.
    """
    for problem in problems:
        _check(name, problem)
    module = importlib.import_module(str(ENGINES[name].together))
    found: list[list[int]] = module.batches(problems, record_every)
    return found


def build_together(name: str, problems: Sequence[Problem]) -> Together:
    """The engine ``name`` for the problems of one of its batches."""
    module = importlib.import_module(str(ENGINES[name].together))
    engine: Together = module.TogetherEngine(problems)
    return engine


def _built(name: str, problem: Problem, threads: int | None, first_agent: int) -> Engine:
    module, _, kind = ENGINES[name].place(problem).partition(":")
    make: Any = getattr(importlib.import_module(module), kind)
    built: Engine = make(problem, threads, first_agent)
    return built


def automatic(problem: Problem) -> str:
    """The engine that ``auto`` means for a problem: one that pays and works here, or that of its worlds."""
    usual, able = resolve("auto", problem.fleet), _precise(problem)
    for name in able:
        entry = ENGINES[name]
        if entry.pays(problem) and entry.refuses(problem) is None and entry.missing is None:
            return name
    return usual if usual in able or not able else able[0]


def _precise(problem: Problem) -> list[str]:
    """Engines for worlds and precision of a problem."""
    return [
        name
        for name, entry in ENGINES.items()
        if isinstance(problem.fleet, entry.worlds) and problem.precision in entry.precisions
    ]


def _check(name: str, problem: Problem) -> None:
    """Reject what an engine cannot do, here or anywhere."""
    entry, precision = ENGINES[name], problem.precision
    if precision not in entry.precisions:
        known, others = (" or ".join(map(repr, one)) for one in (entry.precisions, _precise(problem)))
        hint = f"; use engine {others}" if others else ""
        raise ValueError(f"precision must be {known} with engine {name!r}, got {precision!r}{hint}")
    needed = "" if precision == DOUBLE else f", which precision {precision!r} needs,"
    refused = working(name, needed).refuses(problem)
    if refused is not None:
        able = [
            one
            for one, other in ENGINES.items()
            if isinstance(problem.fleet, other.worlds) and other.refuses(problem) is None
        ]
        others = " or ".join(able) or "one that trains other worlds"
        raise ValueError(f"engine must be {others} for {refused}, got {name!r}")
