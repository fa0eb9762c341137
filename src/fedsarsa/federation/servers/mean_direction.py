"""One step per round, along the mean of all directions that the agents saw at its start."""

from dataclasses import dataclass
from typing import ClassVar

from fedsarsa._checks import Floats
from fedsarsa.federation.servers.mean import mean_of_present
from fedsarsa.federation.servers.projection import project
from fedsarsa.federation.servers.rule import Context, RoundOfRun, Server


@dataclass(frozen=True, eq=False)
class MeanDirection(Server):
    """One step per round along the mean of K directions of every agent, all at the round's start.

    Agents keep the parameter, and the policy, of the round's start: there is no client drift.

    Parameters
    ----------
    radius : float, optional
        Of the ball on which the result is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``radius`` is not positive.

    Notes
    -----
    With directions g_i(theta-bar; o_l) of the K samples o_l of a round,

        theta-bar <- Proj(theta-bar + mean_i alpha_i (1/K) sum_l g_i(theta-bar; o_l))

    where alpha_i is the mean of the agent's step sizes in the round.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.MeanDirection(), step_size=0.1, sync_every=10)
    """

    radius: float | None = None

    leaves: ClassVar[str | None] = "direction"

    def combine(self, before: Floats, after: Floats, context: Context) -> Floats:  # noqa: ARG002
        """The next start (R, d): the last one, and the mean step size times the mean direction."""
        # The sums of K step sizes and of K directions, each divided by K.
        step = (context.step_sums / context.steps**2)[:, None] * context.left
        return project(before + mean_of_present(self, step, context), self.radius)

    @staticmethod
    def combine_run(over: RoundOfRun) -> None:
        """The same for one run, compiled."""
        for j in range(len(over.mean)):
            over.start[0, j] = over.before[0, j]
        for i in range(len(over.left)):
            size = over.weights[i] * over.step_sums[i] / over.steps**2
            for j in range(len(over.mean)):
                over.start[0, j] += size * over.left[i, j]
