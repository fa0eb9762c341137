"""Compile the kernels that tests need, before they start: ``python -m tests.kernels finite``, for one.

Tests that start together, here or in processes of their own, would each compile the same kernels. One
process compiles all kernels that share pieces, and each piece once.
"""

import gc
import sys
from dataclasses import replace

import fedsarsa as fs


def finite():
    """The fast path of finite worlds, with directions that are corrected and rounds without their server."""
    fleet = fs.paper.fleet(3, states=5, actions=5)
    fs.FedSARSA().train(fleet, 20, runs=1)
    fs.methods.ScaffoldSARSA().train(fleet, 20, runs=1)
    fs.FedSARSA(sync_every=5, server=fs.servers.Median()).train(fleet, 20, runs=1)


def general():
    """The one step, in control worlds, finite ones and Gymnasium environments, and rollouts."""
    carts = fs.control.fleet("CartPole", 2)
    algo = fs.FedSARSA(fs.TileCoding(2, 2, carts.bounds), fs.Softmax(1.0), 0.1, 5)
    history = algo.train(carts, 20, runs=1)
    replace(algo, trace_decay=0.5).train(carts, 20, runs=1)
    algo.train(fs.GymFleet([fs.GymWorld(world.to_gymnasium) for world in carts], processes=0), 20, runs=1)
    traces = fs.FedSARSA(sync_every=5, trace_decay=0.5, participation=0.5)
    traces.train(fs.paper.fleet(3, states=5, actions=5), 20, runs=1)
    fs.rollouts(carts, algo, history.final[0], 2)


if __name__ == "__main__":
    gc.disable()  # it looks again and again at what Numba makes, which is all in use
    {"finite": finite, "general": general}[sys.argv[1]]()
