"""A deployment's configuration: a training's TOML with a ``[server]`` section, and what it means."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from fedsarsa.deploy import terms
from fedsarsa.deploy.deadline import Deadline
from fedsarsa.deploy.remote_fleets import RemoteContinuousFleet, RemoteFleet
from fedsarsa.experiments import config as configs
from fedsarsa.experiments.algorithm_sections import TOML_TYPES
from fedsarsa.experiments.config_errors import explained
from fedsarsa.experiments.fleet_sections import ControlSection, FileFleet, GymSection, PaperFleet
from fedsarsa.experiments.method_sections import ours
from fedsarsa.experiments.section import Count, DerivedSection, Section, named, unless_given
from fedsarsa.federation import participation, servers
from fedsarsa.federation.problem import AnyFleet
from fedsarsa.learning.continuous_features import BoxMap
from fedsarsa.learning.features import FeatureMap
from fedsarsa.learning.step_sizes import schedules
from fedsarsa.learning.targets import NOTHING, VISITS

YEAR = 365 * 24 * 3600.0  # seconds


class Privacy(Section):
    """Differential privacy: how far one agent may move the average, and the noise that hides it."""

    clip: float = Field(gt=0)
    noise: float = Field(gt=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    max_epsilon: float | None = Field(default=None, gt=0)


class ServerSection(DerivedSection):
    """What the server does beyond the algorithm; the arguments of its rule are keys too.

    ``agents`` is N where the fleet does not say, ``reward_cap`` a bound on the absolute rewards where
    environments do not report; ``deadline`` the seconds that a round waits for its agents; each round asks
    ``fraction`` of all agents, and at least ``at_least`` and as many as ``rule`` needs.
    """

    rule: str
    agents: Count | None = Field(default=None, ge=1)
    reward_cap: float | None = Field(default=None, ge=0, allow_inf_nan=True)
    deadline: float = Field(default=60.0, gt=0, le=YEAR)
    fraction: float = Field(default=1.0, gt=0, le=1)
    at_least: Count = Field(default=1, ge=1)
    privacy: Privacy | None = None


MEAN = "mean"  # the rule unless given; its arguments are settings of the algorithm, as every rule's radius is
OF_ALGORITHM = {MEAN: ["weights", "radius"]}
SERVERS = {
    name: named(
        rule, ServerSection, "rule", name, without=OF_ALGORITHM.get(name, ["radius"]), toml_types=TOML_TYPES
    )
    for name, rule in servers.RULES.items()
}
OLD_KEYS = {"trim": "share", "malicious": "liars"}


def with_rule(section: Any) -> Any:
    """Take a table without a rule for one of the mean; refuse keys of earlier versions."""
    if not isinstance(section, dict):
        return section
    for old in section.keys() & OLD_KEYS:
        raise ValueError(f"expected {OLD_KEYS[old]}, the rule's own name for it, got {old} = {section[old]}")
    return {"rule": MEAN} | section


if TYPE_CHECKING:
    AnyServer = ServerSection
else:
    AnyServer = Annotated[
        Union[tuple(SERVERS.values())],  # noqa: UP007
        Field(discriminator="rule"),
        BeforeValidator(with_rule),
    ]


class Deployment(configs.Config):
    """A whole configuration file."""

    fleet: Annotated[
        PaperFleet | FileFleet | ControlSection | GymSection | RemoteFleet | RemoteContinuousFleet,
        Field(discriminator="kind"),
        unless_given("paper"),
    ] = PaperFleet()  # type: ignore[assignment]
    server: AnyServer = SERVERS[MEAN].model_validate({})

    @model_validator(mode="before")
    @classmethod
    def _server_of_the_algorithm(cls, content: Any) -> Any:
        """Take ``algorithm.server``, with which `fedsarsa train` rehearses the deployment, for the rule."""
        algorithm, server = content.get("algorithm"), content.get("server", {})
        rehearsed = algorithm.get("server") if isinstance(algorithm, dict) else None
        if not isinstance(rehearsed, dict) or "kind" not in rehearsed or not isinstance(server, dict):
            return content
        if "rule" in server:
            raise ValueError(
                f'expected [server] rule or algorithm.server, got "{server["rule"]}" beside {rehearsed}'
            )
        others = {name: value for name, value in rehearsed.items() if name != "kind"}
        kept = OF_ALGORITHM.get(rehearsed["kind"], ["radius"])
        own = {name: others.pop(name) for name in kept if name in others}
        return {
            **content,
            "algorithm": {name: value for name, value in algorithm.items() if name != "server"} | own,
            "server": {"rule": rehearsed["kind"]} | others | server,
        }


class Federation:
    """What everybody in a deployed federation must agree on, checked and complete.

    Attributes
    ----------
    worlds : Fleet, ControlFleet, GymFleet or None
        The worlds this machine knows; None for a server whose agents keep theirs.
    reward_cap : float or None
        The largest absolute reward; None where it is not known, which only a server minds.
    deadline : Deadline
        How the seconds of a round are shared out.
    theta0 : (d,)
        The first central parameter.
    stride : float
        An update is at most this times the step size times the temporal-difference error.
    """

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        section = deployment.fleet
        self.server, self.training = deployment.server, deployment.training
        self.deadline = Deadline(self.server.deadline)
        self.algorithm = ours(deployment.algorithm.build(), "a deployment")
        if isinstance(section, GymSection):  # no step of a machine before its agent takes part
            section = section.model_copy(update={"check": False})
        known: Any = section.build(folder)
        remote = section.kind in {"remote", "remote-continuous"}
        self.worlds: AnyFleet | None = None if remote else known
        self.agents = len(known) if remote else self.server.agents or len(known)
        self.discount: float = known.discount
        if known.reward_cap is not None and self.server.reward_cap is not None:
            raise ValueError(
                f'server.reward_cap: expected none where fleet.kind is "{section.kind}", which reports it, '
                f"got {self.server.reward_cap}"
            )
        self.reward_cap = self.server.reward_cap if known.reward_cap is None else float(known.reward_cap)
        self.rule = self._made_rule()
        self.features, self._world_terms = self._spaces(known)
        step = self.algorithm.step(self.agents)
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
        self._check_numbers()

    def _spaces(self, known: Any) -> tuple[FeatureMap | BoxMap, dict[str, str]]:
        """The features on the worlds that are known, and what else decides a step there, in words."""
        algo, step = self.algorithm, self.algorithm.step(self.agents)
        if known.finite:
            sizes = {"states": repr(known.states), "actions": repr(known.actions)}
            return algo.feature_map(known), sizes if step.plain else sizes | terms.of_step(algo)
        # There may be one world here and weights and step sizes for all agents: those are checked elsewhere.
        first = step.behaviour[0] if step.behaviour else None
        shared = replace(algo, step_size=1.0, weights=None, behaviour=first)
        problem = shared.problem(known, self.training.steps, runs=1, seed=self.training.seed)
        box = problem.features
        assert isinstance(box, BoxMap)
        return box, {
            "low": terms.numbers(box.low),
            "high": terms.numbers(box.high),
            "actions": f"{len(problem.candidates)} of {algo.actions!r}",
            "action_bounds": repr(problem.action_bounds),
            **terms.of_step(algo),
        }

    def _made_rule(self) -> servers.Server:
        """How replies become the next central parameter."""
        section = self.server
        if section.rule == MEAN:
            return self.algorithm.rule
        try:
            rule: servers.Server = replace(section.build(), radius=self.algorithm.radius)
            rule.shares(self.agents)
        except (TypeError, ValueError) as error:
            raise ValueError(f"server: {error}") from None
        if rule.shifts or rule.opens or rule.noisy or rule.leaves not in {NOTHING, VISITS}:
            raise ValueError(
                "server.rule: expected a rule that needs nothing but agents' parameters and visits in a "
                f'deployment, got "{section.rule}"'
            )
        return rule

    def _check_numbers(self) -> None:
        """Reject numbers of steps and agents that do not fit together."""
        if self.training.steps % self.every:
            raise ValueError(
                f"training.steps: expected a multiple of sync_every ({self.every}) in a deployment, "
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
        servers.check(self.rule, self.agents)
        if self.server.at_least > self.agents:
            raise ValueError(
                f"server.at_least: expected at most the {self.agents} agents, got {self.server.at_least}"
            )

    def check_server(self) -> None:
        """Reject settings with which agents can work, and a server cannot."""
        server = self.server
        if self.algorithm.participation != 1 or self.algorithm.faults is not None:
            raise ValueError(
                "algorithm: expected no participation and no faults, which are of simulations, got some; a "
                "deployment asks server.fraction of its agents"
            )
        if self.reward_cap is None:
            raise ValueError(
                "server.reward_cap: expected a bound on the absolute rewards of environments, which do not "
                "report it, got none; with inf, replies are not checked for how far they moved"
            )
        if (server.rule != MEAN or server.privacy is not None) and self.algorithm.weights is not None:
            raise ValueError("algorithm.weights: expected none with a robust rule or privacy, got some")
        if server.privacy is not None and server.rule != MEAN:
            raise ValueError(
                'server.rule: expected "mean" with privacy, whose noise is made for one average of all '
                f'agents, got "{server.rule}"'
            )

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return self.training.steps // self.every

    @property
    def sample_size(self) -> int:
        """How many agents a round asks."""
        server = self.server
        return participation.sample_size(server.fraction, self.agents, max(server.at_least, self.rule.fewest))

    @property
    def needed(self) -> int:
        """Sound replies without which a round does not count; noise is made for all that were asked."""
        server = self.server
        return max(server.at_least, self.rule.fewest) if server.privacy is None else self.sample_size

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
        personal = {}
        if self.rule.personal:
            acting = "mixture" if self.rule.mixes else "own"
            personal["personal"] = f"{acting}, {self.rule.leaves}" if self.rule.leaves else acting
        told = {
            "features": terms.described(algo.features),
            "policy": terms.described(algo.policy),
            "step_size": repr(algo.step_size),
            "sync_every": repr(algo.sync_every),
            "redraw_actions": repr(algo.redraw_actions),
            "initial_value": repr(algo.initial_value),
            "discount": repr(self.discount),
            **self._world_terms,
            "dim": repr(self.dim),
            "agents": repr(self.agents),
            "seed": repr(self.training.seed),
            **personal,
        }
        return {name: terms.brief(text) for name, text in told.items()}

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
            "privacy": repr(server.privacy),
            **{name: repr(getattr(server, name)) for name in server.key_names},
        }


def load(path: Path) -> Federation:
    """Read a deployment's configuration; the error lists every wrong key, its value and what was expected."""
    content = configs.read(path)
    try:
        deployment = Deployment.model_validate(content)
    except ValidationError as error:
        raise ValueError(explained(error, content, Deployment, str(path))) from None
    return Federation(deployment, path.parent)
