"""Random fleets beyond the published setting: worlds, features, temperatures and schedules of all kinds."""

from dataclasses import dataclass

import numpy as np

import fedsarsa as fs

# Agent-steps that the trainings of one fleet may take, and steps per agent in units of 1 / step size.
WORK = 3e8
LONG = 400


@dataclass(frozen=True)
class Case:
    """A fleet, its learner, and how long it trains."""

    seed: int
    fleet: fs.Fleet
    algo: fs.FedSARSA
    steps: int
    description: str


def random_case(seed: int, runs: int) -> Case:
    """One of the random fleets; ``runs`` trainings of it take at most ``WORK`` agent-steps."""
    rng = np.random.default_rng([2026, seed])
    states, actions = int(rng.integers(4, 13)), int(rng.integers(2, 6))
    agents, discount = int(rng.integers(1, 11)), float(rng.uniform(0.5, 0.95))
    apart = float(rng.choice([0.0, 0.1, 0.3, 1.0]))
    spread = float(rng.choice([0.3, 1.0, 3.0]))
    kernels = rng.dirichlet(np.full(states, spread), size=(agents + 1, actions, states))
    rewards = rng.uniform(-1, 1, size=(agents + 1, states, actions))
    fleet = fs.Fleet(
        fs.FiniteMDP(
            (1 - apart) * kernels[0] + apart * kernels[i + 1],
            (1 - apart) * rewards[0] + apart * rewards[i + 1],
            discount,
        )
        for i in range(agents)
    )
    kind = str(rng.choice(["one-hot", "modulo", "dense"]))
    features: fs.OneHot | fs.ModuloFeatures | fs.TabularFeatures
    if kind == "one-hot":
        features = fs.OneHot()
    elif kind == "modulo":
        features = fs.ModuloFeatures(int(rng.integers(2, states)), int(rng.integers(2, actions + 1)))
    else:
        table = rng.normal(size=(states, actions, int(rng.integers(2, 9))))
        features = fs.TabularFeatures(table, normalise=True)
    # Q-values of the uniform policy span 2 to 10 temperatures.
    theta = fs.theory.federated_point(fleet, features, fs.FixedPolicy("uniform"))
    values = features.on(states, actions).values(theta)
    temperature = float(np.ptp(values)) / float(rng.uniform(2, 10))
    step = float(np.exp(rng.uniform(np.log(0.005), np.log(0.1))))
    period = int(np.exp(rng.uniform(0, np.log(200))))
    step_size: float | list[float] | fs.PiecewiseDecay | fs.LinearDecay = step
    schedule = str(rng.choice(["constant"] * 6 + ["per agent", "piecewise", "linear"]))
    steps = int(min(LONG / step, WORK / runs / agents)) // period * period
    if schedule == "per agent":
        step_size = [float(step * factor) for factor in rng.uniform(0.5, 1.0, agents)]
    elif schedule == "piecewise":
        step_size = fs.PiecewiseDecay([step, step / 4], [steps // 2])
    elif schedule == "linear":
        step_size = fs.LinearDecay(step, 4 / step**2)  # starts at 4 / (w a) = step
    weights = rng.dirichlet(np.full(agents, 3.0)).tolist() if rng.random() < 0.2 else None
    radius = float(np.linalg.norm(theta) * rng.uniform(0.8, 2.0)) if rng.random() < 0.15 else None
    algo = fs.FedSARSA(features, fs.Softmax(temperature), step_size, period, radius, weights)
    description = (
        f"S {states} A {actions} N {agents} discount {discount:.2f} apart {apart:g} rows {spread:g} "
        f"{kind} temperature {temperature:.3g} step {step:.3g} K {period} {schedule}"
        f"{' weights' if weights else ''}{f' radius {radius:.3g}' if radius else ''}"
    )
    return Case(seed, fleet, algo, steps, description)
