"""What a learned parameter is worth in episodic worlds: episodes are played, and nothing is learned."""

from __future__ import annotations

import math
import warnings
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy import stats

from fedsarsa import _checks, acting
from fedsarsa._checks import Floats
from fedsarsa._numba import U64, kernel
from fedsarsa.algorithm import FedSARSA, checked
from fedsarsa.engines.compiled import announced, model_of, rows_of
from fedsarsa.engines.general import worlds_of
from fedsarsa.engines.general_rounds import Learners, Worlds, first_state, move
from fedsarsa.engines.gym_environments import Failure, InProcess
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.spaces import EpisodicFleet, any_fleet
from fedsarsa.federation.state import first_episodes
from fedsarsa.learning import local_step, policies, random
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.learning.policies import Policy
from fedsarsa.learning.step_arrays import Model, Moment, StepWorkspace, step_workspace
from fedsarsa.learning.targets import Step
from fedsarsa.worlds import varied
from fedsarsa.worlds.gym import GymFleet

EVALUATION = 2**63  # turned in the seed, so that evaluation and training share no random numbers
# What the conversion of an answer to numbers and truth values raises, tensors with gradients among them.
UNLIKE = (TypeError, ValueError, RuntimeError, OverflowError)
LONGEST = 100_000  # steps of an episode of Gymnasium that has no time limit


def rollouts(
    fleet: EpisodicFleet,
    algo: FedSARSA,
    theta: ArrayLike,
    episodes: int = 20,
    greedy: bool = True,
    seed: int = 0,
    steps: int | None = None,
) -> xr.Dataset:
    """Every agent's return under a parameter, over episodes in its own world.

    Parameters
    ----------
    fleet : ControlFleet or GymFleet
        The agents' worlds.
    algo : FedSARSA
        The settings with which the parameter was learned.
    theta : (d,) or (N, d)
        One parameter for all agents, or one per agent.
    episodes : int
        Episodes per agent.
    greedy : bool
        Take the best action, ties broken as ``algo.policy`` does; otherwise act by that policy.
    seed : int
        Decides every random number.
    steps : int, optional
        Cut episodes after so many steps, for worlds in which they never end. Unless given, episodes in
        Gymnasium environments are cut after 100 000 steps, which may take long, with a warning.

    Returns
    -------
    xarray.Dataset
        ``returns`` and ``lengths`` (agent, episode); ``mean_return``, ``margin`` (half the width of its 95%
        confidence interval), ``mean_length`` and ``mean_reward`` (of a step) over ``agent``, whose
        coordinates are all numbers in which worlds differ.

    An environment that fails, or answers with what is not finite, is warned of; its agent's returns are NaN
    from that episode on, as are its means, and ``lengths`` counts the steps that it took.

    Raises
    ------
    ValueError
        ``theta`` has another shape, or an argument is out of its range.
    TypeError
        ``fleet`` is of finite worlds, for which there is ``fs.evaluate``.

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fleet = fs.control.fleet("CartPole", agents=2)
    >>> algo = fs.FedSARSA(fs.FourierBasis(1), fs.EpsilonGreedy(0.1))
    >>> fs.rollouts(fleet, algo, np.zeros(32), episodes=5).mean_return.dims
    ('agent',)
    """
    fleet = any_fleet(fleet)  # type: ignore[assignment]
    episodes = _checks.integer("episodes", episodes, least=1)
    problem = checked(algo).problem(fleet, 1, episodes, seed)
    if problem.finite:
        raise TypeError(f"rollouts are for control worlds and GymFleet, got {fleet!r}; use fs.evaluate")
    parameters = parameters_of(problem, theta)
    policy: Policy = policies.greedy_as(problem.policy) if greedy else problem.policy
    longest = None if steps is None else _checks.integer("steps", steps, least=1)
    play = _play_gym if isinstance(fleet, GymFleet) else _play_control
    returns, lengths = play(problem, policy, parameters, longest)
    margin = np.full(len(fleet), math.nan)
    if episodes > 1:
        width = float(stats.t.ppf(0.975, episodes - 1)) / math.sqrt(episodes)
        margin = width * returns.std(axis=1, ddof=1)
    data = xr.Dataset(
        {
            "returns": (("agent", "episode"), returns),
            "lengths": (("agent", "episode"), lengths),
            "mean_return": ("agent", returns.mean(axis=1)),
            "margin": ("agent", margin),
            "mean_length": ("agent", np.where(np.isnan(returns), math.nan, lengths).mean(axis=1)),
            "mean_reward": ("agent", returns.sum(axis=1) / lengths.sum(axis=1)),
        }
    )
    return data.assign_coords(varied.coordinates(fleet, {*data.variables, *data.dims}))


def parameters_of(problem: Problem, theta: ArrayLike) -> Floats:
    """The common parameter, (1, d), or every agent's, (N, d)."""
    given = _checks.labelled("theta", theta, [("d",), ("agent", "d")])
    shapes = (problem.features.dim,), (problem.agents, problem.features.dim)
    if given.shape not in shapes:
        raise ValueError(f"theta must have shape {shapes[0]} or {shapes[1]}, got {given.shape}")
    return np.array(given).reshape(-1, problem.features.dim)


def _play_control(
    problem: Problem, policy: Policy, theta: Floats, longest: int | None
) -> tuple[Floats, Integers]:
    """Returns and lengths (N, episodes) in control worlds."""
    fleet = problem.fleet
    # Every agent holds one episode at a time and learns nothing: there is no need for more memory.
    one = replace(problem, runs=1, step=Step())
    model, worlds, held = model_of(one, policy), worlds_of(one), first_episodes(one)
    if longest is not None:
        worlds = worlds._replace(limits=np.minimum(worlds.limits, longest))
    none = np.empty((1, problem.agents, 0))
    lanes = rows_of(held, np.zeros((1, problem.agents), np.uint32), none, none, slice(None))
    learners = Learners(lanes, np.empty(0, np.uint32), held.physical[0], theta, np.empty((problem.agents, 0)))
    shape = (problem.agents, problem.runs)
    returns, lengths = np.empty(shape), np.empty(shape, np.int64)
    with announced():
        for episode in range(problem.runs):
            _roll(worlds, model, learners, U64(problem.seed ^ EVALUATION), episode, step_workspace(model))
            sound = np.isfinite(held.physical[0]).all(axis=1)
            returns[:, episode] = np.where(sound, lanes.gain, math.nan)
            lengths[:, episode] = lanes.elapsed
    for agent in np.flatnonzero(~np.isfinite(returns).all(axis=1)).tolist():
        _warn(f"agent {agent}: states or rewards of {fleet[agent]} did not stay finite")
    return returns, lengths


@kernel
def _roll(
    worlds: Worlds, model: Model, learners: Learners, seed: int, episode: int, workspace: StepWorkspace
) -> None:
    """One episode per agent; return and length are then in the agent's state."""
    agent_state, run = learners.agent_state, U64(episode)
    for agent in range(len(worlds.physics)):
        theta = learners.theta[agent % len(learners.theta)]
        agent_state.gain[agent] = 0.0
        moment = Moment(agent, agent, seed, run, U64(agent), U64(random.START))
        first_state(worlds, learners, moment)
        local_step.begin(model, agent_state, theta, moment, workspace)
        for t in range(worlds.limits[agent]):
            moment = Moment(agent, agent, seed, run, U64(agent), U64(t))
            word, _ = local_step.words(moment, moment.t)
            reward, over = move(worlds, learners, agent, agent, word)
            agent_state.gain[agent] += reward
            agent_state.elapsed[agent] = t + 1
            if over:
                break
            local_step.begin(model, agent_state, theta, moment, workspace)


class Player:
    """Acts by a parameter in one environment: what rollouts in Gymnasium and pictures need."""

    def __init__(self, problem: Problem, policy: Policy, theta: Floats, seed: int, agent: int) -> None:
        self.policy = acting.Policy.for_problem(problem, theta, policy)
        choices, world = np.random.SeedSequence([seed, agent]).spawn(2)
        self.rng = np.random.default_rng(choices)
        # For the environment's first reset: another stream than the policy's, and than other agents'.
        self.world_seed = int(world.generate_state(1)[0])

    def act(self, observation: Any, actions: list[Any] | None, space: Any) -> Any:
        """What to give to the environment: one of ``actions``, or a number."""
        chosen, number = self.policy.choose(observation, self.rng)
        if actions is not None:
            return copy(actions[chosen])  # environments may change what they get
        return np.clip(np.full(space.shape, number, space.dtype), space.low, space.high)


class _FailedError(Exception):
    """What an environment did wrong."""


def _play_gym(
    problem: Problem, policy: Policy, theta: Floats, longest: int | None
) -> tuple[Floats, Integers]:
    """Returns and lengths (N, episodes) in Gymnasium environments."""
    most = LONGEST if longest is None else longest
    warned = longest is not None
    fleet: Any = problem.fleet
    size = len(fleet.bounds[0])
    actions = None if problem.features.joint else fleet.actions(problem.per_number)
    shape = (problem.agents, problem.runs)
    returns, lengths = np.zeros(shape), np.zeros(shape, np.int64)
    for agent, world in enumerate(fleet):
        player = Player(problem, policy, theta[agent % len(theta)], problem.seed, agent)
        env, episode = InProcess([world]), 0
        try:
            for episode in range(problem.runs):
                (answer,) = env.reset([0], [player.world_seed if episode == 0 else None])
                seen, over = _observed(answer, size), False
                while not over and lengths[agent, episode] < most:
                    (answer,) = env.step([0], [player.act(seen, actions, world.spaces.action)])
                    seen, reward, over = _stepped(answer, size)
                    returns[agent, episode] += reward
                    lengths[agent, episode] += 1
                if not (over or warned):  # now, as all that follows may take as long
                    warned = True
                    _warn(
                        f"agent {agent}: episodes of {world.label} are cut after {most} steps, before they "
                        "end; give steps= to cut them sooner"
                    )
        except _FailedError as failed:
            where = f"episode {episode}, step {lengths[agent, episode]}"
            returns[agent, episode:] = math.nan
            _warn(f"agent {agent} stopped in {where}: {world.label}: {failed}")
        finally:
            env.close()
    return returns, lengths


def _observed(answer: Any, size: int) -> Floats:
    """An observation, as ``size`` finite numbers."""
    if isinstance(answer, Failure):
        raise _FailedError(answer.report)
    try:
        seen: Floats = np.ravel(np.asarray(answer, dtype=float))
    except UNLIKE:
        seen = np.full(size, math.nan)
    if len(seen) != size or not np.isfinite(seen).all():
        raise _FailedError(f"observation must be {size} finite numbers, got {answer!r}")
    return seen


def _stepped(answer: Any, size: int) -> tuple[Floats, float, bool]:
    """Observation, reward and whether the episode is over."""
    if isinstance(answer, Failure):
        raise _FailedError(answer.report)
    try:
        observation, reward, terminated, truncated, _ = answer
        reward, over = float(reward), bool(terminated or truncated)
    except UNLIKE as error:
        raise _FailedError(f"step answered {answer!r}, which is not as its spaces say: {error}") from None
    if not math.isfinite(reward):
        raise _FailedError(f"reward must be finite, got {reward}")
    return _observed(observation, size), reward, over


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)  # where ``rollouts`` was called
