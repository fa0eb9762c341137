"""Small trainings and server rules that tests of several engines and rules share."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import fedsarsa as fs

AGENTS, K, STEPS, RUNS = 7, 7, 60, 2


def finite():
    return fs.paper.fleet(AGENTS, 0.5, 0.5, states=12, actions=6), fs.FedSARSA(
        fs.ModuloFeatures(3, 2), fs.Softmax(2.0), step_size=0.05, sync_every=7
    )


def carts():
    return fs.control.fleet("CartPole", AGENTS, spread=0.3, time_limit=15), fs.FedSARSA(
        fs.TileCoding(2, 3), fs.EpsilonGreedy(0.2), step_size=0.2, sync_every=7, trace_decay=0.5
    )


@dataclass(frozen=True)
class Between(fs.servers.Server):
    """Every agent moves by its own movement and the mean of all, and remembers where it has been."""

    own: float = 0.5
    personal: ClassVar[bool] = True

    def memory(self, runs, agents, dim):
        return {"rounds": np.zeros(runs, np.int64), "travelled": np.zeros((runs, agents, dim))}

    def combine(self, before, after, context):
        moved = after - before
        context.memory["rounds"] += 1
        context.memory["travelled"] += moved
        # What is remembered counts, so that an engine that forgets it is found out.
        back = (1 - self.own) * 0.01 * context.memory["travelled"] / context.memory["rounds"][:, None, None]
        return before + self.own * moved + (1 - self.own) * moved.mean(axis=1, keepdims=True) - back


@dataclass(frozen=True)
class Corrected(Between):
    """Directions are shifted towards the mean, as in SCAFFLSA, and visits change the start."""

    leaves: ClassVar[str] = "log-weights"
    shifts: ClassVar[bool] = True

    def combine(self, before, after, context):
        context.shift += 0.1 * (after.mean(axis=1, keepdims=True) - after) / context.step_sums[:, None]
        return super().combine(before, after, context) + 1e-3 * context.left


def assert_same(one, two):
    for name in ("central", "drift", "final", "local"):
        np.testing.assert_allclose(one.data[name], two.data[name], rtol=0, atol=1e-12, err_msg=name)
