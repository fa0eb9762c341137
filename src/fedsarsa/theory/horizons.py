"""How long a federation trains until an error, to first order: what plans compare, many settings a second.

One linearisation at the federated point stands for the whole way, and the error after any number of rounds
follows from powers of one affine map. `predict` then says what the chosen setting really gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.theory.linearisation import Linearisation
from fedsarsa.theory.rounds import Affine, Members


@dataclass(frozen=True, eq=False)
class Mooring:
    """A federation around its federated point, for any step size and number of local steps.

    Attributes
    ----------
    J, noise : (m, d, d)
        Jacobian and long-run noise covariance of every member.
    origin : (m, d)
        g - J theta, so that a member's mean-path semi-gradient is origin + J theta.
    """

    J: Floats
    noise: Floats
    origin: Floats
    members: Members

    @np.errstate(over="ignore", invalid="ignore")
    def round(self, alpha: float, period: int) -> Affine:
        """One round of the central parameter."""
        local = self.step(alpha).power(period)
        return Affine(
            np.tensordot(self.members.total, local.M, 1),
            self.members.total @ local.c,
            np.tensordot(self.members.square, local.Q, 1),
        )

    def root(self) -> Floats:
        """The federated point, (d,); parameters that are never visited are 0."""
        total = self.members.total
        return np.asarray(
            np.linalg.lstsq(np.tensordot(total, self.J, 1), -total @ self.origin, rcond=None)[0]
        )

    def step(self, alpha: float) -> Affine:
        """One local step of every member."""
        return Affine(np.eye(self.J.shape[1]) + alpha * self.J, alpha * self.origin, alpha**2 * self.noise)


def moor(each: Sequence[Linearisation], members: Members) -> Mooring:
    """A federation whose members have these linearisations at the federated point."""
    J, noise = np.stack([one.J for one in each]), np.stack([one.noise for one in each])
    origin = np.stack([one.g - one.J @ one.point.theta for one in each])
    return Mooring(J, noise, origin, members)


@np.errstate(over="ignore", invalid="ignore")  # unstable settings grow without bound, and are never chosen
def errors(step: Affine, start: Floats, reference: Floats) -> Floats:
    """||mean - reference||^2 + variance after the map; leading axes of map and reference are kept."""
    mean = (step.M @ start[..., None])[..., 0] + step.c
    error = ((mean - reference) ** 2).sum(axis=-1) + np.trace(step.Q, axis1=-2, axis2=-1)
    return np.where(np.isfinite(error), error, np.inf)


@np.errstate(over="ignore", invalid="ignore")
def doublings(step: Affine, most: int) -> list[Affine]:
    """The map applied 1, 2, 4, ... times, up to ``most``."""
    powers = [step]
    while 2 ** len(powers) <= most:
        powers.append(powers[-1].then(powers[-1]))
    return powers


def rounds_until(
    step: Affine, start: Floats, reference: Floats, target: float, most: int
) -> tuple[float, float]:
    """Rounds until the error is at most ``target`` (inf beyond ``most``), and the least error met on the way.

    Strides grow with the rounds done, so the answer is exact to a sixteenth; the error may have a minimum.
    """
    mean, spread = start, np.zeros_like(step.M)
    powers, done, least = doublings(step, most), 0, np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        while done < most:
            stride = min(max(0, (done // 16).bit_length() - 1), len(powers) - 1)
            mean, spread = powers[stride].moved(mean, spread)
            done += 2**stride
            error = float(((mean - reference) ** 2).sum() + np.trace(spread))
            if not np.isfinite(error):
                break
            least = min(least, error)
            if error <= target:
                return done, least
    return np.inf, least
