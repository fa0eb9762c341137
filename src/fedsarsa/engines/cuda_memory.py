"""What trainings take of a GPU's memory, and what is said where they do not fit."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from fedsarsa.engines import cuda_device
from fedsarsa.engines.cuda_batch import serves, tables_of
from fedsarsa.engines.general import worlds_of
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.servers import Mean
from fedsarsa.federation.state import first_episodes, first_state

SHARE = 0.8  # of the GPU's free memory that is planned with; records and step sizes need some, too
CONTEXT = 2**30  # bytes that a process takes beyond its arrays, at most: CUDA's context, and kernels
PER_AGENT = ("theta", "states", "actions", "progress", "shift", "left")  # of a state


def fitting(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of an engine say how many runs of its ``problems`` fit where the GPU's memory is full."""

    @wraps(method)
    def told(self: Any, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except Exception as error:  # what drivers raise has no class in common
            if "OUT_OF_MEMORY" not in str(error):
                raise
            raise ValueError(too_large(self.problems)) from error

    return told


def too_large(problems: Sequence[Problem]) -> str:
    """What was asked of the GPU's memory, what there is of it, and how many runs fit."""
    runs = sum(problem.runs for problem in problems)
    agents = sum(problem.runs * run_bytes(problem) for problem in problems)
    worlds = sum(map(world_bytes, problems))
    free, total = cuda_device.free_memory()
    free += cuda_device.own_memory()
    others, fit = total - free, int(min(runs - 1, max(0, SHARE * free - worlds) / agents * runs))
    held = f" (other processes hold {_gib(others)} GiB)" if others > CONTEXT else ""
    return (
        f"runs must fit into the GPU's memory, got {runs}: their agents take {_gib(agents)} GiB, the worlds "
        f"{_gib(worlds)} GiB, and {_gib(free)} of {_gib(total)} GiB are free{held}; "
        f"{f'at most {fit} fit' if fit else 'not even one fits'}"
    )


def _gib(count: float) -> str:
    return f"{count / 2**30:.3g}"


def run_bytes(problem: Problem) -> int:
    """What the agents of a run take."""
    one = replace(problem, fleet=problem.fleet[:1], runs=1, server=Mean())
    state = first_state(one, np.zeros(problem.features.dim))
    held = state.episodes or (None if serves(problem) else first_episodes(one))
    arrays = [getattr(state, name) for name in PER_AGENT] + ([] if held is None else [*vars(held).values()])
    return problem.agents * sum(array.nbytes for array in arrays)


def world_bytes(problem: Problem) -> int:
    """What the tables of a problem's worlds take."""
    return _nbytes(tables_of(problem).worlds if problem.finite else worlds_of(problem))


def _nbytes(item: Any) -> int:
    """Of the arrays in named tuples."""
    return sum(map(_nbytes, item)) if isinstance(item, tuple) else getattr(item, "nbytes", 0)
