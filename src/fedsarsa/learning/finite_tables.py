"""A training problem as flat arrays: what compiled engines read, the same on CPU and GPU."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, writeable
from fedsarsa.learning.choice import Choice, choice
from fedsarsa.learning.features import Aggregation, FeatureMap
from fedsarsa.learning.policies import FixedPolicy, Policy
from fedsarsa.worlds import alias
from fedsarsa.worlds.fleet import Fleet


class WorldTables(NamedTuple):
    """Finite worlds. Integers are unsigned; multi-dimensional arrays are flattened.

    ``alias`` holds the rows of all worlds one after another. World w's begin at ``alias_start[w]`` with its
    initial distribution; the row of (s, a) is at ``kernel_start[w] + action_size[w] * a + S * s``, and
    ``turns[w] * rotation[a]`` is added to what is drawn from it.
    ``reward`` is (W, ...) with a stride per index, 0 where it does not depend on it.
    """

    states: int
    alias: NDArray[np.uint64]
    alias_start: NDArray[np.uint64]
    kernel_start: NDArray[np.uint64]
    action_size: NDArray[np.uint64]
    turns: NDArray[np.uint64]
    rotation: NDArray[np.uint64]
    reward: Floats
    reward_world: int
    reward_state: int
    reward_action: int
    reward_next: int


class Tables(NamedTuple):
    """Worlds, features and policy, for steps without options. Integers and arrays as in `WorldTables`.

    Features: an aggregation has ``rows`` (S,), ``columns`` (A,); otherwise ``dense`` is (S, d, A).
    Actions stand in ``order`` class by class. ``members`` (C, most) has those of every class from its last to
    its first, which is repeated up to the size of the largest class. Dense features have a class per action.
    Policy: ``choice`` between the classes. Where fixed policies act, ``cumulative`` (P, S, A) has theirs in
    that order; agent i acts by the (i mod P)-th, and ``policies`` is P. It is 0 where the learned one acts.
    A number in [g/A, (g+1)/A) is searched for from ``guide[..., g]`` on, (P, S, A). Rows of states are
    ``stride`` apart: A, or 0 where all policies are the same in every state and have one row, (P, 1, A).
    """

    worlds: WorldTables
    actions: int
    dim: int
    discount: float
    rows: NDArray[np.uint32]
    columns: NDArray[np.uint32]
    width: int
    order: NDArray[np.uint32]
    members: NDArray[np.uint64]
    most: int
    dense: Floats
    choice: Choice
    policies: int
    stride: int
    cumulative: Floats
    guide: NDArray[np.uint32]


def tabulate_worlds(fleet: Fleet) -> WorldTables:
    """The tables of a fleet's distinct worlds."""
    states, actions = fleet.states, fleet.actions
    entries, alias_start = _alias(fleet)
    turns = np.array([world.kernel.shift for world in fleet.worlds], np.uint64)
    reward, strides = _reward(fleet)
    return WorldTables(
        states=U64(states),
        alias=entries,
        alias_start=alias_start,
        kernel_start=alias_start + U64(states),
        action_size=np.where(turns == 0, states * states, 0).astype(np.uint64),
        turns=turns,
        rotation=(np.arange(actions) % states).astype(np.uint64),
        reward=reward.ravel(),
        reward_world=U64(reward[0].size),
        reward_state=U64(strides[0]),
        reward_action=U64(strides[1]),
        reward_next=U64(strides[2]),
    )


def tabulate(
    fleet: Fleet, features: FeatureMap, policy: Policy, behaviour: Sequence[FixedPolicy] = ()
) -> Tables:
    """The tables of a fleet's distinct worlds, its features and policies."""
    states, actions = fleet.states, fleet.actions
    if isinstance(features, Aggregation):
        rows, columns, width = features.rows, features.columns, features.width
        dense = np.empty(0)
    else:
        rows, columns, width = np.zeros(states, np.int64), np.arange(actions), actions
        dense = np.ascontiguousarray(features.table.transpose(0, 2, 1)).ravel()
    counts = np.bincount(np.asarray(columns, dtype=np.int64), minlength=width)
    alike = np.arange(width) if dense.size == 0 else features.classes
    fixed = (policy,) if isinstance(policy, FixedPolicy) else ()
    masses = np.zeros((width, states if fixed else 0))
    for one in fixed:
        np.add.at(masses, np.asarray(columns, dtype=np.int64), one.table(states, actions).T)
    acting = tuple(behaviour) or fixed
    kept = rows_kept(states, (*acting, *fixed))
    cumulative = np.array([_cumulative(one, kept, actions, features.order) for one in acting])
    tables = Tables(
        worlds=tabulate_worlds(fleet),
        actions=U64(actions),
        dim=U64(features.dim),
        discount=fleet.discount,
        rows=np.asarray(rows, dtype=np.uint32),
        columns=np.asarray(columns, dtype=np.uint32),
        width=U64(width),
        order=features.order.astype(np.uint32),
        members=_members(features.order, counts),
        most=U64(counts.max()),
        dense=dense,
        choice=choice(policy, counts.astype(float), np.asarray(alike), masses.T.ravel()),
        policies=U64(len(acting)),
        stride=U64(actions if kept > 1 else 0),
        cumulative=cumulative.ravel(),
        guide=_guide(cumulative.reshape(-1, actions)).ravel(),
    )
    return writeable(tables)


def rows_kept(states: int, policies: Sequence[FixedPolicy]) -> int:
    """How many rows tables of fixed policies have: a single one where each is the same in every state."""
    return states if any(np.ndim(one.pi) == 2 for one in policies) else 1


def _members(order: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The actions of every class (C most,), from its last to its first."""
    last = np.cumsum(counts)[:, None] - 1
    back = np.minimum(np.arange(counts.max()), counts[:, None] - 1)
    return order[last - back].astype(np.uint64).ravel()


def _alias(fleet: Fleet) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The rows of all worlds as one flat alias table, and where each world's begin."""
    sizes = [world.initial.size + world.kernel.rows.size for world in fleet.worlds]
    starts = np.cumsum([0, *sizes])
    entries = np.empty(starts[-1], np.uint64)
    for world, start in zip(fleet.worlds, starts, strict=False):
        kernel = start + world.states
        entries[start:kernel] = alias.build(world.initial[None])[0]
        rows = world.kernel.rows
        entries[kernel : kernel + rows.size] = alias.build(rows).ravel()
    return entries, starts[:-1].astype(np.uint64)


def _reward(fleet: Fleet) -> tuple[Floats, tuple[int, int, int]]:
    """Rewards (W, ...) with as many axes as the most detailed world needs, and strides of (s, a, s')."""
    axes = max(world.reward.ndim for world in fleet.worlds)
    shape = (fleet.states, fleet.actions, fleet.states)[:axes]

    def detailed(reward: Floats) -> Floats:
        return np.broadcast_to(reward.reshape(reward.shape + (1,) * (axes - reward.ndim)), shape)

    sizes = [int(np.prod(shape[axis + 1 :])) if axis < axes else 0 for axis in range(3)]
    reward = np.stack([detailed(world.reward) for world in fleet.worlds])
    return reward, (sizes[0], sizes[1], sizes[2])


def _cumulative(policy: FixedPolicy, states: int, actions: int, order: NDArray[np.int64]) -> Floats:
    """A fixed policy's cumulative probabilities (S, A), in ``order``."""
    cumulative: Floats = np.cumsum(policy.table(states, actions)[:, order], axis=1)
    return cumulative / cumulative[:, -1:]


def _guide(cumulative: Floats) -> NDArray[np.uint32]:
    """Where the search in a row of ``cumulative`` (n, A) begins, for numbers from g/A on: (n, A)."""
    actions = cumulative.shape[1]
    from_there = (np.arange(actions) - 1e-9) / actions  # a little earlier: u A may be rounded up to g
    found = [np.searchsorted(row, from_there, side="right") for row in cumulative]
    return np.array(found, np.uint32).reshape(cumulative.shape)
