"""Differential privacy: the mean of clipped replies with Flower's noise, and Flower's accountant of it."""

from typing import Any

import numpy as np
from flwr.serverapp import NeighboringRelation, PrivacyConfig, RdpAccountant, SamplingMethod
from flwr.supercore import differential_privacy as flower
from flwr.supercore.privacy_accounting import GaussianPrivacyEvent

from fedsarsa._checks import Floats
from fedsarsa.deploy.federation_config import Federation
from fedsarsa.federation.servers.projection import project


class PrivateMean:
    """The server's rule where ``server.privacy`` is given; it goes on from what was ``spent`` before."""

    def __init__(self, settings: Federation, spent: dict[str, Any]) -> None:
        privacy = settings.server.privacy
        assert privacy is not None
        self.clip, self.radius, self.asked = privacy.clip, settings.algorithm.radius, settings.sample_size
        self.noise, self.limit = privacy.noise, privacy.max_epsilon
        self.accountant = RdpAccountant(
            PrivacyConfig(
                target_delta=privacy.delta,
                population_size=settings.agents,
                neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
                sampling_method=SamplingMethod.NO_AMPLIFICATION,
                max_epsilon=privacy.max_epsilon,
            )
        )
        self.release = GaussianPrivacyEvent(privacy.noise, self.asked, settings.agents)
        if spent:
            self.accountant.load_state_dict(spent["accountant"])

    def check_budget(self, done: int) -> None:
        """Refuse to ask for a round after those ``done`` whose noisy average would pass the limit."""
        if self.limit is not None and self.accountant.would_exceed(self.release):
            raise RuntimeError(
                f"server.privacy.max_epsilon: {self.accountant.get_privacy_spent().epsilon:.4g} of "
                f"{self.limit:g} is spent after {done} rounds, and the next one would pass it"
            )

    def combine(self, before: Floats, after: Floats) -> Floats:
        """The next start from the last one (d,) and the parameters (n, d) of all who were asked."""
        if len(after) != self.asked:  # the noise is made for so many
            raise ValueError(f"after must hold {self.asked} parameters, got {len(after)}")
        mean = [np.mean([clipped(theta, before, self.clip) for theta in after], axis=0)]
        flower.add_gaussian_noise_inplace(mean, flower.compute_stdv(self.noise, self.clip, self.asked))
        self.accountant.compose(self.release)
        return project(mean[0], self.radius)

    @property
    def spent(self) -> dict[str, Any]:
        """What the accountant says has been spent, and its memory."""
        epsilon = self.accountant.get_privacy_spent().epsilon
        return {"epsilon": epsilon, "accountant": self.accountant.state_dict()}


def clipped(theta: Floats, before: Floats, clip: float) -> Floats:
    """``theta``, brought back to a distance of at most ``clip`` from ``before``."""
    if flower.get_norm([theta - before]) == 0:  # by which Flower would divide
        return theta
    moved = [theta]
    flower.compute_clip_model_update(moved, [before], clip)
    return moved[0]
