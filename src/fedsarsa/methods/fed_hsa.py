"""FedHSA: federated evaluation without the bias of local steps, by an exchange of first directions."""

from dataclasses import dataclass
from typing import ClassVar

from fedsarsa._checks import Floats
from fedsarsa.federation.servers import FirstDirections, Mean, Server
from fedsarsa.learning.step_sizes import schedules
from fedsarsa.methods.method import Communication
from fedsarsa.methods.policy_evaluation import PredictionInRounds
from fedsarsa.theory.fixed_points import federated_point
from fedsarsa.worlds.fleet import Fleet, as_fleet


@dataclass(frozen=True, eq=False)
class FedHSA(PredictionInRounds):
    """Zhu, Mitra and Heath 2025: FedHSA, local steps corrected by the agents' first directions.

    At the beginning of a round every agent sends the direction of its first sample, and gets the mean of
    all. Its K steps, the first on that same sample, add the mean and subtract its own. The mean path rests at
    the federated point for every K.

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
    With the direction g_i of TD(0), and g_i^0 that of the round's first sample at theta-bar,

        theta_i <- theta_i + alpha_t (g_i(theta_i) + mean_j g_j^0 - g_i^0)

    With K = 1 and the same step sizes for all, the mean of this is theta-bar + alpha_t mean_j g_j^0, which is
    the mean of uncorrected steps. Training then takes those, and the history's ``drift`` is theirs: after
    corrected ones it would be 0. ``communication`` counts the method's own exchanges.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(3, 0.5, 0.5, states=6, actions=4)
    >>> method = fs.methods.FedHSA(fs.ModuloFeatures(6, 1), fs.FixedPolicy(0), 0.05, sync_every=50)
    >>> method.communication(d=6, N=3)
    Communication(up=12, down=12, per=50)
    """

    name: ClassVar[str] = "FedHSA"

    def server(self) -> Server:
        """The mean, with directions corrected by the first ones; plain where that changes nothing."""
        if self.sync_every == 1 and len(schedules(self.step_size)) == 1:
            return Mean(radius=self.radius)
        return FirstDirections(self.radius)

    def target(self, fleet: Fleet) -> Floats:
        """`federated_point`, (d,), whatever K and step sizes are: first directions count alike."""
        return federated_point(as_fleet(fleet), self.features, self.policy)

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Numbers that one of ``N`` agents sends and receives: directions, and then parameters."""
        return Communication(2 * d, 2 * d, self.sync_every)
