"""Policy improvement operators Gamma: Q-values -> probabilities of actions.

Every policy is a map from the values Q(s, .) to probabilities pi(. | s); that map is all that engines
and theory know of it. Where ties go to the first, the map also asks which actions have the same features
(`classes`). Actions are drawn by inverting the cumulative distribution in the order the features give
(`order`), so one random number draws one action, the same one in every engine.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.features import FeatureMap

State = int | slice  # one state, or slice(None) for all of them
ALL = slice(None)
# (A,): actions with the same number have the same features in every state. None: no two have.
Classes = NDArray[np.int64] | None

SHARE, FIRST = TIES = ("share", "first")
SOFTMAX, GREEDY, EPSILON_GREEDY, FIXED = range(4)  # what compiled pieces know policies by


@dataclass(frozen=True)
class Softmax:
    """pi(a|s) proportional to exp(Q(s, a) / temperature); Lipschitz, as Assumption ``asmp:lip`` asks."""

    code: ClassVar[int] = SOFTMAX
    temperature: float = 100.0

    @property
    def parameter(self) -> float:
        """The one number of the policy."""
        return self.temperature

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", _checks.positive("temperature", self.temperature))

    def probabilities(self, values: Floats, state: State = ALL, classes: Classes = None) -> Floats:  # noqa: ARG002
        """pi(. | s) for ``values`` (A,) of one state, or all of them for (S, A)."""
        weights = np.exp((values - values.max(axis=-1, keepdims=True)) / self.temperature)
        return weights / weights.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Greedy:
    """The best action: on-policy federated Q-learning.

    Parameters
    ----------
    ties : {"share", "first"}
        Who takes the mass where several actions have exactly the largest value. ``share``: all of them,
        evenly. ``first``: the first one, together with the actions that have its features in every state,
        which no parameter tells apart (``ModuloFeatures(5, 5)`` has five such classes of actions). That is
        what the released program does: its ``max`` finds the first class, of which it draws an action.

    Raises
    ------
    ValueError
        ``ties`` is neither.
    """

    code: ClassVar[int] = GREEDY
    parameter: ClassVar[float] = 0.0
    ties: str = SHARE

    def __post_init__(self) -> None:
        _checks.choice("ties", self.ties, TIES)

    def probabilities(self, values: Floats, state: State = ALL, classes: Classes = None) -> Floats:  # noqa: ARG002
        """pi(. | s) for ``values`` (A,) of one state, or all of them for (S, A)."""
        best = values == values.max(axis=-1, keepdims=True)
        if self.ties == FIRST:
            kinds = np.arange(values.shape[-1]) if classes is None else classes
            best &= kinds == kinds[best.argmax(axis=-1)][..., None]
        return best / best.sum(axis=-1, keepdims=True)

    def __repr__(self) -> str:
        return f"Greedy({_shown(self.ties)})"


@dataclass(frozen=True)
class EpsilonGreedy:
    """Greedy with probability 1 - eps, uniform over all actions with probability eps.

    Parameters
    ----------
    eps : float
        In [0, 1].
    ties : {"share", "first"}
        Who takes the greedy mass where several actions are best, as in ``Greedy``.

    Raises
    ------
    ValueError
        ``eps`` is not in [0, 1], or ``ties`` is neither of the two.
    """

    code: ClassVar[int] = EPSILON_GREEDY
    eps: float = 0.1
    ties: str = SHARE

    @property
    def parameter(self) -> float:
        """The one number of the policy."""
        return self.eps

    def __post_init__(self) -> None:
        eps = _checks.number("eps", self.eps, "a number in [0, 1]")
        if not 0 <= eps <= 1:
            raise ValueError(f"eps must be a number in [0, 1], got {self.eps!r}")
        object.__setattr__(self, "eps", eps)
        _checks.choice("ties", self.ties, TIES)

    def probabilities(self, values: Floats, state: State = ALL, classes: Classes = None) -> Floats:
        """pi(. | s) for ``values`` (A,) of one state, or all of them for (S, A)."""
        greedy = Greedy(self.ties).probabilities(values, state, classes)
        return self.eps / values.shape[-1] + (1 - self.eps) * greedy

    def __repr__(self) -> str:
        return f"EpsilonGreedy(eps={self.eps!r}{_shown(self.ties, ', ')})"


def _shown(ties: str, before: str = "") -> str:
    """Ties in a policy's ``repr``; without the default, as in records from before there was a choice."""
    return "" if ties == SHARE else f"{before}ties={ties!r}"


class FixedPolicy:
    """The same policy whatever was learned: federated TD(0).

    Parameters
    ----------
    pi : (S, A) array, (A,) array, int, or "uniform"
        Probabilities per state, the same probabilities in every state, always one action, or all
        actions alike.
    """

    code: ClassVar[int] = FIXED
    parameter: ClassVar[float] = 0.0

    def __init__(self, pi: ArrayLike | int | str = "uniform") -> None:
        self.pi: Floats | int | str
        if isinstance(pi, str):
            self.pi = _checks.choice("pi", pi, ["uniform"])
        elif np.ndim(pi) == 0:
            self.pi = _checks.integer("pi", pi, least=0)  # type: ignore[arg-type]
        else:
            self.pi = _checks.distribution("pi", pi)
            if self.pi.ndim > 2:
                raise ValueError(f"pi must have shape (S, A) or (A,), got {self.pi.shape}")

    def table(self, states: int, actions: int) -> Floats:
        """pi(a|s) written out, (S, A)."""
        pi = self.pi
        if isinstance(pi, str):
            return np.full((states, actions), 1 / actions)
        if isinstance(pi, int):
            if pi >= actions:
                raise ValueError(f"pi must be an action below {actions}, got {pi}")
            return np.tile(np.eye(actions)[pi], (states, 1))
        if pi.shape not in {(actions,), (states, actions)}:
            raise ValueError(f"pi must have shape ({states}, {actions}) or ({actions},), got {pi.shape}")
        return np.array(np.broadcast_to(pi, (states, actions)))

    def probabilities(self, values: Floats, state: State = ALL, classes: Classes = None) -> Floats:  # noqa: ARG002
        """pi(. | s), whatever ``values`` (A,) or (S, A) are."""
        if isinstance(self.pi, np.ndarray):
            return self.pi[state] if self.pi.ndim == 2 else np.broadcast_to(self.pi, values.shape)
        return np.broadcast_to(self.table(1, values.shape[-1])[0], values.shape)

    def __repr__(self) -> str:
        shown = f"array{self.pi.shape}" if isinstance(self.pi, np.ndarray) else repr(self.pi)
        return f"FixedPolicy({shown})"


Policy = Softmax | Greedy | EpsilonGreedy | FixedPolicy


def check(policy: Any) -> None:
    """Reject what is not a policy."""
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be Softmax, Greedy, EpsilonGreedy or FixedPolicy, got {policy!r}")


def improvement(policy: Policy, features: FeatureMap, theta: Floats) -> Floats:
    """Gamma(theta), (S, A): the policy improvement operator at a parameter."""
    return policy.probabilities(features.values(theta), classes=features.classes)


def greedy(policy: Policy) -> Greedy:
    """The greedy policy that breaks ties as ``policy`` does, if it has any to break."""
    return Greedy(policy.ties) if isinstance(policy, Greedy | EpsilonGreedy) else Greedy()
