"""The algorithm in TOML: sections for features, policies, step sizes, and for FedSARSA itself."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.continuous import ActionsSection, FourierSection, RBFSection, TileCodingSection
from fedsarsa.experiments.section import Count, Section, Steps, unless_given
from fedsarsa.federation import servers
from fedsarsa.learning import features, policies, step_sizes


class OneHotSection(Section):
    """One parameter per pair."""

    kind: Literal["one-hot"]

    def build(self) -> features.Features:
        """The feature map."""
        return features.OneHot()


class ModuloSection(Section):
    """One parameter per (s mod d1, a mod d2)."""

    kind: Literal["modulo"] = "modulo"
    d1: Count = 5
    d2: Count = 5

    def build(self) -> features.Features:
        """The feature map."""
        return features.ModuloFeatures(self.d1, self.d2)


class SoftmaxSection(Section):
    """Softmax policy."""

    kind: Literal["softmax"] = "softmax"
    temperature: float = 100.0

    def build(self) -> policies.Policy:
        """The policy."""
        return policies.Softmax(self.temperature)


class GreedySection(Section):
    """Greedy policy: on-policy federated Q-learning.

    ``ties`` are equal values: all of them "share" the mass, or the "first" class of equal features takes it.
    """

    kind: Literal["greedy"]
    ties: Literal["share", "first"] = "share"

    def build(self) -> policies.Policy:
        """The policy."""
        return policies.Greedy(self.ties)


class EpsilonGreedySection(Section):
    """Epsilon-greedy policy; ``ties`` as for the greedy one."""

    kind: Literal["epsilon-greedy"]
    eps: float = 0.1
    ties: Literal["share", "first"] = "share"

    def build(self) -> policies.Policy:
        """The policy."""
        return policies.EpsilonGreedy(self.eps, self.ties)


class FixedSection(Section):
    """A policy that does not learn: federated TD(0).

    ``pi`` is an action, "uniform", a list of A probabilities, or S such lists.
    """

    kind: Literal["fixed"]
    pi: Count | Literal["uniform"] | list[float] | list[list[float]] = "uniform"

    def build(self) -> policies.Policy:
        """The policy."""
        return policies.FixedPolicy(self.pi)


class LinearDecaySection(Section):
    """alpha_t = 4 / (w (1 + t + a))."""

    kind: Literal["linear-decay"]
    w: float
    a: float

    def build(self) -> step_sizes.Schedule:
        """The schedule."""
        return step_sizes.LinearDecay(self.w, self.a)


class PiecewiseDecaySection(Section):
    """``values[k]`` from step ``boundaries[k - 1]`` on."""

    kind: Literal["piecewise-decay"]
    values: list[float]
    boundaries: list[Steps]

    def build(self) -> step_sizes.Schedule:
        """The schedule."""
        return step_sizes.PiecewiseDecay(self.values, self.boundaries)


def shape(value: Any) -> Any:
    """What a step size is written as: a number, a list, or a table of some kind."""
    if isinstance(value, dict | Section):
        return value.get("kind") if isinstance(value, dict) else value.kind  # type: ignore[attr-defined]
    return "list" if isinstance(value, list) else "number"


FeaturesSection = Annotated[
    ModuloSection | OneHotSection | TileCodingSection | FourierSection | RBFSection,
    Field(discriminator="kind"),
    unless_given("modulo"),
]
PolicySection = Annotated[
    SoftmaxSection | GreedySection | EpsilonGreedySection | FixedSection,
    Field(discriminator="kind"),
    unless_given("softmax"),
]
StepSizeField = Annotated[
    Annotated[float, Tag("number")]
    | Annotated[list[float], Tag("list")]
    | Annotated[LinearDecaySection, Tag("linear-decay")]
    | Annotated[PiecewiseDecaySection, Tag("piecewise-decay")],
    Discriminator(shape),
]


class MeanSection(Section):
    """The weighted mean, projected on a ball."""

    kind: Literal["mean"] = "mean"
    weights: list[float] | None = None
    radius: float | None = None

    def build(self) -> servers.Server:
        """The server rule."""
        return servers.Mean(self.weights, self.radius)


class MedianSection(Section):
    """The median, coordinate by coordinate."""

    kind: Literal["median"]
    radius: float | None = None

    def build(self) -> servers.Server:
        """The server rule."""
        return servers.Median(self.radius)


class TrimmedMeanSection(Section):
    """The mean without the largest and the smallest values."""

    kind: Literal["trimmed-mean"]
    share: float = 0.2
    radius: float | None = None

    def build(self) -> servers.Server:
        """The server rule."""
        return servers.TrimmedMean(self.share, self.radius)


class KrumSection(Section):
    """The parameter of the agent that is closest to its neighbours."""

    kind: Literal["krum"]
    liars: Count = 1
    radius: float | None = None

    def build(self) -> servers.Server:
        """The server rule."""
        return servers.Krum(self.liars, self.radius)


ServerSection = Annotated[
    MeanSection | MedianSection | TrimmedMeanSection | KrumSection,
    Field(discriminator="kind"),
    unless_given("mean"),
]


def _built(section: FixedSection | list[FixedSection] | None) -> Any:
    """What a section, or a list of them, or none, says."""
    if isinstance(section, list):
        return [one.build() for one in section]
    return None if section is None else section.build()


class Algorithm(Section):
    """The settings of FedSARSA; the defaults are the published setting."""

    features: FeaturesSection = ModuloSection()
    policy: PolicySection = SoftmaxSection()
    step_size: StepSizeField = 0.01
    sync_every: Steps | Literal["never"] = 10
    radius: Annotated[float | None, BeforeValidator(lambda value: None if value == "none" else value)] = None
    weights: list[float] | None = None
    server: ServerSection | None = None
    redraw_actions: bool = False
    actions: ActionsSection | None = None
    target: str = "sampled"
    behaviour: FixedSection | list[FixedSection] | None = None
    trace_decay: float = 0.0
    traces: str = "accumulating"
    step_per_feature: bool = False
    initial_value: float = 0.0

    def build(self) -> FedSARSA:
        """The algorithm."""
        step = self.step_size
        return FedSARSA(
            features=self.features.build(),
            policy=self.policy.build(),
            step_size=step if isinstance(step, float | list) else step.build(),
            sync_every=None if self.sync_every == "never" else self.sync_every,
            radius=self.radius,
            weights=self.weights,
            server=None if self.server is None else self.server.build(),
            redraw_actions=self.redraw_actions,
            actions=None if self.actions is None else self.actions.build(),
            trace_decay=self.trace_decay,
            traces=self.traces,
            target=self.target,
            behaviour=_built(self.behaviour),
            step_per_feature=self.step_per_feature,
            initial_value=self.initial_value,
        )
