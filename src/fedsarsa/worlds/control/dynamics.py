"""One step of any control world: kernels choose the world by its number.

Rows: ``p`` holds an agent's physics, ``x`` (STATE,) its state, ``seen`` (OBSERVATION,) what it
observes. ``u`` are uniform random numbers in [0, 1).
"""

from fedsarsa._checks import Floats
from fedsarsa._numba import piece
from fedsarsa.worlds.control import acrobot, cart_pole, mountain_car, mountain_car_continuous, pendulum


@piece
def reset(kind: int, p: Floats, x: Floats, u0: float, u1: float, u2: float, u3: float) -> None:
    """Draw a first state."""
    if kind == cart_pole.KIND:
        cart_pole.reset(p, x, u0, u1, u2, u3)
    elif kind == acrobot.KIND:
        acrobot.reset(p, x, u0, u1, u2, u3)
    elif kind == pendulum.KIND:
        pendulum.reset(p, x, u0, u1)
    else:
        mountain_car.reset(p, x, u0)


@piece
def step(kind: int, p: Floats, x: Floats, action: float, u: float) -> tuple[float, bool]:
    """Move the state; return reward and whether the episode is over."""
    if kind == cart_pole.KIND:
        return cart_pole.step(p, x, action, u)
    if kind == mountain_car.KIND:
        return mountain_car.step(p, x, action, u)
    if kind == mountain_car_continuous.KIND:
        return mountain_car_continuous.step(p, x, action, u)
    if kind == acrobot.KIND:
        return acrobot.step(p, x, action, u)
    return pendulum.step(p, x, action, u)


@piece
def observe(kind: int, p: Floats, x: Floats, seen: Floats) -> None:
    """What an agent sees of its state."""
    if kind == cart_pole.KIND:
        cart_pole.observe(p, x, seen)
    elif kind == acrobot.KIND:
        acrobot.observe(p, x, seen)
    elif kind == pendulum.KIND:
        pendulum.observe(p, x, seen)
    else:
        mountain_car.observe(p, x, seen)
