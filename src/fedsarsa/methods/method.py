"""What a method is: one of the systems that the papers compare, trained and measured like all others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from fedsarsa._checks import Floats
from fedsarsa.federation.events import Callback
from fedsarsa.federation.history import History
from fedsarsa.federation.problem import AnyFleet
from fedsarsa.federation.progress import Progress
from fedsarsa.federation.spaces import any_fleet
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet

Task = Literal["control", "prediction"]
Knowledge = Literal["samples", "simulator", "worlds"]


class Communication(NamedTuple):
    """Numbers that one agent sends and receives.

    Attributes
    ----------
    up, down : float
        Numbers sent and received by an agent in one exchange; a mean over agents where they differ.
    per : int or None
        Steps from one exchange to the next; None: there is one exchange, after the last step.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.methods.FedTD(sync_every=50).communication(d=25, N=10)
    Communication(up=25, down=25, per=50)
    """

    up: float
    down: float
    per: int | None


@runtime_checkable
class Method(Protocol):
    """One of the systems that the papers compare: a frozen dataclass of its settings.

    Attributes
    ----------
    name : str
        Its name in tables and configurations.
    task : {"control", "prediction"}
        Whether it learns how to act, or what a fixed policy is worth.
    knows : {"samples", "simulator", "worlds"}
        What it learns from: the steps of its agents, draws from every pair at will, or exact kernels.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> method = fs.methods.FedTD(step_size=0.05)
    >>> method.name, method.task, method.knows, isinstance(method, fs.methods.Method)
    ('FedTD', 'prediction', 'samples', True)
    """

    name: ClassVar[str]
    task: ClassVar[Task]
    knows: ClassVar[Knowledge]

    def train(
        self,
        fleet: Fleet,
        steps: int = 20_000,
        runs: int = 10,
        seed: int = 0,
        engine: str = "auto",
        theta0: ArrayLike | None = None,
        threads: int | None = None,
        progress: Progress = False,
        record_every: int = 1,
        checkpoint: str | Path | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        precision: str = "float64",
    ) -> History:
        """Train, with the arguments of ``FedSARSA.train`` and a history as it makes them.

        Parameters
        ----------
        fleet : Fleet
            The agents' worlds.
        steps : int
            T, steps per agent; sweeps over a table where the method plans.
        runs : int
            Federations to train.
        seed : int
            With run and agent number it decides every random number.
        engine, theta0, threads, progress, record_every, checkpoint, callback, precision
            As for ``FedSARSA.train``.

        Returns
        -------
        History
            As ``FedSARSA.train`` makes it.

        Raises
        ------
        ValueError, TypeError
            The method cannot take these worlds, or an argument is out of its range.
        """

    def target(self, fleet: Fleet) -> Floats | None:
        """The exact point to which training converges, (d,), or (N, d) with a point per agent.

        None where there is no such point, or none that is known.

        Parameters
        ----------
        fleet : Fleet
            The agents' worlds.

        Returns
        -------
        (d,) or (N, d) array, or None
            The point to which training converges, noise apart.
        """

    def communication(self, d: int, N: int) -> Communication:
        """Numbers that one of ``N`` agents sends and receives, with ``d`` parameters.

        Parameters
        ----------
        d : int
            Parameters.
        N : int
            Agents.

        Returns
        -------
        Communication
            Numbers sent, numbers received, and steps between two exchanges.
        """


def finite_fleet(worlds: AnyFleet | Sequence[FiniteMDP], name: str) -> Fleet:
    """The fleet of finite worlds in which the method of this name trains."""
    fleet = any_fleet(worlds)
    if not isinstance(fleet, Fleet):
        raise TypeError(
            f"fleet must have finite worlds, as {name} trains in no others, got {fleet!r}; fs.FedSARSA does"
        )
    return fleet


@runtime_checkable
class ControlMethod(Method, Protocol):
    """A method that learns how to act.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> isinstance(fs.methods.FedQ(), fs.methods.ControlMethod)
    True
    >>> isinstance(fs.methods.FedTD(), fs.methods.ControlMethod)
    False
    """

    def policies(self, history: History) -> Floats:
        """The learned policies: (R, S, A), or (R, N, S, A) where every agent has one of its own.

        Parameters
        ----------
        history : History
            What ``train`` returned.

        Returns
        -------
        array
            Probabilities of actions.
        """
