"""Claims that the paper proves, tested on simulations and exact quantities."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from fedsarsa.experiments.reproduction.claim import FAILS, HOLDS, OPEN, Claim, levels, power
from fedsarsa.experiments.reproduction.exact import Exact
from fedsarsa.experiments.reproduction.settings import SETTLED, Scale
from fedsarsa.experiments.statistics import floor, known, log_slope, ratio, slope, squared_distance

# A straight line on logarithmic axes: the rate on the second half of the way differs from that on the first
# by at most this share.
STRAIGHT = 0.25
# More error than this is a cost; less is called little.
LITTLE = 1.1
# Steps alone at which the head start of a federated parameter is looked at.
EARLY = 1000
# A limit counts as theta_* if it is nearer to it than this share of agent 1's own distance.
NEAR = 0.1


def perturbation(facts: Sequence[Exact]) -> Claim:
    """Theorem ``thm:fix-drift``: distances of fixed points against Lambda / w."""
    tightest = max(fact.apart / fact.bound for fact in facts if fact.bound > 0)
    unmet = next((fact.unmet for fact in facts if fact.unmet), "")
    return Claim(
        claim="Fixed points of agents differ by at most Lambda(eps_p, eps_r) / w",
        where="thm:fix-drift",
        quantity="largest distance / bound, over all levels (exact)",
        measured=known(tightest),
        verdict=HOLDS if tightest <= 1 else FAILS,
        detail=f"although its own condition is not met here ({unmet})" if unmet else "",
    )


def ball(sarsa: xr.Dataset, scale: Scale) -> Claim:
    """Corollary ``cor:err-con``: exponential convergence."""
    size = scale.sizes[-1]
    error = sarsa["error"].sel(eps_p=0.0, eps_r=0.0, agents=size)
    curve = error.mean("run")
    # The way down, from the start to where the noise begins to count.
    end = int(np.argmax((curve < 5 * float(floor(curve))).values)) + 1
    way = error.isel(t=slice(0, end))
    whole = slope(way["t"], way)
    first, second = (slope(part["t"], part) for part in (way[:, : end // 2], way[:, end // 2 :]))
    bent = abs(second.value / first.value - 1)
    return Claim(
        claim="With a constant step size the error falls exponentially to a ball",
        where="cor:err-con, fig:sarsa",
        quantity=f"rate per step, N = {size}, no heterogeneity",
        measured=-whole,
        verdict=HOLDS if whole.high < 0 and bent <= STRAIGHT else FAILS,
        detail=f"the rate on the second half of the way differs from that on the first by {bent:.0%}",
        figure="sarsa",
    )


def step_size(facts: Sequence[Exact]) -> Claim:
    """The step size that Corollary ``cor:err-con`` asks for."""
    excess = facts[0].step / facts[0].step_limit
    return Claim(
        claim="The error bound holds for step sizes up to w / (2120 (2K + 8 + ln(m / (rho w))))",
        where="cor:err-con",
        quantity="step size of the simulations / largest allowed one (exact)",
        measured=known(excess),
        verdict=HOLDS if excess <= 1 else OPEN,
        detail="" if excess <= 1 else "the simulations use a step size that the corollary does not cover",
    )


def radius(node: xr.Dataset, where: str, what: str, figure: str) -> Claim:
    """Without heterogeneity the error floor falls as 1/N."""
    error = node["error"].sel({axis: 0.0 for axis in ("eps_p", "eps_r") if axis in node["error"].dims})
    fitted = log_slope(error["agents"], floor(error))
    return Claim(
        claim=f"Without heterogeneity the radius of the ball shrinks as 1/N ({what})",
        where=where,
        quantity="slope of log error floor against log N",
        measured=fitted,
        verdict=power(fitted, -1.0),
        figure=figure,
    )


def near_optimal(sarsa: xr.Dataset, scale: Scale) -> Claim:
    """The ball's radius is of order eps: its square grows as eps squared."""
    size = scale.sizes[-1]
    floors = floor(sarsa["error"].sel(agents=size))
    noise = floors.sel(eps_p=0.0, eps_r=0.0)
    above = [level for level in scale.levels if level > 0]
    bias = xr.concat([floors.sel(eps_p=level, eps_r=level) - noise for level in above], "level")
    fitted = log_slope(above, bias)
    return Claim(
        claim="The parameter is near-optimal for every agent: within O(eps_p + eps_r)",
        where="thm, cor:err-con",
        quantity=f"slope of log (error floor less noise) against log level, N = {size}",
        measured=fitted,
        verdict=power(fitted, 2.0),
        detail="2 for a distance of order eps",
        figure="federating",
    )


def speedup(decay: xr.Dataset) -> Claim:
    """Corollary ``cor:err-dec``: the error of theta-tilde falls as 1/(NT)."""
    settled = decay["averaged"].where(decay["steps"] >= SETTLED, drop=True)
    points = settled.stack(point=("agents", "steps"))
    fitted = log_slope((points["agents"] * points["steps"]).values, points)
    return Claim(
        claim="With a decaying step size the error falls as 1/(NT): linear speedup",
        where="cor:err-dec",
        quantity=f"slope of log error of theta-tilde against log NT, T >= {SETTLED}",
        measured=fitted,
        verdict=power(fitted, -1.0),
        detail="before that the transient, of order 1/T^2 and the same for every N, is larger than the noise",
        figure="decay",
    )


def personalised(personal: xr.Dataset, scale: Scale) -> Claim:
    """From the federated parameter, an agent's own data lead it to its own fixed point."""
    error = personal["error"].mean("agent")
    early = ratio(error.sel(start="federated", steps=EARLY), error.sel(start="scratch", steps=EARLY))
    last = int(error["steps"][-1])
    gain = ratio(error.sel(start="federated", steps=last), error.sel(start="federated", steps=0))
    return Claim(
        claim="From the federated parameter an agent goes on alone to its own optimum, with a head start",
        where="after cor:err-dec",
        quantity=f"error after {EARLY} steps alone / the same from scratch, level 1, N = {scale.team}",
        measured=early,
        verdict=HOLDS if early.high < 1 and gain.high < 1 else FAILS,
        detail=f"after {last} steps alone the error is {gain} of the federated one; the head start is gone",
        figure="personalisation",
    )


def communication(period: xr.Dataset) -> Claim:
    """Local steps save communication without losing accuracy."""
    final = period["final_error"]
    longest = int(final["sync_every"][-1])
    ratios = {
        level: ratio(final.sel(eps_p=level, sync_every=longest), final.sel(eps_p=level, sync_every=1))
        for level in final["eps_p"].values.tolist()
    }
    worst = max(ratios.values(), key=lambda one: one.value)
    return Claim(
        claim="Local steps save communication at little cost: client drift is of higher order",
        where="alg, lem:drift",
        quantity=f"final error with K = {longest} / with K = 1, the largest of {levels(ratios)}",
        measured=worst,
        verdict=HOLDS if worst.low <= LITTLE else FAILS,
        detail=f"{1 - 1 / longest:.1%} of the messages saved; {LITTLE - 1:.0%} more error counts as little",
        figure="period",
    )


def central(sarsa: xr.Dataset, facts: Sequence[Exact], scale: Scale) -> Claim:
    """The algorithm tends to the central MDP's fixed point."""
    fact = facts[-1]
    final = sarsa["final"].sel(eps_p=fact.level, eps_r=fact.level, agents=scale.small_team)
    to_federated = squared_distance(final, fact.federated)
    shares = [
        float(np.linalg.norm(f.federated - f.central) / np.linalg.norm(f.own - f.central))
        for f in facts
        if f.level > 0
    ]
    return Claim(
        claim="The algorithm tends to theta_*, the optimum of the central MDP",
        where="thm, sec:cmdp",
        quantity=f"squared distance of the mean final parameter to theta_*, level {fact.level:g}, "
        f"N = {scale.small_team}",
        measured=squared_distance(final, fact.central),
        verdict=HOLDS if max(shares) < NEAR else FAILS,
        detail="nearly: its limit is the root of the averaged semi-gradients (squared distance "
        f"{to_federated}), which is away from theta_* by at most {max(shares):.1%} of agent 1's own distance",
    )
