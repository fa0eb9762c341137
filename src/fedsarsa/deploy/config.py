"""Deployments described in TOML: a training's file with a ``[server]`` section and worlds elsewhere."""

import hashlib
import tomllib
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, ValidationError

from fedsarsa.experiments import config as configs
from fedsarsa.experiments.config import FileFleet, PaperFleet, unless_given
from fedsarsa.experiments.section import Section
from fedsarsa.federation.fedsarsa import FedSARSA
from fedsarsa.federation.options import check_finite
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet


class RemoteFleet(Section):
    """Worlds that the server never sees; it needs their sizes, and a bound on their rewards."""

    kind: Literal["remote"]
    agents: int = Field(ge=1)
    states: int = Field(ge=1)
    actions: int = Field(ge=1)
    discount: float = Field(gt=0, lt=1)
    reward_cap: float = Field(ge=0)


class Privacy(Section):
    """Differential privacy: how far one agent may move the average, and the noise that hides it."""

    clip: float = Field(gt=0)
    noise: float = Field(gt=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    max_epsilon: float | None = Field(default=None, gt=0)


class Server(Section):
    """What the server does beyond the algorithm.

    ``agents`` is N where the fleet does not say; ``deadline`` the seconds that a round waits for its
    agents; each round asks ``fraction`` of the agents present, and at least ``at_least``.
    """

    agents: int | None = Field(default=None, ge=1)
    deadline: float = Field(default=60.0, gt=0)
    fraction: float = Field(default=1.0, gt=0, le=1)
    at_least: int = Field(default=1, ge=1)
    rule: Literal["mean", "median", "trimmed-mean", "krum"] = "mean"
    trim: float = Field(default=0.2, gt=0, lt=0.5)
    malicious: int = Field(default=1, ge=0)
    privacy: Privacy | None = None


DeployedFleet = Annotated[
    PaperFleet | FileFleet | RemoteFleet, Field(discriminator="kind"), unless_given("paper")
]


class Deployment(configs.Config):
    """A whole configuration file."""

    fleet: DeployedFleet = PaperFleet()  # type: ignore[assignment]
    server: Server = Server()


class Federation:
    """What everybody in a deployed federation must agree on, checked and complete.

    Attributes
    ----------
    worlds : Fleet or None
        The worlds this machine knows; None for a server whose agents keep theirs.
    """

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        section = deployment.fleet
        self.server, self.training = deployment.server, deployment.training
        self.algorithm: FedSARSA = deployment.algorithm.build()
        check_finite(self.algorithm)
        if self.algorithm.initial_value:
            raise ValueError(
                f"algorithm.initial_value: expected 0 in a deployment, got {self.algorithm.initial_value}"
            )
        self.worlds: Fleet | None = None
        if isinstance(section, RemoteFleet):
            known: RemoteFleet | Fleet = section
            count = section.agents
        else:
            known = self.worlds = section.build(folder)
            count = self.server.agents or len(self.worlds)
        self.agents = count
        self.states, self.actions = known.states, known.actions
        self.discount, self.reward_cap = known.discount, known.reward_cap
        self.features = self.algorithm.features.on(self.states, self.actions)
        self.dim = self.features.dim
        every = self.algorithm.sync_every
        if every is None:
            raise ValueError('algorithm.sync_every: expected a number of steps in a deployment, got "never"')
        self.every: int = every
        if self.training.steps % every:
            raise ValueError(
                f"training.steps: expected a multiple of sync_every ({every}) in a deployment, "
                f"got {self.training.steps}"
            )
        if self.server.at_least > count:
            raise ValueError(
                f"server.at_least: expected at most the {count} agents, got {self.server.at_least}"
            )

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return self.training.steps // self.every

    def world(self, number: int) -> FiniteMDP:
        """The world of an agent: its own of the known ones, or the only one known here."""
        if not 0 <= number < self.agents:
            raise ValueError(f"number must be at least 0 and below the {self.agents} agents, got {number}")
        if self.worlds is None:
            raise ValueError("fleet.kind: expected the agent's own world, got remote, which is for servers")
        if len(self.worlds) == 1:
            return self.worlds[0]
        if number >= len(self.worlds):
            raise ValueError(f"number must be below the {len(self.worlds)} worlds of the fleet, got {number}")
        return self.worlds[number]

    @property
    def terms(self) -> dict[str, str]:
        """What agents and server compare at the first round, field by field."""
        algo = self.algorithm
        return {
            "features": _told(algo.features),
            "policy": _told(algo.policy),
            "step_size": repr(algo.step_size),
            "sync_every": repr(algo.sync_every),
            "redraw_actions": repr(algo.redraw_actions),
            "discount": repr(self.discount),
            "states": repr(self.states),
            "actions": repr(self.actions),
            "dim": repr(self.dim),
            "agents": repr(self.agents),
            "seed": repr(self.training.seed),
        }

    @property
    def averaging(self) -> dict[str, str]:
        """What the server alone decides, and may not change while a federation lasts."""
        server = self.server
        weights = self.algorithm.weights
        return {
            "weights": repr(None if weights is None else np.asarray(weights).tolist()),
            "radius": repr(self.algorithm.radius),
            "reward_cap": repr(self.reward_cap),
            "rule": server.rule,
            "trim": repr(server.trim if server.rule == "trimmed-mean" else None),
            "malicious": repr(server.malicious if server.rule == "krum" else None),
            "privacy": repr(server.privacy),
        }


def _told(part: object) -> str:
    """What features or a policy are, their arrays by a digest: ``repr`` shows shapes alone."""
    arrays = [value for value in vars(part).values() if isinstance(value, np.ndarray)]
    if not arrays:
        return repr(part)
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    return f"{part!r} {digest.hexdigest()[:16]}"


def load(path: Path) -> Federation:
    """Read a deployment's configuration; the error lists every wrong key, its value and what was expected."""
    try:
        deployment = Deployment.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected TOML, got {error}") from None
    except ValidationError as error:
        lines = [f"{path}: " + configs.explain(problem, Deployment) for problem in error.errors()]
        raise ValueError("\n".join(lines)) from None
    return Federation(deployment, path.parent)
