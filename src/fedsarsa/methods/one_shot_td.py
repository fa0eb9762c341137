"""One-shot averaging: agents learn alone, and are averaged once."""

from dataclasses import dataclass, replace
from typing import ClassVar

from fedsarsa._checks import Floats
from fedsarsa.methods.method import Communication
from fedsarsa.methods.policy_evaluation import Prediction
from fedsarsa.theory.round_limits import round_limit
from fedsarsa.worlds.fleet import Fleet, as_fleet


@dataclass(frozen=True, eq=False)
class OneShotTD(Prediction):
    """Liu and Olshevsky 2023: agents take steps of TD(0) alone, and are averaged once, after the last one.

    The result is ``history.final``; there is nothing else to record. In worlds that differ it tends to the
    mean of the agents' fixed points.

    Parameters
    ----------
    features, policy, step_size, independent
        As for `FedTD`.

    Raises
    ------
    ValueError, TypeError
        ``policy`` is no FixedPolicy, or another argument is out of its range.

    Notes
    -----
    With the direction g_i of TD(0), for all T steps and once at the end,

        theta_i <- theta_i + alpha_t g_i(theta_i),  theta-bar = mean_i theta_i

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(3, 0.5, 0.5, states=6, actions=4)
    >>> method = fs.methods.OneShotTD(fs.ModuloFeatures(6, 1), fs.FixedPolicy(0), 0.05)
    >>> method.communication(d=6, N=3)
    Communication(up=6, down=0, per=None)
    """

    name: ClassVar[str] = "OneShotTD"

    @property
    def every(self) -> None:
        """Agents never meet."""
        return

    def target(self, fleet: Fleet) -> Floats:
        """The mean of the agents' fixed points, (d,)."""
        return round_limit(as_fleet(fleet), replace(self.algorithm(), sync_every=None))

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Numbers that one of ``N`` agents sends and receives: its parameter, once."""
        return Communication(d, 0, None)
