"""Callbacks for ``FedSARSA.train(callback=...)``: stop early, evaluate in between, write what happens.

A callback is any function of an event (see `fedsarsa.federation.events.Event`); these are objects that
can be called. They are called in the order of the list: one that adds metrics comes before those that read
them.
"""

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fedsarsa import _checks, _files
from fedsarsa.federation.events import Event

__all__ = ["EarlyStopping", "Evaluation", "Event", "JSONLines", "TensorBoard", "WeightsAndBiases"]

LATER = ("return", "length", "reward")  # metrics that are there when episodes, or stretches of time, are over


class EarlyStopping:
    """Stop when a metric has stopped improving, or is good enough.

    Parameters
    ----------
    metric : str
        The metric's name in ``event.metrics``; records without it do not count.
    patience : int
        Stop after so many records without an improvement. A metric that was in none of so many is an error;
        ``return``, ``length`` and ``reward`` have a tenth of the training to come.
    mode : {"max", "min"}
        Whether larger or smaller values are better.
    min_delta : float
        The smallest change that counts as an improvement.
    stopping_threshold : float, optional
        Stop as soon as the metric is as good as this.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or of another kind; while training, there is no such metric.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo, fleet = fs.FedSARSA(step_size=0.1), fs.paper.fleet(agents=3)
    >>> stopping = fs.callbacks.EarlyStopping("drift", patience=5, mode="min")
    >>> history = algo.train(fleet, steps=10_000, runs=1, callback=stopping)
    >>> history.settings["steps"] < 10_000
    True
    """

    def __init__(
        self,
        metric: str = "return",
        patience: int = 10,
        mode: str = "max",
        min_delta: float = 0.0,
        stopping_threshold: float | None = None,
    ) -> None:
        self.metric = _checks.instance("metric", metric, str, "the name of a metric")
        self.patience = _checks.integer("patience", patience, least=1)
        self.sign = 1.0 if _checks.choice("mode", mode, ("max", "min")) == "max" else -1.0
        self.min_delta = _checks.number("min_delta", min_delta)
        self.threshold = stopping_threshold
        if stopping_threshold is not None:
            self.threshold = self.sign * _checks.number("stopping_threshold", stopping_threshold)
        self.best, self.waited, self.missed, self.seen = -math.inf, 0, 0, False

    def __call__(self, event: Event) -> None:
        """Look at a record."""
        if event.t == 0:
            self.best, self.waited, self.missed, self.seen = -math.inf, 0, 0, False
        if self.metric not in event.metrics:
            self._miss(event)
            return
        self.seen = True
        value = self.sign * float(event.metrics[self.metric])
        if value > self.best + self.min_delta:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        if self.threshold is not None and value >= self.threshold:
            event.stop(f"{self.metric} is {self.sign * value:g} at t = {event.t}")
        elif self.waited >= self.patience:
            event.stop(f"{self.metric} has not improved in {self.waited} records, at t = {event.t}")

    def _miss(self, event: Event) -> None:
        """Count a record without the metric, and raise if it is not to be expected any more."""
        self.missed += 1
        due = self.metric not in LATER or event.t >= event.steps / 10
        if not self.seen and self.missed >= self.patience and due:
            hint = _checks.nearest(self.metric, [*event.metrics, *LATER])
            if self.metric in LATER:
                hint = "; no episode has ended, or worlds are finite, which have none"
            raise ValueError(
                f"metric must be one of {', '.join(event.metrics)}, got {self.metric!r}, which none of "
                f"{self.missed} records had{hint}"
            )


class Evaluation:
    """Evaluate the central parameters now and then, as the metric ``evaluation``.

    In worlds with episodes it is the mean greedy return of `rollouts` over runs and agents; in finite worlds
    the mean discounted return of the policy, which `evaluate` computes exactly.

    Parameters
    ----------
    fleet : Fleet, ControlFleet or GymFleet
        The worlds to evaluate in.
    algo : FedSARSA
        The algorithm that is trained.
    every : int
        Records from one evaluation to the next.
    episodes : int
        Episodes per agent.
    seed : int
        Decides the episodes.
    steps : int, optional
        Cut episodes after so many steps, as `rollouts` does.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or of another kind.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.control.fleet("CartPole", agents=2)
    >>> algo = fs.FedSARSA(fs.FourierBasis(1), fs.EpsilonGreedy(0.1), step_size=0.1, sync_every=100)
    >>> seen = []
    >>> evaluation = fs.callbacks.Evaluation(fleet, algo, every=2, episodes=3)
    >>> told = lambda event: seen.append(event.metrics.get("evaluation"))
    >>> history = algo.train(fleet, steps=400, runs=1, callback=[evaluation, told])
    >>> [value is None for value in seen]
    [False, True, False, True, False]
    """

    def __init__(
        self,
        fleet: Any,
        algo: Any,
        every: int = 10,
        episodes: int = 10,
        seed: int = 0,
        steps: int | None = None,
    ) -> None:
        self.fleet, self.algo = fleet, algo
        self.steps = None if steps is None else _checks.integer("steps", steps, least=1)
        self.every = _checks.integer("every", every, least=1)
        self.episodes = _checks.integer("episodes", episodes, least=1)
        self.seed, self.count = _checks.integer("seed", seed, least=0), -1

    def __call__(self, event: Event) -> None:
        """Evaluate, if it is time."""
        self.count = 0 if event.t == 0 else self.count + 1
        sound = event.central[np.isfinite(event.central).all(axis=1)]
        if self.count % self.every or not len(sound):
            return
        event.metrics["evaluation"] = float(np.mean([self._one(theta) for theta in sound]))

    def _one(self, theta: Any) -> float:
        from fedsarsa.federation.spaces import any_fleet

        fleet: Any = any_fleet(self.fleet)
        if fleet.finite:
            from fedsarsa.theory.evaluation import evaluate

            return float(evaluate(fleet, self.algo, theta)["discounted_return"].mean())
        from fedsarsa.rollout import rollouts

        played = rollouts(fleet, self.algo, theta, self.episodes, seed=self.seed, steps=self.steps)
        return float(played.mean_return.mean())


class JSONLines:
    """Write a line of JSON for every record: t, and all metrics.

    Parameters
    ----------
    path : str or Path
        Where to. A training that begins replaces the file; one that resumes from a checkpoint appends to it,
        and replaces the lines from there on.

    Raises
    ------
    OSError
        It cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import fedsarsa as fs
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "metrics.jsonl"
    >>> writer = fs.callbacks.JSONLines(path)
    >>> history = fs.FedSARSA().train(fs.paper.fleet(agents=2), steps=30, runs=1, callback=writer)
    >>> len(path.read_text().splitlines())
    4
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self.last = Path(path), math.inf
        _files.check_writable(self.path.parent)

    def __call__(self, event: Event) -> None:
        """Write a line."""
        if event.t <= self.last:  # the first record that this training writes
            earlier = self._earlier(event.t) if event.t else []
            _files.write_text("".join(f"{line}\n" for line in earlier), self.path)
        self.last = event.t
        told = {"t": event.t} | {name: _plain(value) for name, value in event.metrics.items()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")

    def _earlier(self, t: int) -> list[str]:
        """The lines of records before ``t``; a killed training may have left half a line."""
        lines = []
        with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
            for line in self.path.read_text(encoding="utf-8").splitlines():
                if json.loads(line)["t"] < t:
                    lines.append(line)
        return lines


class TensorBoard:
    """Write metrics for TensorBoard; needs tensorboardX: ``pip install 'fedsarsa[tensorboard]'``.

    Parameters
    ----------
    folder : str or Path
        Where to.

    Raises
    ------
    ImportError
        tensorboardX is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import fedsarsa as fs
    >>> board = fs.callbacks.TensorBoard(tempfile.mkdtemp())  # doctest: +SKIP
    >>> history = fs.FedSARSA().train(fs.paper.fleet(agents=2), callback=board)  # doctest: +SKIP
    >>> board.close()  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "TensorBoard needs tensorboardX: pip install 'fedsarsa[tensorboard]'"
            ) from error
        self.writer = SummaryWriter(str(folder))

    def __call__(self, event: Event) -> None:
        """Write the record's metrics."""
        for name, value in event.metrics.items():
            add = self.writer.add_text if isinstance(value, str) else self.writer.add_scalar
            add(name, value, event.t)

    def close(self) -> None:
        """Write what is not yet on disk; tensorboardX does so now and then, and when the process ends."""
        self.writer.close()


class WeightsAndBiases:
    """Log metrics to a run of Weights & Biases: ``pip install 'fedsarsa[wandb]'``.

    Parameters
    ----------
    run : wandb.Run
        What ``wandb.init(...)`` answers; whoever made it finishes it.

    Raises
    ------
    TypeError
        ``run`` has no ``log``.

    Examples
    --------
    Anything with the ``log`` of a run will do:

    >>> import fedsarsa as fs
    >>> class Run:
    ...     steps = []
    ...     def log(self, metrics, step):
    ...         self.steps.append(step)
    >>> writer = fs.callbacks.WeightsAndBiases(Run())  # wandb.init(project="carts") instead of Run()
    >>> history = fs.FedSARSA().train(fs.paper.fleet(agents=2), steps=30, runs=1, callback=writer)
    >>> Run.steps
    [0, 10, 20, 30]
    """

    def __init__(self, run: Any) -> None:
        if not callable(getattr(run, "log", None)):
            raise TypeError(f"run must be a run of Weights & Biases, as wandb.init() returns, got {run!r}")
        self.run = run

    def __call__(self, event: Event) -> None:
        """Log the record's metrics at step t."""
        self.run.log(dict(event.metrics), step=event.t)


def _plain(value: Any) -> Any:
    """A string, or a number as JSON has it; what is not finite is null."""
    if isinstance(value, str):
        return value
    number = float(value)
    return number if math.isfinite(number) else None
