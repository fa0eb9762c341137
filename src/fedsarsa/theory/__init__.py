"""What can be known before training: fixed points, constants, bounds, exact returns."""

from fedsarsa.theory.bounds import bounds
from fedsarsa.theory.constants import constants
from fedsarsa.theory.evaluation import evaluate
from fedsarsa.theory.fixed_points import federated_point, fixed_point
from fedsarsa.theory.prediction import predict

__all__ = ["bounds", "constants", "evaluate", "federated_point", "fixed_point", "predict"]
