"""Garnets, random worlds in which every pair has a few successors, in the variants of three papers.

========= ========================================================= =====================================
variant   paper                                                     what agents differ in
========= ========================================================= =====================================
scafflsa  Mangold et al., NeurIPS 2024 (and its program)            two supports by turns, opposite rewards
sarsa     Mangold, Berthier and Moulines, 2025 (and its program)    two worlds by turns
pflsa     Labbi, Mangold and Moulines, 2026                         every agent a world of its own
========= ========================================================= =====================================
"""

from dataclasses import dataclass

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet


@dataclass(frozen=True)
class Variant:
    """Sizes of a published variant: states, actions, successors of a pair, features, discount factor."""

    states: int
    actions: int
    successors: int
    features: int
    discount: float


SCAFFLSA, SARSA, PFLSA = "scafflsa", "sarsa", "pflsa"
VARIANTS = {
    SCAFFLSA: Variant(30, 2, 2, 8, 0.95),
    SARSA: Variant(10, 3, 2, 30, 0.9),
    PFLSA: Variant(10, 10, 3, 5, 0.95),
}
SPREAD = 0.02  # successors' weights, and rewards of alike agents, of scafflsa are raised by up to this


def fleet(agents: int = 10, variant: str = SCAFFLSA, heterogeneous: bool = True, seed: int = 0) -> Fleet:
    """Garnets of a published variant.

    Parameters
    ----------
    agents : int
        N.
    variant : {"scafflsa", "sarsa", "pflsa"}
        ``scafflsa``: 30 states, 2 actions, 2 successors of nearly equal weights, a reward per state, discount
        0.95. Even agents have one set of successors and rewards r, odd ones another set and rewards -r; where
        they are not heterogeneous all have one set and nearly the same rewards. ``sarsa``: 10 states, 3
        actions, 2 successors of uniform weights, a reward per pair, discount 0.9; two worlds by turns.
        ``pflsa``: 10 states, 10 actions, 3 successors; every agent has a world of its own. The paper's text
        leaves weights, rewards and the discount open; they are uniform, per pair, and 0.95.
    heterogeneous : bool
        Whether agents differ; as far as described.
    seed : int
        Of the worlds.

    Returns
    -------
    Fleet
        First states are uniform.

    Raises
    ------
    ValueError
        An argument is out of its range.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.garnet.fleet(agents=4, variant="sarsa")
    Fleet(agents=4, distinct=2, states=10, actions=3, discount=0.9)
    """
    agents, sizes = _checks.integer("agents", agents, least=1), _sizes(variant)
    if not isinstance(heterogeneous, bool):
        raise TypeError(f"heterogeneous must be True or False, got {heterogeneous!r}")
    seed = _checks.integer("seed", seed, least=0)
    if variant == SCAFFLSA:
        return _scafflsa(sizes, agents, heterogeneous, seed)
    worlds = agents if variant == PFLSA else 2
    made = [_uniform(sizes, np.random.default_rng([seed, place])) for place in range(min(worlds, agents))]
    return Fleet(made[agent % worlds if heterogeneous else 0] for agent in range(agents))


def features(variant: str = SCAFFLSA, seed: int = 0) -> Floats:
    """The features of a variant, (S, A, d), for ``TabularFeatures``.

    One-hot for ``sarsa``. Else they are a state's, 8 or 5 uniform draws divided by their sum.

    Parameters
    ----------
    variant : {"scafflsa", "sarsa", "pflsa"}
        As for `fleet`.
    seed : int
        Of the draws.

    Returns
    -------
    (S, A, d) array
        phi(s, a), with norms of at most 1.

    Raises
    ------
    ValueError
        ``variant`` is none of the three, or ``seed`` is negative.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.TabularFeatures(fs.garnet.features("scafflsa")).on(states=30, actions=2).dim
    8
    """
    sizes = _sizes(variant)
    if variant == SARSA:
        pairs = sizes.states * sizes.actions
        return np.eye(pairs).reshape(sizes.states, sizes.actions, pairs)
    rng = np.random.default_rng([_checks.integer("seed", seed, least=0), 2**32])
    table = 1 - rng.random((sizes.states, sizes.features))  # in (0, 1]: no row may vanish
    table /= table.sum(axis=1, keepdims=True)
    return np.repeat(table[:, None], sizes.actions, axis=1)


def policy(variant: str = SCAFFLSA, seed: int = 0) -> Floats:
    """The policy that a variant evaluates, (S, A), for ``FixedPolicy``.

    ``scafflsa``: all actions alike but one in every state, drawn at random, that is never taken. Else it is
    uniform; the paper of ``sarsa`` learns with ``Softmax(2.0)``.

    Parameters
    ----------
    variant : {"scafflsa", "sarsa", "pflsa"}
        As for `fleet`.
    seed : int
        Of the draws.

    Returns
    -------
    (S, A) array
        Probabilities, a row per state.

    Raises
    ------
    ValueError
        ``variant`` is none of the three, or ``seed`` is negative.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> float(fs.FixedPolicy(fs.garnet.policy("scafflsa")).table(states=30, actions=2).max())
    1.0
    """
    sizes = _sizes(variant)
    table = np.full((sizes.states, sizes.actions), 1 / sizes.actions)
    if variant == SCAFFLSA:
        rng = np.random.default_rng([_checks.integer("seed", seed, least=0), 2**32 + 1])
        never = rng.integers(sizes.actions, size=sizes.states)
        table = (np.arange(sizes.actions) != never[:, None]) / (sizes.actions - 1)
    return table


def _sizes(variant: str) -> Variant:
    return VARIANTS[_checks.choice("variant", variant, VARIANTS)]


def _scafflsa(sizes: Variant, agents: int, heterogeneous: bool, seed: int) -> Fleet:
    shared = np.random.default_rng([seed, 0])
    supports = [_support(sizes, shared) for _ in range(2)]
    reward = shared.random(sizes.states)
    worlds = []
    for agent in range(agents):
        rng = np.random.default_rng([seed, 1 + agent])
        odd = agent % 2 if heterogeneous else 0
        weights = supports[odd] * rng.uniform(1, 1 + SPREAD, size=supports[odd].shape)
        raised = 0.0 if heterogeneous else rng.uniform(0, SPREAD, size=sizes.states)
        worlds.append(FiniteMDP(_normalised(weights), (1 - 2 * odd) * reward + raised, sizes.discount))
    return Fleet(worlds)


def _uniform(sizes: Variant, rng: np.random.Generator) -> FiniteMDP:
    """A garnet with uniform weights of the successors, and uniform rewards of the pairs."""
    support = _support(sizes, rng)
    weights = support * (1 - rng.random(support.shape))  # in (0, 1]
    return FiniteMDP(_normalised(weights), rng.random((sizes.states, sizes.actions)), sizes.discount)


def _support(sizes: Variant, rng: np.random.Generator) -> Floats:
    """Which successors pairs have, (A, S, S): as many ones in every row, drawn without replacement."""
    row = np.repeat([1.0, 0.0], [sizes.successors, sizes.states - sizes.successors])
    rows: Floats = rng.permuted(np.tile(row, (sizes.actions, sizes.states, 1)), axis=-1)
    return rows


def _normalised(rows: Floats) -> Floats:
    normalised: Floats = rows / rows.sum(axis=-1, keepdims=True)
    return normalised
