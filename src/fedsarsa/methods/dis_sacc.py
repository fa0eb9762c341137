"""DisSACC: one step per round along the mean of all directions."""

from dataclasses import dataclass
from typing import ClassVar

from fedsarsa.federation.servers import MeanDirection, Server
from fedsarsa.methods.policy_evaluation import PredictionInRounds


@dataclass(frozen=True, eq=False)
class DisSACC(PredictionInRounds):
    """Zhu, Mitra and Heath 2025: DisSACC, one step per round along the mean of K directions of every agent.

    All K samples of a round are seen at its start, so there is no client drift. The mean path rests at the
    federated point for every K. A step counts once per round: step sizes may be K times those of FedTD.

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
    With the direction g_i of TD(0) at the K samples o_l of a round,

        theta-bar <- Proj(theta-bar + alpha mean_i (1/K) sum_l g_i(theta-bar; o_l))

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(3, 0.5, 0.5, states=6, actions=4)
    >>> method = fs.methods.DisSACC(fs.ModuloFeatures(6, 1), fs.FixedPolicy(0), 0.5, sync_every=50)
    >>> method.train(fleet, steps=100, runs=2)
    History(2 runs, 3 agents, 100 steps, 3 records, d = 6)
    """

    name: ClassVar[str] = "DisSACC"

    def server(self) -> Server:
        """One step along the mean direction."""
        return MeanDirection(self.radius)
