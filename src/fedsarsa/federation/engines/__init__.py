"""Who runs the rounds. Every engine reproduces the trajectories of ``reference``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Protocol

from fedsarsa import _checks
from fedsarsa.federation.episodic import EpisodicProblem
from fedsarsa.federation.problem import Problem, State, Synchronisations
from fedsarsa.worlds.gym import GymFleet


class Engine(Protocol):
    """Trains a problem."""

    name: ClassVar[str]

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        ...

    def advance(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place."""
        ...


ENGINES = ("cpu", "gym", "ray", "reference")


def resolve(name: str, fleet: object = None) -> str:
    """The engine that ``name`` means: itself, or the fastest one here for ``auto``."""
    _checks.choice("engine", name, ("auto", *ENGINES))
    if isinstance(fleet, GymFleet):
        if name not in {"auto", "gym"}:
            raise ValueError(f"engine must be 'gym' or 'auto' for environments of Gymnasium, got {name!r}")
        return "gym"
    if name == "gym" and fleet is not None:
        raise ValueError(f"engine 'gym' is for environments of Gymnasium (GymFleet), got {fleet!r}")
    return "cpu" if name == "auto" else name


def build(name: str, problem: Problem, threads: int | None) -> Engine:
    """The engine ``name`` for a problem."""
    if name == "ray":
        from fedsarsa.federation.engines.ray import RayEngine

        return RayEngine(problem, threads)
    if isinstance(problem, EpisodicProblem):
        if name == "gym":
            from fedsarsa.federation.engines.gym import GymEngine

            return GymEngine(problem)
        if name == "reference":
            from fedsarsa.federation.engines.control_reference import ControlReference

            return ControlReference(problem)
        from fedsarsa.federation.engines.control import ControlEngine

        return ControlEngine(problem, threads)
    if name == "reference":
        from fedsarsa.federation.engines.reference import ReferenceEngine

        return ReferenceEngine(problem)
    from fedsarsa.federation.engines.cpu import CpuEngine

    return CpuEngine(problem, threads)


@contextmanager
def closing(engine: Engine) -> Iterator[Engine]:
    """Close what an engine opened, also after an error."""
    try:
        yield engine
    finally:
        close = getattr(engine, "close", None)
        if close is not None:
            close()
