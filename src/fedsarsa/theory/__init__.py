"""What can be known before training: fixed points, constants, bounds, exact returns."""

from fedsarsa.theory.common_policy import best_common_policy
from fedsarsa.theory.decomposition import decompose
from fedsarsa.theory.evaluation import evaluate, returns_of
from fedsarsa.theory.fixed_points import federated_point, fixed_point
from fedsarsa.theory.grouping import coalitions
from fedsarsa.theory.mixed_worlds import coverage, mixture, visit_shares
from fedsarsa.theory.optimality import optimal_values
from fedsarsa.theory.paper_bounds import bounds
from fedsarsa.theory.paper_constants import constants
from fedsarsa.theory.personal_mixtures import personal_weights
from fedsarsa.theory.personal_planning import personal_plan
from fedsarsa.theory.planning import plan
from fedsarsa.theory.policy_improvement import improvement
from fedsarsa.theory.prediction import predict
from fedsarsa.theory.round_limits import round_limit

__all__ = [
    "best_common_policy",
    "bounds",
    "coalitions",
    "constants",
    "coverage",
    "decompose",
    "evaluate",
    "federated_point",
    "fixed_point",
    "improvement",
    "mixture",
    "optimal_values",
    "personal_plan",
    "personal_weights",
    "plan",
    "predict",
    "returns_of",
    "round_limit",
    "visit_shares",
]
