"""What limits the error of a recorded training: the terms of its decomposition (``lem:decomp``) along it.

With e = theta-bar_t - theta, theta a reference, one step changes ||e||^2 on average by

- *descent*: 2 alpha <e, g-bar(theta-bar) - g-bar(theta)>, the central MDP's contraction, negative;
- *heterogeneity*: 2 alpha <e, mean_i g-bar_i(theta-bar) - g-bar(theta-bar) + g-bar(theta)>, the pull away
  from the reference; for the lemma's own reference theta_* the last part is zero;
- *drift*: 2 alpha <e, mean_i (g-bar_i(theta_i) - g-bar_i(theta-bar))>, agents that have left theta-bar;
- *variance*: alpha^2 E||mean_i g_i||^2;
- *markov*: gradient progress, mixing and backtracking. Each needs a virtual trajectory of its own, but
  together they are, to leading order, what the lagged covariances of semi-gradients add to the variance.

Descent, heterogeneity and variance are exact at the recorded parameter, the last over the stationary law of
the agents' chains there. Drift is its mean over the round that follows, to first order in the step size.

Under a policy that jumps (greedy, epsilon-greedy) the exact terms stay exact, but there is no first order:
agents may cross a tie within a round, and a chain may change before it forgets. Markov is NaN then, and so is
drift, unless it is zero because K or N is 1.
"""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, plain
from fedsarsa.federation.history import History
from fedsarsa.federation.problem import Problem
from fedsarsa.theory.action_classes import Dynamics, Point, dynamics
from fedsarsa.theory.federation_model import FederationModel, federation_model
from fedsarsa.theory.fixed_points import fixed_point
from fedsarsa.theory.linearisation import Linearisation, linearise
from fedsarsa.theory.smoothness import lipschitz
from fedsarsa.theory.stationary import one_class
from fedsarsa.worlds.fleet import Fleet, as_fleet

TERMS = ("descent", "heterogeneity", "drift", "variance", "markov")
LIMITING = ("heterogeneity", "drift", "variance", "markov")


class _Mean(NamedTuple):
    """The agents' semi-gradients at one parameter, weighted by server weight and step size.

    Attributes
    ----------
    pull : (d,)
        sum_i w_i alpha_i g-bar_i.
    drift : (d,)
        The same for J_i times agent i's mean distance from theta-bar within a round.
    noise, lagged : float
        sum_i (w_i alpha_i)^2 tr C_0, and the same for tr(Sigma - C_0).
    slope : float
        max_i ||J_i||_2.
    """

    pull: Floats
    drift: Floats
    noise: float
    lagged: float
    slope: float


@single_threaded
def decompose(
    history: History,
    fleet: Fleet,
    algo: FedSARSA,
    reference: ArrayLike | None = None,
    records: int = 25,
) -> xr.Dataset:
    """The terms of one step's progress along a recorded training.

    Parameters
    ----------
    history : History
        Recorded with this fleet and these settings.
    fleet : Fleet
        The agents' worlds.
    algo : FedSARSA
        How they were trained.
    reference : (d,), optional
        The parameter that errors are measured to: agent 0's fixed point unless given (it must be where a
        greedy policy has none). The lemma's theta_* is ``fixed_point(fleet.central(), ...)``.
    records : int
        At most so many of the recorded times are looked at, more closely spaced at the start.

    Returns
    -------
    xarray.Dataset over ``run`` and ``t``
        The terms of the module's docstring; ``change``, their sum; ``distance``, ||e||^2; ``drift_bound``,
        what the recorded client drift allows the drift term to be at most, just before t; and ``limiting``
        over t: the largest known term but descent, on average over runs. ``attrs["limiting"]`` is the last of
        them, ``attrs["warnings"]`` a tuple of sentences that say which terms are not known and why. Failed
        runs are NaN.

    Raises
    ------
    ValueError
        The history is of another fleet or of other settings, or there is no reference.

    Notes
    -----
    With e = theta-bar_t - reference and mean directions g-bar (of the central MDP) and g-bar_i, the
    Lemma on error decomposition (``lem:decomp``) writes the expected change of ||e||^2 in a step as the sum
    of

        descent          2 alpha e'(g-bar(theta-bar) - g-bar(reference))
        heterogeneity    2 alpha e'(mean_i g-bar_i(theta-bar) - g-bar(theta-bar) + g-bar(reference))
        drift            2 alpha e' mean_i (g-bar_i(theta_i) - g-bar_i(theta-bar))
        markov           2 alpha e' mean_i (g_i(theta_i) - g-bar_i(theta_i)), to leading order
        variance         alpha^2 E||mean_i g_i||^2

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet, algo = fs.paper.fleet(2, 0.5, 0.5, states=10, actions=10), fs.FedSARSA()
    >>> history = algo.train(fleet, steps=1000, runs=2)
    >>> fs.theory.decompose(history, fleet, algo, records=4).attrs["limiting"]
    'heterogeneity'
    """
    history = _checks.instance("history", history, History, "a History")
    fleet, algo = as_fleet(fleet), plain(algo)
    problem = algo.problem(fleet, int(history.settings["steps"]), runs=1, seed=0)
    _check(history, problem)
    target = _target(problem, algo, reference)
    chosen = _chosen(history.data.sizes["t"], _checks.integer("records", records, least=1))
    seen = history.data.isel(t=chosen)
    model = federation_model(problem)
    central = dynamics(fleet.central(), model.classes)
    jumps = math.isinf(lipschitz(algo.policy, fleet.actions))
    here = _world_at(central, model.classes.at(target), jumps).g
    times = seen["t"].values
    rows = np.full((*seen["central"].shape[:2], len(TERMS)), np.nan)
    bound = np.full(rows.shape[:2], np.nan)
    for run, k in np.ndindex(bound.shape):
        theta = seen["central"].values[run, k]
        if not np.isfinite(theta).all():
            continue
        alpha = np.array([s.at(times[k : k + 1])[0] for s in problem.schedules])[model.groups.schedule]
        mean = _mean(model, theta, alpha, jumps)
        e = theta - target
        share = float(model.groups.total @ alpha)
        descent = share * (_world_at(central, model.classes.at(theta), jumps).g - here)
        inner = 2 * np.stack([descent, mean.pull - descent, mean.drift]) @ e
        rows[run, k] = [*inner, mean.pull @ mean.pull + mean.noise, mean.lagged]
        apart = np.sqrt(seen["drift"].values[run, k])
        bound[run, k] = 2 * np.linalg.norm(e) * alpha.max() * mean.slope * apart
    if not jumps:
        return _dataset(seen, target, rows, bound, ())
    unknown = ["markov"] if problem.sync_every == 1 or len(fleet) == 1 else ["drift", "markov"]
    rows[..., [TERMS.index(name) for name in unknown]] = bound[:] = np.nan
    note = (
        f"{algo.policy!r} jumps where two actions tie, and the semi-gradient has no Jacobian there: "
        f"{' and '.join(unknown)} cannot be computed"
    )
    warnings.warn(note, stacklevel=3)
    return _dataset(seen, target, rows, bound, (note,))


def _target(problem: Problem, algo: FedSARSA, reference: ArrayLike | None) -> Floats:
    """The parameter that errors are measured to, (d,)."""
    if reference is not None:
        return _checks.vector("reference", reference, problem.features.dim)
    try:
        return fixed_point(problem.fleet[0], algo.features, algo.policy)
    except ValueError as error:
        raise ValueError(
            f"reference must be given where agent 0 has no fixed point, got None: {error}"
        ) from None


def _world_at(world: Dynamics, point: Point, jumps: bool) -> Linearisation:
    """A world at a parameter; its chain must have one recurrent class there."""
    if jumps:  # smooth policies reach the same states everywhere, and have been looked at
        one_class(world.chain(point.pi))
    return linearise(world, point)


def _mean(model: FederationModel, theta: Floats, alpha: Floats, jumps: bool) -> _Mean:
    """The groups' semi-gradients at ``theta``, for step sizes ``alpha`` (m,)."""
    point, groups = model.classes.at(theta), model.groups
    each = {w: _world_at(model.worlds[w], point, jumps) for w in np.unique(groups.world).tolist()}
    ours = [each[w] for w in groups.world.tolist()]
    moves = alpha[:, None] * np.stack([one.g for one in ours])
    pull = groups.total @ moves
    apart = (model.period - 1) / 2 * (moves - pull)
    drift = sum(w * a * (one.J @ x) for w, a, one, x in zip(groups.total, alpha, ours, apart, strict=True))
    scale = groups.square * alpha**2
    noise = scale @ [np.trace(one.instant_noise) for one in ours]
    total = scale @ [np.trace(one.noise) for one in ours]
    slope = max(float(np.linalg.norm(one.J, 2)) for one in each.values())
    return _Mean(pull, np.asarray(drift), float(noise), float(total - noise), slope)


def _dataset(
    seen: xr.Dataset, target: Floats, rows: Floats, bound: Floats, notes: tuple[str, ...]
) -> xr.Dataset:
    both = ("run", "t")
    distance = ((seen["central"].values - target) ** 2).sum(axis=2)
    data = {name: (both, rows[:, :, k]) for k, name in enumerate(TERMS)}
    data |= {"change": (both, rows.sum(axis=2)), "distance": (both, distance), "drift_bound": (both, bound)}
    result = xr.Dataset(data, coords={"run": seen["run"], "t": seen["t"]})
    means = np.array([result[name].mean("run").values for name in LIMITING])
    largest = np.argmax(np.nan_to_num(means, nan=-np.inf), axis=0)
    result["limiting"] = ("t", np.array(LIMITING)[largest])
    result.attrs["limiting"] = str(result["limiting"].values[-1])
    result.attrs["warnings"] = notes
    return result


def _chosen(count: int, records: int) -> NDArray[np.int64]:
    """Places of at most ``records`` of ``count`` times, the first and the last among them."""
    if count <= records:
        return np.arange(count)
    return np.unique(np.geomspace(1, count, records).round().astype(np.int64)) - 1


def _check(history: History, problem: Problem) -> None:
    """Reject a history of another fleet or other settings, as far as it says."""
    settings, fleet = history.settings, problem.fleet
    if problem.sync_every is None:
        raise ValueError("history must hold synchronisations, got a training with sync_every=None")
    for name in ("server", "target"):  # written down where they are not those of Algorithm alg
        if name in settings:
            raise ValueError(
                f"history must be of plain SARSA and a mean, got one with {name} {settings[name]}"
            )
    expected = {
        "agents": len(fleet),
        "states": fleet.states,
        "actions": fleet.action_count,
        "discount": fleet.discount,
        "sync_every": problem.sync_every,
    }
    for name, value in expected.items():
        if settings[name] != value:
            raise ValueError(
                f"history must be of this fleet and algo: it has {name} {settings[name]}, got {value}"
            )
    if history.data.sizes["d"] != problem.features.dim:
        raise ValueError(
            f"history must have {problem.features.dim} parameters as algo.features does, "
            f"got {history.data.sizes['d']}"
        )
