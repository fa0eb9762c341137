"""What a training left behind: labelled arrays that save to netCDF and load again."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fedsarsa import _checks, _netcdf
from fedsarsa._checks import Floats
from fedsarsa._version import __version__
from fedsarsa.federation.participation import taking_part
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import RUNNING, State, Synchronisations
from fedsarsa.federation.state import variables as episode_variables

KIND = "history"
NEEDED = ("central", "drift", "final", "local", "failed_at", "settings", "engine", "seed")


class History:
    """The result of ``FedSARSA.train``.

    Parameters
    ----------
    data : xarray.Dataset
        Everything below, with the settings of the training in ``data.attrs``.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> history = fs.FedSARSA().train(fs.paper.fleet(agents=2), steps=40, runs=3)
    >>> history.central.sizes
    Frozen({'run': 3, 't': 5, 'd': 25})
    >>> history.mse(history.final[0]).sel(run=0, t=40).item()
    0.0
    """

    def __init__(self, data: xr.Dataset) -> None:
        self.data = data

    @property
    def central(self) -> xr.DataArray:
        """Central parameter theta-bar, (run, t, d): at t = 0 and at the recorded synchronisations."""
        return self.data["central"]

    @property
    def drift(self) -> xr.DataArray:
        """Client drift, (run, t): mean of ||theta_i - mean||^2 just before each synchronisation."""
        return self.data["drift"]

    @property
    def final(self) -> xr.DataArray:
        """Central parameter after the last step, (run, d)."""
        return self.data["final"]

    @property
    def local(self) -> xr.DataArray:
        """Every agent's parameter after the last step, (run, agent, d)."""
        return self.data["local"]

    @property
    def personal(self) -> xr.DataArray:
        """Every agent's personal parameter, (run, t, agent, d): at t = 0 and at recorded synchronisations.

        Of personal server rules. With `servers.Personal` it is the agent's mixture.
        """
        return self._personal("personal")

    @property
    def weights(self) -> xr.DataArray:
        """Whom agents listen to, (run, t, agent, other): the weights of `servers.Personal`."""
        return self._personal("weights")

    def _personal(self, name: str) -> xr.DataArray:
        if name not in self.data:
            raise AttributeError(
                f"{name} is kept by personal server rules such as fs.servers.Personal(); "
                f"this training had the server {self.settings.get('server', 'Mean')}"
            )
        return self.data[name]

    @property
    def averaged(self) -> xr.DataArray:
        """theta-tilde, (run, d): the average of theta-bar_0 .. theta-bar_T with weights a + t."""
        if "averaged" not in self.data:
            raise AttributeError(
                "averaged is kept when every agent's step size is a LinearDecay with the same a, and all "
                "agents take part in every round; "
                f"this training had step_size {self.settings['step_size']}"
            )
        return self.data["averaged"]

    @property
    def failed_at(self) -> xr.DataArray:
        """Step at which a run's parameters stopped being finite, (run,); -1 for sound runs."""
        return self.data["failed_at"]

    @property
    def settings(self) -> dict[str, Any]:
        """How the training was set up: the algorithm, the fleet's sizes, steps, runs and seed."""
        settings: dict[str, Any] = json.loads(self.data.attrs["settings"])
        return settings

    def learning_curve(self) -> xr.DataArray:
        """Mean return of the episodes that ended in each bin of time, (run, agent, t); NaN where none did.

        Of control worlds and environments of Gymnasium; t is where a bin ends.
        """
        if "episodes" not in self.data:
            raise AttributeError("finite worlds have no episodes, and no learning curve; see mse")
        data = self.data
        curve = (data["returns"] / data["episodes"].where(data["episodes"] > 0)).rename(bin="t")
        return curve.assign_coords(t=data["bin_end"].values).rename("return")

    def mse(self, theta: ArrayLike) -> xr.DataArray:
        """||theta-bar_t - theta||^2 of every run, (run, t).

        Parameters
        ----------
        theta : (d,) array
            Where to measure from, such as ``fs.theory.fixed_point(...)``.

        Raises
        ------
        ValueError
            ``theta`` has another shape.
        """
        reference = _checks.labelled("theta", theta, [("d",)])
        dim = self.data.sizes["d"]
        if reference.shape != (dim,):
            raise ValueError(f"theta must have shape ({dim},), got {reference.shape}")
        error: xr.DataArray = ((self.central - reference) ** 2).sum("d", skipna=False)
        return error.rename("mse")

    def personal_mse(self, theta: ArrayLike) -> xr.DataArray:
        """Squared distance of every agent's personal parameter to a point of its own, (run, t, agent).

        Parameters
        ----------
        theta : (N, d) array
            A point per agent, such as its fixed point.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> fleet = fs.paper.fleet(agents=3, eps_p=0.5, eps_r=0.5)
        >>> algo = fs.FedSARSA(server=fs.servers.Personal(), sync_every=100)
        >>> own = [fs.theory.fixed_point(world, algo.features, algo.policy) for world in fleet]
        >>> algo.train(fleet, steps=1000, runs=2).personal_mse(own).dims
        ('run', 't', 'agent')
        """
        points = _checks.labelled("theta", theta, [("agent", "d")])
        shape = self.personal.shape[2:]
        if points.shape != shape:
            raise ValueError(f"theta must have shape {shape}, a point per agent, got {points.shape}")
        error: xr.DataArray = ((self.personal - points) ** 2).sum("d", skipna=False)
        return error.rename("personal_mse")

    def save(self, path: str | Path) -> None:
        """Write the history as netCDF; a killed process leaves no half file under this name.

        Parameters
        ----------
        path : str or Path
            Where to; what is there is replaced.

        Raises
        ------
        OSError
            It cannot be written.
        """
        _netcdf.write(self.data, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "History":
        """Read a history that ``save`` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Raises
        ------
        FileNotFoundError
            There is none.
        ValueError
            It is damaged, or is something else.
        """
        return cls(_netcdf.read(Path(path), KIND, NEEDED))

    def __repr__(self) -> str:
        sizes = self.data.sizes
        failed = int((self.failed_at != RUNNING).sum())
        note = f", {failed} of them failed (see failed_at)" if failed else ""
        return (
            f"History({sizes['run']} runs{note}, {self.settings['agents']} agents, "
            f"{self.settings['steps']} steps, {sizes['t']} records, d = {sizes['d']})"
        )


def history_of(
    problem: Problem,
    state: State,
    records: Synchronisations,
    engine: str,
    settings: dict[str, Any],
    record_every: int,
) -> History:
    """The labelled arrays of a training that is over, at its end or where a callback has stopped it."""
    every = problem.sync_every
    whole = every is not None and state.t % every == 0
    with np.errstate(over="ignore"):
        final = state.central if whole else _plain_average(problem, state)
    stride = 1 if every is None else every * record_every
    t = stride * np.arange(records.central.shape[1])
    averaged = _averaged(problem, state, final)
    sound = np.isfinite(final).all(axis=1) & (averaged is None or np.isfinite(averaged).all(axis=1))
    # Averages of finite parameters may overflow after the last step.
    failed_at = np.where((state.failed_at < 0) & ~sound, state.t - 1, state.failed_at)
    variables: dict[str, Any] = {
        "central": (("run", "t", "d"), records.central),
        "drift": (("run", "t"), records.drift),
        "final": (("run", "d"), final),
        "local": (("run", "agent", "d"), state.theta),
        "failed_at": ("run", failed_at),
    }
    for name, array in records.personal.items():
        variables[name] = (("run", "t", "agent", "d" if name == "personal" else "other"), array)
    if averaged is not None:
        variables["averaged"] = (("run", "d"), averaged)
    if not problem.finite and state.episodes is not None:
        variables |= episode_variables(problem, state.episodes, failed_at, state.t)
    attributes = {
        "fedsarsa_file": KIND,
        "fedsarsa_version": __version__,
        "engine": engine,
        "seed": str(problem.seed),
        "settings": json.dumps(settings),
    }
    return History(xr.Dataset(variables, coords={"run": np.arange(problem.runs), "t": t}, attrs=attributes))


def _plain_average(problem: Problem, state: State) -> Floats:
    """The mean (R, d) of what agents have learned at the end of an incomplete round."""
    begun = 0 if problem.sync_every is None else state.t - state.t % problem.sync_every
    takes_part = taking_part(problem, begun)
    if (problem.finite or state.episodes is None) and takes_part is None:
        mean: Floats = state.theta.mean(axis=1)
        return mean
    taught = np.ones(state.theta.shape[:2], np.bool)
    if not problem.finite and state.episodes is not None:
        taught = state.episodes.taught(begun)
    taught &= True if takes_part is None else takes_part
    # Where nobody has, the server's parameter stays.
    return np.stack(
        [
            own[who].mean(axis=0) if who.any() else before
            for own, who, before in zip(state.theta, taught, state.central, strict=True)
        ]
    )


@np.errstate(over="ignore", invalid="ignore")  # what overflows is reported as failed
def _averaged(problem: Problem, state: State, final: Floats) -> Floats | None:
    """theta-tilde, (R, d), NaN for failed runs; None where it is not kept."""
    offset = problem.average_offset
    if offset is None:
        return None
    total = state.weighted_sum + (offset + state.t) * final
    weight = (state.t + 1) * (offset + state.t / 2)
    return np.where(state.failed_at[:, None] >= 0, math.nan, total / weight)
