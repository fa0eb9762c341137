"""Fleets whose physics differ by 20% learn, and federating helps: the examples in short."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedsarsa.experiments import config

EXAMPLES = Path(__file__).parents[2] / "examples"


def late_return(history):
    """Mean return of the episodes in the last tenth of the training."""
    late = history.data.isel(bin=slice(-20, None)).sum()
    return float(late["returns"] / late["episodes"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "goal", "gain"),
    [("mountain-car", 8_000, -150, 2.0), ("cart-pole", 40_000, 400, 50.0), ("acrobot", 20_000, -120, 2.0)],
)
def test_the_examples_reach_their_goals_and_sooner_than_alone(name, steps, goal, gain):
    settings = config.load(EXAMPLES / f"{name}.toml")
    fleet, algo = settings.fleet.build(EXAMPLES), settings.algorithm.build()
    together = late_return(algo.train(fleet, steps, runs=8, record_every=100))
    alone = late_return(replace(algo, sync_every=None).train(fleet, steps, runs=8))
    assert together >= goal
    assert together >= alone + gain
