"""Federated on-policy reinforcement learning across environments that differ."""

from fedsarsa import callbacks, methods, theory
from fedsarsa._version import __version__
from fedsarsa.acting import Policy
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation import servers
from fedsarsa.federation.history import History
from fedsarsa.federation.participation import Faults
from fedsarsa.learning.actions import GridActions, RandomActions
from fedsarsa.learning.features import ModuloFeatures, OneHot, TabularFeatures
from fedsarsa.learning.fourier import FourierBasis
from fedsarsa.learning.function_features import FunctionFeatures
from fedsarsa.learning.policies import EpsilonGreedy, FixedPolicy, Greedy, Softmax
from fedsarsa.learning.random_fourier import RandomFourier
from fedsarsa.learning.rbf import RBF
from fedsarsa.learning.schedules import ExponentialSchedule, LinearSchedule
from fedsarsa.learning.step_sizes import ConstantStep, LinearDecay, PiecewiseDecay
from fedsarsa.learning.tile_coding import TileCoding
from fedsarsa.rollout import rollouts
from fedsarsa.theory.evaluation import evaluate
from fedsarsa.worlds import control, garnet, paper, random_mdps, seven_states, two_state, windy_cliffs
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet
from fedsarsa.worlds.gym import GymFleet, GymWorld
from fedsarsa.worlds.kernels import ShiftKernel

__all__ = [
    "RBF",
    "ConstantStep",
    "EpsilonGreedy",
    "ExponentialSchedule",
    "Faults",
    "FedSARSA",
    "FiniteMDP",
    "FixedPolicy",
    "Fleet",
    "FourierBasis",
    "FunctionFeatures",
    "Greedy",
    "GridActions",
    "GymFleet",
    "GymWorld",
    "History",
    "LinearDecay",
    "LinearSchedule",
    "ModuloFeatures",
    "OneHot",
    "PiecewiseDecay",
    "Policy",
    "RandomActions",
    "RandomFourier",
    "ShiftKernel",
    "Softmax",
    "TabularFeatures",
    "TileCoding",
    "__version__",
    "callbacks",
    "control",
    "evaluate",
    "garnet",
    "methods",
    "paper",
    "random_mdps",
    "rollouts",
    "servers",
    "seven_states",
    "theory",
    "two_state",
    "windy_cliffs",
]
