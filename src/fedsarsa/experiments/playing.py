"""Films of learned policies: one episode in one agent's world."""

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _files
from fedsarsa.experiments import config as configs
from fedsarsa.experiments.method_sections import ours
from fedsarsa.federation.history import History
from fedsarsa.federation.problem import Problem
from fedsarsa.learning.policies import greedy_as
from fedsarsa.rollout import Player
from fedsarsa.worlds.control import ControlWorld
from fedsarsa.worlds.gym import GymFleet, close

LONGEST = 2000  # pictures of a film


@dataclass(frozen=True)
class Film:
    """An episode: its pictures, how many of them to show per second, its return and length."""

    pictures: list[NDArray[np.uint8]]
    rate: float
    total: float
    steps: int


def play(
    result: Path, agent: int, run: int = 0, local: bool = False, softmax: bool = False, seed: int = 0
) -> Film:
    """Play an episode with the final parameter of a training that ``fedsarsa train`` wrote."""
    path = result / "history.nc" if result.is_dir() else result
    history = History.load(path)
    text = history.data.attrs.get("config")
    if text is None:
        raise ValueError(
            f"{path}: expected a history that fedsarsa train wrote, got one without its configuration"
        )
    content = tomllib.loads(text)
    for change in json.loads(history.data.attrs.get("changes", "[]")):
        key, value = configs.assignment(change)
        configs.assign(content, key.split("."), value, str(path))
    settings = configs.validate(content, str(path))
    fleet, built = settings.build(path.parent)
    algo = ours(built, "a film")
    problem = algo.problem(fleet, 1, 1, seed)
    if problem.finite:
        raise ValueError(f"{path}: expected control worlds or Gymnasium environments, got {fleet!r}")
    for name, value, size in (("agent", agent, len(fleet)), ("run", run, history.data.sizes["run"])):
        if value >= size:
            raise ValueError(f"{name} must be below {size}, got {value}")
    theta = (history.local[run, agent] if local else history.final[run]).values
    if not np.isfinite(theta).all():
        raise ValueError(f"{path}: the parameters of run {run} are not finite")
    player = Player(problem, problem.policy if softmax else greedy_as(problem.policy), theta, seed, agent)
    return film(problem, player, agent)


def film(problem: Problem, player: Player, agent: int) -> Film:
    """One episode of ``player`` in an agent's world."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures only: no window, and no screen needed
    fleet, world = problem.fleet, problem.fleet[agent]
    env: Any
    if isinstance(world, ControlWorld):
        env = world.to_gymnasium(render_mode="rgb_array")
        count = fleet.action_count
        actions = list(range(count)) if count is not None else None
    else:
        assert isinstance(fleet, GymFleet)
        env = world.make(render_mode="rgb_array")
        actions = None if problem.features.joint else fleet.actions(problem.per_number)
    try:
        return _filmed(env, player, actions)
    except Exception as error:  # whatever an environment raises, or is not
        raise ValueError(f"agent {agent}: {world!r} cannot be filmed: {error!r}") from error
    finally:
        close(env)


def _filmed(env: Any, player: Player, actions: list[Any] | None) -> Film:
    """One episode in an environment."""
    pictures, total, steps, over = [], 0.0, 0, False
    seen, _ = env.reset(seed=player.world_seed)
    while not over and steps < LONGEST:
        pictures.append(_picture(env))
        seen, reward, terminated, truncated, _ = env.step(player.act(seen, actions, env.action_space))
        total, steps, over = total + float(reward), steps + 1, terminated or truncated
    pictures.append(_picture(env))
    return Film(pictures, float(env.metadata.get("render_fps", 30)), total, steps)


def _picture(env: Any) -> NDArray[np.uint8]:
    picture = env.render()
    if not isinstance(picture, np.ndarray):
        raise TypeError(f"render() must answer an array (height, width, 3), got {picture!r}")
    return picture


def write_gif(film: Film, path: Path) -> None:
    """Write a film as an animated GIF, whole or not at all."""
    from PIL import Image

    _files.check_writable(path.parent)
    frames = [Image.fromarray(picture).quantize(64) for picture in film.pictures]
    with _files.replacing(path) as temporary:
        frames[0].save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=frames[1:],
            duration=round(1000 / film.rate),
            loop=0,
        )
