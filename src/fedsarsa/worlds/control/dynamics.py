"""One step of any control world: kernels choose the world by its number."""

from fedsarsa._numba import dispatch
from fedsarsa.worlds.control.registry import WORLDS
from fedsarsa.worlds.control.world import ControlWorld

# The first argument is the world's number, the others are those of its own piece.
reset = dispatch([world.reset for world in WORLDS.values()])
step = dispatch([world.step for world in WORLDS.values()])
observe = dispatch([world.observe for world in WORLDS.values()])


def number(world: type[ControlWorld]) -> int:
    """The number of the registered world with the same pieces: ``world``, or one that it is derived from."""
    for place, known in enumerate(WORLDS.values()):
        if (known.reset, known.step, known.observe) == (world.reset, world.step, world.observe):
            return place
    raise ValueError(
        f"{world.__name__} must have a line in worlds/control/registry.py to be compiled; "
        "engine 'reference' trains it without"
    )
