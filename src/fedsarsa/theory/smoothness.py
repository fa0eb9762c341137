"""How smoothly policies follow the parameter: L of Assumption ``asmp:lip``."""

import math

from fedsarsa.learning.policies import EpsilonGreedy, FixedPolicy, Policy, Softmax


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
