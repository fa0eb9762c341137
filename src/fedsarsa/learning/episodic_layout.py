"""The arrays that compiled steps on continuous observations work on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.learning.boxes import BoxMap, Coefficients, Integers
from fedsarsa.learning.policies import EpsilonGreedy, FixedPolicy, Greedy, Policy, Softmax
from fedsarsa.learning.tables import EPSILON_GREEDY, FIXED, GREEDY, SOFTMAX, ties_first


class Model(NamedTuple):
    """Features, policy and options of the step.

    ``inputs`` counts the features' inputs, the action among them if ``joint``. ``numbers`` (A,) are the
    actions as numbers; if joint they are drawn afresh between ``action_low`` and ``action_high``. With
    ``ties_first`` the first of the best candidates takes the mass of a greedy choice.
    """

    basis: Coefficients
    inputs: int
    low: Floats
    high: Floats
    scale: Floats
    stack: int
    joint: bool
    numbers: Floats
    action_low: float
    action_high: float
    policy: int
    parameter: float
    ties_first: bool
    masses: Floats
    discount: float
    trace_decay: float
    replacing: bool
    expected: bool


class Flock(NamedTuple):
    """What lanes hold, a row each: the pair (x, a) and its features, traces, and their episodes.

    ``live[:count]`` are the places where a trace is not zero. Episodes are summed up in bins of time.
    """

    seen: Floats
    actions: NDArray[np.uint32]
    numbers: Floats
    places: NDArray[np.int64]
    value: Floats
    trace: Floats
    live: NDArray[np.int64]
    live_count: Integers
    elapsed: Integers
    gain: Floats
    clipped: Integers
    episodes: Integers
    returns: Floats
    lengths: Integers


class Desk(NamedTuple):
    """Working space of one thread: scaled inputs, features of the candidates, their values and masses."""

    unit: Floats
    places: NDArray[np.int64]
    value: Floats
    numbers: Floats
    q: Floats
    mass: Floats


def model(
    features: BoxMap,
    policy: Policy,
    numbers: Floats,
    action_bounds: tuple[float, float],
    discount: float,
    trace_decay: float,
    replacing: bool,
    expected: bool,
) -> Model:
    """The model as arrays and numbers."""
    actions = len(numbers)
    masses = np.empty(0)
    if isinstance(policy, FixedPolicy):
        masses = policy.table(1, actions)[0]
    codes = {Softmax: SOFTMAX, Greedy: GREEDY, EpsilonGreedy: EPSILON_GREEDY, FixedPolicy: FIXED}
    parameter = getattr(policy, "temperature", getattr(policy, "eps", 0.0))
    return Model(
        basis=features.basis.coefficients(),
        inputs=len(features.low),
        low=features.low,
        high=features.high,
        scale=1.0 / (features.high - features.low),
        stack=features.stack,
        joint=features.joint,
        numbers=numbers,
        action_low=action_bounds[0],
        action_high=action_bounds[1],
        policy=codes[type(policy)],
        parameter=float(parameter),
        ties_first=ties_first(policy),
        masses=masses,
        discount=discount,
        trace_decay=trace_decay,
        replacing=replacing,
        expected=expected,
    )


def desk(model: Model) -> Desk:
    """Empty working space."""
    actions, active = len(model.numbers), model.basis.active
    rows = actions if model.joint else 1
    return Desk(
        unit=np.empty(model.inputs),
        places=np.empty((rows, active), np.int64),
        value=np.empty((rows, active)),
        numbers=np.array(model.numbers),
        q=np.empty(actions),
        mass=np.empty(actions),
    )
