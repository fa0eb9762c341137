"""Federated on-policy reinforcement learning across environments that differ."""

import importlib
from typing import Any

from fedsarsa._version import __version__

# Where the public names live; a name that is its module's own is the module. Each is imported when it is
# first asked for, so that commands which need little start at once. ``__init__.pyi`` is for type checkers.
_PLACES = {
    "ConstantStep": "fedsarsa.learning.step_sizes",
    "EpsilonGreedy": "fedsarsa.learning.policies",
    "ExponentialSchedule": "fedsarsa.learning.schedules",
    "Faults": "fedsarsa.federation.participation",
    "FedSARSA": "fedsarsa.algorithm",
    "FiniteMDP": "fedsarsa.worlds.finite",
    "FixedPolicy": "fedsarsa.learning.policies",
    "Fleet": "fedsarsa.worlds.fleet",
    "FourierBasis": "fedsarsa.learning.fourier",
    "FunctionFeatures": "fedsarsa.learning.function_features",
    "Greedy": "fedsarsa.learning.policies",
    "GridActions": "fedsarsa.learning.actions",
    "GymFleet": "fedsarsa.worlds.gym",
    "GymWorld": "fedsarsa.worlds.gym",
    "History": "fedsarsa.federation.history",
    "LinearDecay": "fedsarsa.learning.step_sizes",
    "LinearSchedule": "fedsarsa.learning.schedules",
    "ModuloFeatures": "fedsarsa.learning.features",
    "OneHot": "fedsarsa.learning.features",
    "PiecewiseDecay": "fedsarsa.learning.step_sizes",
    "Policy": "fedsarsa.acting",
    "RBF": "fedsarsa.learning.rbf",
    "RandomActions": "fedsarsa.learning.actions",
    "RandomFourier": "fedsarsa.learning.random_fourier",
    "ShiftKernel": "fedsarsa.worlds.kernels",
    "Softmax": "fedsarsa.learning.policies",
    "TabularFeatures": "fedsarsa.learning.features",
    "TileCoding": "fedsarsa.learning.tile_coding",
    "callbacks": "fedsarsa.callbacks",
    "control": "fedsarsa.worlds.control",
    "evaluate": "fedsarsa.theory.evaluation",
    "garnet": "fedsarsa.worlds.garnet",
    "methods": "fedsarsa.methods",
    "paper": "fedsarsa.worlds.paper",
    "random_mdps": "fedsarsa.worlds.random_mdps",
    "rollouts": "fedsarsa.rollout",
    "servers": "fedsarsa.federation.servers",
    "seven_states": "fedsarsa.worlds.seven_states",
    "theory": "fedsarsa.theory",
    "two_state": "fedsarsa.worlds.two_state",
    "windy_cliffs": "fedsarsa.worlds.windy_cliffs",
}

__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'fedsarsa' has no attribute {name!r}")
    module = importlib.import_module(_PLACES[name])
    value = module if _PLACES[name].endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
