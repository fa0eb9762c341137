"""FedTD(0): federated evaluation of a fixed policy, with a step of the server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers import Mean, Server, ServerStep
from fedsarsa.methods.policy_evaluation import PredictionInRounds
from fedsarsa.theory.round_limits import round_limit
from fedsarsa.worlds.fleet import Fleet, as_fleet


@dataclass(frozen=True, eq=False)
class FedTD(PredictionInRounds):
    """Wang, Mitra, Hassani, Pappas and Anderson 2023: FedTD(0), local TD steps and a step of the server.

    Every agent takes K steps of TD(0) from the server's parameter. The server moves by ``server_step`` times
    their mean change, and projects onto a ball. With ``server_step`` 1 it is FedSARSA with a fixed policy.

    Parameters
    ----------
    features : OneHot, ModuloFeatures or TabularFeatures
        Features of pairs. Those of states alone, as in the paper, have the same vector for all actions
        (``ModuloFeatures(d, 1)``, ``state_features``); the steps are then those of TD(0), one by one.
    policy : FixedPolicy
        Whose values are learned.
    step_size : float, ConstantStep, LinearDecay, PiecewiseDecay, or a list with one per agent
        alpha_t of the local steps.
    sync_every : int
        K, local steps per round.
    radius : float, optional
        Of the ball on which the server projects; no projection unless given.
    server_step : float
        The server's step size.
    independent : bool
        Whether pairs are drawn from stationary distributions, and not along chains.

    Raises
    ------
    ValueError, TypeError
        ``policy`` is no FixedPolicy, or another argument is out of its range.

    Notes
    -----
        theta_i <- theta_i + alpha_t phi(s, a) (r + discount phi(s', a')'theta_i - phi(s, a)'theta_i)

    and after K steps theta-bar <- Proj(theta-bar + server_step mean_i (theta_i - theta-bar)).

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(3, 0.5, 0.5, states=6, actions=4)
    >>> method = fs.methods.FedTD(fs.ModuloFeatures(6, 1), fs.FixedPolicy(0), 0.05, sync_every=10)
    >>> method.train(fleet, steps=100, runs=2)
    History(2 runs, 3 agents, 100 steps, 11 records, d = 6)
    >>> method.target(fleet).shape
    (6,)
    """

    server_step: float = 1.0

    name: ClassVar[str] = "FedTD"

    def __post_init__(self) -> None:
        _checks.positive("server_step", self.server_step)
        super().__post_init__()

    def server(self) -> Server:
        """The mean, or the server's step if it is not 1."""
        if self.server_step == 1:
            return Mean(radius=self.radius)
        return ServerStep(self.server_step, self.radius)

    def target(self, fleet: Fleet) -> Floats:
        """Where K local steps and the average rest (`round_limit`), (d,), whatever the server's step is."""
        return round_limit(as_fleet(fleet), replace(self.algorithm(), server=None, radius=None))
