"""Which replies enter the average: what an honest agent could not have sent is turned away, by name."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Message

from fedsarsa._checks import Floats
from fedsarsa.deploy import wire
from fedsarsa.deploy.federation_config import Federation
from fedsarsa.deploy.logs import plain
from fedsarsa.learning.continuous_features import BoxMap
from fedsarsa.learning.features import Aggregation, FeatureMap
from fedsarsa.learning.step_sizes import ConstantStep, Schedule, schedules, step_sizes_at

ROUNDING = 1e-9  # how far rounding may carry an honest agent beyond the bound, relatively
CHUNK = 1 << 16  # steps that are looked at together: rounds may be long, and agents many


class RejectedError(ValueError):
    """A reply that does not enter the average."""


class OddOneOutError(RejectedError):
    """A reply of an agent that cannot take part, however often it is asked: it learns something else, say.

    ``says`` is which one it says it is, if it says so.
    """

    def __init__(self, reason: str, says: int | None) -> None:
        super().__init__(reason)
        self.says = says


@dataclass(frozen=True)
class Reply:
    """A reply that passed every check.

    ``left`` is what the agent's steps left for the server rule, empty unless it asks; ``lost`` the counted
    round that the agent no longer knows, or 0.
    """

    number: int
    theta: Floats
    left: Floats
    seconds: float
    bytes: int
    lost: int


def growth(schedule: Schedule, first: int, count: int, stride: float, discount: float) -> tuple[float, float]:
    """sum_l log(1 + (1 + gamma) alpha_l) over ``count`` steps from ``first`` on, and the largest alpha_l."""
    if isinstance(schedule, ConstantStep):  # all alike, and rounds may be long
        alpha = stride * schedule.value
        return count * math.log1p((1 + discount) * alpha), alpha
    rise = largest = 0.0
    for start in range(first, first + count, CHUNK):
        times = np.arange(start, min(start + CHUNK, first + count))
        step_sizes = stride * step_sizes_at([schedule], times)[0]
        rise += float(np.log1p((1 + discount) * step_sizes).sum())
        largest = max(largest, float(step_sizes.max()))
    return rise, largest


def reach(norm: float, rise: float, reward_cap: float, discount: float) -> float:
    """How far from a parameter of this norm an agent can get in steps with this `growth`.

    Features have norms of at most 1, so one step moves the parameter by at most
    alpha (R + (1 + gamma) ||theta||), as in the proof of Lemma ``lem:v-para-prog``; with eligibility traces
    alpha is the step size times the largest norm of a trace. With x_l the distance
    after l steps, x_{l+1} <= (1 + c alpha_l) x_l + alpha_l (R + c ||theta||) for c = 1 + gamma, whose
    solution is x_K = (R / c + ||theta||) (prod_l (1 + c alpha_l) - 1): the lemma's bound, without asking
    that steps be small.
    """
    c = 1 + discount
    with np.errstate(over="ignore"):
        times = float(np.expm1(rise))
    return (reward_cap / c + norm) * times if math.isfinite(times) else math.inf


def ceiling(
    theta: Floats,
    largest_step: float,
    features: FeatureMap | BoxMap,
    traces: bool,
    reward_cap: float,
    discount: float,
) -> float:
    """The largest absolute parameter that an agent can have after any number of steps from ``theta``.

    With one active parameter per pair and steps of at most 1, an update is a mean of the parameter and of
    r + gamma theta_j, so none leaves [-M, M] with M = max(|theta|, R / (1 - gamma)). Unlike `reach`, this
    does not grow with K. Other features have no such bound, nor have traces, by which a parameter moves with
    the error of another pair.
    """
    if not isinstance(features, Aggregation) or largest_step > 1 or traces:
        return math.inf
    return max(float(np.abs(theta).max()), reward_cap / (1 - discount))


KEEPS_NOBODY_OUT = 1e6  # times what honest parameters are like: a bound beyond is none


class Examiner:
    """Checks the replies to one question: the round ``number`` of a federation.

    Agents were asked to begin with ``theta`` (d,), or with their own row of ``theta`` (N, d).
    """

    def __init__(self, settings: Federation, federation: str, number: int, theta: Floats) -> None:
        self.settings, self.federation, self.number = settings, federation, number
        self.starts = np.atleast_2d(theta)
        own = schedules(settings.algorithm.step_size)
        steps = ((number - 1) * settings.every, settings.every, settings.stride, settings.discount)
        grown = {schedule: growth(schedule, *steps) for schedule in set(own)}
        assert settings.reward_cap is not None
        known = settings.reward_cap, settings.discount
        self.norms = [float(np.linalg.norm(start)) for start in self.starts]
        # One of each for all agents, or one per agent.
        cases = [
            (own[agent % len(own)], agent % len(self.starts))
            for agent in range(max(len(own), len(self.starts)))
        ]
        self.bounds = [reach(self.norms[at], grown[schedule][0], *known) for schedule, at in cases]
        # A step adds alpha phi_j^2 to the visits, and features have norms of at most 1.
        self.most_visits = [settings.every * grown[schedule][1] for schedule, _ in cases]
        traces = settings.algorithm.trace_decay > 0
        self.ceilings = [
            ceiling(self.starts[at], grown[schedule][1], settings.features, traces, *known)
            for schedule, at in cases
        ]

    def warning(self) -> str | None:
        """What to say if the bound on how far agents move keeps nobody out."""
        settings = self.settings
        assert settings.reward_cap is not None
        widest, highest = max(self.bounds), max(self.ceilings)
        usual = 1 + settings.reward_cap + max(self.norms)
        if math.isfinite(usual) and widest <= KEEPS_NOBODY_OUT * usual:
            return None
        instead = "a robust rule helps"
        if math.isfinite(highest):
            instead = f"only parameters beyond {highest:.3g} are"
        return (
            f"in {settings.every} steps, honest agents could move by {widest:.3g} as far as the Lemma on "
            f"central parameter progress (lem:v-para-prog) says, so replies are not rejected for that; "
            f"{instead}"
        )

    def examine(self, message: Message) -> Reply:
        """The reply in a message, or the reason why it is none."""
        if message.has_error():
            raise RejectedError(plain(message.error.reason or "") or "Flower reports an error")
        config: Mapping[str, Any] = message.content.config_records.get("config", {})
        if "unreachable" in config:
            raise RejectedError(f"its agent process does not answer: {plain(str(config['unreachable']))}")
        text, seconds = config.get("reply"), config.get("seconds")
        if not isinstance(text, bytes):
            raise RejectedError("the reply is not one of a fedsarsa bridge")
        try:
            header = wire.read(text)
        except wire.BrokenMessageError as error:
            raise RejectedError(f"the reply is not one of a fedsarsa agent: {error}") from None
        if "refused" in header:
            self._terms(header)
            ours, answered = header.get("federation") == self.federation, header.get("answered")
            if ours and type(answered) is int and answered > self.number:
                raise OddOneOutError(
                    f"it has answered round {answered}: the server's files are older than that",
                    self._number(header),
                )
            raise RejectedError(f"the agent refuses: {plain(str(header['refused']))}")
        if header.get("federation") != self.federation or header.get("round") != self.number:
            raise RejectedError(
                f"expected a reply to round {self.number}, got one to round {header.get('round')!r:.20}"
            )
        self._terms(header)
        number = self._number(header)
        if number is None:
            raise RejectedError(
                f"expected an agent below {self.settings.agents}, got {header.get('agent')!r:.20}"
            )
        content, lost = self._content(message), header.get("lost")
        theta, left = np.split(wire.unpacked(content), [self.settings.dim])
        return Reply(
            number,
            self._theta(theta, number),
            self._left(left, number),
            seconds if isinstance(seconds, float) and 0 <= seconds < math.inf else 0.0,
            len(content) + len(text),
            lost if type(lost) is int and 0 <= lost < self.number else 0,
        )

    def _number(self, header: dict[str, Any]) -> int | None:
        number = header.get("agent")
        return number if type(number) is int and 0 <= number < self.settings.agents else None

    def _terms(self, header: dict[str, Any]) -> None:
        given = header.get("terms")
        if not isinstance(given, dict):
            if "refused" in header:
                return
            raise RejectedError("the reply does not say what the agent learns")
        for name, own in self.settings.terms.items():
            if given.get(name) != own:
                raise OddOneOutError(
                    f"its {name} is {given.get(name)!r:.200}, the server's {own!r}", self._number(header)
                )

    def _content(self, message: Message) -> bytes:
        """The bytes of the parameters, if they are as many as they should be."""
        dim = self.settings.dim * (2 if self.settings.rule.leaves else 1)
        try:
            array = message.content.array_records["arrays"]["theta"]
        except KeyError:
            raise RejectedError("the reply holds no parameters") from None
        if (array.dtype, array.shape) != ("float64", (dim,)):
            given = plain(f"shape {array.shape} of {array.dtype}")[:100]
            raise RejectedError(f"expected {dim} numbers of float64, got {given}")
        if len(array.data) != 8 * dim:
            raise RejectedError(f"expected {dim} numbers of float64, got {len(array.data)} bytes")
        return array.data

    def _left(self, left: Floats, number: int) -> Floats:
        most = self.most_visits[number % len(self.most_visits)]
        if not (left >= 0).all() or not left.sum() <= most * (1 + ROUNDING):
            raise RejectedError(
                f"its visits are not those of {self.settings.every} steps, which are at least 0 and add up "
                f"to at most {most:.3g}"
            )
        return left

    def _theta(self, theta: Floats, number: int) -> Floats:
        if not np.isfinite(theta).all():
            raise RejectedError("its parameters are not finite")
        own, at = number % len(self.bounds), number % len(self.starts)
        bound, highest = self.bounds[own], self.ceilings[own]
        with np.errstate(over="ignore"):
            moved = float(np.linalg.norm(theta - self.starts[at]))
            longest = max(moved, float(np.linalg.norm(theta)))
        # A rule may take every parameter from another agent: no norm of what it makes overflows either.
        if not math.isfinite(len(theta) * longest * longest):
            raise RejectedError("its parameters are too large: the square of their norm overflows")
        if not moved <= bound * (1 + ROUNDING) + ROUNDING * self.norms[at]:
            raise RejectedError(
                f"it moved by {moved:.3g}; {self.settings.every} honest steps reach at most {bound:.3g}"
            )
        largest = float(np.abs(theta).max())
        if largest > highest * (1 + ROUNDING):
            raise RejectedError(
                f"it has a parameter of {largest:.3g}; honest steps give at most {highest:.3g}"
            )
        return theta
