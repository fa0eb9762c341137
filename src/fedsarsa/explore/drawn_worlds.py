"""How control worlds look: lines that stand still and lines that move, in the world's own units."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.worlds.control import (
    Acrobot,
    CartPole,
    ControlWorld,
    MountainCar,
    MountainCarContinuous,
    Pendulum,
)
from fedsarsa.worlds.control.world import OBSERVATION

Lines = list[Floats]  # every line (points, 2)
CART = np.array([[-0.3, -0.12], [0.3, -0.12], [0.3, 0.12], [-0.3, 0.12], [-0.3, -0.12]])
CAR = np.array([[-0.06, 0.0], [0.06, 0.0], [0.06, 0.05], [-0.06, 0.05], [-0.06, 0.0]])


@dataclass(frozen=True)
class Look:
    """What is seen of a kind of world.

    Attributes
    ----------
    dimensions : function
        Of a world: the names of the numbers that its agent sees.
    still : function
        Of a world: lines that do not move. They reach as far as the picture does.
    moving : function
        Of a world and a state (4,): lines that move, thick ones.
    plane : (int, int)
        The two numbers over which values are seen first.
    """

    dimensions: Callable[[Any], tuple[str, ...]]
    still: Callable[[Any], Lines]
    moving: Callable[[Any, Floats], Lines]
    plane: tuple[int, int]


def _cart_still(world: CartPole) -> Lines:
    edge = world.position_limit
    ends = [np.array([[side, -0.25], [side, 0.25]]) for side in (-edge, edge)]
    return [np.array([[-edge, 0.0], [edge, 0.0]]), *ends, np.array([[0.0, 1.5], [0.0, 1.5]])]


def _cart_moving(world: CartPole, state: Floats) -> Lines:
    place, angle = np.array([state[0], 0.0]), state[2]
    tip = place + 2 * world.length * np.array([np.sin(angle), np.cos(angle)])
    return [CART + place, np.array([place, tip])]


def _height(position: Any) -> Any:
    """Of the valley."""
    return 0.45 * np.sin(3 * position) + 0.55


def _car_still(world: MountainCar) -> Lines:
    across = np.linspace(world.min_position, world.max_position, 60)
    foot = np.array([world.goal, _height(world.goal)])
    flag = foot + np.array([[0.0, 0.0], [0.0, 0.2], [0.08, 0.16], [0.0, 0.12]])
    return [np.column_stack([across, _height(across)]), flag]


def _car_moving(_: MountainCar, state: Floats) -> Lines:
    slope = np.arctan(1.35 * np.cos(3 * state[0]))
    turned = np.array([[np.cos(slope), np.sin(slope)], [-np.sin(slope), np.cos(slope)]])
    return [CAR @ turned + [state[0], _height(state[0])]]


def _links_still(world: Acrobot) -> Lines:
    reach = world.length_1 + world.length_2
    high = world.height * reach / 2
    corners = np.array([[-reach, -reach], [-reach, -reach]])
    return [np.array([[-reach, high], [reach, high]]), corners, -corners]


def _links_moving(world: Acrobot, state: Floats) -> Lines:
    first, second = state[0], state[0] + state[1]
    joint = world.length_1 * np.array([np.sin(first), -np.cos(first)])
    tip = joint + world.length_2 * np.array([np.sin(second), -np.cos(second)])
    return [np.array([[0.0, 0.0], joint, tip])]


def _links_seen(world: Acrobot) -> tuple[str, ...]:
    angles = ("angle 1", "angle 2") if world.angles else ("cos 1", "sin 1", "cos 2", "sin 2")
    return (*angles, "turn 1", "turn 2")


def _rod_still(world: Pendulum) -> Lines:
    corner = np.full((2, 2), world.length)
    return [corner, -corner]


def _rod_moving(world: Pendulum, state: Floats) -> Lines:
    tip = world.length * np.array([np.sin(-state[0]), np.cos(state[0])])
    return [np.array([[0.0, 0.0], tip])]


def _gauges_seen(world: ControlWorld) -> tuple[str, ...]:
    return tuple(f"observation {j}" for j in range(len(world.bounds[0])))


def _gauges_still(world: ControlWorld) -> Lines:
    return [np.array([[j, 0.0], [j, 1.0]]) for j in range(len(world.bounds[0]))]


def _gauges_moving(world: ControlWorld, state: Floats) -> Lines:
    low, high = np.array(world.bounds)
    seen = np.zeros(OBSERVATION)
    world.see(state, seen)
    heights = np.clip((seen[: len(low)] - low) / (high - low), 0.0, 1.0)
    return [np.array([[j - 0.2, height], [j + 0.2, height]]) for j, height in enumerate(heights.tolist())]


_GAUGES = Look(_gauges_seen, _gauges_still, _gauges_moving, (0, 1))
_CAR = Look(lambda _: ("position", "speed"), _car_still, _car_moving, (0, 1))
_LOOKS: dict[type[ControlWorld], Look] = {
    CartPole: Look(lambda _: ("position", "speed", "angle", "turn"), _cart_still, _cart_moving, (2, 3)),
    MountainCar: _CAR,
    MountainCarContinuous: _CAR,
    Pendulum: Look(lambda _: ("cosine", "sine", "turn"), _rod_still, _rod_moving, (1, 2)),
    Acrobot: Look(_links_seen, _links_still, _links_moving, (0, 2)),
}


def look_of(world: type[ControlWorld]) -> Look:
    """How a kind of world looks; worlds without a drawing show a gauge per observation."""
    return _LOOKS.get(world, _GAUGES)


def columns(lines: Lines) -> dict[str, list[list[float]]]:
    """Lines as a picture's source holds them."""
    return {"xs": [line[:, 0].tolist() for line in lines], "ys": [line[:, 1].tolist() for line in lines]}


def film(world: ControlWorld, states: Floats) -> dict[str, list[Any]]:
    """The moving lines at every state (t, 4), as a source holds them: a row per picture."""
    look = look_of(type(world))
    frames = [columns(look.moving(world, state)) for state in states]
    return {name: [frame[name] for frame in frames] for name in ("xs", "ys")}
