"""Who runs the rounds. Every engine reproduces the trajectories of ``reference``."""

from typing import ClassVar, Protocol

from fedsarsa import _checks
from fedsarsa.federation.problem import Problem, State, Synchronisations


class Engine(Protocol):
    """Trains a problem."""

    name: ClassVar[str]

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        ...

    def advance(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place."""
        ...


ENGINES = ("cpu", "ray", "reference")


def resolve(name: str) -> str:
    """The engine that ``name`` means: itself, or the fastest one here for ``auto``."""
    _checks.choice("engine", name, ("auto", *ENGINES))
    return "cpu" if name == "auto" else name


def build(name: str, problem: Problem, threads: int | None) -> Engine:
    """The engine ``name`` for a problem."""
    if name == "reference":
        from fedsarsa.federation.engines.reference import ReferenceEngine

        return ReferenceEngine(problem)
    if name == "ray":
        from fedsarsa.federation.engines.ray import RayEngine

        return RayEngine(problem, threads)
    from fedsarsa.federation.engines.cpu import CpuEngine

    return CpuEngine(problem, threads)
