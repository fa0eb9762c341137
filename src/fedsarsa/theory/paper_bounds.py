"""The paper's bounds for a given fleet and algorithm, each beside the exact value where there is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, plain
from fedsarsa.theory.error_bounds import of_errors
from fedsarsa.theory.federation_model import effective_weights
from fedsarsa.theory.fixed_points import federated_point
from fedsarsa.theory.inequality import Bound
from fedsarsa.theory.paper_constants import Constants, compute
from fedsarsa.theory.perturbation_bounds import of_fixed_points, of_worlds
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet


@dataclass(frozen=True, eq=False)
class Bounds:
    """All bounds, to iterate over or to ask for by name.

    Attributes
    ----------
    rows : tuple of Bound
        Bounds on worlds, on fixed points, and on the error of a training.
    curve : (T + 1,)
        The bound of E||theta-bar_t - theta_*||^2 of Theorem 2 (``thm``), step by step.
    federated : (d,) or None
        The federated point, to which the algorithm really tends: agents count by server weight and step size.
    """

    rows: tuple[Bound, ...]
    constants: Constants
    curve: Floats
    federated: Floats | None

    def __iter__(self) -> Iterator[Bound]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Bound:
        found = {row.name: row for row in self.rows}
        return found[_checks.choice("name", name, found)]


@single_threaded
def bounds(
    fleet: Fleet | Sequence[FiniteMDP], algo: FedSARSA, steps: int, theta0: ArrayLike | None = None
) -> Bounds:
    """Every bound of the paper for a training.

    Where the theory does not apply, a bound says why in a sentence, and those that stand without it
    (worlds, operators, the ball that parameters cannot leave) still apply.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    algo : FedSARSA
        How they train.
    steps : int
        T.
    theta0 : (d,), optional
        Where training starts, 0 unless given.

    Returns
    -------
    Bounds
        To iterate over, or to ask for by the paper's label.

    Raises
    ------
    ValueError
        ``steps`` or ``theta0`` do not fit.

    Notes
    -----
    The bound of Theorem 2 (``thm``) is a recursion for E_t = E||theta-bar_t - theta_*||^2,

        E_(t+1) <= (1 - alpha w) E_t + alpha C_1 Lambda^2 + alpha^2 C_2 / N + alpha^3 C_3 + alpha^4 C_4

    which the corollaries solve for constant and decaying step sizes.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> found = fs.theory.bounds(fs.paper.fleet(2, 0.5, 0.5, states=10, actions=10), fs.FedSARSA(), 1000)
    >>> found["lem:distri-hetero"].exact < found["lem:distri-hetero"].bound
    True
    >>> found["thm:fix-drift"].applies
    False
    """
    fleet, algo = as_fleet(fleet), plain(algo)
    steps = _checks.integer("steps", steps, least=1)
    dim = algo.feature_map(fleet).dim
    start = np.zeros(dim) if theta0 is None else _checks.vector("theta0", theta0, dim)
    constants = compute(fleet, algo, steps)
    try:
        weights = effective_weights(algo.problem(fleet, steps, runs=1, seed=0))
        federated: Floats | None = federated_point(fleet, algo.features, algo.policy, weights)
    except ValueError:  # the row of the federated point says that there is none
        federated = None
    curve, errors = of_errors(fleet, algo, constants, start, steps)
    rows = (*of_worlds(fleet, algo, constants), *of_fixed_points(constants, federated), *errors)
    return Bounds(rows, constants, curve, federated)
