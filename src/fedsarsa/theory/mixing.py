"""How fast worlds forget where they began: m and rho of Assumption 1 (``asmp:steady``).

Total variation here is the paper's: the sum of absolute differences, twice the probabilists'.
"""

import math

import numpy as np
import scipy

from fedsarsa._checks import Floats
from fedsarsa.worlds.kernels import Kernel, ShiftKernel

# Any rho above the true one is valid too; this one keeps logarithms finite where rows are all equal.
LEAST_RHO = 1e-6
# sigma = sigma' + 2 of eq:sigma exceeds this whatever m >= 1 and rho are chosen: n = 0 asks for m = 1, and
# then sigma' = 1 / (1 - rho) > 1; otherwise sigma' > n >= 1.
LEAST_SIGMA = 3.0
# How many steps ahead to look for a contraction where single steps give none.
LOOK_AHEAD = 200


def mixing(kernel: Kernel) -> tuple[float, float]:
    """(m, rho) of Assumption 1 (``asmp:steady``), valid for every policy; rho is 1 where none was found.

    The Dobrushin coefficient delta, the largest half TV distance of two rows over all state-action
    pairs, contracts every chain: ||P_pi^t(s, .) - eta_pi||_TV <= 2 delta^t. Where delta is 1, the same
    over k steps with the least probability of each move that any policy leaves: delta_k^(1/k), 2/delta_k.
    """
    states = kernel.states
    if isinstance(kernel, ShiftKernel):
        # Only how far two rows are rotated against each other counts, in either direction.
        turns = {min(action % states, -action % states) for action in range(kernel.actions)}
        pairs = ((kernel.P0, kernel.matrix(turn)) for turn in turns)
    else:
        pairs = ((kernel.rows[a * states :], kernel.matrix(a)) for a in range(kernel.actions))
    overlap = min(_least_overlap(left, right) for left, right in pairs)
    if 1 - overlap < 1:
        return 2.0, max(1 - overlap, LEAST_RHO)
    best = (math.inf, 1.0)
    moves = _least_moves(kernel, np.eye(states))
    for k in range(2, min(LOOK_AHEAD, 2 * states) + 1):
        moves = _least_moves(kernel, moves)
        if not moves.any():  # some policy avoids every state: no number of steps will do
            break
        delta = max(1 - _least_overlap(moves, moves), LEAST_RHO)
        if delta < 1:
            found = (2 / delta, delta ** (1 / k))
            best = min(best, found, key=lambda pair: perturbation(*pair))
    return best


def perturbation(m: float, rho: float) -> float:
    """sigma' of eq. 9 (``eq:sigma``): how far a change of the kernel moves the stationary distribution."""
    if rho >= 1:
        return math.inf
    n = math.ceil(math.log(m) / -math.log(rho))
    return n + m * rho**n / (1 - rho)


def mixing_rate(chain: Floats) -> float:
    """The exact rate of one chain (S, S): the second largest modulus of its eigenvalues."""
    moduli = np.sort(np.abs(np.linalg.eigvals(chain)))
    return float(moduli[-2]) if len(moduli) > 1 else 0.0


def _least_moves(kernel: Kernel, ahead: Floats) -> Floats:
    """min over actions of sum_u P_a(s, u) ahead(u, t), (S, S)."""
    least = kernel.matrix(0) @ ahead
    for action in range(1, kernel.actions):
        np.minimum(least, kernel.matrix(action) @ ahead, out=least)
    return least


def _least_overlap(left: Floats, right: Floats) -> float:
    """The least sum_t min(left(i, t), right(j, t)) over all i and j."""
    # Distances round overlaps that are nearly 0, so that of the least one is summed up again.
    if not ((left > 0).astype(float) @ (right > 0).T).all():
        return 0.0
    sums = left.sum(axis=1)[:, None] + right.sum(axis=1)
    i, j = np.unravel_index(
        np.argmin(sums - scipy.spatial.distance.cdist(left, right, "cityblock")), sums.shape
    )
    return float(np.minimum(left[i], right[j]).sum())
