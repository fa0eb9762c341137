"""PF-LSA: every agent's own values, learned with the help of the others' directions."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers import Server, SharedDirections
from fedsarsa.methods.policy_evaluation import Prediction, each_operators
from fedsarsa.worlds.fleet import Fleet


@dataclass(frozen=True, eq=False)
class PFLSA(Prediction):
    """Labbi, Mangold and Moulines 2026: PF-LSA, personal parameters moved by own and mean directions.

    At every step agents exchange their directions, and agent i moves by own g_i + (1 - own) mean_j g_j. With
    ``sync_every`` above 1, which is ours, they exchange the changes of K local steps. The mean path of every
    agent rests at its own fixed point for every K.

    Parameters
    ----------
    features, policy, step_size, independent
        As for `FedTD`.
    own : float, optional
        The weight of the agent's own direction, in (0, 1]; 1/N unless given, as the paper recommends.
    radius : float, optional
        Of the ball on which every agent's parameter is projected; no projection unless given.
    sync_every : int
        K, local steps per exchange; 1 in the paper.

    Raises
    ------
    ValueError, TypeError
        ``policy`` is no FixedPolicy, or another argument is out of its range.

    Notes
    -----
    With the direction g_i of TD(0),

        theta_i <- Proj(theta_i + alpha_t (own g_i(theta_i) + (1 - own) mean_j g_j(theta_j)))

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(3, 0.5, 0.5, states=6, actions=4)
    >>> method = fs.methods.PFLSA(fs.ModuloFeatures(6, 1), fs.FixedPolicy(0), 0.05)
    >>> method.train(fleet, steps=100, runs=2, record_every=50).personal_mse(method.target(fleet)).dims
    ('run', 't', 'agent')
    """

    own: float | None = None
    radius: float | None = None
    sync_every: int = 1

    name: ClassVar[str] = "PFLSA"

    def __post_init__(self) -> None:
        _checks.integer("sync_every", self.sync_every, least=1)
        super().__post_init__()

    @property
    def every(self) -> int:
        """K, local steps per exchange."""
        return self.sync_every

    def server(self) -> Server:
        """A parameter per agent, moved by own and mean directions."""
        return SharedDirections(self.own, self.radius)

    def target(self, fleet: Fleet) -> Floats:
        """Every agent's own fixed point, (N, d)."""
        return np.array([one.solve() for one in each_operators(self, fleet)])
