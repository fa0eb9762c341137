"""The three control examples, ten seeds each, beside the same agents alone: returns and steps to the goal.

python examples/control-targets.py
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

import fedsarsa as fs
from fedsarsa.experiments import config

HERE = Path(__file__).parent
GOALS = {"mountain-car": -150, "cart-pole": 400, "acrobot": -120}

for name, goal in GOALS.items():
    settings = config.load(HERE / f"{name}.toml")
    fleet, together = settings.fleet.build(HERE), settings.algorithm.build()
    options = settings.training.model_dump()
    for label, algo in (("together", together), ("alone", replace(together, sync_every=None))):
        history = algo.train(fleet, **options)
        # An agent's mean return in bins of 2000 steps, then the mean over agents and seeds.
        curve = history.learning_curve(bins=100)
        mean = curve.mean(("run", "agent")).values
        above = np.flatnonzero((mean[1:] >= goal) & (mean[:-1] >= goal))
        reached = int(curve["t"][above[0]]) if len(above) else None
        late = curve.isel(t=slice(-10, None)).mean(("agent", "t")).values
        worth = [fs.rollouts(fleet, together, own, episodes=20).mean_return.mean() for own in history.local]
        print(
            f"{name:12} {label:9} goal {goal}: reached after {reached} steps per agent; last tenth "
            f"{late.mean():.1f} +- {1.96 * late.std(ddof=1) / len(late) ** 0.5:.1f} over {len(late)} seeds "
            f"({late.min():.0f} to {late.max():.0f}); greedy afterwards {np.mean(worth):.1f}",
            flush=True,
        )
