"""Consensus on a graph: every agent mixes the parameters of its neighbours, and there is no server."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers.projection import project
from fedsarsa.federation.servers.rule import Context, RoundOfRun, Server

COMPLETE, RING, _ = GRAPHS = ("complete", "ring", "star")


@dataclass(frozen=True, eq=False)
class Consensus(Server):
    """Every agent keeps a parameter: the mixture of its neighbours' last ones, and its own change.

    theta_i = sum_j W_ij before_j + (after_i - before_i), where the change was made at the agent's own last
    parameter and not at the mixture.

    Parameters
    ----------
    graph : {"complete", "ring", "star"} or (N, N) array
        The weights W: all 1/N; 1/3 for an agent and each of its two neighbours; Metropolis weights of a star
        around agent 0; or any doubly stochastic matrix of a connected graph with a positive diagonal.
    radius : float, optional
        Of the ball on which every agent's parameter is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``graph`` is no known graph, or a matrix of another shape or kind than described, or
        ``radius`` is not positive.

    Notes
    -----
    With the change of agent i in the round, D_i,

        theta_i <- Proj(sum_j W_ij theta_j + D_i)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.servers.Consensus("ring").matrix(4).round(2)
    array([[0.33, 0.33, 0.  , 0.33],
           [0.33, 0.33, 0.33, 0.  ],
           [0.  , 0.33, 0.33, 0.33],
           [0.33, 0.  , 0.33, 0.33]])
    """

    graph: ArrayLike | str = RING
    radius: float | None = None

    personal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.graph, str):
            _checks.choice("graph", self.graph, GRAPHS)
        else:
            object.__setattr__(self, "graph", checked_graph(self.graph))

    def matrix(self, agents: int) -> Floats:
        """The weights W, (N, N).

        Parameters
        ----------
        agents : int
            N.

        Returns
        -------
        (N, N) array
            W, doubly stochastic.
        """
        if not isinstance(self.graph, str):
            return np.asarray(self.graph)
        if self.graph == COMPLETE:
            return np.full((agents, agents), 1 / agents)
        own = np.eye(agents)
        if self.graph == RING:
            return (own + np.roll(own, 1, axis=1) + np.roll(own, -1, axis=1)) / 3
        weights = np.zeros((agents, agents))
        weights[0, 1:] = weights[1:, 0] = 1 / agents
        return weights + np.diag(1 - weights.sum(axis=1))

    def shares(self, agents: int) -> Floats:
        """1/N each; also rejects a graph of another number of agents."""
        if not isinstance(self.graph, str) and np.shape(self.graph) != (agents, agents):
            raise ValueError(f"graph must have shape ({agents}, {agents}), got {np.shape(self.graph)}")
        return super().shares(agents)

    def combine(self, before: Floats, after: Floats, context: Context) -> Floats:
        """The agents' next parameters (R, N, d).

        Agents that are missing keep theirs, and edges to them lead back to where they came from.
        """
        weights, present = self.matrix(after.shape[1]), context.present
        if present is not None:
            kept = np.where(present[:, :, None] & present[:, None, :], weights, 0.0)
            weights = kept + np.eye(after.shape[1]) * (1 - kept.sum(axis=2))[:, :, None]
        return project(weights @ before + context.where_present(after - before), self.radius)

    def coefficients(self, agents: int) -> Floats:
        """Of every row of W, how many weights are not zero, and then each of them after its column.

        0 where all weights of W are equal.
        """
        rows = self.matrix(agents)
        if np.ptp(rows) == 0:  # complete: everybody has the mean
            return np.array([0.0])
        columns = [np.flatnonzero(row) for row in rows]
        edges = [np.column_stack([own, row[own]]).ravel() for own, row in zip(columns, rows, strict=True)]
        return np.concatenate([[len(own), *pairs] for own, pairs in zip(columns, edges, strict=True)])

    @staticmethod
    def combine_run(over: RoundOfRun) -> None:
        """The same for one run, compiled."""
        if over.coefficients[0] == 0:
            for i in range(len(over.after)):
                for j in range(len(over.mean)):
                    over.start[i, j] = over.after[i, j] - over.before[i, j] + over.mean_before[j]
            return
        at = 0
        for i in range(len(over.after)):
            neighbours = int(over.coefficients[at])
            neighbour, weight = int(over.coefficients[at + 1]), over.coefficients[at + 2]
            for j in range(len(over.mean)):
                change = over.after[i, j] - over.before[i, j]
                over.start[i, j] = change + weight * over.before[neighbour, j]
            for edge in range(at + 3, at + 1 + 2 * neighbours, 2):
                neighbour, weight = int(over.coefficients[edge]), over.coefficients[edge + 1]
                for j in range(len(over.mean)):
                    over.start[i, j] += weight * over.before[neighbour, j]
            at += 1 + 2 * neighbours


def checked_graph(graph: ArrayLike) -> Floats:
    """``graph`` if it is the doubly stochastic matrix of a connected graph that agents are themselves in."""
    array = _checks.real_array("graph", graph)
    instead = "FedTD averages with a server and needs no graph"
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError(f"graph must have shape (N, N), got {array.shape}")
    sums = np.concatenate([array.sum(axis=0), array.sum(axis=1)])
    if array.min() < 0 or not np.allclose(sums, 1.0, rtol=0, atol=1e-9):
        worst = array.min() if array.min() < 0 else sums[np.abs(sums - 1).argmax()]
        raise ValueError(
            "graph must be doubly stochastic, so that no agent counts more than others: entries of at least "
            f"0, rows and columns that sum to one; got {worst:.6g}; {instead}"
        )
    if np.diag(array).min() <= 0:
        raise ValueError(
            f"graph must give every agent a weight of its own, got 0 for agent {np.diag(array).argmin()}; "
            f"{instead}"
        )
    parts, part = scipy.sparse.csgraph.connected_components(array > 0, directed=True, connection="strong")
    if parts > 1:
        apart = int(np.flatnonzero(part != part[0])[0])
        raise ValueError(
            f"graph must be connected, or agents cannot agree: got no way between agents 0 and {apart}; "
            f"{instead}"
        )
    return array
