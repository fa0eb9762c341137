"""The control worlds. A world is a file in this folder and a line here."""

from fedsarsa.worlds.control.acrobot import Acrobot as Acrobot
from fedsarsa.worlds.control.cart_pole import CartPole as CartPole
from fedsarsa.worlds.control.mountain_car import MountainCar as MountainCar
from fedsarsa.worlds.control.mountain_car_continuous import MountainCarContinuous as MountainCarContinuous
from fedsarsa.worlds.control.pendulum import Pendulum as Pendulum
from fedsarsa.worlds.control.world import ControlWorld

# All classes imported above. Kernels know a world by its place.
WORLDS: dict[str, type[ControlWorld]] = {
    name: world
    for name, world in list(vars().items())
    if isinstance(world, type) and issubclass(world, ControlWorld) and world is not ControlWorld
}
