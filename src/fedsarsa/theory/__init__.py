"""What can be known before training: fixed points, constants, bounds, exact returns."""

from fedsarsa.theory.bounds import bounds
from fedsarsa.theory.candidates import improvement
from fedsarsa.theory.constants import constants
from fedsarsa.theory.decomposition import decompose
from fedsarsa.theory.evaluation import evaluate
from fedsarsa.theory.fixed_points import federated_point, fixed_point
from fedsarsa.theory.planning import plan
from fedsarsa.theory.prediction import predict
from fedsarsa.theory.round_limits import round_limit

__all__ = [
    "bounds",
    "constants",
    "decompose",
    "evaluate",
    "federated_point",
    "fixed_point",
    "improvement",
    "plan",
    "predict",
    "round_limit",
]
