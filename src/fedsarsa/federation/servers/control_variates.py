"""Control variates: local steps corrected by what the server saw of the agents before (SCAFFOLD)."""

from dataclasses import dataclass
from typing import ClassVar

from fedsarsa._checks import Floats
from fedsarsa.federation.servers.mean import mean_of_present
from fedsarsa.federation.servers.projection import project
from fedsarsa.federation.servers.rule import Context, RoundOfRun, Server


@dataclass(frozen=True, eq=False)
class ControlVariates(Server):
    """The mean, and for every agent a correction xi_i of its directions that removes client drift.

    xi_i begins at 0, is added to every direction of a round, and grows after it by
    (mean - theta_i) / (sum of the round's step sizes). Without noise, what rounds rest at is the root of the
    agents' mean direction, whatever K and the step size are.

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
    Steps are theta_i <- theta_i + alpha_t (g_i(theta_i) + xi_i). After a round,

        xi_i <- xi_i + (theta-bar - theta_i) / (sum of the round's alpha_t)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.ControlVariates(), sync_every=100)
    """

    radius: float | None = None

    shifts: ClassVar[bool] = True

    def combine(self, before: Floats, after: Floats, context: Context) -> Floats:
        """The mean (R, d) of the agents' parameters (R, N, d); writes their corrections."""
        mean = mean_of_present(self, after, context, before)
        context.shift += context.where_present((mean[:, None] - after) / context.step_sums[:, None])
        return project(mean, self.radius)

    @staticmethod
    def combine_run(over: RoundOfRun) -> None:
        """The same for one run, compiled."""
        for j in range(len(over.mean)):
            over.start[0, j] = over.mean[j]
        for i in range(len(over.after)):
            for j in range(len(over.mean)):
                over.shift[i, j] += (over.mean[j] - over.after[i, j]) / over.step_sums[i]
