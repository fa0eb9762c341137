"""Features of states alone, which prediction methods of the papers have."""

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa.learning.features import TabularFeatures


def state_features(table: ArrayLike, actions: int, normalise: bool = False) -> TabularFeatures:
    """Features phi(s) of states, the same for all actions: SARSA's steps are then those of TD(0).

    Parameters
    ----------
    table : (S, d) array
        A vector per state, with norms of at most 1.
    actions : int
        A, the number of actions.
    normalise : bool
        Divide the table by its largest norm if that is above 1.

    Returns
    -------
    TabularFeatures
        phi(s, a) = table[s] for every action a.

    Raises
    ------
    ValueError, TypeError
        ``table`` has another shape or norms above 1, or ``actions`` is no integer of at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.methods.state_features(np.eye(3), actions=4)
    TabularFeatures(shape=(3, 4, 3))
    """
    vectors = _checks.real_array("table", table)
    if vectors.ndim != 2:
        raise ValueError(f"table must have shape (S, d), got {vectors.shape}")
    actions = _checks.integer("actions", actions, least=1)
    return TabularFeatures(np.repeat(vectors[:, None], actions, axis=1), normalise)
