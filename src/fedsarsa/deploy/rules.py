"""Who is asked in a round, how many must reply, and privacy with Flower's noise and accountant."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid, NeighboringRelation, PrivacyConfig, RdpAccountant, SamplingMethod
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping as Private,
)
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.privacy_accounting import GaussianPrivacyEvent

from fedsarsa._checks import Floats
from fedsarsa.deploy.config import Federation

WEIGHT = "weight"
NUDGE = 1e-150  # the least movement whose square is not zero


class Asked(FedAvg):
    """Flower's average; the messages that its privacy wrapper wants to count were made elsewhere."""

    messages: Iterable[Message] = ()

    def configure_train(
        self,
        server_round: int,  # noqa: ARG002
        arrays: ArrayRecord,  # noqa: ARG002
        config: ConfigRecord,  # noqa: ARG002
        grid: Grid,  # noqa: ARG002
    ) -> Iterable[Message]:
        """The messages of this round."""
        return self.messages


def sample_size(settings: Federation) -> int:
    """How many agents a round asks."""
    server = settings.server
    # The fraction as it was written: 0.07 of 100 agents are 7, and 0.07 * 100 is a little more.
    share = math.ceil(Fraction(repr(server.fraction)) * settings.agents)
    return min(settings.agents, max(server.at_least, server.fewest, share))


def needed(settings: Federation) -> int:
    """Sound replies without which a round does not count; noise is made for all that were asked."""
    server = settings.server
    return max(server.at_least, server.fewest) if server.privacy is None else sample_size(settings)


def check(settings: Federation) -> None:
    """Refuse settings with which a server cannot work."""
    server = settings.server
    if settings.reward_cap is None:
        raise ValueError(
            "server.reward_cap: expected a bound on the absolute rewards of environments, which do not tell "
            "it, got none; with inf, replies are not checked for how far they moved"
        )
    if (server.rule != "mean" or server.privacy is not None) and settings.algorithm.weights is not None:
        raise ValueError("algorithm.weights: expected none with a robust rule or privacy, got some")
    if server.privacy is not None and server.rule != "mean":
        raise ValueError(f'server.rule: expected "mean" with privacy, got "{server.rule}"')


def private(settings: Federation) -> Private | None:
    """Flower's mean with clipping and noise, if the server is to have it; only its aggregation is used."""
    privacy = settings.server.privacy
    if privacy is None:
        return None
    accountant = RdpAccountant(
        PrivacyConfig(
            target_delta=privacy.delta,
            population_size=settings.agents,
            neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
            sampling_method=SamplingMethod.NO_AMPLIFICATION,
            max_epsilon=privacy.max_epsilon,
        )
    )
    average = Asked(weighted_by_key=WEIGHT)
    return Private(average, privacy.noise, privacy.clip, sample_size(settings), accountant=accountant)


def clippable(theta: Floats, before: Floats) -> Floats:
    """``theta``, or a neighbour if its distance from ``before`` is zero: Flower's clipping divides by it."""
    with np.errstate(over="ignore"):
        if np.linalg.norm(theta - before) > 0:
            return theta
    moved = before.copy()
    moved[0] += max(np.spacing(abs(before[0])), NUDGE)
    return moved


def check_budget(strategy: Private | None, done: int) -> None:
    """Refuse to ask for a round after those ``done`` whose noisy average would pass the limit on epsilon."""
    if strategy is None or strategy.accountant is None:
        return
    accountant = strategy.accountant
    limit, population = accountant.config.max_epsilon, accountant.config.population_size
    if limit is None:
        return
    event = GaussianPrivacyEvent(strategy.noise_multiplier, strategy.num_sampled_clients, population)
    if accountant.would_exceed(event):
        raise RuntimeError(
            f"server.privacy.max_epsilon: {accountant.get_privacy_spent().epsilon:.4g} of {limit:g} is spent "
            f"after {done} rounds, and the next one would pass it"
        )


def spent(strategy: Private | None) -> dict[str, Any]:
    """What the accountant says has been spent, and its memory; empty without privacy."""
    if strategy is None or strategy.accountant is None:
        return {}
    return {
        "epsilon": strategy.accountant.get_privacy_spent().epsilon,
        "accountant": strategy.accountant.state_dict(),
    }


def remember(strategy: Private | None, about: dict[str, Any]) -> None:
    """Give the accountant back what ``spent`` told of it."""
    if strategy is not None and strategy.accountant is not None:
        strategy.accountant.load_state_dict(about["accountant"])
