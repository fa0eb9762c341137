"""Where SARSA tends to: solutions of the projected Bellman equation (eq. 3, ``eq:bellman``)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.learning import features as feature_maps
from fedsarsa.learning import policies
from fedsarsa.learning.features import FeatureMap, Features
from fedsarsa.learning.policies import Policy, Softmax
from fedsarsa.theory.action_classes import classes, dynamics
from fedsarsa.theory.operators import Operators, average, operators
from fedsarsa.theory.roots import RESIDUAL, ROUNDING, MeanField, end_of_flow, growth, longest_step
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet

PLAIN, ANDERSON, NEWTON = 60, 200, 40
MEMORY = 8  # past iterates that Anderson acceleration combines
HALVINGS = 30  # of a Newton step before it counts as failed
RESTARTS = 20
NEWTON_DIM = 1000  # the Jacobian of more parameters takes longer than it is worth
NUDGE = 1e-3  # share of its size by which a parameter is moved away from a root that repels
# Distance of the discount to 1, and probability of an action, below which rounding is reported.
NEAR_ONE, RARE = 1e-10, 1e-300


@single_threaded
def fixed_point(mdp: FiniteMDP, features: Features, policy: Policy) -> Floats:
    """theta_*, (d,): E[phi(s, a) (r + discount phi(s', a')'theta - phi(s, a)'theta)] = 0.

    The expectation is over the two-step stationary distribution of the policy Gamma(theta_*) itself.
    Parameters that the policy never visits stay 0; ``operators(...).rank`` says how many it visits.
    Where there are several solutions this is one that attracts training, the first that the iterations from 0
    meet; a warning says where only a repelling one was found, or where rounding leaves few digits.

    Parameters
    ----------
    mdp : FiniteMDP
        One agent's world, or ``fleet.central()``.
    features : OneHot, ModuloFeatures or TabularFeatures
        The feature map phi.
    policy : Policy
        The policy improvement operator Gamma.

    Returns
    -------
    (d,) array
        theta_*, with a residual of at most 1e-10 for rewards of size 1.

    Raises
    ------
    ValueError
        No solution was found (greedy policies often have none); the message says what was tried.

    Notes
    -----
    With D the stationary visits of pairs under Gamma(theta), and P the chain of pairs, it is the root of
    eq. 3 (``eq:bellman``),

        A(theta) theta + b(theta) = 0,  A = Phi'D (discount P - I) Phi,  b = Phi'D r

    Examples
    --------
    >>> import fedsarsa as fs
    >>> world = fs.paper.nominal(seed=0)
    >>> fs.theory.fixed_point(world, fs.ModuloFeatures(5, 5), fs.Softmax(100.0)).shape
    (25,)
    """
    mdp = _checks.instance("mdp", mdp, FiniteMDP, "a FiniteMDP")
    _check(features, policy)
    return _Search([mdp], np.ones(1), features.on(mdp.states, mdp.actions), policy).root()


@single_threaded
def federated_point(
    fleet: Fleet | Sequence[FiniteMDP],
    features: Features,
    policy: Policy,
    weights: ArrayLike | None = None,
) -> Floats:
    """The root of the agents' mean semi-gradient, (d,): the point FedSARSA converges to.

    sum_i weights_i (A-bar_i theta + b-bar_i) = 0, each agent's operators under its own stationary
    distribution with the policy Gamma(theta). The paper uses ``fixed_point(fleet.central())``,
    which is another point when kernels differ: the mean of stationary distributions is not the
    stationary distribution of the mean.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    features, policy
        As for `fixed_point`.
    weights : (N,), optional
        The server's weights; 1/N unless given.

    Returns
    -------
    (d,) array

    Raises
    ------
    ValueError
        No root was found; the message says what was tried.

    Notes
    -----
    With A_i(theta) and b_i(theta) as in `fixed_point`, of agent i's world,

        sum_i weights_i (A_i(theta) theta + b_i(theta)) = 0

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet, algo = fs.paper.fleet(2, 0.5, 0.5, states=10, actions=10), fs.FedSARSA()
    >>> fs.theory.federated_point(fleet, algo.features, algo.policy)[:2].round(3)
    array([8.624, 8.344])
    >>> fs.theory.fixed_point(fleet[0], algo.features, algo.policy)[:2].round(3)
    array([9.595, 9.326])
    """
    fleet = as_fleet(fleet)
    _check(features, policy)
    uniform = np.full(len(fleet), 1 / len(fleet))
    shares = _checks.distribution("weights", uniform if weights is None else weights)
    if shares.shape != (len(fleet),):
        raise ValueError(f"weights must have shape ({len(fleet)},), got {shares.shape}")
    # The same world may be many agents': its operators are computed once.
    share = np.bincount(fleet.world_of, weights=shares, minlength=len(fleet.worlds)).astype(float)
    return _Search(fleet.worlds, share, features.on(fleet.states, fleet.actions), policy).root()


def _check(features: Features, policy: Policy) -> None:
    feature_maps.checked(features)
    policies.check(policy)


class _Search:
    """The search for theta with sum_i share_i g-bar_i(theta) = 0 under the policy Gamma(theta)."""

    def __init__(
        self, worlds: Sequence[FiniteMDP], share: Floats, features: FeatureMap, policy: Policy
    ) -> None:
        self.worlds, self.share, self.features, self.policy = worlds, share, features, policy
        self.reward_cap = max(world.reward_cap for world in worlds)
        self.best: Floats = np.zeros(features.dim)
        self.residual = np.inf
        self.tolerance = 0.0

    def root(self) -> Floats:
        """The root that the first successful method finds."""
        methods = {f"{PLAIN} solutions for a fixed policy": self.plain}
        if isinstance(self.policy, Softmax):  # the other policies are flat or jump: nothing to accelerate
            methods[f"{ANDERSON} steps of Anderson acceleration"] = self.anderson
            if self.features.dim <= NEWTON_DIM:
                methods["the flow from 0"] = self.flow
                methods[f"{NEWTON} Newton steps"] = self.newton
        if any(method() for method in methods.values()) or self.restarts([*methods.values()][-1].__name__):
            self.prefer_attracting()
            self.tell_of_rounding()
            return self.best
        raise ValueError(
            f"no fixed point found for {self.policy!r}: {', then '.join(methods)}, the last also from "
            f"{RESTARTS} random parameters, left a residual of {self.residual:.3g}, expected at most "
            f"{self.tolerance:.3g}"
            + ("" if isinstance(self.policy, Softmax) else "; policies that jump may have no fixed point")
        )

    def at(self, theta: Floats) -> Operators:
        """The mean operators at ``theta``; remembers the best parameter seen."""
        here = average(self.each(theta), self.share)
        residual = float(np.linalg.norm(here.semi_gradient(theta)))
        if residual < self.residual:
            scale = self.reward_cap + (1 + here.discount) * float(np.linalg.norm(theta))
            self.best, self.residual = theta, residual
            self.tolerance = max(RESIDUAL * min(1.0, self.reward_cap), ROUNDING * scale)
        return here

    def each(self, theta: Floats) -> list[Operators]:
        """The operators of every world at ``theta``."""
        pi = policies.improvement(self.policy, self.features, theta)
        return [operators(world, self.features, pi) for world in self.worlds]

    @property
    def done(self) -> bool:
        """Whether the best parameter is a root."""
        return self.residual <= self.tolerance

    def plain(self) -> bool:
        """Fix the policy, solve the linear equation, improve the policy."""
        theta = self.best
        seen: set[bytes] = set()
        for _ in range(PLAIN):
            here = self.at(theta)
            if self.done:
                return True
            seen.add(theta.tobytes())
            theta = here.solve()
            if theta.tobytes() in seen:  # a cycle, as between greedy policies
                break
        return False

    def anderson(self) -> bool:
        """The same map, from the combination of past iterates that would have moved the least."""
        theta = self.best
        points: list[Floats] = []
        moves: list[Floats] = []
        for _ in range(ANDERSON):
            here = self.at(theta)
            if self.done:
                return True
            points, moves = [*points[-MEMORY:], theta], [*moves[-MEMORY:], here.solve() - theta]
            theta = points[-1] + moves[-1]
            if len(points) > 1:
                change = np.diff(np.array(moves), axis=0)
                share = np.linalg.lstsq(change.T, moves[-1], rcond=1e-10)[0]
                theta = theta - share @ (np.diff(np.array(points), axis=0) + change)
        return False

    def field(self, theta: Floats) -> tuple[Floats, Floats]:
        """The mean semi-gradient (d,) and its Jacobian (d, d)."""
        mean = average(self.each(theta), self.share)
        return mean.semi_gradient(theta), self.mean_field.at(theta)[1]

    @cached_property
    def mean_field(self) -> MeanField:
        """The same semi-gradient by classes of actions, whose Jacobian counts the policy's change."""
        first = self.worlds[0]
        kinds = classes(self.features, self.policy, first.states, first.actions)
        return MeanField(kinds, [dynamics(world, kinds) for world in self.worlds], self.share)

    def prefer_attracting(self) -> None:
        """Leave a root that repels for one that attracts; keep it, with a warning, where none is found."""
        if not isinstance(self.policy, Softmax) or self.features.dim > NEWTON_DIM:
            return
        J = self.field(self.best)[1]
        rate = growth(J)
        if rate == 0:
            return
        rates, directions = np.linalg.eig(J)
        away = directions[:, np.argmax(rates.real)].real
        away *= NUDGE * (1 + np.linalg.norm(self.best)) / np.linalg.norm(away)
        for start in (np.zeros_like(self.best), self.best + away, self.best - away):
            root = self.end_of_flow(start)
            if root is not None and growth(self.field(root)[1]) == 0:
                self.best = root
                return
        warnings.warn(
            f"the fixed point repels: small deviations grow at a rate of {rate:.3g} per unit of step size, "
            "so training leaves it; no fixed point that attracts was found",
            stacklevel=5,
        )

    def tell_of_rounding(self) -> None:
        """Warn where rounding leaves few digits of the fixed point."""
        gap = 1 - max(world.discount for world in self.worlds)
        if gap < NEAR_ONE:
            digits = max(0, int(np.log10(gap / np.finfo(float).eps))) if gap > 0 else 0
            warnings.warn(
                f"discount is within {gap:.2g} of 1: about {digits} digits of the fixed point are right",
                stacklevel=5,
            )
        if not isinstance(self.policy, Softmax):
            return
        rare = int((self.policy.probabilities(self.features.values(self.best)) < RARE).sum())
        if rare:
            warnings.warn(
                f"temperature {self.policy.parameter:g} is so low that {rare} state-action pairs have a "
                f"probability below {RARE:g}: their own parameters are not known",
                stacklevel=5,
            )

    def flow(self) -> bool:
        """The way that training takes from 0, without noise."""
        root = self.end_of_flow(np.zeros_like(self.best))
        if root is not None:
            self.at(root)
        return self.done

    def end_of_flow(self, theta: Floats) -> Floats | None:
        """The root that the flow from ``theta`` leads to."""
        slope = 1 / self.policy.parameter if isinstance(self.policy, Softmax) else 0.0
        longest = longest_step(self.reward_cap, self.worlds[0].discount, slope)
        return end_of_flow(self.field, theta, self.tolerance, longest)

    def newton(self) -> bool:
        """Newton's method from the best parameter so far, with shorter steps where full ones do not help."""
        for _ in range(NEWTON):
            theta, before = self.best, self.residual
            gradient, slope = self.field(theta)
            # Least squares: directions that are never visited have no slope, and the step none of them.
            step = np.linalg.lstsq(slope, -gradient, rcond=None)[0]
            for halvings in range(HALVINGS):
                self.at(theta + step / 2**halvings)
                if self.residual < before:
                    break
            if self.done or self.residual >= before:
                break
        return self.done

    def restarts(self, method: str) -> bool:
        """The named method from random parameters as large as the solution for the first policy."""
        rng = np.random.default_rng(0)
        size = np.linalg.norm(self.at(np.zeros(self.features.dim)).solve()) / self.features.dim**0.5
        for _ in range(RESTARTS):
            again = _Search(self.worlds, self.share, self.features, self.policy)
            again.at(size * rng.normal(size=self.features.dim))
            if getattr(again, method)():
                self.at(again.best)
                return True
        return False
