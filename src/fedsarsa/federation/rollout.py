"""What a learned parameter is worth in episodic worlds: episodes are played, and nothing is learned."""

import math
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy import stats

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa._numba import U64, kernel
from fedsarsa.federation.engines.compiled import announced
from fedsarsa.federation.engines.control_lanes import Control, Herd, first_state
from fedsarsa.federation.episodic import EpisodicProblem, flock
from fedsarsa.federation.fedsarsa import FedSARSA
from fedsarsa.federation.options import EpisodicFleet, any_fleet
from fedsarsa.federation.problem import first_state as empty_state
from fedsarsa.learning import episodic, random
from fedsarsa.learning.episodic_layout import Desk, Model, desk
from fedsarsa.learning.policies import Greedy, Policy
from fedsarsa.worlds.control import ControlFleet, dynamics
from fedsarsa.worlds.control.world import pack
from fedsarsa.worlds.gym import GymFleet

EVALUATION = 2**63  # turned in the seed, so that evaluation and training share no random numbers
LONGEST = 100_000  # steps of an episode of Gymnasium that has no time limit


def rollouts(
    fleet: EpisodicFleet,
    algo: FedSARSA,
    theta: ArrayLike,
    episodes: int = 20,
    greedy: bool = True,
    seed: int = 0,
) -> xr.Dataset:
    """Every agent's return under a parameter, over episodes in its own world.

    Parameters
    ----------
    theta : (d,) or (N, d)
        One parameter for all agents, or one per agent.
    episodes : int
        Episodes per agent.
    greedy : bool
        Take the best action; otherwise act by ``algo.policy``, as in training.

    Returns
    -------
    xarray.Dataset
        ``returns`` and ``lengths`` (agent, episode); ``mean_return``, ``margin`` (half the width of its 95%
        confidence interval) and ``mean_length`` over ``agent``.
    """
    fleet = any_fleet(fleet)  # type: ignore[assignment]
    episodes = _checks.integer("episodes", episodes, least=1)
    problem = algo.problem(fleet, 1, episodes, seed)
    if not isinstance(problem, EpisodicProblem):
        raise TypeError(f"rollouts are for control worlds and GymFleet, got {fleet!r}; use fs.evaluate")
    parameters = parameters_of(problem, theta)
    policy: Policy = Greedy() if greedy else problem.policy
    play = _play_control if isinstance(fleet, ControlFleet) else _play_gym
    returns, lengths = play(problem, policy, parameters)
    margin = np.full(len(fleet), math.nan)
    if episodes > 1:
        width = float(stats.t.ppf(0.975, episodes - 1)) / math.sqrt(episodes)
        margin = width * returns.std(axis=1, ddof=1)
    return xr.Dataset(
        {
            "returns": (("agent", "episode"), returns),
            "lengths": (("agent", "episode"), lengths),
            "mean_return": ("agent", returns.mean(axis=1)),
            "margin": ("agent", margin),
            "mean_length": ("agent", lengths.mean(axis=1)),
        },
        coords={"agent": np.arange(len(fleet))},
    )


def parameters_of(problem: EpisodicProblem, theta: ArrayLike) -> Floats:
    """Every agent's parameter, (N, d)."""
    given = _checks.labelled("theta", theta, [("d",), ("agent", "d")])
    shapes = (problem.features.dim,), (problem.agents, problem.features.dim)
    if given.shape not in shapes:
        raise ValueError(f"theta must have shape {shapes[0]} or {shapes[1]}, got {given.shape}")
    return np.array(np.broadcast_to(given, shapes[1]))


def _play_control(problem: EpisodicProblem, policy: Policy, theta: Floats) -> tuple[Floats, Any]:
    """Returns and lengths (N, episodes) in control worlds; a run is an episode."""
    fleet = problem.fleet
    assert isinstance(fleet, ControlFleet)
    model = problem.model(policy)
    state = empty_state(problem, theta)
    assert state.episodes is not None
    lanes = problem.runs * problem.agents
    herd = Herd(
        flock=flock(state.episodes, state.actions, slice(None)),
        physical=state.episodes.physical.reshape(lanes, -1),
        theta=theta,
        progress=np.empty((lanes, 0)),
    )
    control = Control(
        fleet.world.kind, pack(fleet.worlds), np.array([world.time_limit for world in fleet]), 1, 1
    )
    with announced():
        _roll(control, model, herd, U64(problem.seed ^ EVALUATION), desk(model))
    shape = (problem.runs, problem.agents)
    return herd.flock.gain.reshape(shape).T.copy(), herd.flock.elapsed.reshape(shape).T.copy()


@kernel
def _roll(control: Control, model: Model, herd: Herd, seed: int, desk: Desk) -> None:
    """One episode per lane; ``flock.gain`` and ``flock.elapsed`` are then its return and length."""
    flock, agents = herd.flock, len(control.physics)
    for lane in range(len(flock.elapsed)):
        agent = lane % agents
        run, stream = U64(lane // agents), U64(agent)
        x, p, theta = herd.physical[lane], control.physics[agent], herd.theta[agent]
        first_state(control, herd, lane, seed, run, stream, U64(random.START))
        episodic.begin(model, flock, lane, theta, seed, run, stream, U64(random.START), desk)
        for t in range(control.limits[agent]):
            word, _ = random.words(seed, run, stream, U64(t))
            reward, over = dynamics.step(control.kind, p, x, flock.numbers[lane], random.uniform(word))
            dynamics.observe(control.kind, p, x, flock.seen[lane])
            flock.gain[lane] += reward
            flock.elapsed[lane] = t + 1
            if over:
                break
            episodic.begin(model, flock, lane, theta, seed, run, stream, U64(t), desk)


class Player:
    """Acts by a parameter in one environment: what rollouts in Gymnasium and pictures need."""

    def __init__(
        self, problem: EpisodicProblem, policy: Policy, theta: Floats, seed: int, agent: int
    ) -> None:
        self.problem, self.policy, self.theta = problem, policy, theta
        choices, world = np.random.SeedSequence([seed, agent]).spawn(2)
        self.rng = np.random.default_rng(choices)
        # For the environment's first reset: another stream than the policy's, and than other agents'.
        self.world_seed = int(world.generate_state(1)[0])

    def choose(self, observation: Any) -> tuple[int, float]:
        """A candidate at an observation, and the action it is as a number."""
        features, problem = self.problem.features, self.problem
        numbers = problem.candidates
        inputs = np.zeros(len(features.low))
        seen = np.ravel(observation)
        inputs[: len(seen)] = seen
        if features.joint:
            numbers = self.rng.uniform(*problem.action_bounds, len(numbers))
        values = []
        for c, number in enumerate(numbers):
            if features.joint:
                inputs[-1] = number
            index, value = features.active(inputs, c)
            values.append(value @ self.theta[index])
        chosen = int(self.rng.choice(len(numbers), p=self.policy.probabilities(np.array(values))))
        return chosen, float(numbers[chosen])

    def act(self, observation: Any, actions: list[Any] | None, space: Any) -> Any:
        """What to give to the environment: one of ``actions``, or a number."""
        chosen, number = self.choose(observation)
        if actions is not None:
            return actions[chosen]
        return np.clip(np.full(space.shape, number, space.dtype), space.low, space.high)


def _play_gym(problem: EpisodicProblem, policy: Policy, theta: Floats) -> tuple[Floats, Any]:
    """Returns and lengths (N, episodes) in environments of Gymnasium."""
    fleet = problem.fleet
    assert isinstance(fleet, GymFleet)
    returns, lengths = np.zeros((2, problem.agents, problem.runs))
    for agent, world in enumerate(fleet):
        player = Player(problem, policy, theta[agent], problem.seed, agent)
        env = world.make()
        actions = None if problem.features.joint else fleet.actions(problem.per_number)
        try:
            for episode in range(problem.runs):
                seen, _ = env.reset(seed=player.world_seed if episode == 0 else None)
                over = False
                while not over and lengths[agent, episode] < LONGEST:
                    action = player.act(seen, actions, env.action_space)
                    seen, reward, terminated, truncated, _ = env.step(action)
                    returns[agent, episode] += float(reward)
                    lengths[agent, episode] += 1
                    over = terminated or truncated
        finally:
            env.close()
    return returns, lengths
