"""Which agents should share one parameter: coalitions that take the mean of their members' parameters.

A coalition of n agents with fixed points theta_i*, means m_i and variances v_i costs its members together

    sum_i |m-bar - theta_i*|^2 + sum_i v_i / n,    m-bar = sum_i m_i / n.

Where agents have settled and have the same variance v, this is the scatter of the members' fixed points, and
v: one noise per coalition, however large it is. So two coalitions should merge where their scatter grows by
less than v.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.servers.mixtures import mixture_errors
from fedsarsa.theory.learners import apart, learn_alone
from fedsarsa.worlds.fleet import Fleet, as_fleet

# Agents up to which all ways to split them are compared: 3^N steps.
FEW = 11
# Share of the cost by which a change must lower it.
GAIN = 1e-12


@dataclass(frozen=True, eq=False)
class Coalitions:
    """Groups of agents that share one parameter, and every agent's predicted error then.

    Attributes
    ----------
    groups : tuple of tuples of int
        The agents of each coalition, in the order of their first ones.
    errors : (N,)
        Predicted mean of the squared distance to the agent's own fixed point after ``steps``, of the mean of
        its coalition's parameters.
    alone : (N,)
        The same of the agent's own parameter.
    steps : int
        Steps per agent.
    best : bool
        Whether no other split of the agents has a smaller sum of errors. Else none that moves one agent or
        merges two groups has.
    warnings : tuple of str
        Why the predictions may be off; empty when all is well.
    """

    groups: tuple[tuple[int, ...], ...]
    errors: Floats
    alone: Floats
    steps: int
    best: bool
    warnings: tuple[str, ...]

    @property
    def weights(self) -> Floats:
        """The same as a matrix of personal weights, (N, N): 1 / n within a coalition of n."""
        return _weights(self.groups, len(self.errors))

    def __repr__(self) -> str:
        shown = ", ".join(str(list(group)) for group in self.groups)
        return (
            f"Coalitions({shown}; {self.steps} steps, mean error {self.errors.mean():.4g}, alone "
            f"{self.alone.mean():.4g})"
        )


@single_threaded
def coalitions(fleet: Fleet, algo: FedSARSA, steps: int, theta0: ArrayLike | None = None) -> Coalitions:
    """The groups of agents that should share one parameter: the sum of all agents' errors is least.

    Agents learn alone for ``steps``, as ``sync_every=None`` trains them; then every group takes the mean of
    its members' parameters. Up to 11 agents all splits are compared. With more, the best cut of a Ward tree
    over fixed points is improved until neither moving one agent nor merging two groups helps: its sum of
    errors is at most that of agents alone and of one group of all.

    Parameters
    ----------
    fleet : Fleet
    algo : FedSARSA
        Its features, policy and step sizes.
    steps : int
        Steps per agent.
    theta0 : (d,), optional
        Where every agent starts, 0 unless given.

    Returns
    -------
    Coalitions

    Raises
    ------
    ValueError
        As `personal_weights`.

    Notes
    -----
    With means m_j and covariances S_j of independent learners and fixed points theta_*^(i), over all splits
    of the agents into groups C,

        minimise sum_C sum_(i in C) |mean_(j in C) m_j - theta_*^(i)|^2 + tr(sum_(j in C) S_j) / |C|

    Examples
    --------
    >>> import fedsarsa as fs
    >>> one, other = fs.paper.fleet(2, 2.0, 2.0, states=10, actions=10)
    >>> fs.theory.coalitions([one, other, one], fs.FedSARSA(), steps=20_000).groups
    ((0, 2), (1,))
    """
    fleet, algo = as_fleet(fleet), apart(algo)
    learners = learn_alone(fleet, algo, steps, theta0)
    for note in learners.warnings:
        warnings.warn(note, stacklevel=3)
    means, points, variances = (
        each[learners.of] for each in (learners.means, learners.points, learners.variances)
    )
    statistics = _statistics(means, points, variances)
    few = len(fleet) <= FEW
    label = _best_split(statistics) if few else _improved(statistics, _cut(statistics, points))
    groups = tuple(tuple(np.flatnonzero(label == g).tolist()) for g in dict.fromkeys(label.tolist()))
    errors = mixture_errors(_weights(groups, len(fleet)), means, points, variances)
    return Coalitions(groups, errors, learners.alone[learners.of], int(steps), few, learners.warnings)


def _weights(groups: Sequence[Sequence[int]], agents: int) -> Floats:
    weights = np.zeros((agents, agents))
    for group in groups:
        weights[np.ix_(group, group)] = 1 / len(group)
    return weights


def _statistics(means: Floats, points: Floats, variances: Floats) -> Floats:
    """What the cost of a group follows from, summed over members, (N, 2 d + 3)."""
    centre = points.mean(axis=0)  # costs do not depend on it, but rounding does
    means, points = means - centre, points - centre
    return np.column_stack(
        [np.ones(len(points)), means, points, (points**2).sum(axis=1), variances],
    )


def _costs(sums: Floats) -> Floats:
    """Sum of the members' errors, for sums of statistics (..., 2 d + 3); 0 for an empty group."""
    dim = (sums.shape[-1] - 3) // 2
    count = np.maximum(sums[..., 0], 1.0)
    mean = sums[..., 1 : 1 + dim] / count[..., None]
    across = (mean * sums[..., 1 + dim : -2]).sum(axis=-1)
    return np.asarray(count * (mean**2).sum(axis=-1) - 2 * across + sums[..., -2] + sums[..., -1] / count)


def _best_split(statistics: Floats) -> NDArray[np.int64]:
    """The best of all splits, (N,) group of each agent: by the best splits of all subsets."""
    agents = len(statistics)
    masks = np.arange(2**agents)
    costs = _costs((masks[:, None] >> np.arange(agents) & 1) @ statistics).tolist()
    least, chosen = [0.0] * len(masks), [0] * len(masks)
    for mask in range(1, len(masks)):
        first = mask & -mask  # the group of the first agent, joined by some of the others
        rest = others = mask ^ first
        least[mask], chosen[mask] = costs[mask], mask
        while others:
            others = (others - 1) & rest
            group = first | others
            cost = costs[group] + least[mask ^ group]
            if cost < least[mask]:
                least[mask], chosen[mask] = cost, group
    label, left = np.zeros(agents, np.int64), len(masks) - 1
    while left:
        label[(chosen[left] >> np.arange(agents) & 1).astype(bool)] = chosen[left]
        left ^= chosen[left]
    return label


def _cut(statistics: Floats, points: Floats) -> NDArray[np.int64]:
    """The best cut of the Ward tree over fixed points, (N,) group of each agent."""
    tree = scipy.cluster.hierarchy.ward(points)
    cuts = scipy.cluster.hierarchy.cut_tree(tree).T  # into N, N - 1, .. 1 groups
    return np.asarray(min(cuts, key=lambda label: float(_costs(_sums(statistics, label)).sum())))


def _sums(statistics: Floats, label: NDArray[np.int64]) -> Floats:
    """Statistics of all groups, (G, k)."""
    sums = np.zeros((label.max() + 1, statistics.shape[1]))
    np.add.at(sums, label, statistics)
    return sums


def _improved(statistics: Floats, label: NDArray[np.int64]) -> NDArray[np.int64]:
    """Move single agents and merge groups while that lowers the cost."""
    while True:
        label = np.unique(label, return_inverse=True)[1]
        sums = np.vstack([_sums(statistics, label), np.zeros(statistics.shape[1])])  # the last one is empty
        costs = _costs(sums)
        least = -GAIN * float(costs.sum())
        left = _costs(sums[label] - statistics) - costs[label]
        moves = left[:, None] + _joining(statistics, sums)
        moves[np.arange(len(label)), label] = 0.0
        agent, group = np.unravel_index(moves.argmin(), moves.shape)
        if moves[agent, group] < least:
            label[agent] = group
            continue
        merges = _joining(sums, sums) - costs[:, None]
        np.fill_diagonal(merges, 0.0)
        one, other = np.unravel_index(merges.argmin(), merges.shape)
        if not merges[one, other] < least:
            return label
        label[label == one] = other


def _joining(some: Floats, sums: Floats) -> Floats:
    """What groups with these ``sums`` cost more when each of ``some`` joins them, (len(some), G)."""
    return np.stack([_costs(sums + one) for one in some]) - _costs(sums)
