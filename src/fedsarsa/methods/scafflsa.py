"""SCAFFLSA: federated evaluation without the bias of local steps, by control variates."""

from dataclasses import dataclass
from typing import ClassVar

from fedsarsa.federation.servers import ControlVariates, Server
from fedsarsa.methods.policy_evaluation import PredictionInRounds


@dataclass(frozen=True, eq=False)
class SCAFFLSA(PredictionInRounds):
    """Mangold, Samsonov, Labbi, Levin, Alami, Naumov and Moulines 2024: FedTD with control variates.

    Every agent adds a correction xi_i to its directions, which grows by (mean - theta_i) / (alpha K) after
    every round and stays with the agent. The mean path rests at the federated point for every K.

    Parameters
    ----------
    features, policy, step_size, sync_every, radius, independent
        As for `FedTD`.

    Raises
    ------
    ValueError, TypeError
        ``policy`` is no FixedPolicy, or another argument is out of its range.

    Notes
    -----
    With the direction g_i of TD(0), in a round and at its end,

        theta_i <- theta_i + alpha_t (g_i(theta_i) + xi_i),  xi_i <- xi_i + (theta-bar - theta_i) / (alpha K)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(3, 0.5, 0.5, states=6, actions=4)
    >>> method = fs.methods.SCAFFLSA(fs.ModuloFeatures(6, 1), fs.FixedPolicy(0), 0.05, sync_every=50)
    >>> method.train(fleet, steps=100, runs=2)
    History(2 runs, 3 agents, 100 steps, 3 records, d = 6)
    """

    name: ClassVar[str] = "SCAFFLSA"

    def server(self) -> Server:
        """The mean, with control variates."""
        return ControlVariates(self.radius)
