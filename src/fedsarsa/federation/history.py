"""What a training left behind: labelled arrays that save to netCDF and load again."""

from __future__ import annotations

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
from fedsarsa.worlds import varied

KIND = "history"
LATE = 0.1  # the last part of a training, whose episodes are averaged
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

    def learning_curve(self, bins: int | None = None) -> xr.DataArray:
        """Mean return of the episodes that ended in each bin of time, (run, agent, t); NaN where none did.

        Where no agent has ended an episode, it is the mean reward of a step in each bin, as in
        `reward_curve`; the array's name says which, "return" or "reward_per_step".

        Parameters
        ----------
        bins : int, optional
            Put bins together until there are at most so many. Every episode of a (run, agent) then counts
            alike. Training records up to 200.

        Returns
        -------
        xarray.DataArray
            ``t`` is where a bin ends. Physics or options in which agents differ are coordinates of ``agent``:
            ``history.learning_curve().mean("run").plot(x="length")``. Without the mean over runs, xarray has
            three dimensions and no picture for them.

        Raises
        ------
        AttributeError
            The worlds are finite.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> carts = fs.control.fleet("CartPole", vary={"length": [0.4, 0.6]})
        >>> algo = fs.FedSARSA(fs.TileCoding(4, 4), fs.EpsilonGreedy(0.1), step_size=0.3)
        >>> curve = algo.train(carts, steps=1000, runs=3).learning_curve(bins=5)
        >>> curve.dims, curve.t.values.tolist(), curve.length.values.tolist()
        (('run', 'agent', 't'), [200, 400, 600, 800, 1000], [0.4, 0.6])
        """
        if not self._episodic["episodes"].any():
            return self.reward_curve(bins)
        return _quotient(self._pooled(bins), "returns", "episodes").rename("return")

    def reward_curve(self, bins: int | None = None) -> xr.DataArray:
        """Mean reward of the steps in each bin of time, (run, agent, t); NaN where an agent took none.

        Parameters
        ----------
        bins : int, optional
            As in `learning_curve`.

        Returns
        -------
        xarray.DataArray
            ``t`` is where a bin ends.

        Raises
        ------
        AttributeError
            The worlds are finite.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> algo = fs.FedSARSA(fs.FourierBasis(1), fs.EpsilonGreedy(0.1), step_size=0.1)
        >>> history = algo.train(fs.control.fleet("CartPole", agents=2), steps=200, runs=1)
        >>> history.reward_curve(bins=2).values.tolist()
        [[[1.0, 1.0], [1.0, 1.0]]]
        """
        return _quotient(self._pooled(bins), "rewards", "steps").rename("reward_per_step")

    def late_return(self, share: float = LATE) -> xr.DataArray:
        """Mean return of the episodes that ended late in training, (run, agent); NaN where none did.

        Where none of any agent has ended so late, as with long episodes, it is that of every agent's last bin
        of time in which some have ended. Where no agent has ended an episode at all, it is the mean reward of
        a step, as in `learning_curve`.

        Parameters
        ----------
        share : float
            What is late: the last tenth of the steps unless given.

        Returns
        -------
        xarray.DataArray
            Named "return" or "reward_per_step".

        Raises
        ------
        AttributeError
            The worlds are finite.
        ValueError
            ``share`` is outside (0, 1].
        """
        if not 0 < _checks.number("share", share) <= 1:
            raise ValueError(f"share must be a number in (0, 1], got {share!r}")
        data = self._episodic
        late = data.isel(bin=data["bin_end"] > (1 - share) * self.settings["steps"]).sum("bin")
        if data["episodes"].any():
            if not late["episodes"].any():
                place = np.arange(data.sizes["bin"])
                ended = (data["episodes"] > 0) * (place + 1)
                late = data.where(ended == ended.max("bin")).sum("bin")
            return _quotient(late, "returns", "episodes").rename("return")
        return _quotient(late, "rewards", "steps").rename("reward_per_step")

    @property
    def _episodic(self) -> xr.Dataset:
        """What was summed up in bins of time."""
        if "episodes" not in self.data:
            raise AttributeError("finite worlds have no episodes, and no learning curve; see mse")
        return self.data[["episodes", "returns", "steps", "rewards", "bin_end"]]

    def _pooled(self, bins: int | None) -> xr.Dataset:
        """Sums in at most ``bins`` bins of time, along ``t``; the last one may be shorter."""
        data = self._episodic
        count = data.sizes["bin"]
        most = count if bins is None else _checks.integer("bins", bins, least=1)
        if count == 0:  # stopped at t = 0
            return data.drop_vars("bin_end").rename(bin="t").assign_coords(t=data["bin_end"].values)
        width = -(-count // most)
        grouped = data.drop_vars("bin_end").coarsen(bin=width, boundary="pad").sum()
        end = data["bin_end"].coarsen(bin=width, boundary="pad").max().astype(int)
        return grouped.rename(bin="t").assign_coords(t=end.values)

    def mse(self, theta: ArrayLike) -> xr.DataArray:
        """||theta-bar_t - theta||^2 of every run, (run, t).

        Parameters
        ----------
        theta : (d,) array
            Where to measure from, such as ``fs.theory.fixed_point(...)``.

        Returns
        -------
        xarray.DataArray
            (run, t), NaN from where a run has failed.

        Raises
        ------
        ValueError
            ``theta`` has another shape.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> fleet, algo = fs.paper.fleet(agents=2), fs.FedSARSA()
        >>> target = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
        >>> algo.train(fleet, steps=20, runs=3).mse(target).shape
        (3, 3)
        """
        reference = _checks.labelled("theta", theta, [("d",)])
        dim = self.data.sizes["d"]
        if reference.shape != (dim,):
            other = "; personal_mse takes a point per agent" if reference.ndim == 2 else ""
            raise ValueError(f"theta must have shape ({dim},), got {reference.shape}{other}")
        error: xr.DataArray = ((self.central - reference) ** 2).sum("d", skipna=False)
        return error.rename("mse")

    def personal_mse(self, theta: ArrayLike) -> xr.DataArray:
        """Squared distance of every agent's personal parameter to a point of its own, (run, t, agent).

        Parameters
        ----------
        theta : (N, d) array
            A point per agent, such as its fixed point.

        Returns
        -------
        xarray.DataArray
            (run, t, agent).

        Raises
        ------
        AttributeError
            The server's rule is not a personal one.
        ValueError
            ``theta`` has another shape.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> fleet = fs.paper.fleet(agents=3, eps_p=0.5, eps_r=0.5)
        >>> algo = fs.FedSARSA(server=fs.servers.Personal(), sync_every=100)
        >>> own = [fs.theory.fixed_point(world, algo.features, algo.policy) for world in fleet]
        >>> algo.train(fleet, steps=20_000, runs=2).personal_mse(own).dims
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

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import fedsarsa as fs
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "history.nc"
        >>> fs.FedSARSA().train(fs.paper.fleet(agents=2), steps=20, runs=1).save(path)
        >>> fs.History.load(path)
        History(1 runs, 2 agents, 20 steps, 3 records, d = 25)
        """
        _netcdf.write(self.data, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> History:
        """Read a history that ``save`` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        History
            With the same arrays and settings.

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


def _quotient(data: xr.Dataset, total: str, count: str) -> xr.DataArray:
    """A mean; NaN where there is nothing to average."""
    return data[total] / data[count].where(data[count] > 0)


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
    data = xr.Dataset(variables, coords={"run": np.arange(problem.runs), "t": t}, attrs=attributes)
    return History(data.assign_coords(varied.coordinates(problem.fleet, {*data.variables, *data.dims})))


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
