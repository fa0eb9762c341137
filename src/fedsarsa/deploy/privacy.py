"""Differential privacy: the rule that simulations have too, with Flower's noise and Flower's accountant."""

from typing import Any

import numpy as np
from flwr.serverapp import NeighboringRelation, PrivacyConfig, RdpAccountant, SamplingMethod
from flwr.supercore import differential_privacy as flower
from flwr.supercore.privacy_accounting import GaussianPrivacyEvent

from fedsarsa._checks import Floats
from fedsarsa.deploy.federation_config import Federation
from fedsarsa.federation.servers import Context, private_mean


class PrivateServer:
    """The server's rule where ``server.privacy`` is given; it continues from what was ``spent`` before."""

    def __init__(self, settings: Federation, spent: dict[str, Any]) -> None:
        privacy = settings.server.privacy
        assert privacy is not None
        self.rule = private_mean.PrivateMean(privacy.clip, privacy.noise, settings.algorithm.radius)
        self.asked, self.limit = settings.sample_size, privacy.max_epsilon
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
        """Do not ask for a round after those ``done`` whose noisy average would pass the limit."""
        if self.limit is not None and self.accountant.would_exceed(self.release):
            raise RuntimeError(
                f"server.privacy.max_epsilon: {self.accountant.get_privacy_spent().epsilon:.4g} of "
                f"{self.limit:g} is spent after {done} rounds, and the next one would pass it"
            )

    def combine(self, before: Floats, after: Floats) -> Floats:
        """The next start from the last one (d,) and the parameters (n, d) of all who were asked."""
        if len(after) != self.asked:  # the noise is made for so many
            raise ValueError(f"after must hold {self.asked} parameters, got {len(after)}")
        normals = [np.zeros_like(before)]
        flower.add_gaussian_noise_inplace(normals, 1.0)
        none = np.empty((1, len(after), 0))
        context = Context(0, 0, np.full(len(after), np.nan), left=none, shift=none, noise=normals[0][None])
        (start,) = self.rule.combine(before[None], after[None], context)
        self.accountant.compose(self.release)
        return np.asarray(start)

    @property
    def spent(self) -> dict[str, Any]:
        """What the accountant says has been spent, and its memory."""
        epsilon = self.accountant.get_privacy_spent().epsilon
        return {"epsilon": epsilon, "accountant": self.accountant.state_dict()}
