"""The error curve to expect, before training.

The squared error of the central parameter is, on average, the squared error of its mean plus its variance.
The mean follows the agents' average mean-path semi-gradient from theta_0 to (nearly) the federated point; the
variance is that of a stochastic approximation with Markovian noise. Both are computed from the fleet alone,
to second order in the step size. The order of the effects, for a step size alpha and K local steps:

- *transient*: the mean's way, K local steps composed exactly around each point of it;
- *bias*: heterogeneity moves the federated point away from the reference. Within a round agents drift towards
  their own fixed points, which moves it further (order alpha K), as do memory and noise (order alpha);
- *variance*: order alpha / N, from the lagged covariances of the semi-gradient noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, plain
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.servers import PrivateMean
from fedsarsa.theory.federation_model import FederationModel, federation_model
from fedsarsa.theory.fixed_points import fixed_point
from fedsarsa.theory.predicted_moments import PredictedMoments, predict_moments
from fedsarsa.theory.prediction_warnings import (
    check_step,
    largest_share,
    largest_step,
    notes,
    slowness,
)
from fedsarsa.theory.roots import MeanField
from fedsarsa.theory.smoothness import require_smooth
from fedsarsa.theory.trajectory import width
from fedsarsa.worlds.fleet import Fleet, as_fleet

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Prediction:
    """What training will look like on average.

    Attributes
    ----------
    data : xarray.Dataset over ``t``
        At t = 0 and at every synchronisation: ``mse``, the mean of ||theta-bar_t - reference||^2, and its
        parts ``transient`` (signed; fades) and ``variance``; mse = transient + bias + variance.
    bias : float
        Squared distance to the reference of the point at which the mean settles.
    floor : float
        Where the error ends: bias plus the variance that remains (none when step sizes vanish).
    point : (d,)
        Where the mean of the central parameter settles.
    federated_point : (d,)
        Root of the agents' averaged mean-path semi-gradients: ``point`` for vanishing step sizes. NaN where
        none was found, as where actions are hardly ever chosen.
    covariance : (d, d)
        Of the central parameter after the last of ``t``.
    slowness : float
        Largest step size times the steps that the slowest chain remembers, its relaxation time less 1
        (independent states are not slow); beyond ``SLOW`` there is a warning.
    sharpness : float
        Largest standard deviation of a Q-value on the way, in units of the softmax temperature; times the
        variance's share of the error at that time, beyond ``SKEWED`` there is a warning, unless particles
        have the same curve.
    bend : float
        Largest relative change of the curve that noise makes beyond its variance: by averaging the policy
        over it, where Q-values vary by half a temperature or more, and by leading some trainings to other
        roots; beyond ``BENT`` there is a warning, unless particles that follow the same drift and noise, and
        are not taken for a Gaussian, have the same curve.
    warnings : tuple of str
        Why the prediction may be off; empty when all is well.
    """

    data: xr.Dataset
    reference: Floats
    bias: float
    floor: float
    point: Floats
    federated_point: Floats
    covariance: Floats
    slowness: float
    sharpness: float
    bend: float
    warnings: tuple[str, ...]
    flow: MeanField | None

    @cached_property
    def other_roots(self) -> Floats:
        """Attracting roots beside ``federated_point``, (k, d); searched when first asked for.

        The mean path takes the one at ``federated_point``; from other starts, or by noise, training may end
        at these. None are known of agents that never synchronise, and of worlds too large for a search.
        """
        if self.flow is None or np.isnan(self.federated_point).any():
            return np.zeros((0, len(self.point)))
        return self.flow.attracting_roots(self.federated_point)

    @property
    def mse(self) -> xr.DataArray:
        """Mean of ||theta-bar_t - reference||^2, over t."""
        return self.data["mse"]

    @property
    def transient(self) -> xr.DataArray:
        """Squared error of the mean less ``bias``, over t."""
        return self.data["transient"]

    @property
    def variance(self) -> xr.DataArray:
        """Trace of the central parameter's covariance, over t."""
        return self.data["variance"]

    def __repr__(self) -> str:
        others = len(self.other_roots)
        noted = f", {others} other attracting root{'s' * (others > 1)}" if others else ""
        count = len(self.warnings)
        noted += f", {count} warning{'s' * (count > 1)}" if count else ""
        return (
            f"Prediction(t = 0 .. {int(self.data.t[-1])}, mse {float(self.mse[0]):.4g} -> "
            f"{float(self.mse[-1]):.4g}, floor {self.floor:.4g} with bias {self.bias:.4g}{noted})"
        )


@single_threaded
def predict(
    fleet: Fleet,
    algo: FedSARSA,
    steps: int,
    reference: ArrayLike | None = None,
    theta0: ArrayLike | None = None,
) -> Prediction:
    """The error curve to expect of ``algo.train(fleet, steps)``, without training.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    algo : FedSARSA
        How they train; its policy must be smooth (Softmax or FixedPolicy).
    steps : int
        T.
    reference : (d,), optional
        The parameter to which errors are measured: agent 0's fixed point unless given.
    theta0 : (d,), optional
        Where training starts, 0 unless given.

    Returns
    -------
    Prediction
        Without synchronisation (``sync_every=None``) its times are 0 and ``steps``, and the central parameter
        is the plain average of independent learners.

    Raises
    ------
    ValueError
        The policy is not smooth, a chain is not ergodic, there are too many parameters, or the step size is
        so large that parameters diverge.

    Notes
    -----
    With m_t the mean parameter, V_t its covariance, J the Jacobian of the averaged semi-gradient,
    M = I + alpha J, and Sigma the noise of a step with its correlation in time,

        mse_t = |m_t - reference|^2 + tr V_t,  V_(t+1) = M V_t M' + (alpha^2 / N) Sigma

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.theory.predict(fs.paper.fleet(2, 0.5, 0.5, states=10, actions=10), fs.FedSARSA(), 2000)
    Prediction(t = 0 .. 2000, mse 1480 -> 505.6, floor 30.02 with bias 29.58)
    """
    fleet, algo = as_fleet(fleet), plain(algo, sampled=True)
    problem = algo.problem(fleet, steps, runs=1, seed=0)
    dim = problem.features.dim
    start = np.zeros(dim) if theta0 is None else _checks.vector("theta0", theta0, dim)
    given = None if reference is None else _checks.vector("reference", reference, dim)
    require_smooth(algo.policy, fleet.actions)
    model = federation_model(problem)
    step = largest_step(problem, model)
    check_step(algo, step)
    target, said = (
        (given, ()) if given is not None else noted(fixed_point, fleet[0], algo.features, algo.policy)
    )
    moments = predict_moments(problem, algo, model, start, target)
    every = problem.sync_every or problem.steps
    times = every * np.arange(problem.steps // every + 1)
    squared = _between(moments, times, ((moments.mean - target) ** 2).sum(axis=1))
    variance = _between(moments, times, moments.variance)
    bias = float(((moments.point - target) ** 2).sum())
    curves = {"mse": squared + variance, "transient": squared - bias, "variance": variance}
    data = xr.Dataset({name: ("t", curve) for name, curve in curves.items()}, coords={"t": times})
    worlds = model.linearised(moments.point)
    slow = slowness(problem, model, worlds)
    variable = largest_share(
        [*data["variance"].values, moments.remaining], [*data["mse"].values, bias + moments.remaining]
    )
    reasons = (
        *said,
        *notes(
            problem,
            worlds,
            slowness=slow,
            step=step,
            variable=variable,
            skew=moments.skew,
            bend=moments.bend,
            projected=moments.projected,
            confirmed=moments.confirmed,
            settled=moments.settled,
            reach=_reach(problem, model, start, moments.point),
        ),
    )
    for reason in reasons:
        warnings.warn(reason, stacklevel=3)
    return Prediction(
        data=data,
        reference=target,
        bias=bias,
        floor=bias + moments.remaining,
        point=moments.point,
        federated_point=moments.root,
        covariance=moments.covariance,
        slowness=slow,
        sharpness=moments.sharpness,
        bend=moments.bend,
        warnings=reasons,
        flow=moments.flow,
    )


def _reach(problem: Problem, model: FederationModel, *points: Floats) -> float:
    """How far agents go in a round, in clips of a private mean: at most, with two standard deviations."""
    if not isinstance(problem.server, PrivateMean):
        return 0.0
    alpha = problem.step_sizes(0, 1)[:, 0][model.groups.schedule]
    longest = 0.0
    for theta in points:
        node = model.node(theta, np.zeros((len(theta), len(theta))), alpha)
        ends = model.local_round(node, alpha, alpha**2)
        way = np.linalg.norm(ends.M @ theta + ends.c - theta, axis=1)
        noise = max(width(Q) for Q in ends.Q)
        longest = max(longest, float(way.max()) + 2 * noise)
    return longest / problem.server.clip


def _between(moments: PredictedMoments, times: NDArray[np.int64], curve: Floats) -> Floats:
    """A curve at ``times``, from its values after some steps."""
    return (
        scipy.interpolate.PchipInterpolator(moments.steps, curve)(times) if len(moments.steps) > 1 else curve
    )


def noted(function: Callable[..., T], *arguments: Any) -> tuple[T, tuple[str, ...]]:
    """What a function returns, and what it warned of."""
    with warnings.catch_warnings(record=True, action="always") as said:
        value = function(*arguments)
    return value, tuple(str(one.message) for one in said)
