"""Local steps corrected by the agents' first directions of the round, which all of them exchange."""

from dataclasses import dataclass
from typing import ClassVar

from fedsarsa._checks import Floats
from fedsarsa.federation.servers.mean import Mean, average
from fedsarsa.federation.servers.rule import Server


@dataclass(frozen=True, eq=False)
class FirstDirections(Server):
    """The mean, and in every round directions corrected by (mean first direction) - (own first direction).

    The first sample of a round is seen twice: for the direction that agents exchange, and in their first
    step. Gymnasium environments cannot repeat a step, and engine ``ray`` does not do it.

    Parameters
    ----------
    radius : float, optional
        Of the ball on which the mean is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``radius`` is not positive.

    Notes
    -----
    With g_i^0 the direction of agent i's first sample at the round's start, all steps of the round are

        theta_i <- theta_i + alpha_t (g_i(theta_i) + mean_j g_j^0 - g_i^0)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.FirstDirections(), sync_every=100)
    """

    radius: float | None = None

    shifts: ClassVar[bool] = True
    opens: ClassVar[bool] = True

    def opening(self, directions: Floats) -> Floats:
        """What is added to every direction of the round, from the agents' first ones: both (R, N, d)."""
        return average(self.shares(directions.shape[1]), directions)[:, None] - directions

    @staticmethod
    def opening_run(weights: Floats, directions: Floats, mean: Floats) -> None:
        """The same for one run, compiled, in place of ``directions`` (N, d); ``mean`` (d,) is room."""
        for j in range(len(mean)):
            mean[j] = 0.0
        for i in range(len(directions)):
            for j in range(len(mean)):
                mean[j] += weights[i] * directions[i, j]
        for i in range(len(directions)):
            for j in range(len(mean)):
                directions[i, j] = mean[j] - directions[i, j]

    combine = Mean.combine  # compiled engines take Mean's ``combine_run`` with it
