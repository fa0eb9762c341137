"""Compile the kernels that tests need, before they start: ``python -m tests.kernels finite``, for one.

Tests that start together, here or in processes of their own, would each compile the same kernels.
"""

import sys

import fedsarsa as fs


def finite():
    fs.FedSARSA().train(fs.paper.fleet(2, states=5, actions=5), 20, runs=1)


def options():
    """In finite worlds: directions that are corrected, rounds without their server, and traces."""
    fleet = fs.paper.fleet(3, states=5, actions=5)
    fs.methods.ScaffoldSARSA().train(fleet, 20, runs=1)
    fs.FedSARSA(sync_every=5, server=fs.servers.Median()).train(fleet, 20, runs=1)
    fs.FedSARSA(sync_every=5, trace_decay=0.5, participation=0.5).train(fleet, 20, runs=1)


def control():
    """The one step, in control worlds and in environments of Gymnasium, and rollouts."""
    carts = fs.control.fleet("CartPole", 2)
    algo = fs.FedSARSA(fs.TileCoding(2, 2, carts.bounds), fs.Softmax(1.0), 0.1, 5)
    history = algo.train(carts, 20, runs=1)
    algo.train(fs.GymFleet([fs.GymWorld(world.to_gymnasium) for world in carts], processes=0), 20, runs=1)
    fs.rollouts(carts, algo, history.final[0], 2)


if __name__ == "__main__":
    {"finite": finite, "options": options, "control": control}[sys.argv[1]]()
