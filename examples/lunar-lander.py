"""Eight lunar landers, each under a gravity of its own, learn one policy: tile coding and traces.

Needs `pip install 'fedsarsa[gym,box2d]'`. Takes five to six minutes of one core.
"""

import sys

import numpy as np

import fedsarsa as fs

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000

# Where landers are most of the time: x, y, their speeds, the angle and its speed, two legs.
LOW = (-1.0, -0.3, -1.5, -1.8, -1.0, -2.0, 0.0, 0.0)
HIGH = (1.0, 1.6, 1.5, 0.6, 1.0, 2.0, 1.0, 1.0)

fleet = fs.GymFleet(
    [fs.GymWorld("LunarLander-v3", gravity=float(g)) for g in np.linspace(-7.0, -11.0, 8)], processes=0
)
algo = fs.FedSARSA(
    features=fs.TileCoding(tilings=8, bins=[3, 3, 3, 3, 3, 3, 1, 1], bounds=(LOW, HIGH)),
    policy=fs.EpsilonGreedy(0.01),
    step_size=fs.PiecewiseDecay([0.12, 0.05, 0.02], [200_000, 400_000]),
    trace_decay=0.9,
    traces="replacing",
    sync_every=200,
)


def report(name, theta):
    returns = fs.rollouts(fleet, algo, theta, episodes=10).mean_return
    by_agent = returns.values.round().tolist()
    print(f"{name}: greedy return {float(returns.mean()):.0f}, by agent {by_agent}", flush=True)
    return float(returns.mean())


def told(event):
    print(event.t, event.metrics.get("return"), flush=True)


before = report("untrained", np.zeros(algo.problem(fleet, 1, 1, 0).features.dim))
history = algo.train(fleet, steps=STEPS, runs=1, seed=0, record_every=125, callback=told)
after = report(f"after {STEPS} steps per agent", history.final[0])
print(f"gained {after - before:.0f}")
fs.Policy.of(fleet, algo, history.final[0], greedy=True).save("lunar-lander.npz")
