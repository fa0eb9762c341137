"""The worlds of the paper's simulations (Appendix C, ``sec:apx-exp``): a nominal MDP and fleets around it.

Agent 0 always lives in the nominal world (the paper counts it as agent 1). An agent's perturbation
depends on (seed, agent) alone, so under the ``released`` scheme a smaller fleet is the beginning of a
larger one, and fleets at different levels share their random draws. Under ``symmetric`` that is true of
fleets with an odd number of agents: the others share draws two by two.
"""

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet
from fedsarsa.worlds.kernels import ShiftKernel

SCHEMES = ("released", "calibrated", "symmetric")

# How often the rows of a kernel that a perturbation wiped out are drawn again before giving up.
REDRAWS = 1000


def nominal(
    seed: int = 0,
    *,
    states: int = 100,
    actions: int = 100,
    discount: float = 0.2,
    reward_cap: float = 10.0,
) -> FiniteMDP:
    """The nominal MDP: a few large rewards among small ones, a few likely successors among rare ones.

    Rewards are uniform draws per state, those above 0.95 times 10 and the rest divided by 10, rescaled
    to [0, ``reward_cap``]. The kernel is uniform draws, those above 0.7 times 10 and the rest divided by
    10, rows normalised; actions rotate its columns.

    Parameters
    ----------
    seed : int
        Decides all draws.
    states, actions : int
        S and A.
    discount, reward_cap : float
        The discount factor, and the largest reward R.

    Returns
    -------
    FiniteMDP
        The world of agent 1.

    Raises
    ------
    ValueError, TypeError
        A number is out of its range, or of another kind.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> float(fs.paper.nominal(states=10, actions=4).reward.max())
    10.0
    """
    states = _checks.integer("states", states, least=2)
    reward_cap = _checks.positive("reward_cap", reward_cap)
    rng = np.random.default_rng([_checks.integer("seed", seed, least=0), 0])
    reward = _sharpen(rng.random(states), 0.95)
    reward = (reward - reward.min()) / np.ptp(reward) * reward_cap
    kernel = _normalised(_sharpen(rng.random((states, states)), 0.7))
    return FiniteMDP(ShiftKernel(kernel, actions), reward, discount)


def fleet(
    agents: int = 20,
    eps_p: float = 1.0,
    eps_r: float = 1.0,
    seed: int = 0,
    scheme: str = "released",
    *,
    states: int = 100,
    actions: int = 100,
    discount: float = 0.2,
    reward_cap: float = 10.0,
) -> Fleet:
    """``agents`` worlds around the nominal one of ``seed``.

    Parameters
    ----------
    agents : int
        N.
    eps_p, eps_r : float
        Heterogeneity. ``released`` and ``symmetric``: nominal levels, by which share probabilities and
        rewards change; ``Fleet.eps_p`` and ``Fleet.eps_r`` are the measured ones. ``calibrated``: the
        measured values themselves.
    scheme : {"released", "calibrated", "symmetric"}
        How the worlds of all agents but the first are perturbed. ``released``: as in the published program,
        which lowers rewards and never raises them. ``calibrated``: so that measured levels are the requested
        ones. ``symmetric``: two by two in opposite directions, r (1 + eps_r u) and r (1 - eps_r u) with u = 1
        or -1 state by state, kernels likewise, so that the mean of the worlds stays near the nominal one:
        equal to it in the rewards, and in the kernels up to eps_p = 0.5, beyond which probabilities are
        clipped at 0. An agent without a partner, the last of an even number, lives in the nominal world too;
        so do both of two.
        Rewards reach (1 + eps_r) ``reward_cap``, and some are negative if eps_r is above 1.
    seed, states, actions, discount, reward_cap
        As of `nominal`.

    Returns
    -------
    Fleet
        The nominal world first.

    Raises
    ------
    ValueError
        An argument is out of its range, a calibrated level cannot be reached, or a kernel loses all
        successors of a state.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(agents=4, eps_p=0.3, eps_r=0.3, scheme="calibrated")
    >>> round(fleet.eps_p, 6), round(fleet.eps_r, 6)
    (0.3, 0.3)
    """
    agents = _checks.integer("agents", agents, least=1)
    eps_p = _level("eps_p", eps_p)
    eps_r = _level("eps_r", eps_r)
    scheme = _checks.choice("scheme", scheme, SCHEMES)
    distinct = 1 if eps_p == eps_r == 0 else agents
    needed = 16 * (distinct + 1) * states**2  # kernels, and the tables from which engines draw
    _checks.fits("agents and states", f"{agents} and {states}", needed, "worlds")
    first = nominal(seed, states=states, actions=actions, discount=discount, reward_cap=reward_cap)
    if eps_p == eps_r == 0:
        return Fleet([first] * agents)
    make = {"released": _released, "calibrated": _calibrated, "symmetric": _symmetric}[scheme]
    pairs = make(first, agents, eps_p, eps_r, seed)
    worlds = [first, *(FiniteMDP(ShiftKernel(P0, actions), r, discount) for P0, r in pairs)]
    return Fleet(worlds + [first] * (agents - len(worlds)))


def _released(
    first: FiniteMDP, agents: int, eps_p: float, eps_r: float, seed: int
) -> list[tuple[Floats, Floats]]:
    """Rewards r or (1 - eps_r) r; kernel entries times 1 + eps_p U(-1, 1), then times 1 +- eps_p."""
    pairs = []
    for agent in range(1, agents):
        rng = np.random.default_rng([seed, agent])
        kept = rng.random(first.states) < 0.5
        reward = np.where(kept, first.reward, (1 - eps_r) * first.reward)
        P0 = _perturbed(first.kernel.rows, eps_p, rng)
        pairs.append((P0, reward))
    return pairs


def _perturbed(P0: Floats, eps_p: float, rng: np.random.Generator) -> Floats:
    """A perturbed kernel; rows that lose all their mass (high levels, few states) are drawn again."""
    result = np.zeros_like(P0)
    for _ in range(REDRAWS):
        empty = result.sum(axis=1) == 0
        if not empty.any():
            return _normalised(result)
        noise = 1 + eps_p * rng.uniform(-1, 1, P0.shape)
        noise *= np.where(rng.random(P0.shape) < 0.5, 1 + eps_p, 1 - eps_p)
        result[empty] = np.maximum(P0 * noise, 0)[empty]
    raise ValueError(f"eps_p = {eps_p:g} leaves no successor to some state; expected a smaller level")


def _symmetric(
    first: FiniteMDP, agents: int, eps_p: float, eps_r: float, seed: int
) -> list[tuple[Floats, Floats]]:
    """Pairs of worlds that are perturbed by the same amounts, in opposite directions."""
    pairs: list[tuple[Floats, Floats]] = []
    for agent in range(1, agents - 1, 2):
        rng = np.random.default_rng([seed, agent])
        reward = eps_r * _signs(rng, first.states) * first.reward
        kernels = _opposite(first.kernel.rows, eps_p, rng)
        pairs += zip(kernels, (first.reward + reward, first.reward - reward), strict=True)
    return pairs


def _opposite(P0: Floats, eps_p: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Two kernels with entries times 1 + eps_p u and 1 - eps_p u; rows that lose all mass are drawn again.

    The signs u are centred in every row. Rows then keep their sums, and the two kernels their mean, as long
    as nothing is clipped: up to eps_p = 0.5 in any case.
    """
    up, down = np.zeros_like(P0), np.zeros_like(P0)
    for _ in range(REDRAWS):
        empty = (up.sum(axis=1) == 0) | (down.sum(axis=1) == 0)
        if not empty.any():
            return _normalised(up), _normalised(down)
        signs = _signs(rng, P0.shape)
        change = eps_p * (signs - (P0 * signs).sum(axis=1, keepdims=True)) * P0
        up[empty], down[empty] = np.maximum(P0 + change, 0)[empty], np.maximum(P0 - change, 0)[empty]
    raise ValueError(f"eps_p = {eps_p:g} leaves no successor to some state; expected a smaller level")


def _signs(rng: np.random.Generator, shape: int | tuple[int, ...]) -> Floats:
    return np.where(rng.random(shape) < 0.5, 1.0, -1.0)


def _calibrated(
    first: FiniteMDP, agents: int, eps_p: float, eps_r: float, seed: int
) -> list[tuple[Floats, Floats]]:
    """Mixtures of the nominal world with extreme ones: the measured levels are linear in the mixture.

    Agent i's extreme kernel jumps to one random state per row, its extreme reward is 0 or R per state.
    """
    states, cap = first.states, first.reward_cap
    kernel = first.kernel.rows
    kernels: list[Floats] = []
    rewards: list[Floats] = []
    for agent in range(1, agents):
        rng = np.random.default_rng([seed, agent])
        target: NDArray[np.int64] = rng.integers(0, states, size=(states,))
        extreme = np.where(rng.random(states) < 0.5, cap, 0.0)
        if agent == 1:
            # Make the pair (agent 0, agent 1) as different as any world could be from the nominal.
            row, column = np.unravel_index(np.argmin(kernel), kernel.shape)
            target[row] = column
            extreme[np.argmin(first.reward)] = cap
        elif agent == 2:
            # And agents 1 and 2 as different as any two worlds can be.
            target[0] = (int(np.argmax(kernels[0][0])) + 1) % states
        kernels.append(np.eye(states)[target])
        rewards.append(extreme)
    reach = Fleet(
        FiniteMDP(ShiftKernel(P, 1), r, first.discount)
        for P, r in zip([kernel, *kernels], [first.reward, *rewards], strict=True)
    )
    mix_p = _mixture("eps_p", eps_p, reach.eps_p, agents)
    mix_r = _mixture("eps_r", eps_r, reach.eps_r, agents)
    return [
        ((1 - mix_p) * kernel + mix_p * P, (1 - mix_r) * first.reward + mix_r * r)
        for P, r in zip(kernels, rewards, strict=True)
    ]


def _mixture(name: str, level: float, largest: float, agents: int) -> float:
    if level > largest:
        raise ValueError(
            f"{name} = {level:g} cannot be reached by {agents} calibrated agents; expected at most {largest}"
        )
    return level / largest if level > 0 else 0.0


def _level(name: str, value: float) -> float:
    level = _checks.number(name, value, "a number in [0, 2]")
    if not 0 <= level <= 2:
        raise ValueError(f"{name} must be a number in [0, 2], got {value!r}")
    return level


def _sharpen(draws: Floats, threshold: float) -> Floats:
    return np.where(draws > threshold, draws * 10, draws / 10)


def _normalised(rows: Floats) -> Floats:
    normalised: Floats = rows / rows.sum(axis=-1, keepdims=True)
    return normalised
