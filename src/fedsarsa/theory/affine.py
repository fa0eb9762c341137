"""Affine maps with noise: what steps and rounds do to the mean and the covariance of a parameter."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedsarsa._checks import Floats

# Share of its size by which the last of ever more rounds may move a limit, and how often they are doubled:
# what rests on actions that are not chosen once in 1e15 rounds stays where it is.
LAST, DOUBLINGS = 1e-13, 50


class DivergenceError(ValueError):
    """The prediction is not finite."""


@dataclass(frozen=True, eq=False)
class Affine:
    """theta -> M theta + c + noise of covariance Q; leading axes are kept."""

    M: Floats
    c: Floats
    Q: Floats

    def then(self, other: "Affine") -> "Affine":
        """First this map, then the other."""
        mean, spread = other.moved(self.c, self.Q)
        return Affine(other.M @ self.M, mean, spread)

    @np.errstate(over="ignore", invalid="ignore")  # unstable maps grow without bound; their users look
    def power(self, count: int) -> "Affine":
        """The map applied ``count`` times, at least once."""
        result = self
        for bit in bin(count)[3:]:
            result = result.then(result)
            if bit == "1":
                result = result.then(self)
        return result

    @np.errstate(over="ignore", invalid="ignore")
    def moved(self, mean: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Mean and covariance after the map."""
        turned = np.swapaxes(self.M, -1, -2)
        return (self.M @ mean[..., None])[..., 0] + self.c, self.M @ spread @ turned + self.Q


def between(maps: tuple[Affine, Affine], ends: tuple[Floats, Floats]) -> Affine:
    """One round on the way between two points (d,), from the maps that were linearised at each of them.

    With M the mean of both slopes, the mean of both maps errs by H h^3 / 6 on a way of length h along which
    the slope changes by H h, and the secant through their values at both ends by -H h^3 / 12: two secants and
    one mean leave a fourth-order error.
    """
    M = (maps[0].M + maps[1].M) / 2
    mean = (maps[0].c + maps[1].c) / 2
    secant = sum(one.M @ end + one.c - M @ end for one, end in zip(maps, ends, strict=True)) / 2
    return Affine(M, (mean + 2 * secant) / 3, (maps[0].Q + maps[1].Q) / 2)


def mean_spread(step: Affine, spread: Floats, period: int) -> Floats:
    """Mean over a round of an agent's covariance (d, d), ``spread`` at its start; ``step`` is one step."""
    # With X_k the covariance after k steps, X_{n + k} = M^n X_k M^n' + Q_n: sums over k double as maps do.
    total, done, count = spread, step, 1
    for bit in bin(period)[3:]:
        total = total + done.M @ total @ done.M.T + count * done.Q
        done, count = done.then(done), 2 * count
        if bit == "1":
            total = spread + step.M @ total @ step.M.T + count * step.Q
            done, count = done.then(step), count + 1
    return total / period


def limit(step: Affine, theta: Floats) -> tuple[Floats, Floats]:
    """Where mean and covariance settle under a map that is applied ever again, from ``theta``.

    By squaring the map: directions that it never moves (features never visited) stay where they are.
    """
    spread = step.Q
    for _ in range(DOUBLINGS):
        with np.errstate(over="ignore", invalid="ignore"):
            after = step.M @ theta + step.c
            wider = step.Q + step.M @ spread @ step.M.T
            moved, widened = np.abs(after - theta).max(), np.abs(wider - spread).max()
            theta, spread, step = after, wider, step.then(step)
        if not (np.isfinite(moved) and np.isfinite(widened)):
            raise DivergenceError
        if moved <= LAST * np.abs(theta).max() and widened <= LAST * np.abs(spread).max():
            break
    return theta, spread


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


def strides(step: Affine, start: Floats, most: int) -> Iterator[tuple[int, Floats, Floats]]:
    """Rounds done, mean and covariance, from ``start`` up to ``most`` rounds or as long as they are finite.

    Strides grow with the rounds done, by a sixteenth of them; leading axes of the map are kept.
    """
    mean, spread = np.broadcast_to(start, step.c.shape), np.zeros_like(step.M)
    powers, done = doublings(step, most), 0
    while done < most:
        stride = min(max(0, (done // 16).bit_length() - 1), len(powers) - 1)
        mean, spread = powers[stride].moved(mean, spread)
        done += 2**stride
        if not (np.isfinite(mean).all() and np.isfinite(spread).all()):
            return
        yield done, mean, spread


def rounds_until(
    step: Affine, start: Floats, reference: Floats, target: float, most: int
) -> tuple[float, float]:
    """Rounds until the error is at most ``target`` (inf beyond ``most``), and the least error met on the way.

    The answer is exact to a sixteenth (see `strides`); the error may have a minimum.
    """
    least = np.inf
    for done, mean, spread in strides(step, start, most):
        error = float(((mean - reference) ** 2).sum() + np.trace(spread))
        least = min(least, error)
        if error <= target:
            return done, least
    return np.inf, least
