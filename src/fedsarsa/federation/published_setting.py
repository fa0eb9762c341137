"""What to say where the published temperature or step size is used in worlds of another size."""

import logging
from typing import Any

from fedsarsa.federation.problem import Problem
from fedsarsa.learning.policies import Softmax
from fedsarsa.learning.step_sizes import ConstantStep
from fedsarsa.worlds.contract import NEVER

TEMPERATURE, STEP_SIZE = 100.0, 0.01
HORIZON = 1 / (1 - 0.2)  # steps that count, at the published discount
LARGEST = 10 * HORIZON  # of the published Q-values
OTHER = 4  # how many times as large or small is another size
SHARPNESS = 100  # largest Q-value over a temperature at which better actions are clearly likelier
LARGEST_STEP = 0.3  # that is recommended

log = logging.getLogger("fedsarsa")
_said: set[str] = set()


def remark(problem: Problem) -> None:
    """Log what does not fit, each sentence once per process."""
    for sentence in remarks(problem):
        if sentence not in _said:
            _said.add(sentence)
            log.warning(sentence)


def remarks(problem: Problem) -> list[str]:
    """Sentences on a published temperature or step size that does not fit the worlds, with better ones.

    Q-values reach about the largest reward times the horizon 1 / (1 - discount). Errors fade at a rate of
    about step size / horizon.
    """
    horizon, reward = _horizon(problem.fleet), getattr(problem.fleet, "reward_cap", None)
    found: list[str] = []
    if horizon is None:
        return found
    if problem.policy == Softmax(TEMPERATURE):
        values = horizon if reward is None else reward * horizon
        if values > 0 and not LARGEST / OTHER <= values <= LARGEST * OTHER:
            known = reward is not None
            found.append(
                f"the temperature {TEMPERATURE:g} of the policy is the published one, for Q-values up to "
                f"{LARGEST:g}. Here they may reach {_size(values, known)}: try a temperature of "
                f"{_size(values / SHARPNESS, known)}"
            )
    if ConstantStep(STEP_SIZE) in problem.schedules and horizon > OTHER * HORIZON:
        better = min(LARGEST_STEP, STEP_SIZE * horizon / HORIZON)
        found.append(
            f"the step size {STEP_SIZE:g} is the published one, for a discount of 0.2. Here rewards count "
            f"over {_words(horizon)} steps, and propagate slowly over that horizon: try a step size of "
            f"{_words(better)}"
        )
    return found


def _horizon(fleet: Any) -> float | None:
    """How many steps count: by the discount, or by the time limit; None where neither says."""
    limit = NEVER if fleet.finite else max(world.time_limit for world in fleet)
    if fleet.discount == 1:
        return None if limit == NEVER else float(limit)
    return float(min(1 / (1 - fleet.discount), limit))


def _size(number: float, known: bool) -> str:
    """A number of the size of Q-values; in rewards, unless it is ``known`` how large those are."""
    if known:
        return _words(number)
    return "the size of a reward" if _words(number) == "1" else f"{_words(number)} times the size of a reward"


def _words(number: float) -> str:
    return f"{number:.2g}" if number < 99.5 else f"{number:.0f}"
