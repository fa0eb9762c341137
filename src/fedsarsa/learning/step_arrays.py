"""The arrays that compiled steps work on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import writeable
from fedsarsa.learning import bases
from fedsarsa.learning.choice import Choice, choice
from fedsarsa.learning.continuous_features import BoxMap, Coefficients, Integers, coefficients
from fedsarsa.learning.features import Aggregation, DenseTable, FeatureMap
from fedsarsa.learning.policies import FixedPolicy, Policy
from fedsarsa.learning.targets import LEAVES, REPLACING, SHARED_CHAIN, TARGETS, Step


class Model(NamedTuple):
    """Features, policy and options of the step.

    ``kind`` is the number of the ``basis``. ``inputs`` counts the features' inputs, the action among them if
    ``joint``. ``numbers`` (A,) are the actions as numbers; if joint they are drawn afresh between
    ``action_low`` and ``action_high``.
    In ``finite`` worlds the input is a state's number, and phi(s, a) is e_j with j = rows[s] width +
    columns[a], or where there is one, a column of ``dense`` (S, d, A). Actions stand in ``order``, and
    candidate c is action ``order[c]``.
    ``behaviour`` (P, S, A) are the masses by which agents act, agent i by the (i mod P)-th; empty: by the
    policy. S is 1 where states have no number. In finite worlds where a fixed policy acts, ``cumulative`` has
    its sums, by which it is drawn. With ``shared``, all agents use the random numbers of agent 0.
    """

    kind: int
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
    finite: bool
    states: int
    rows: NDArray[np.uint32]
    columns: NDArray[np.uint32]
    width: int
    dense: Floats
    order: NDArray[np.uint32]
    choice: Choice
    behaviour: Floats
    cumulative: Floats
    discount: float
    trace_decay: float
    replacing: bool
    target: int
    redraws: bool
    leaves: int
    shared: bool


class AgentState(NamedTuple):
    """What lanes hold, a row each: the pair (x, a) and its features, traces, and their episodes.

    ``live[:count]`` are the places where a trace is not zero. ``shift`` is added to every direction, and
    ``left`` gathers what steps leave for the server. Agents act by ``own`` times their parameter plus
    ``others``. ``shift``, ``left`` and ``others`` are empty where unused. Episodes are summed up in bins of
    time.
    """

    seen: Floats
    actions: NDArray[np.uint32]
    numbers: Floats
    places: NDArray[np.int64]
    value: Floats
    trace: Floats
    live: NDArray[np.int64]
    live_count: Integers
    shift: Floats
    left: Floats
    own: Floats
    others: Floats
    elapsed: Integers
    gain: Floats
    clipped: Integers
    episodes: Integers
    returns: Floats
    lengths: Integers


class Moment(NamedTuple):
    """Whose step it is, and when: a lane, its agent, and what its random numbers are a function of.

    ``who`` is the agent's place among those of the problem, ``agent`` the number of its random stream.
    """

    lane: int
    who: int
    seed: int
    run: int
    agent: int
    t: int


class StepWorkspace(NamedTuple):
    """Working space of one thread: inputs, features of the candidates, their values and masses."""

    unit: Floats
    places: NDArray[np.int64]
    value: Floats
    numbers: Floats
    q: Floats
    mass: Floats
    mixed: Floats
    acting: Floats


def model(
    features: FeatureMap | BoxMap,
    policy: Policy,
    numbers: Floats,
    order: NDArray[np.int64],
    action_bounds: tuple[float, float],
    discount: float,
    step: Step,
    states: int,
) -> Model:
    """The model as arrays and numbers; ``states`` is 1 where states have no number."""
    actions, none = len(numbers), np.empty(0)
    own = (policy,) if isinstance(policy, FixedPolicy) else ()
    masses, behaviour = (
        np.concatenate([none, *(one.table(states, actions)[:, order].ravel() for one in fixed)])
        for fixed in (own, step.behaviour)
    )
    box = features if isinstance(features, BoxMap) else None
    whole, dense = np.empty(0, np.uint32), np.empty((0, 0, 0))
    if isinstance(features, DenseTable):
        dense = np.ascontiguousarray(features.table.transpose(0, 2, 1))
    classes = np.arange(actions) if features.classes is None else features.classes
    arrays = Model(
        kind=bases.number(type(box.basis)) if box else -1,
        basis=box.basis.coefficients() if box else coefficients(features.most_active, weight=1.0),
        inputs=len(box.low) if box else 1,
        low=box.low if box else none,
        high=box.high if box else none,
        scale=1.0 / (box.high - box.low) if box else none,
        stack=box.stack if box else 1,
        joint=features.joint,
        numbers=numbers,
        action_low=action_bounds[0],
        action_high=action_bounds[1],
        finite=box is None,
        states=states,
        rows=features.rows.astype(np.uint32) if isinstance(features, Aggregation) else whole,
        columns=features.columns.astype(np.uint32) if isinstance(features, Aggregation) else whole,
        width=features.width if isinstance(features, Aggregation) else 0,
        dense=dense,
        order=order.astype(np.uint32),
        choice=choice(policy, np.ones(actions), classes[order], masses),
        behaviour=behaviour,
        cumulative=none if box else _cumulative(behaviour if behaviour.size else masses, actions),
        discount=discount,
        trace_decay=step.trace_decay,
        replacing=step.traces == REPLACING,
        target=TARGETS.index(step.target),
        redraws=step.redraw_actions,
        leaves=LEAVES.index(step.leaves),
        shared=step.sampling == SHARED_CHAIN,
    )
    return writeable(arrays)


def _cumulative(masses: Floats, actions: int) -> Floats:
    """The sums of masses (..., A), flat: what fixed policies are drawn by, without looking at values."""
    return np.cumsum(masses.reshape(-1, actions), axis=1).ravel()


def step_workspace(model: Model) -> StepWorkspace:
    """Empty working space."""
    actions, active = len(model.numbers), model.basis.active
    rows = actions if model.joint else 1
    return StepWorkspace(
        unit=np.empty(model.inputs),
        places=np.empty((rows, active), np.int64),
        value=np.empty((rows, active)),
        numbers=np.array(model.numbers),
        q=np.empty(actions),
        mass=np.empty(actions),
        mixed=np.empty(actions),
        acting=np.empty(actions),
    )
