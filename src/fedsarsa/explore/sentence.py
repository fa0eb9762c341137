"""What one sees, in a few sentences made from the numbers."""

from collections.abc import Iterator

import numpy as np

from fedsarsa.algorithm import FedSARSA
from fedsarsa.explore.measurements import FALLING, RISING, UNKNOWN, Bars, Trained
from fedsarsa.explore.theory_answers import ByNumber, Predicted

MOSTLY = 0.5  # share of the floor from which on one part is called the cause


def sentences(
    trained: Trained,
    predicted: Predicted | None = None,
    gains: tuple[Bars, Bars] | None = None,
    by_number: ByNumber | None = None,
) -> str:
    """What training and theory say; ``gains`` are measured errors alone and together."""
    return " ".join(
        [
            *_error(trained, predicted),
            *([] if gains is None else _gains(*gains)),
            *([] if by_number is None else _numbers(by_number)),
        ]
    )


def _error(trained: Trained, predicted: Predicted | None) -> Iterator[str]:
    agents, steps = len(trained.fleet), f"{trained.steps:,}".replace(",", " ")
    failed = int((trained.history.failed_at >= 0).sum())
    if failed:
        runs = len(trained.history.failed_at)
        yield f"In {failed} of {runs} runs parameters stopped being finite: try a smaller step size."
    if trained.point is None and not isinstance(trained.algo, FedSARSA):
        yield f"{trained.algo.name} aims at no parameter: there is no error to measure."
        return
    if trained.point is None:
        yield "Agent 0 settles nowhere, or elsewhere than its fixed point: there is no error to measure."
        return
    last = trained.curves.isel(t=-1)
    if not np.isfinite(last["error"]):
        return
    who = "one agent" if agents == 1 else f"{agents} agents together"
    band = f"{float(last['low']):.3g} to {float(last['high']):.3g}"
    expected = "" if predicted is None else f"; theory predicted {float(predicted.mse[-1]):.3g}"
    yield (f"After {steps} steps the error of {who} is {float(last['error']):.3g} (95%: {band}){expected}.")
    yield from _end(trained, predicted)


def _end(trained: Trained, predicted: Predicted | None) -> Iterator[str]:
    """Where the error goes: on, or what its floor consists of."""
    if trained.trend in (FALLING, RISING):
        expected = "" if predicted is None else f": theory expects it to end at {predicted.floor:.3g}"
        yield f"It is still {trained.trend}{expected}."
        return
    if trained.trend == UNKNOWN:
        yield "These runs do not tell whether it has settled."
        return
    if not isinstance(trained.algo, FedSARSA) and trained.algo.knows == "worlds":
        return  # exact kernels: there is no noise, and nothing that smaller steps would change
    yield of_the_floor(**trained.floor())


def of_the_floor(bias: float, noise: float) -> str:
    """What most of the floor is."""
    share = bias / (bias + noise) if bias + noise > 0 else 0.0
    told = "More than 99%" if 0 < min(share, 1 - share) < 0.005 else f"{max(share, 1 - share):.0%}"
    if share >= MOSTLY:
        return f"{told} of the floor is bias, which smaller steps do not take away."
    return f"{told} of the floor is noise: smaller steps or more agents take it away."


def _gains(alone: Bars, together: Bars) -> Iterator[str]:
    agents = len(alone.mean)
    if agents == 1:
        return
    gain = together.high < alone.low
    lose = together.low > alone.high
    yield f"{int(gain.sum())} of {agents} agents come nearer to their own fixed points by federating"
    rest = agents - int(gain.sum()) - int(lose.sum())
    yield f"and {int(lose.sum())} get further away" + (
        f"; for {rest} the intervals overlap." if rest else "."
    )


def _numbers(by_number: ByNumber) -> Iterator[str]:
    alone, *others = by_number.error
    counts = by_number.agents[1:]
    if not others:
        return
    better = [n for n, error in zip(counts, others, strict=True) if error < alone]
    worse = [n for n in counts if n not in better]
    best = by_number.agents[int(np.argmin(by_number.error))]
    if not better:
        yield f"Agent 0 does best alone: by theory, {counts[0]} agents already pull it away."
    elif not worse:
        where = "most with all of them" if best == counts[-1] else f"most with {best} agents"
        yield f"By theory agent 0 gains by federating with any number of agents up to {counts[-1]}, {where}."
    elif better[-1] < worse[0]:
        yield f"By theory agent 0 gains by federating up to N = {better[-1]}; then the others pull it away."
    else:
        where = f"N = {_listed(better)}, not with N = {_listed(worse)}"
        yield f"By theory agent 0 gains by federating with {where}."


def _listed(numbers: list[int]) -> str:
    """Numbers as a sentence lists them."""
    *before, last = map(str, numbers)
    return f"{', '.join(before)} or {last}" if before else last
