"""What can be known before training: stationary distributions, fixed points, exact returns."""

from fedsarsa.theory.evaluation import evaluate
from fedsarsa.theory.fixed_points import federated_point, fixed_point

__all__ = ["evaluate", "federated_point", "fixed_point"]
