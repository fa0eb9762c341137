"""Methods that know the worlds: local steps on exact tables, in rounds that a server ends by the mean."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsarsa import _checks, _files
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, finished, starting_point
from fedsarsa.federation import events, rounds, training
from fedsarsa.federation.engine import Engine
from fedsarsa.federation.events import Callback
from fedsarsa.federation.history import History
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.progress import Progress
from fedsarsa.federation.state import State, Synchronisations
from fedsarsa.learning.features import OneHot
from fedsarsa.learning.policies import Greedy
from fedsarsa.learning.step_sizes import StepSize
from fedsarsa.methods.method import Communication, Knowledge, Task, finite_fleet
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet

# From the fourth round on step sizes shrink if the mean return rose by less than this share between the
# beginnings of the two rounds before.
LITTLE, PATIENCE = 1e-3, 3


class Model:
    """What a planner knows of a world: its kernel written out, (S, A, S), its reward, start and discount."""

    def __init__(self, world: FiniteMDP) -> None:
        self.kernel = np.ascontiguousarray(world.transition.transpose(1, 0, 2))
        self.reward, self.initial, self.discount = world.expected_reward, world.initial, world.discount

    def ahead(self, values: Floats) -> Floats:
        """r + discount E[values(s')], (M, S, A), for values (M, S)."""
        flat = self.kernel.reshape(-1, len(self.kernel))
        expected = (values @ flat.T).reshape(len(values), *self.reward.shape)
        result: Floats = self.reward + self.discount * expected
        return result

    def values(self, policies: Floats) -> Floats:
        """The value of every state, (M, S), under policies (M, S, A)."""
        reward = (policies * self.reward).sum(axis=-1)
        return np.asarray(np.linalg.solve(self._left(policies), reward[..., None])[..., 0])

    def visits(self, policies: Floats) -> Floats:
        """Discounted visits of every state from the start, (M, S), under policies (M, S, A)."""
        start = np.broadcast_to(self.initial, policies.shape[:2])
        return np.asarray(np.linalg.solve(self._left(policies).swapaxes(1, 2), start[..., None])[..., 0])

    def _left(self, policies: Floats) -> Floats:
        chain = np.matmul(policies.swapaxes(0, 1), self.kernel).swapaxes(0, 1)
        left: Floats = np.eye(len(self.kernel)) - self.discount * chain
        return left


@dataclass(frozen=True, eq=False)
class Planning:
    """A method whose agents plan with their own kernel, E steps in a round, and whose server takes the mean.

    What a step does to a table is ``local``; how tables become policies is ``policy_of``. Where rounds hardly
    raise the mean return, step sizes are multiplied by ``decay``; None: they stay.
    """

    step_size: StepSize = 0.1
    sync_every: int | None = 4
    decay: float | None = field(default=None, kw_only=True)

    name: ClassVar[str]
    task: ClassVar[Task] = "control"
    knows: ClassVar[Knowledge] = "worlds"

    def __post_init__(self) -> None:
        self._algorithm()
        if self.decay is not None and not 0 < _checks.number("decay", self.decay) <= 1:
            raise ValueError(f"decay must be a number in (0, 1], got {self.decay!r}")

    @property
    def shrink(self) -> float:
        """What step sizes are multiplied by where rounds hardly raise the mean return."""
        return 1.0 if self.decay is None else self.decay

    def _algorithm(self) -> FedSARSA:
        """FedSARSA with the same table, step size and rounds, for the problem and the records."""
        return FedSARSA(OneHot(), Greedy(), self.step_size, self.sync_every)

    def first_table(self, rng: np.random.Generator, states: int, actions: int) -> Floats:
        """Where a run begins, (S, A)."""
        return rng.random((states, actions))

    def opening(self, tables: Floats) -> Floats:
        """What agents keep in a round beside their tables (..., S, A), and begin it with; nothing here."""
        return np.empty((*tables.shape[:-2], 0))

    def local(self, model: Model, tables: Floats, kept: Floats, step: Floats) -> tuple[Floats, Floats]:
        """One local step with step sizes (M, 1, 1): the next tables (M, S, A), and what is kept, (M, ..)."""
        raise NotImplementedError(f"{type(self).__name__} must define local")

    def policy_of(self, tables: Floats) -> Floats:
        """The policies (..., S, A) of tables."""
        raise NotImplementedError(f"{type(self).__name__} must define policy_of")

    def train(
        self,
        fleet: Fleet,
        steps: int = 512,
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
        """Plan ``runs`` times from random tables; arguments and result are those of ``FedSARSA.train``.

        A step is one sweep over the table of every agent, and takes no samples. Hundreds are enough where
        methods that learn from samples take thousands, so there are 512 unless given. There is one engine,
        ``auto``, and one thread.

        Parameters
        ----------
        fleet : Fleet
            The agents' worlds.
        steps : int
            T, sweeps over the table of every agent.
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
        fleet = finite_fleet(fleet, self.name)
        if engine != "auto":
            raise ValueError(
                f"engine must be 'auto', as {self.name} plans with exact kernels and samples nothing, "
                f"got {engine!r}"
            )
        if precision != "float64":
            raise ValueError(f"precision must be 'float64', as {self.name} plans in NumPy, got {precision!r}")
        if threads is not None:
            _checks.integer("threads", threads, least=1)
        record_every = _checks.integer("record_every", record_every, least=1)
        problem = self._algorithm().problem(fleet, steps, runs, seed)
        training.check_records(problem, record_every)
        start = self._start(problem, theta0)
        path = None if checkpoint is None else Path(checkpoint)
        if path is not None:
            _files.check_writable(path.parent)
        callbacks = events.checked(callback)
        with closing(Planner(problem, self)) as planner:
            state, records, why = training.train(
                problem, planner, start, record_every, progress, path, callbacks
            )
        settings = {
            **self._algorithm().settings(fleet),
            "method": self.name,
            "method_settings": {one.name: repr(getattr(self, one.name)) for one in fields(self)},
            "warm_start": theta0 is not None,
            **({} if why is None else {"stopped_early": why}),
            **({} if state.t == problem.steps else {"steps_asked_for": problem.steps}),
        }
        return finished(problem, settings, state, records, Planner.name, record_every)

    def _start(self, problem: Problem, theta0: ArrayLike | None) -> Floats:
        if theta0 is not None:
            return starting_point(problem, theta0, 0.0)
        fleet, _ = problem.finite_worlds
        generators = [np.random.default_rng([problem.seed, run]) for run in range(problem.runs)]
        tables = [self.first_table(rng, fleet.states, fleet.actions) for rng in generators]
        return np.repeat(np.reshape(tables, (problem.runs, 1, -1)), problem.agents, axis=1)

    def policies(self, history: History) -> Floats:
        """The policies (R, S, A) of the last central tables.

        Parameters
        ----------
        history : History
            What ``train`` returned.

        Returns
        -------
        (R, S, A) array
            Probabilities of actions.
        """
        sizes = (history.settings[name] for name in ("states", "actions"))
        return self.policy_of(history.final.values.reshape(-1, *sizes))

    def target(self, fleet: Fleet) -> Floats | None:  # noqa: ARG002
        """None: there may be many stationary points, and which one is reached depends on the start.

        Parameters
        ----------
        fleet : Fleet
            The agents' worlds.

        Returns
        -------
        (S A,) array or None
            The table to which training converges.
        """
        return None

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Numbers that one of ``N`` agents sends and receives: the table of ``d``, every round.

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
        return Communication(d, d if self.sync_every else 0, self.sync_every)


class Planner(Engine):
    """Takes the local steps of a planning method, world by world, for all runs at once."""

    name: ClassVar[str] = "planning"

    def __init__(self, problem: Problem, method: Planning) -> None:
        super().__init__(problem)
        self.method = method
        fleet, _ = problem.finite_worlds
        self.fleet, self.shape = fleet, (fleet.states, fleet.actions)
        self.models = [Model(world) for world in fleet.worlds]
        self.members = [np.flatnonzero(fleet.world_of == place) for place in range(len(fleet.worlds))]

    @property
    def identity(self) -> dict[str, str]:
        """The method with its settings."""
        return {"method": repr(self.method)}

    def start(self, state: State) -> None:
        """Keep the factor of every run's step size and its last two mean returns, and what agents keep."""
        state.memory["factor"] = np.ones(self.problem.runs)
        state.memory["returns"] = np.zeros((self.problem.runs, 2))
        state.memory["kept"] = self.method.opening(self._tables(state))

    def take_steps(self, state: State, steps: int) -> Synchronisations:
        """Take ``steps`` more steps of every run, in place."""
        central: list[Floats] = []
        drift: list[Floats] = []
        every = self.problem.sync_every
        for t in range(state.t, state.t + steps):
            if every is None or t % every == 0:
                self._begin(state, t)
            rounds.gather(self.problem, state, t)
            sizes = self.problem.step_sizes(t, 1)[self.problem.schedule_of, 0]
            for model, agents in zip(self.models, self.members, strict=True):
                self._step(state, model, agents, sizes)
            rounds.fail(state, rounds.unsound(state.theta), t)
            state.t = t + 1
            if every is not None and state.t % every == 0:
                drift.append(rounds.synchronise(self.problem, state, t))
                central.append(state.central.copy())
        return rounds.recorded(self.problem, central, drift)

    def _begin(self, state: State, t: int) -> None:
        """Shrink the step sizes of runs that gained little, and let agents begin a round.

        As in the released programs, returns are compared before that of the present tables is known.
        """
        if self.method.shrink < 1:
            factor, returns = state.memory["factor"], state.memory["returns"]
            number = t // (self.problem.sync_every or 1)
            little = returns[:, 1] - returns[:, 0] < LITTLE * returns[:, 0]
            factor[little & (number >= PATIENCE)] *= self.method.shrink
            policies = self.method.policy_of(self._tables(state).mean(axis=1))
            returns[:] = np.stack([returns[:, 1], self._mean_returns(policies)], axis=1)
        state.memory["kept"][:] = self.method.opening(self._tables(state))

    @np.errstate(over="ignore", invalid="ignore")  # what overflows is reported as failed
    def _step(self, state: State, model: Model, agents: NDArray[np.intp], sizes: Floats) -> None:
        kept = state.memory["kept"]
        step = np.outer(state.memory["factor"], sizes[agents]).reshape(-1, 1, 1)
        before = state.theta[:, agents].reshape(-1, *self.shape)
        after, keeps = self.method.local(model, before, kept[:, agents].reshape(len(before), -1), step)
        state.theta[:, agents] = after.reshape(self.problem.runs, len(agents), -1)
        kept[:, agents] = keeps.reshape(self.problem.runs, len(agents), -1)

    def _mean_returns(self, policies: Floats) -> Floats:
        """Mean over the agents of the return of policies (R, S, A), (R,)."""
        total = np.zeros(len(policies))
        for model, agents in zip(self.models, self.members, strict=True):
            total += len(agents) * (model.values(policies) @ model.initial)
        return total / self.problem.agents

    def _tables(self, state: State) -> Floats:
        return state.theta.reshape(*state.theta.shape[:2], *self.shape)
