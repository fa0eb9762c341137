"""What methods cost beside FedSARSA: ratios per agent-step, in the published setting, measured in one run."""

from functools import partial
from typing import Any

import fedsarsa as fs
from fedsarsa_benchmarks.measuring import Result, at_most, per_step

FEATURES, POLICY = fs.ModuloFeatures(5, 5), fs.FixedPolicy()
m = fs.methods


def cases(every: int) -> dict[str, Any]:
    """Methods that sample a chain, with K = ``every`` where they have rounds."""
    settings: dict[str, Any] = {"sync_every": every}
    td: dict[str, Any] = {"features": FEATURES, "policy": POLICY, "step_size": 0.01}
    return {
        "FedTD, server step 0.5": m.FedTD(server_step=0.5, **td, **settings),
        "NStepTD, n = 3": m.NStepTD(n=3, **td, **settings),
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


def measure(quick: bool = False) -> list[Result]:
    """Every method's cost divided by FedSARSA's with the same K."""
    steps, runs = 5_000 if quick else 50_000, 10
    fleet = fs.paper.fleet(20, 0.5, 0.5)

    def cost(method: Any) -> float:
        def train(length: int, one: Any) -> object:
            return one.train(fleet, length, runs, threads=1, record_every=length)

        return per_step(partial(train, one=method), steps, runs * len(fleet), repeats=3)

    results = []
    for every in (10, 100):
        ours = cost(fs.FedSARSA(sync_every=every))
        results.append(Result(f"FedSARSA, K = {every}, one thread", f"{ours * 1e9:,.1f} ns per agent-step"))
        results += [
            at_most(f"{name} / FedSARSA, K = {every}", cost(method) / ours, "x", 2)
            for name, method in cases(every).items()
        ]
    ours = cost(fs.FedSARSA(sync_every=1))
    td: Any = (FEATURES, POLICY, 0.01)
    for name, method in {"PFLSA": m.PFLSA(*td), "ConsensusTD": m.ConsensusTD(*td)}.items():
        results.append(at_most(f"{name} / FedSARSA, K = 1", cost(method) / ours, "x", 2))
    return results
