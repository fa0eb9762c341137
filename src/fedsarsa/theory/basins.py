"""Whether noise leads training elsewhere than its mean: the way may pass near the edge of another basin.

The mean follows the flow to one root, and noise is taken to be a Gaussian around it. Where the flow stretches
deviations, some trainings may end at another root, which no Gaussian around one mean can describe. So
deviations in the direction that is stretched most are followed to the end of training, from several points
of the way.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.servers.projection import project
from fedsarsa.theory.federation_model import FederationModel
from fedsarsa.theory.roots import STILL, MeanField
from fedsarsa.theory.trajectory import Stride, Trajectory, width

POINTS = 8  # points of the way from which deviations are followed
NARROW = 0.05  # temperatures below which deviations of Q-values lead nowhere else
# Gaussian quadrature: 5 points decide whether 9 are worth their time.
FEW, MANY = (np.polynomial.hermite_e.hermegauss(count) for count in (5, 9))
WORTH = 0.05


def basin_change(
    model: FederationModel,
    flow: MeanField,
    strides: Sequence[Stride],
    trajectory: Trajectory,
    target: Floats,
) -> float:
    """Largest relative change of the last error by deviations that the flow carries elsewhere."""
    starts = np.array([stride.start for stride in strides])
    times = [stride.count * model.period * float(model.groups.total @ stride.alpha) for stride in strides]
    found = list(_deviations(model, trajectory))
    size, largest = (trajectory.end.error(target), width(trajectory.end.spread) ** 2), 0.0
    for place in np.unique(np.linspace(0, len(found) - 1, POINTS).round().astype(int)) if found else ():
        done, mean, deviation = found[place]
        left = float(np.sum(times, where=starts >= done))
        if left <= 0:
            continue
        end = partial(_error, flow, mean, deviation, left, model.radius, target)
        change = _change(end, size, *FEW)
        largest = max(largest, _change(end, size, *MANY) if change > WORTH else change)
    return largest


def _deviations(model: FederationModel, trajectory: Trajectory) -> Iterator[tuple[int, Floats, Floats]]:
    """Rounds done, mean (d,) and standard deviation (d,) wherever the flow stretches deviations.

    w, a left eigenvector of the Jacobian whose eigenvalue is positive, shows what is stretched: deviations
    by w' theta. Given that this is one standard deviation off, theta is off by Sigma w / sqrt(w' Sigma w).
    """
    for done, (mean, spread), node in trajectory.nodes:
        J = np.tensordot(model.groups.total, node.blocks[0].J, 1)
        rates, vectors = np.linalg.eig(J.T)
        fastest = int(rates.real.argmax())
        w = vectors[:, fastest].real
        size = float(max(w @ spread @ w, 0.0)) ** 0.5
        if rates[fastest].real > STILL * np.linalg.norm(J) and size * model.classes.slope > NARROW:
            yield done, mean, spread @ w / size


def _change(
    end: Callable[[float], float], size: tuple[float, float], points: Floats, weights: Floats
) -> float:
    """Relative difference of a mean over a Gaussian and the value at its centre; 0 where one is not known.

    ``size`` is the error at the end and the variance in it, which is what deviations add to the mean anyway.
    Flows are followed roughly and may lag behind: then the value at the centre is what counts.
    """
    values = np.array([end(x) for x in points])
    centre = float(values[len(values) // 2])
    difference = abs(float(weights @ values) / float(weights.sum()) - centre) - size[1]
    change = difference / max(size[0], centre, np.finfo(float).tiny)
    return max(change, 0.0) if np.isfinite(change) else 0.0


def _error(
    flow: MeanField,
    mean: Floats,
    deviation: Floats,
    time: float,
    radius: float | None,
    target: Floats,
    x: float,
) -> float:
    """Squared error at the end of training, from ``x`` standard deviations off the mean; NaN if unknown."""
    theta = flow.after(mean + x * deviation, time)
    return np.nan if theta is None else float(((project(theta, radius) - target) ** 2).sum())
