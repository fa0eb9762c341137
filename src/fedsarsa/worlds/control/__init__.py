"""Control worlds: carts, cars and pendulums whose physics differ from agent to agent."""

from fedsarsa.worlds.control.control_fleet import ControlFleet as ControlFleet
from fedsarsa.worlds.control.control_fleet import fleet as fleet
from fedsarsa.worlds.control.registry import *  # noqa: F403  # every world
from fedsarsa.worlds.control.world import ControlWorld as ControlWorld
