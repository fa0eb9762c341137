"""The engine for Gymnasium environments: Python steps them, one compiled call a step learns for all.

An environment that raises, or answers with something that is not finite, stops its agent. The others
continue, the server averages without it, and the history says which agent stopped when and why.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, resolved
from fedsarsa.engines import gym_rounds
from fedsarsa.engines.compiled import announced, available_cores, model_of, rows_of
from fedsarsa.engines.gym_environments import LATER, Failure, Stepper, stepper
from fedsarsa.engines.gym_rounds import (
    BROKEN,
    LOST,
    OVERFLOWN,
    RUNNING_ON,
    STOPPED,
    TERMINATED,
    TRUNCATED,
)
from fedsarsa.engines.gym_vectors import Vectors
from fedsarsa.federation.engine import Engine
from fedsarsa.federation.participation import taking_part
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.rounds import fail, gather, is_over, recorded, round_of, synchronise
from fedsarsa.federation.state import RUNNING, Episodes, State, Synchronisations
from fedsarsa.learning import random
from fedsarsa.learning.choice import renumbered
from fedsarsa.learning.continuous_features import BoxMap, Integers
from fedsarsa.learning.function_features import Evaluated, FunctionBasis
from fedsarsa.learning.policies import Policy
from fedsarsa.learning.step_arrays import step_workspace
from fedsarsa.worlds.gym import GymFleet


class GymEngine(Engine):
    """Trains in Gymnasium environments, on one thread. ``state.reports`` lists agents that stopped."""

    name: ClassVar[str] = "gym"
    can_be_saved: ClassVar[bool] = False
    first_steps: ClassVar[int] = 1  # environments may take seconds each  # type: ignore[assignment]

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        assert isinstance(problem.fleet, GymFleet)
        super().__init__(problem, threads, first_agent)
        self.fleet = problem.fleet
        self.function, problem = _evaluated(self.problem)
        self.model = model_of(problem)
        self.workspace = step_workspace(self.model)
        self.stepper: Stepper | None = None
        self.observed = len(self.fleet.bounds[0])
        self.answer = _answering(problem, self.fleet)
        self.seed = U64(problem.seed)
        self.stale = True  # whether lanes have stopped since they were listed
        self.lanes: list[int] = []  # those that learn
        self.learning: Any = slice(None)  # their rows, as NumPy finds them best
        self.waiting: list[int] = []  # lanes whose episodes begin with their next step
        lanes = problem.runs * problem.agents
        self.rewards = np.zeros(lanes)
        self.seen, self.first = (np.zeros((lanes, self.observed)) for _ in range(2))
        self.begins, self.ends = np.zeros(lanes, np.bool), np.zeros(lanes, np.uint8)
        # What kernels see: observations, or the values of a function of them, which Python calls.
        self.inputs, self.first_inputs = self.seen, self.first
        if self.function is not None:
            self.inputs, self.first_inputs = (np.zeros((lanes, self.function.size)) for _ in range(2))

    @property
    def opened(self) -> bool:  # type: ignore[override]
        """Whether there are environments."""
        return self.stepper is not None

    def start(self, state: State) -> None:
        """Make every environment, and begin every agent's first episode."""
        with announced():
            self._begin_all(state, random.START)

    def _begin_all(self, state: State, t: int) -> None:
        """Make environments and begin an episode in each: the first ones, or after a checkpoint."""
        worlds = [world for _ in range(self.problem.runs) for world in self.fleet]
        self.stepper = (
            Vectors(worlds) if self.fleet.vector else stepper(worlds, self.fleet.processes, available_cores())
        )
        held = _held(state)
        agent_state = self._rows(state)
        agent_state.elapsed[:], agent_state.gain[:], agent_state.trace[:], agent_state.live_count[:] = (
            0,
            0.0,
            0.0,
            0,
        )
        lanes = np.flatnonzero(held.stopped_at.reshape(-1) == RUNNING).tolist()
        answers = self.stepper.reset(lanes, [self._seed(lane, t) for lane in lanes])
        placed = [
            self._place(state, lane, t, self.seen, answer)
            for lane, answer in zip(lanes, answers, strict=True)
        ]
        self._begin(state, agent_state, [lane for lane, sound in zip(lanes, placed, strict=True) if sound], t)

    def _seed(self, lane: int, t: int) -> int:
        """What the first ``reset(seed=...)`` gets: a function of (seed, run, agent), as all draws are."""
        run, agent = divmod(lane, self.problem.agents)
        counter = random.plain_purpose(t, random.FIRST_STATE)
        return random.plain_words(self.problem.seed, run, self.first_agent + agent, counter)[0] >> 33

    def _place(self, state: State, lane: int, t: int, rows: Floats, answer: Any) -> bool:
        """Put a first observation into the lane's row; if there is none, stop the agent. Whether there is."""
        if isinstance(answer, Failure):
            self._stop(state, lane, t, answer.report)
            return False
        try:
            rows[lane] = self._numbers([answer])
        except Exception as error:  # whatever its conversion to numbers raises
            why = f"reset answered {answer!r:.1000}, which is not as its space says: {error!r}"
            self._stop(state, lane, t, why)
            return False
        return True

    def _begin(self, state: State, agent_state: Any, lanes: list[int], t: int) -> None:
        """Draw first actions at the observations that the lanes hold."""
        self._evaluate(self.seen, self.inputs, lanes)
        sound = np.isfinite(self.seen[lanes]).all(axis=1) & np.isfinite(self.inputs[lanes]).all(axis=1)
        for lane in np.array(lanes)[~sound].tolist():
            self._stop(state, lane, t, self._what_is_not_finite(self.seen, lane))
        self._act(state.theta, agent_state, np.array(lanes, np.int64)[sound], t, anew=False)

    def _stop(self, state: State, lane: int, t: int, why: str) -> None:
        """Stop an agent whose environment failed after ``t`` steps, and say so, once."""
        run, agent = divmod(lane, self.problem.agents)
        step = 0 if t == random.START else t
        if _held(state).stopped_at[run, agent] != RUNNING:
            return
        _held(state).stopped_at[run, agent] = step
        self.stale = True
        where = self.fleet[agent].label
        state.reports.append({"run": run, "agent": agent, "step": step, "environment": where, "why": why})
        warnings.warn(
            f"agent {agent} of run {run} stopped at step {step}: {where}: {why}", RuntimeWarning, stacklevel=2
        )

    def follow(self, policy: Policy) -> None:
        """Act by the policy with another number from now on."""
        super().follow(policy)
        self.model = self.model._replace(choice=renumbered(self.model.choice, policy))

    def take_steps(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place."""
        problem = self.problem
        if self.stepper is None:  # resuming from a checkpoint: environments cannot be saved, and begin anew
            self._say_what_is_not_known()
            self._begin_all(state, state.t)
        times, every = range(state.t, state.t + steps), problem.sync_every
        step_sizes = problem.step_sizes(state.t, steps)[problem.schedule_of]
        central: list[Floats] = []
        drift: list[Floats] = []
        agent_state, partial = self._prepare(state), problem.partial
        step_sizes, bins = np.ascontiguousarray(step_sizes.T), problem.bin_of(np.array(times)).tolist()
        with announced():
            for t, sizes, time_bin in zip(times, step_sizes, bins, strict=True):
                if problem.average_offset is not None:
                    gather(problem, state, t, self._present(state, t))
                if partial and t == round_of(problem, t):
                    self.stale = True
                self._step(state, agent_state, t, sizes, time_bin)
                if every is not None and (t + 1) % every == 0:
                    drift.append(synchronise(problem, state, t, self._present(state, t)))
                    self.stale |= bool((state.failed_at == t).any())
                    central.append(state.central.copy())
                state.t = t + 1
                if (self.stale or not self.lanes) and is_over(problem, state):
                    break
        return recorded(problem, central, drift)

    def _say_what_is_not_known(self) -> None:
        """A checkpoint of constructors that have no name may have been written with others."""
        if unsure := self.fleet.unsure():
            warnings.warn(
                f"whether the environments are those of the checkpoint is not known for agents {unsure}: "
                f"{self.fleet[unsure[0]].constructor} has no name of its own; "
                "make environments by functions or classes of a module, with options",
                RuntimeWarning,
                stacklevel=2,
            )

    def _prepare(self, state: State) -> Any:
        """Look at a state as ``gym_rounds.learn`` sees it, compiled for it; what its lanes hold."""
        agent_state = self._rows(state)
        size = len(agent_state.elapsed)
        theta, progress = state.theta.reshape(size, -1), state.progress.reshape(size, state.progress.shape[2])
        self._list_lanes(state, state.t)
        self.fixed = (
            self.model,
            agent_state,
            theta,
            progress,
            agent_state.seen if self.function is None else self.seen,
            self.rewards,
            self.ends,
            self.first,
            self.first_inputs,
            self.begins,
            U64(self.first_agent),
            self.seed,
            self.workspace,
        )
        with announced():
            self.learn = resolved(gym_rounds.learn, *self.fixed, np.zeros(self.problem.agents), 0, U64(0))
        return agent_state

    def _rows(self, state: State) -> Any:
        """What lanes hold, as kernels see it."""
        rows = rows_of(_held(state), state.actions, state.shift, state.left, slice(None))
        if self.function is not None:
            return rows._replace(seen=self.inputs)
        self.seen = self.inputs = rows.seen[:, : self.observed]
        return rows

    def _evaluate(self, observations: Floats, inputs: Floats, lanes: Any) -> None:
        """Compute the features of some lanes, where they are a function of the user's.

        The function, which may reject what is not finite, sees finite observations only.
        """
        if self.function is None:
            return
        seen = observations[lanes]
        # One number tells that all are finite; if it is not, which may be an overflow, each is looked at.
        if not math.isfinite(np.vdot(seen, seen)):
            lanes = np.arange(len(observations))[lanes]
            lanes = lanes[np.isfinite(seen).all(axis=1)]
            seen = observations[lanes]
        if len(seen):
            inputs[lanes] = self.function.rows(seen)

    def warm(self, state: State) -> None:
        """Compile all that training calls; no environment is made for it."""
        agent_state = self._prepare(state)
        with announced():
            self._begin(state, agent_state, [], 0)

    def _act(self, theta: Floats, agent_state: Any, lanes: Integers, t: int, anew: bool) -> None:
        """Draw first actions of episodes, or the actions of step ``t`` anew."""
        theta = theta.reshape(len(agent_state.elapsed), -1)
        agents, first_agent = self.problem.agents, U64(self.first_agent)
        gym_rounds.act(
            self.model,
            agent_state,
            theta,
            lanes,
            agents,
            first_agent,
            self.seed,
            U64(t),
            anew,
            self.workspace,
        )

    def _step(self, state: State, agent_state: Any, t: int, step_sizes: Floats, time_bin: int) -> None:
        """One step of every agent that still learns."""
        assert self.stepper is not None
        if self.stale:
            self._list_lanes(state, t)
        lanes, ends = self.lanes, self.ends
        if not lanes:
            return
        if self.problem.step.redraw_actions:
            self._act(state.theta, agent_state, np.array(lanes), t, anew=True)
        answers = self.stepper.step(lanes, self.answer(agent_state, lanes))
        try:
            ended = self._take_in(lanes, self.learning, answers)
        except Exception:  # some answer is not as it should be: which, its own conversion says
            ended = self._take_in_each(state, lanes, answers, t)
        begun: list[int] = []
        if self.waiting:  # what these answered begins their episodes; they learn from their next step
            begun, self.waiting = [lane for lane in self.waiting if ends[lane] == RUNNING_ON], []
            ends[begun] = STOPPED
        self._evaluate(self.seen, self.inputs, self.learning)
        if ended:
            self._reset(state, ended, t)
            self._evaluate(self.first, self.first_inputs, ended)
        unsound = self.learn(*self.fixed, step_sizes, time_bin, t)
        if unsound:
            self._see_what_is_not_finite(state, t)
        if begun:
            self._begin(state, agent_state, begun, t)

    def _take_in(self, lanes: list[int], rows: Any, answers: Sequence[Any]) -> list[int]:
        """Note what environments answered in their rows; the lanes whose episodes have ended.

        An exception says that some answer is not as its spaces say; rows then hold no sense.
        """
        observations, rewards, terminated, truncated, _ = zip(*answers, strict=True)
        self.seen[rows] = self._numbers(observations)
        self.rewards[rows] = rewards
        self.ends[rows] = RUNNING_ON
        if not (any(terminated) or any(truncated)):
            return []
        ended = []
        for lane, over, cut in zip(lanes, terminated, truncated, strict=True):
            if over or cut:
                self.ends[lane] = TERMINATED if over else TRUNCATED
                ended.append(lane)
        return ended

    def _take_in_each(self, state: State, lanes: list[int], answers: Sequence[Any], t: int) -> list[int]:
        """The same lane by lane, where agents stop whose environments answered what they should not."""
        ended = []
        for lane, answer in zip(lanes, answers, strict=True):
            try:
                ended += self._take_in([lane], [lane], [answer])
            except Exception as error:  # whatever the answer's own conversion to numbers raises
                failure = type(answer) is Failure
                why = f"step answered {answer!r:.1000}, which is not as its spaces say: {error!r}"
                self._stop(state, lane, t, answer.report if failure else why)
                self.ends[lane] = STOPPED
        return ended

    def _numbers(self, observations: Sequence[Any]) -> NDArray[Any]:
        """Observations as rows of numbers, of which there must be as many as the space has."""
        numbers = np.array(observations)
        if numbers.size != len(observations) * self.observed:
            raise ValueError(f"{self.observed} numbers are expected")
        return numbers.reshape(len(observations), self.observed)

    def _reset(self, state: State, lanes: list[int], t: int) -> None:
        """Begin the next episodes of ``lanes``; those that fail learn from their last step, and stop."""
        assert self.stepper is not None
        for lane, answer in zip(lanes, self.stepper.reset(lanes, [None] * len(lanes)), strict=True):
            if answer is LATER:
                self.waiting.append(lane)
                self.begins[lane] = False
            else:
                self.begins[lane] = self._place(state, lane, t + 1, self.first, answer)

    def _list_lanes(self, state: State, t: int) -> None:
        """The lanes that learn in the round of step ``t``."""
        self.stale = False
        learning = (_held(state).stopped_at == RUNNING) & (state.failed_at[:, None] == RUNNING)
        takes_part = taking_part(self.problem, round_of(self.problem, t))
        learning &= True if takes_part is None else takes_part
        self.ends[:] = np.where(learning.reshape(-1), RUNNING_ON, STOPPED)
        self.lanes = np.flatnonzero(learning).tolist()
        self.learning = slice(None) if learning.all() else self.lanes

    def _see_what_is_not_finite(self, state: State, t: int) -> None:
        """Stop agents whose environment answered, and runs whose parameters became, what is not finite."""
        for lane in np.flatnonzero(self.ends == BROKEN).tolist():
            if math.isfinite(self.rewards[lane]):
                got = self._what_is_not_finite(self.seen, lane)
            else:
                got = f"reward must be finite, got {self.rewards[lane]}"
            self._stop(state, lane, t, got)
        for lane in np.flatnonzero(self.ends == LOST).tolist():
            self._stop(state, lane, t + 1, self._what_is_not_finite(self.first, lane))
        fail(state, (self.ends == OVERFLOWN).reshape(self.problem.runs, -1).any(axis=1), t)
        self.stale = True

    def _what_is_not_finite(self, observations: Floats, lane: int) -> str:
        """Why a lane cannot continue: its observation, or what a function of the user's made of it."""
        got = observations[lane]
        if np.isfinite(got).all():
            return f"features are not finite at observation {got.tolist()}"
        return f"observation must be finite, got {got.tolist()}"

    def _present(self, state: State, t: int) -> NDArray[np.bool]:
        """Whose learning counts in the round of step ``t``, (R, N)."""
        return _held(state).taught(round_of(self.problem, t))

    def close(self) -> None:
        """Close every environment."""
        self.waiting = []
        if self.stepper is not None:
            self.stepper.close()
            self.stepper = None


def _evaluated(problem: Problem) -> tuple[FunctionBasis | None, Problem]:
    """A function of the user's, which the engine calls for all lanes at once, and the problem without it."""
    phi = problem.features
    if not isinstance(phi, BoxMap) or not isinstance(phi.basis, FunctionBasis):
        return None, problem
    values = Evaluated(phi.basis.function, phi.basis.size, phi.basis.size)
    low = np.zeros(values.size)
    return phi.basis, replace(problem, features=replace(phi, basis=values, low=low, high=low))


def _answering(problem: Problem, fleet: GymFleet) -> Any:
    """How lanes' actions are said to their environments."""
    space = fleet.action_space
    if problem.features.joint:
        return lambda agent_state, lanes: [
            np.full(space.shape, agent_state.numbers[lane], space.dtype) for lane in lanes
        ]
    actions = fleet.actions(problem.per_number)

    def answer(agent_state: Any, lanes: list[int]) -> list[Any]:
        held = agent_state.actions.tolist()
        return [actions[held[lane]] for lane in lanes]

    # Copies of arrays: environments may change the action that they get.
    return answer if isinstance(actions[0], int) else lambda *held: [one.copy() for one in answer(*held)]


def _held(state: State) -> Episodes:
    assert state.episodes is not None
    return state.episodes
