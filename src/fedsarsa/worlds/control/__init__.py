"""Control worlds: carts, cars and pendulums whose physics differ from agent to agent."""

from fedsarsa.worlds.control.acrobot import Acrobot
from fedsarsa.worlds.control.cart_pole import CartPole
from fedsarsa.worlds.control.control_fleet import WORLDS, ControlFleet, fleet
from fedsarsa.worlds.control.mountain_car import MountainCar
from fedsarsa.worlds.control.mountain_car_continuous import MountainCarContinuous
from fedsarsa.worlds.control.pendulum import Pendulum
from fedsarsa.worlds.control.world import ControlWorld

__all__ = [
    "WORLDS",
    "Acrobot",
    "CartPole",
    "ControlFleet",
    "ControlWorld",
    "MountainCar",
    "MountainCarContinuous",
    "Pendulum",
    "fleet",
]
