"""One thread for small matrices.

The theory solves many systems of a few hundred unknowns. BLAS threads that wait for one another made it
twenty times slower on a machine with other work, and no faster on an idle one.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
T = TypeVar("T")


@functools.cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  # its BLAS is another: a controller knows those that are loaded

    return ThreadpoolController()


def single_threaded(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function with one BLAS thread."""

    @functools.wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
