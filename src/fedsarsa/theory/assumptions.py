"""What the paper assumes of worlds and policies, in numbers: mixing and smoothness.

Total variation here is the paper's: the sum of absolute differences, twice the probabilists'.
"""

import math

import numba
import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.learning.policies import EpsilonGreedy, FixedPolicy, Policy, Softmax
from fedsarsa.worlds.kernels import Kernel, ShiftKernel

# Any rho above the true one is valid too; this one keeps logarithms finite where rows are all equal.
LEAST_RHO = 1e-6
# sigma = sigma' + 2 of eq:sigma exceeds this whatever m >= 1 and rho are chosen: n = 0 asks for m = 1, and
# then sigma' = 1 / (1 - rho) > 1; otherwise sigma' > n >= 1.
LEAST_SIGMA = 3.0
# How many steps ahead to look for a contraction where single steps give none.
LOOK_AHEAD = 200

IN_PLACE = np.zeros(1, np.int64)


def lipschitz(policy: Policy, actions: int) -> float:
    """L of Assumption ``asmp:lip``: ||pi_1(.|s) - pi_2(.|s)||_TV <= L ||theta_1 - theta_2||.

    Softmax: 1 / temperature. Along a direction x the policy changes by pi_a (x_a - mean x) / temperature
    with x_a = phi(s, a)'x, so its total variation changes by the mean absolute deviation of x_a over
    the temperature, which is at most its standard deviation, at most max |x_a| <= ||x||. Two actions
    with features e and -e attain it.
    """
    uniform = isinstance(policy, EpsilonGreedy) and policy.eps == 1
    if actions == 1 or isinstance(policy, FixedPolicy) or uniform:
        return 0.0
    return 1 / policy.temperature if isinstance(policy, Softmax) else math.inf


def require_smooth(policy: Policy, actions: int) -> None:
    """Refuse a policy that jumps, where a Jacobian of the semi-gradient is needed."""
    if math.isinf(lipschitz(policy, actions)):
        raise ValueError(
            f"policy must change smoothly with the parameter (Softmax or FixedPolicy) for its error to be "
            f"predicted, got {policy!r}: the semi-gradient has no Jacobian, and a fixed point may not exist"
        )


def mixing(kernel: Kernel) -> tuple[float, float]:
    """(m, rho) of Assumption ``asmp:steady``, valid for every policy; rho is 1 where none was found.

    The Dobrushin coefficient delta, the largest half TV distance of two rows over all state-action
    pairs, contracts every chain: ||P_pi^t(s, .) - eta_pi||_TV <= 2 delta^t. Where delta is 1, the same
    over k steps with the least probability of each move that any policy leaves: delta_k^(1/k), 2/delta_k.
    """
    if isinstance(kernel, ShiftKernel):
        # Rotating both rows changes nothing: one of the two need not be rotated. Written twice side by
        # side, a row holds all its rotations.
        twice = np.hstack([kernel.P0, kernel.P0])
        overlap = _least_overlap(kernel.P0, twice, kernel.states - np.arange(kernel.actions))
    else:
        overlap = _least_overlap(kernel.rows, kernel.rows, IN_PLACE)
    if 1 - overlap < 1:
        return 2.0, max(1 - overlap, LEAST_RHO)
    best = (math.inf, 1.0)
    moves = _least_moves(kernel, np.eye(kernel.states))
    for k in range(2, min(LOOK_AHEAD, 2 * kernel.states) + 1):
        moves = _least_moves(kernel, moves)
        if not moves.any():  # some policy avoids every state: no number of steps will do
            break
        delta = max(1 - _least_overlap(moves, moves, IN_PLACE), LEAST_RHO)
        if delta < 1:
            found = (2 / delta, delta ** (1 / k))
            best = min(best, found, key=lambda pair: perturbation(*pair))
    return best


def perturbation(m: float, rho: float) -> float:
    """sigma' of ``eq:sigma``: how far a change of the kernel moves the stationary distribution."""
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


# The sum over states may be reordered: that is what lets it use vector instructions.
@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "nsz", "nnan"})
def _least_overlap(left: Floats, right: Floats, offsets: NDArray[np.int64]) -> float:
    """The least sum_t min(left(i, t), right(j, offset + t)) over all i, j and offsets."""
    least = 1.0
    states = left.shape[1]
    for offset in offsets:
        for j in range(right.shape[0]):
            row = right[j, offset : offset + states]
            for i in range(left.shape[0]):
                overlap = 0.0
                for t in range(states):
                    overlap += min(left[i, t], row[t])
                least = min(least, overlap)
    return least
