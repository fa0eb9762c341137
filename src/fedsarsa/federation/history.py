"""What a training left behind: labelled arrays that save to netCDF and load again."""

import json
from pathlib import Path
from typing import Any

import xarray as xr
from numpy.typing import ArrayLike

from fedsarsa import _checks, _netcdf
from fedsarsa.federation.state import RUNNING

KIND = "history"
NEEDED = ("central", "drift", "final", "local", "failed_at", "settings", "engine", "seed")


class History:
    """The result of ``FedSARSA.train``.

    Attributes
    ----------
    data : xarray.Dataset
        Everything below, with the settings of the training in ``data.attrs``.
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
    def averaged(self) -> xr.DataArray:
        """theta-tilde, (run, d): the average of theta-bar_0 .. theta-bar_T with weights a + t."""
        if "averaged" not in self.data:
            raise AttributeError(
                "averaged is kept when every agent's step size is a LinearDecay with the same a; "
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
        """||theta-bar_t - theta||^2 of every run, (run, t)."""
        reference = _checks.labelled("theta", theta, [("d",)])
        dim = self.data.sizes["d"]
        if reference.shape != (dim,):
            raise ValueError(f"theta must have shape ({dim},), got {reference.shape}")
        error: xr.DataArray = ((self.central - reference) ** 2).sum("d", skipna=False)
        return error.rename("mse")

    def save(self, path: str | Path) -> None:
        """Write the history as netCDF; a killed process leaves no half file under this name."""
        _netcdf.write(self.data, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "History":
        """Read a history that ``save`` wrote."""
        return cls(_netcdf.read(Path(path), KIND, NEEDED))

    def __repr__(self) -> str:
        sizes = self.data.sizes
        failed = int((self.failed_at != RUNNING).sum())
        note = f", {failed} of them failed (see failed_at)" if failed else ""
        return (
            f"History({sizes['run']} runs{note}, {self.settings['agents']} agents, "
            f"{self.settings['steps']} steps, {sizes['t']} records, d = {sizes['d']})"
        )
