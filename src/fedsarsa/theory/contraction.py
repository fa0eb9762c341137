"""How fast the mean path contracts: w and lambda (equations ``eq:w`` and ``eq:lam``)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.theory.operators import UNVISITED, Operators

# Above this many parameters the eigenvalue is found from S x S matrices instead of a d x d one.
DENSE = 400
HALVINGS = 60


def contraction(each: Sequence[Operators]) -> tuple[Floats, Floats, int]:
    """w_i and lambda_i of every world's operators, and the dimension of the subspace they speak of.

    w_i = -lambda_max(sym(A-bar)) / 2 and lambda_i is the least eigenvalue of Phi. Directions that no
    world visits do not count: parameters never move there. Where one world visits a direction that
    another does not, that other's constants are 0 and the theory says nothing.
    """
    shared: Floats = np.sum([one.gram for one in each], axis=0)
    if shared.ndim == 1:
        visited = shared > 0
        lam = np.array([one.gram[visited].min() for one in each])
        largest = np.array([_diagonal_case(one, visited) for one in each])
        dim = int(visited.sum())
    else:
        values, vectors = np.linalg.eigh(shared)
        basis = vectors[:, values > UNVISITED * values[-1]]
        dim = basis.shape[1]
        # A direction is missing in one world where its features span less than those of all together.
        whole = [one.rank == dim for one in each]
        lam = np.array([_least(basis.T @ one.Phi @ basis) for one in each]) * whole
        largest = np.array([_least(-basis.T @ _sym(one.A) @ basis) for one in each]) * whole
    # Exactly, w is never below this (eq:w); rounding of a nearly singular matrix may be.
    w: Floats = np.maximum(largest, (1 - each[0].discount) * lam) / 2
    return w, lam, dim


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
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
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
