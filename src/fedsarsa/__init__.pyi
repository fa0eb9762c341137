"""Federated on-policy reinforcement learning across environments that differ."""

from fedsarsa.federation.fedsarsa import FedSARSA
from fedsarsa.federation.history import History
from fedsarsa.learning.features import ModuloFeatures, OneHot, TabularFeatures
from fedsarsa.learning.policies import EpsilonGreedy, FixedPolicy, Greedy, Softmax
from fedsarsa.learning.step_sizes import ConstantStep, LinearDecay, PiecewiseDecay
from fedsarsa.theory.evaluation import evaluate
from fedsarsa.worlds import control, paper
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet
from fedsarsa.worlds.kernels import ShiftKernel

__all__ = [
    "ConstantStep",
    "EpsilonGreedy",
    "FedSARSA",
    "FiniteMDP",
    "FixedPolicy",
    "Fleet",
    "Greedy",
    "History",
    "LinearDecay",
    "ModuloFeatures",
    "OneHot",
    "PiecewiseDecay",
    "ShiftKernel",
    "Softmax",
    "TabularFeatures",
    "__version__",
    "control",
    "evaluate",
    "paper",
    "theory",
]
