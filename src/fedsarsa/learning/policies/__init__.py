"""Policy improvement operators Gamma: Q-values -> probabilities of actions. One policy per file.

Every policy is a map from the values Q(s, .) to probabilities pi(. | s); that map is all that engines
and theory know of it. Where ties go to the first, the map also asks which actions have the same features
(`classes`). Actions are drawn by inverting the cumulative distribution in the order the features give
(`order`), so one random number draws one action, the same one in every engine.
"""

from typing import Any

from fedsarsa._checks import Floats
from fedsarsa.learning.features import FeatureMap
from fedsarsa.learning.policies.epsilon_greedy import EpsilonGreedy
from fedsarsa.learning.policies.fixed import FixedPolicy
from fedsarsa.learning.policies.greedy import FIRST, SHARE, TIES, Greedy
from fedsarsa.learning.policies.policy import ALL, Classes, Policy, State
from fedsarsa.learning.policies.softmax import Softmax

__all__ = [
    "ALL",
    "FIRST",
    "POLICIES",
    "SHARE",
    "TIES",
    "Classes",
    "EpsilonGreedy",
    "FixedPolicy",
    "Greedy",
    "Policy",
    "Softmax",
    "State",
    "check",
    "greedy_as",
    "improvement",
]

# By their names in configurations; compiled engines know a policy by its place here.
POLICIES: dict[str, type[Policy]] = {
    "softmax": Softmax,
    "greedy": Greedy,
    "epsilon-greedy": EpsilonGreedy,
    "fixed": FixedPolicy,
}


def check(policy: Any) -> None:
    """Reject what is not a policy."""
    if not isinstance(policy, tuple(POLICIES.values())):
        names = [kind.__name__ for kind in POLICIES.values()]
        raise TypeError(f"policy must be {', '.join(names[:-1])} or {names[-1]}, got {policy!r}")


def improvement(policy: Policy, features: FeatureMap, theta: Floats) -> Floats:
    """Gamma(theta), (S, A): the policy improvement operator at a parameter."""
    return policy.probabilities(features.values(theta), classes=features.classes)


def greedy_as(policy: Policy) -> Greedy:
    """The greedy policy that breaks ties as ``policy`` does, if it has any to break."""
    return Greedy(policy.ties) if isinstance(policy, Greedy | EpsilonGreedy) else Greedy()
