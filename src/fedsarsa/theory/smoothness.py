"""How smoothly policies follow the parameter: L of Assumption 2 (``asmp:lip``)."""

import math

from fedsarsa.learning.policies import EpsilonGreedy, FixedPolicy, Policy, Softmax
from fedsarsa.learning.schedules import Scheduled


def lipschitz(policy: Policy, actions: int) -> float:
    """L of Assumption 2 (``asmp:lip``): ||pi_1(.|s) - pi_2(.|s)||_TV <= L ||theta_1 - theta_2||.

    Softmax: 1 / temperature. Along a direction x the policy changes by pi_a (x_a - mean x) / temperature
    with x_a = phi(s, a)'x, so its total variation changes by the mean absolute deviation of x_a over
    the temperature, which is at most its standard deviation, at most max |x_a| <= ||x||. Two actions
    with features e and -e attain it.
    """
    uniform = isinstance(policy, EpsilonGreedy) and policy.parameter == 1
    if actions == 1 or isinstance(policy, FixedPolicy) or uniform:
        return 0.0
    return 1 / policy.parameter if isinstance(policy, Softmax) else math.inf


def require_smooth(policy: Policy, actions: int) -> None:
    """Reject a policy that jumps, so that the semi-gradient has no Jacobian, or that follows a schedule."""
    if isinstance(policy, Scheduled) and policy.changes:
        raise ValueError(
            f"policy must keep its {policy.number} for its error to be predicted, got {policy!r}; "
            f"policy.at_step(t) is the policy of step t"
        )
    if math.isinf(lipschitz(policy, actions)):
        raise ValueError(
            f"policy must change smoothly with the parameter (Softmax or FixedPolicy) for its error to be "
            f"predicted, got {policy!r}: the semi-gradient has no Jacobian, and a fixed point may not exist"
        )
