"""What methods cost beside FedSARSA: ratios per agent-step, in the published setting, measured in one run."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.federation.state import first_state
from fedsarsa_benchmarks.measuring import Result, at_most, seconds

FEATURES, POLICY = fs.ModuloFeatures(5, 5), fs.FixedPolicy()
STATES, OTHERS = fs.ModuloFeatures(5, 1), [fs.FixedPolicy(row) for row in np.eye(100)[:20] * 0.5 + 0.005]
EACH = [fs.FixedPolicy(pi) for pi in np.random.default_rng(0).dirichlet(np.ones(100), size=(20, 100))]
# What may cost more than twice as much: twenty tables of behaviours (100, 100), which no cache holds.
DEARER = {"NStepTD, n = 3, own behaviours by state": (10, 100)}
m = fs.methods


def cases(every: int) -> dict[str, Any]:
    """Methods that sample a chain, with K = ``every`` where they have rounds."""
    settings: dict[str, Any] = {"sync_every": every}
    td: dict[str, Any] = {"features": FEATURES, "policy": POLICY, "step_size": 0.01}
    return {
        "FedTD": m.FedTD(**td, **settings),
        "FedTD, server step 0.5": m.FedTD(server_step=0.5, **td, **settings),
        "FedTD, independent": m.FedTD(independent=True, **td, **settings),
        "NStepTD, n = 3": m.NStepTD(n=3, **td, **settings),
        "NStepTD, n = 10": m.NStepTD(n=10, **td, **settings),
        "NStepTD, n = 3, a behaviour": m.NStepTD(STATES, POLICY, 0.01, n=3, behaviour=POLICY, **settings),
        "NStepTD, n = 3, own behaviours": m.NStepTD(STATES, POLICY, 0.01, n=3, behaviour=OTHERS, **settings),
        "NStepTD, n = 3, own behaviours by state": m.NStepTD(
            STATES, POLICY, 0.01, n=3, behaviour=EACH, **settings
        ),
        "OneShotTD": m.OneShotTD(**td),
        "SCAFFLSA": m.SCAFFLSA(**td, **settings),
        "FedHSA": m.FedHSA(**td, **settings),
        "DisSACC": m.DisSACC(**td, **settings),
        "FedQ, equal": m.FedQ(POLICY, 0.1, features=FEATURES, **settings),
        "FedQ, importance": m.FedQ(POLICY, 0.1, averaging="importance", features=FEATURES, **settings),
        "ScaffoldSARSA": m.ScaffoldSARSA(FEATURES, fs.Softmax(100.0), 0.01, **settings),
        "SARSA, largest target": m.SARSA(FEATURES, fs.Softmax(100.0), 0.01, aim="max", **settings),
        "SARSA, expected target": m.SARSA(FEATURES, fs.Softmax(100.0), 0.01, aim="expected", **settings),
    }


def every_step() -> dict[str, Any]:
    """Methods whose agents exchange at every step."""
    td: dict[str, Any] = {"features": FEATURES, "policy": POLICY, "step_size": 0.01}
    return {
        "PFLSA": m.PFLSA(**td),
        "ConsensusTD, ring": m.ConsensusTD(**td),
        "ConsensusTD, ring, radius": m.ConsensusTD(radius=1.0, **td),
        "ConsensusTD, complete": m.ConsensusTD(graph="complete", **td),
    }


def costs(methods: dict[str, Any], repeats: int) -> dict[str, float]:
    """Seconds per agent-step of every method's rounds alone.

    Methods take turns, so that what else the machine does disturbs all alike: the least of ``repeats``
    timings of a span, less that of a shorter one.
    """
    fleet, runs, spans = fs.paper.fleet(20, 0.5, 0.5), 10, (100, 400)
    trainings = {}
    for name, method in methods.items():
        problem = method.problem(fleet, 10**6, runs, 0)
        state, engine = first_state(problem, np.zeros(problem.features.dim)), engines.build("cpu", problem, 1)
        engine.start(state)
        engine.advance(state, spans[0])
        trainings[name] = partial(engine.advance, state)
    least = {name: [math.inf, math.inf] for name in methods}
    for _ in range(repeats):
        for name, training in trainings.items():
            each = [seconds(partial(training, span), 1) for span in spans]
            least[name] = [min(pair) for pair in zip(least[name], each, strict=True)]
    steps = (spans[1] - spans[0]) * runs * len(fleet)
    return {name: (long - short) / steps for name, (short, long) in least.items()}


def limit(name: str, every: int) -> int:
    """How many times FedSARSA's cost a method may cost with K = ``every``."""
    return 4 if every in DEARER.get(name, ()) else 2


def measure(quick: bool = False) -> Iterator[Result]:
    """Every method's cost divided by FedSARSA's with the same K."""
    for every in (10, 100, 1):
        methods: dict[str, Any] = {"FedSARSA": fs.FedSARSA(sync_every=every)}
        methods |= cases(every)
        if every == 1:
            methods |= every_step()
        found = costs(methods, 6 if quick else 60)
        ours = found.pop("FedSARSA")
        yield Result(f"FedSARSA, K = {every}, one thread", f"{ours * 1e9:,.1f} ns per agent-step")
        yield from [
            at_most(f"{name} / FedSARSA, K = {every}", cost / ours, "x", limit(name, every))
            for name, cost in found.items()
        ]
