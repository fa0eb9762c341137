"""Where a finite Markov chain spends its time."""

import numpy as np
import scipy
from numpy.typing import NDArray

from fedsarsa._checks import Floats

NEVER = 1e-100


def recurrent_classes(chain: Floats) -> list[NDArray[np.intp]]:
    """The recurrent classes of a transition matrix (S, S): sets of states that are never left."""
    if (chain > 0).all():
        return [np.arange(len(chain))]
    _, label = scipy.sparse.csgraph.connected_components(
        scipy.sparse.csr_array((chain > 0).astype(int)), connection="strong"
    )
    leaves = label[:, None] != label[None, :]
    open_classes = set(label[((chain > 0) & leaves).any(axis=1)].tolist())
    return [np.flatnonzero(label == c) for c in range(label.max() + 1) if c not in open_classes]


def stationary_distribution(chain: Floats) -> Floats:
    """The stationary distribution (S,) of a transition matrix (S, S) with one recurrent class."""
    return _on_class(chain, one_class(chain))


def one_class(chain: Floats) -> NDArray[np.intp]:
    """The states of the only recurrent class of a transition matrix (S, S)."""
    classes = recurrent_classes(chain)
    if len(classes) > 1:
        shown = "; ".join(_shown(states) for states in classes[:4])
        raise ValueError(
            f"the chain must have one recurrent class, got {len(classes)} ({shown}"
            f"{' ...' if len(classes) > 4 else ''}): it has no unique stationary distribution"
        )
    return classes[0]


def long_run_distribution(chain: Floats, initial: Floats) -> Floats:
    """Share of time spent in each state in the long run, (S,), from an initial distribution (S,).

    Moves of a chance below ``NEVER`` are not waited for.
    """
    chain = np.where(chain < NEVER, 0.0, chain)
    classes = recurrent_classes(chain)
    if len(classes) == 1:
        return _on_class(chain, classes[0])
    recurrent = np.concatenate(classes)
    transient = np.setdiff1d(np.arange(len(chain)), recurrent)
    # Expected visits to transient states, and from there the flow into each class.
    visits = np.linalg.solve(
        np.eye(len(transient)) - chain[np.ix_(transient, transient)].T, initial[transient]
    )
    result = np.zeros(len(chain))
    for states in classes:
        mass = initial[states].sum() + visits @ chain[np.ix_(transient, states)].sum(axis=1)
        result += mass * _on_class(chain, states)
    return result


def _on_class(chain: Floats, states: NDArray[np.intp]) -> Floats:
    """Stationary distribution of one recurrent class, zero elsewhere.

    The method of Grassmann, Taksar and Heyman: elimination without a single subtraction, so every
    probability is right to rounding, also in chains that hardly ever leave parts of their states.
    """
    inside = chain[np.ix_(states, states)]
    for k in range(len(states) - 1, 0, -1):
        inside[:k, k] /= inside[k, :k].sum()
        inside[:k, :k] += np.outer(inside[:k, k], inside[k, :k])
    eta = np.ones(len(states))
    for k in range(1, len(states)):
        eta[k] = eta[:k] @ inside[:k, k]
    result = np.zeros(len(chain))
    result[states] = eta / eta.sum()
    return result


def _shown(states: NDArray[np.intp]) -> str:
    few = ", ".join(str(s) for s in states[:6])
    return f"{{{few}{', ...' if len(states) > 6 else ''}}}"
