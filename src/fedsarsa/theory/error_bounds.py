"""Bounds on the error of a training: Theorem ``thm`` and its corollaries.

They follow the repaired recursion of `fedsarsa.theory.recursion`. In two more places the proof does not give
the printed constant. In ``cor:err-con`` a factor 2 is lost between its last two lines: the floor around
theta_*^(i) is twice that around theta_*. ``cor:err-dec`` is stated up to constants. The last line but one of
its proof shows some: with C >= (T+1)^2 / 2 the step before gives 16 for C_2 where 8 is printed, and for C_4
256 pi^2 / 6, by the sum of 1 / (t+1)^2, where 256 is printed. Here it is the weighted average of the
recursion itself.
"""

import math
from dataclasses import replace

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.learning.features import Aggregation, OneHot
from fedsarsa.learning.step_sizes import ConstantStep, LinearDecay, Schedule, schedules
from fedsarsa.theory.inequality import Bound, failing
from fedsarsa.theory.paper_constants import Constants, compute
from fedsarsa.theory.recursion import recursion
from fedsarsa.worlds.fleet import Fleet


def of_errors(
    fleet: Fleet, algo: FedSARSA, c: Constants, start: Floats, steps: int
) -> tuple[Floats, list[Bound]]:
    """The curve of Theorem ``thm`` (T + 1,), and the bounds on the error after ``steps`` steps."""
    schedule = schedules(algo.step_size)[0]
    alphas = schedule.at(np.arange(steps))
    curve, printed = (error_curve(c, alphas, start, repaired) for repaired in (True, False))
    fails = failing(c) or _bad_start(c, algo, start)
    rows = [
        _ball(algo, c, isinstance(algo.feature_map(fleet), Aggregation), start, alphas),
        Bound(
            "thm",
            float(curve[-1]),
            None,
            "E||theta-bar_T - theta_*||^2 by the one-step recursion",
            fails,
            float(printed[-1]),
        ),
        Bound(
            "cor:err-con",
            _to_agents(c, float(curve[-1])),
            None,
            "E||theta-bar_T - theta_*^(i)||^2 of every agent, constant steps",
            fails or ("" if isinstance(schedule, ConstantStep) else "the step size decays"),
            _printed_constant(c, start, steps),
        ),
        _decaying("cor:err-dec", c, schedule, curve, start, steps, fails),
    ]
    return curve, [*rows, _tabular(fleet, algo, c, schedule, start, steps)]


def error_curve(c: Constants, alphas: Floats, start: Floats, repaired: bool) -> Floats:
    """The bound of E||theta-bar_t - theta_*||^2 for t = 0 .. T, (T + 1,), repaired or as printed.

    Before the repaired recursion holds, the parameter is only known to move by at most 2 alpha_0 (H +
    2 alpha_0 C_drift) a step (``eq:v-prog-2``).
    """
    curve = np.full(len(alphas) + 1, math.inf)
    if c.theta_star is None:
        return curve
    step = recursion(c, alphas, repaired)
    first = int(min(2 * (step.tau + c.K), len(alphas))) if repaired else 0
    curve[0] = np.sum((start - c.theta_star) ** 2)
    stride = 2 * c.alpha_0 * (c.H + 2 * c.alpha_0 * step.C_drift)
    curve[1 : first + 1] = (math.sqrt(curve[0]) + stride * np.arange(1, first + 1)) ** 2
    added = step.additive(alphas, c.Lambda, c.N)
    for t in range(first, len(alphas)):
        curve[t + 1] = (1 - alphas[t] * c.w) * curve[t] + added[t]
    return curve


def _ball(algo: FedSARSA, c: Constants, bounded: bool, start: Floats, alphas: Floats) -> Bound:
    """What is always so: parameters stay within G."""
    says = "E||theta-bar_T - theta_*||^2 is at most (G + ||theta_*||)^2: parameters cannot leave the ball"
    if c.theta_star is None:
        return Bound("cor:G", math.inf, None, says, "there is no theta_* to be far from")
    free = algo.radius is None
    fails = _bad_start(c, algo, start)
    if free and not bounded:
        fails = "no radius is set, and nothing else bounds the parameters"
    elif free and alphas.max() > 1:
        fails = f"step sizes up to {alphas.max():.3g} exceed 1 (sec:tab)"
    elif not free and 4 * c.K * alphas.max() > 1:
        fails = f"4 K alpha_0 = {4 * c.K * alphas.max():.3g} exceeds 1 (lem:v-para-prog)"
    return Bound("cor:G", (c.G + float(np.linalg.norm(c.theta_star))) ** 2, None, says, fails)


def _bad_start(c: Constants, algo: FedSARSA, start: Floats) -> str:
    """Why the start is not covered; empty where it is."""
    norm, box = float(np.linalg.norm(start)), c.R / (1 - c.gamma)
    if algo.radius is not None and norm > algo.radius:
        return f"theta0 has norm {norm:.4g}, beyond the radius {algo.radius:.4g}"
    if algo.radius is None and float(np.abs(start).max()) > box:
        return f"theta0 exceeds R / (1 - gamma) = {box:.4g} (sec:tab)"
    return ""


def _decaying(
    name: str, c: Constants, schedule: Schedule, curve: Floats, start: Floats, steps: int, fails: str
) -> Bound:
    """E||theta-tilde - theta_*^(i)||^2: Jensen's inequality over the curve, with weights a + t."""
    says = "E||theta-tilde_T - theta_*^(i)||^2 of every agent, linearly decaying steps"
    if not isinstance(schedule, LinearDecay):
        return Bound(name, math.inf, None, says, "the step size is not a LinearDecay")
    weights = schedule.a + np.arange(steps + 1)
    mean = float((weights / weights.sum()) @ curve)
    return Bound(name, _to_agents(c, mean), None, says, fails, _printed_decaying(c, schedule, start, steps))


def _tabular(
    fleet: Fleet, algo: FedSARSA, c: Constants, schedule: Schedule, start: Floats, steps: int
) -> Bound:
    """The corollary of Section ``sec:tab``: as ``cor:err-dec``, with parameters bounded by themselves."""
    name = "cor:tab"
    if not isinstance(algo.features, OneHot):
        return Bound(name, math.inf, None, "", "the features are not OneHot()")
    if algo.radius is not None:
        algo = replace(algo, radius=None)
        c = compute(fleet, algo, steps)
    alphas = schedule.at(np.arange(steps))
    curve = error_curve(c, alphas, start, repaired=True)
    fails = failing(c) or _bad_start(c, algo, start)
    row = _decaying(name, c, schedule, curve, start, steps, fails)
    order, rest = math.inf, 1 - c.gamma
    if c.lam > 0:
        scale = c.S * c.A * (c.R / rest) * (c.R / rest)
        early = scale / c.lam / c.lam / (rest * rest * steps * steps)
        order = (early + scale / (c.N * steps) + c.Lambda * c.Lambda) / c.lam / c.lam / (rest * rest)
    says = "in every norm up to the 2-norm; printed is the order alone, without constants and logarithms"
    return replace(row, printed=order, says=f"{row.says}, {says}")


def _to_agents(c: Constants, around_center: float) -> float:
    """From the error around theta_* to that around any theta_*^(i): ||a + b||^2 <= 2 ||a||^2 + 2 ||b||^2."""
    apart = c.Lambda / c.w if c.w > 0 else math.inf
    return 2 * around_center + 2 * apart * apart


def _printed_constant(c: Constants, start: Floats, steps: int) -> float:
    if c.theta_each is None:
        return math.inf
    distance = float(np.linalg.norm(c.theta_each - start, axis=1).max())
    return 4 * math.exp(-c.alpha_0 * c.w * steps) * distance**2 + c.B


def _printed_decaying(c: Constants, schedule: LinearDecay, start: Floats, steps: int) -> float:
    if c.theta_star is None or not c.w > 0:
        return math.inf
    w, T = c.w, float(steps)
    first = float(np.sum((start - c.theta_star) ** 2)) * (schedule.a / T) * (schedule.a / T)
    floor = 0.0 if c.Lambda == 0 else 2 * c.C_1 * c.Lambda * c.Lambda / w
    cubic = 32 * c.C_3 * (1 + math.log(T + 1)) / (T * T) / w / w / w
    quartic = 256 * c.C_4 / (T * T) / w / w / w / w
    return _to_agents(c, first + floor + 8 * c.C_2 / (c.N * T) / w / w + cubic + quartic)
