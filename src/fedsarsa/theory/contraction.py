"""How fast the mean path contracts: w and lambda (equations ``eq:w`` and ``eq:lam``)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.theory.operators import Operators, average

# Above this many parameters the eigenvalue is found from S x S matrices instead of a d x d one.
DENSE = 400
PRECISION = 1e-10
# Eigenvalues below this share of the largest entry of Phi are rounding.
ROUNDING = 1e-13


def contraction(each: Sequence[Operators]) -> tuple[Floats, Floats, int]:
    """w_i and lambda_i of every world's operators, and the dimension of the subspace they speak of.

    w_i = -lambda_max(sym(A-bar)) / 2 and lambda_i is the least eigenvalue of Phi. Directions that no
    world visits do not count: parameters never move there. Where one world visits a direction that
    another does not, that other's constants are 0 and the theory says nothing.
    """
    together = average(each, np.full(len(each), 1 / len(each)))
    # A direction is missing in one world where its features span less than those of all together.
    whole = np.array([one.rank == together.rank for one in each])
    lam = np.array([one.lam for one in each]) * whole
    if together.table is None:
        least = [_diagonal_case(one, together.visited) for one in each]
    else:
        basis = together.basis
        least = [_least(-basis.T @ _sym(one.A) @ basis) for one in each]
    # By eq:w twice w is never below (1 - gamma) lambda: that is what is known where rounding hides more.
    floor = (1 - each[0].discount) * lam
    clear = np.array(least) > [ROUNDING * one.gram.max() for one in each]
    w: Floats = np.where(clear, np.maximum(np.array(least) * whole, floor), floor) / 2
    return w, lam, together.rank


def _diagonal_case(one: Operators, visited: NDArray[np.bool_]) -> float:
    """-lambda_max(sym(A-bar)) on the visited parameters, where Phi is diagonal."""
    phi, inflow, ahead = one.gram[visited], one.inflow[:, visited], one.ahead[:, visited]
    if phi.min() == 0:
        return 0.0
    if len(phi) <= DENSE:
        return _least(np.diag(phi) - one.discount * _sym(inflow.T @ ahead))
    # -sym(A) - x is positive definite just when the matrix below has S negative eigenvalues (inertia of
    # a Schur complement): halve the interval between two bounds of the least eigenvalue.
    states = len(ahead)
    factors = np.vstack([inflow, ahead])
    swap = np.roll(np.eye(2 * states), states, axis=0) * (2 / one.discount)
    low = (1 - one.discount) * phi.min()
    high = (phi - one.discount * (inflow * ahead).sum(axis=0)).min()
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        small = swap - (factors / (phi - middle)) @ factors.T
        if (np.linalg.eigvalsh(small) < 0).sum() == states:
            low = middle
        else:
            high = middle
    return float(low)


def _least(matrix: Floats) -> float:
    return float(np.linalg.eigvalsh(matrix)[0])


def _sym(matrix: Floats) -> Floats:
    return (matrix + matrix.T) / 2
