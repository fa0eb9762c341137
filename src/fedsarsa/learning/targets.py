"""What a local step aims at, and what it does besides: the options of the step beyond Algorithm ``alg``."""

from dataclasses import dataclass

from fedsarsa.learning.policies import FixedPolicy

SAMPLED, EXPECTED, MAX = TARGETS = ("sampled", "expected", "max")
ACCUMULATING, REPLACING = TRACES = ("accumulating", "replacing")


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
    """

    target: str = SAMPLED
    behaviour: tuple[FixedPolicy, ...] = ()
    trace_decay: float = 0.0
    traces: str = ACCUMULATING
    redraw_actions: bool = False
    step_per_feature: bool = False

    @property
    def beyond(self) -> tuple[str, ...]:
        """The options with which it is not a step of Algorithm ``alg``.

        Actions that are drawn anew are none of them: the mean path is the same.
        """
        options = ("target", "behaviour", "trace_decay", "step_per_feature")
        return tuple(name for name in options if getattr(self, name) != getattr(Step, name))

    @property
    def plain(self) -> bool:
        """Whether it is a step of SARSA, with actions drawn anew or not."""
        return not self.beyond
