"""What a deployment's configuration means: worlds, algorithm, and what everybody must agree on."""

import hashlib
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.deploy.sections import DeployedFleet, Deployment, RemoteContinuousFleet, RemoteFleet, Server
from fedsarsa.experiments import config as configs
from fedsarsa.experiments.fleet_sections import ControlSection, GymSection
from fedsarsa.federation import servers
from fedsarsa.federation.problem import AnyFleet, Problem
from fedsarsa.learning.continuous_features import BoxMap
from fedsarsa.learning.features import FeatureMap
from fedsarsa.learning.step_sizes import schedules
from fedsarsa.learning.targets import behaviours
from fedsarsa.worlds.fleet import Fleet

LONGEST_TERM, SHOWN = 1000, 100  # letters of a term, and those shown of one that is longer


class Federation:
    """What everybody in a deployed federation must agree on, checked and complete.

    Attributes
    ----------
    worlds : Fleet, ControlFleet, GymFleet or None
        The worlds this machine knows; None for a server whose agents keep theirs.
    reward_cap : float or None
        The largest absolute reward; None where it is not known, which only a server minds.
    theta0 : (d,)
        The first central parameter.
    stride : float
        An update is at most this times the step size times the temporal-difference error.
    """

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        section = deployment.fleet
        self.server, self.training = deployment.server, deployment.training
        self.algorithm: FedSARSA = deployment.algorithm.build()
        self.worlds: AnyFleet | None = None
        known: Any
        if isinstance(section, RemoteFleet):
            known = section
        elif isinstance(section, RemoteContinuousFleet):
            known = section.build()
        else:
            known = self.worlds = section.build(folder)
        if isinstance(section, RemoteFleet | RemoteContinuousFleet):
            self.agents = section.agents
        else:
            self.agents = self.server.agents or len(known)
        self.discount: float = known.discount
        self.reward_cap = _reward_cap(section, known, self.server)
        if self.algorithm.server is not None:
            raise ValueError(
                "algorithm.server: expected none in a deployment, whose rule is [server] rule, got "
                f"{self.algorithm.server!r}"
            )
        step = self.algorithm.step(self.agents)
        if isinstance(known, Fleet | RemoteFleet):
            self.features: FeatureMap | BoxMap = self.algorithm.feature_map(known)  # type: ignore[arg-type]
            self._world_terms = {"states": repr(known.states), "actions": repr(known.actions)}
            if not step.plain:
                self._world_terms |= _step_terms(self.algorithm)
        else:
            # There may be one world here and weights and step sizes for all agents: those are checked below.
            first = step.behaviour[0] if step.behaviour else None
            shared = replace(self.algorithm, step_size=1.0, weights=None, behaviour=first)
            problem = shared.problem(known, self.training.steps, runs=1, seed=self.training.seed)
            self.features = problem.features
            self._world_terms = _episodic_terms(self.algorithm, problem)
        fading = self.discount * step.trace_decay
        factor = 1 / self.features.most_active if step.step_per_feature else 1.0
        # A trace is a sum of feature vectors, of norms at most 1, that fade with their age.
        self.stride = factor / (1 - fading) if fading < 1 else math.inf
        self.dim = self.features.dim
        self.theta0 = self.features.constant(self.algorithm.initial_value)
        every = self.algorithm.sync_every
        if every is None:
            raise ValueError('algorithm.sync_every: expected a number of steps in a deployment, got "never"')
        self.every: int = every
        if self.training.steps % every:
            raise ValueError(
                f"training.steps: expected a multiple of sync_every ({every}) in a deployment, "
                f"got {self.training.steps}"
            )
        sizes = len(schedules(self.algorithm.step_size))
        if sizes not in {1, self.agents}:
            raise ValueError(
                f"algorithm.step_size: expected one, or one per agent ({self.agents}), got {sizes}"
            )
        weights = self.algorithm.weights
        if weights is not None and (given := np.size(weights)) != self.agents:
            raise ValueError(f"algorithm.weights: expected one per agent ({self.agents}), got {given}")
        if self.server.at_least > self.agents:
            raise ValueError(
                f"server.at_least: expected at most the {self.agents} agents, got {self.server.at_least}"
            )
        if self.server.fewest > self.agents:
            told = {
                "krum": f"krum against {self.server.malicious} malicious agents",
                "trimmed-mean": f"trimmed-mean with trim = {self.server.trim:g}",
            }
            raise ValueError(
                f"server.rule: {told.get(self.server.rule, self.server.rule)} needs at least "
                f"{self.server.fewest} agents, got {self.agents}"
            )

    @property
    def rule(self) -> servers.Server:
        """How replies become the next central parameter."""
        if self.server.rule == "mean":
            return self.algorithm.rule
        made: Any = self.server.built
        return replace(made, radius=self.algorithm.radius)  # type: ignore[no-any-return]

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return self.training.steps // self.every

    def world(self, number: int) -> AnyFleet:
        """The world of an agent, in a fleet of one: its own of the known ones, or the only one known here."""
        if not 0 <= number < self.agents:
            raise ValueError(f"number must be at least 0 and below the {self.agents} agents, got {number}")
        if self.worlds is None:
            raise ValueError("fleet.kind: expected the agent's own world, got remote, which is for servers")
        if len(self.worlds) == 1:
            return self.worlds
        if number >= len(self.worlds):
            raise ValueError(f"number must be below the {len(self.worlds)} worlds of the fleet, got {number}")
        return self.worlds[number : number + 1]

    @property
    def terms(self) -> dict[str, str]:
        """What agents and server compare at the first round, field by field."""
        algo = self.algorithm
        terms = {
            "features": _told(algo.features),
            "policy": _told(algo.policy),
            "step_size": repr(algo.step_size),
            "sync_every": repr(algo.sync_every),
            "redraw_actions": repr(algo.redraw_actions),
            "initial_value": repr(algo.initial_value),
            "discount": repr(self.discount),
            **self._world_terms,
            "dim": repr(self.dim),
            "agents": repr(self.agents),
            "seed": repr(self.training.seed),
        }
        return {name: _brief(text) for name, text in terms.items()}

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


def _reward_cap(section: DeployedFleet, known: Any, server: Server) -> float | None:
    """R: what the worlds say, or what the server was told of environments that say nothing."""
    if isinstance(section, GymSection):
        return server.reward_cap
    if server.reward_cap is not None:
        raise ValueError(
            f'server.reward_cap: expected none where fleet.kind is "{section.kind}", which tells it, '
            f"got {server.reward_cap}"
        )
    if isinstance(section, ControlSection):
        return max(float(world.reward_cap) for world in known)
    return float(section.reward_cap if isinstance(section, RemoteContinuousFleet) else known.reward_cap)


def _episodic_terms(algo: FedSARSA, problem: Problem) -> dict[str, str]:
    """What decides a step in worlds with continuous observations, beyond what it is in finite ones."""
    assert isinstance(problem.features, BoxMap)
    return {
        "low": _listed(problem.features.low),
        "high": _listed(problem.features.high),
        "actions": f"{len(problem.candidates)} of {algo.actions!r}",
        "action_bounds": repr(problem.action_bounds),
        **_step_terms(algo),
    }


def _step_terms(algo: FedSARSA) -> dict[str, str]:
    """The options of the step."""
    return {
        "target": algo.target,
        "behaviour": repr([_told(one) for one in behaviours(algo.behaviour)]),
        "trace_decay": repr(float(algo.trace_decay)),
        "traces": algo.traces,
        "step_per_feature": repr(algo.step_per_feature),
    }


def _listed(numbers: Floats) -> str:
    """A vector: its numbers, or if they are many, a digest."""
    if len(numbers) <= 16:
        return repr(numbers.tolist())
    return f"{len(numbers)} numbers {hashlib.sha256(numbers.tobytes()).hexdigest()[:16]}"


def _brief(text: str) -> str:
    """A text, or if it is long, its beginning and a digest: every message carries all terms."""
    if len(text) <= LONGEST_TERM:
        return text
    return f"{text[:SHOWN]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"


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
