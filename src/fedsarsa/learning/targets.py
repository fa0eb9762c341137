"""What a local step aims at, and what it does besides: the options of the step beyond Algorithm ``alg``."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from fedsarsa import _checks
from fedsarsa.learning.policies import FixedPolicy

SAMPLED, EXPECTED, MAX = TARGETS = ("sampled", "expected", "max")
ACCUMULATING, REPLACING = TRACES = ("accumulating", "replacing")
OWN_CHAIN, SHARED_CHAIN, ALL_PAIRS = SAMPLING = ("own-chain", "shared-chain", "all-pairs")
NOTHING, DIRECTION, LOG_WEIGHTS, VISITS = LEAVES = (None, "direction", "log-weights", "visits")
Behaviour = FixedPolicy | Sequence[FixedPolicy]  # one for all agents, or one per agent


@dataclass(frozen=True, eq=False)
class Step:
    """The options of a local step; the defaults are those of Algorithm ``alg``.

    Attributes
    ----------
    target : {"sampled", "expected", "max"}
        What follows the reward: Q(s', a'), the policy's mean of Q(s', .), or its largest value.
    behaviour : tuple of FixedPolicy
        Who acts: one for all agents, or one per agent; empty: the policy that is learned.
    trace_decay, traces : float, {"accumulating", "replacing"}
        lambda of the eligibility traces, and what becomes of a feature's trace when it is active again.
    redraw_actions : bool
        Whether the executed action is drawn anew at every step.
    step_per_feature : bool
        Whether step sizes are divided by the number of active features.
    shifted : bool
        Whether a vector of the agent's own, the same for a round, is added to the direction of every step.
    leaves : {None, "direction", "log-weights", "visits"}
        What steps add up for the server in a round, besides moving the parameter. ``direction``: they add
        up their directions, and the parameter stays. ``log-weights``: -log(1 - alpha phi_j) of the pairs.
        ``visits``: alpha phi_j^2 of the pairs, by which a step forgets what parameter j was before.
    mixes : bool
        Whether agents act by a mixture of their own parameter and one that the server gives them.
    sampling : {"own-chain", "shared-chain", "all-pairs"}
        What a step sees: the next transition of the agent's own chain; of one chain that all agents of a run
        watch, by the same random numbers; or a transition of every pair of a finite world, in which case the
        target is the largest value.
    independent : bool
        Whether every step begins anew, from a state of the world's initial distribution and an action of the
        policy there, instead of the pair that the last one led to. In finite worlds.
    ahead : int
        n, the transitions that a step looks ahead: the errors of all of them, at the present parameter and
        discounted, are what it adds. Above 1 in finite worlds, with a fixed policy.
    ratios : bool
        Whether these errors are weighted by the products of pi / behaviour of the actions up to them.
    """

    target: str = SAMPLED
    behaviour: tuple[FixedPolicy, ...] = ()
    trace_decay: float = 0.0
    traces: str = ACCUMULATING
    redraw_actions: bool = False
    step_per_feature: bool = False
    shifted: bool = False
    leaves: str | None = NOTHING
    mixes: bool = False
    sampling: str = OWN_CHAIN
    independent: bool = False
    ahead: int = 1
    ratios: bool = False

    def __post_init__(self) -> None:
        _checks.choice("target", self.target, TARGETS)
        decay = _checks.number("trace_decay", self.trace_decay, "a number in [0, 1]")
        if not 0 <= decay <= 1:
            raise ValueError(f"trace_decay must be a number in [0, 1], got {self.trace_decay!r}")
        _checks.choice("traces", self.traces, TRACES)
        if self.leaves not in LEAVES:
            raise ValueError(f"leaves must be one of {LEAVES}, got {self.leaves!r}")
        _checks.choice("sampling", self.sampling, SAMPLING)
        _checks.integer("ahead", self.ahead, least=1)
        for name in ("redraw_actions", "step_per_feature", "shifted", "mixes", "independent", "ratios"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")

    @property
    def beyond(self) -> tuple[str, ...]:
        """The options with which it is not a step of Algorithm ``alg``.

        Pairs or actions that are drawn anew are none of them: the update is the same.
        """
        same = {"traces", "redraw_actions", "independent"}
        names = [option.name for option in fields(self) if option.name not in same]
        return tuple(name for name in names if getattr(self, name) != getattr(Step, name))

    @property
    def windowed(self) -> bool:
        """Whether steps look at more than the next transition, or weigh it."""
        return self.ahead > 1 or self.ratios

    @property
    def plain(self) -> bool:
        """Whether it is a step of SARSA, with pairs or actions drawn anew or not."""
        return not self.beyond


def behaviours(given: Any, agents: int | None = None) -> tuple[FixedPolicy, ...]:
    """The policies by which agents act: none, one for all, or one for each of ``agents``."""
    if given is None:
        return ()
    policies = (given,) if isinstance(given, FixedPolicy) else given
    if not isinstance(policies, Sequence) or not all(isinstance(one, FixedPolicy) for one in policies):
        raise TypeError(f"behaviour must be a FixedPolicy, or a list with one per agent, got {given!r}")
    if agents is not None and len(policies) not in {1, agents}:
        raise ValueError(f"behaviour must be one or one per agent ({agents}), got {len(policies)}")
    return tuple(policies)
