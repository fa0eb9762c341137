"""What the paper's simulations do not show: every agent's error, personalisation, returns."""

import numpy as np
import xarray as xr

from fedsarsa import theory
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.statistics import floor_around
from fedsarsa.learning.policies import FixedPolicy, Greedy
from fedsarsa.learning.step_sizes import LinearDecay
from fedsarsa.worlds import paper
from fedsarsa.worlds.fleet import Fleet

# Steps that each agent goes on alone, and the step sizes then: from 0.01 on, decaying, so that an agent can
# come as near its own fixed point as its own data allow.
ALONE = (0, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
DECAY = LinearDecay(0.03, 13_000.0)


def every_agent(sarsa: xr.Dataset, reference: Floats, agents: int, seed: int) -> xr.DataArray:
    """Where the squared distance to every agent's own fixed point ends, (level, agent, run).

    Both heterogeneities are at ``level``; ``reference`` (d,) is what the errors of ``sarsa`` are measured to.
    """
    algo, levels = FedSARSA(), sarsa["eps_p"].values.tolist()
    found = []
    for level in levels:
        cell = sarsa.sel(eps_p=level, eps_r=level, agents=agents)
        own = [
            theory.fixed_point(world, algo.features, algo.policy)
            for world in paper.fleet(agents, level, level, seed).worlds
        ]
        each = [floor_around(cell, reference, point) for point in own]
        found.append(xr.concat(each * (agents if len(own) == 1 else 1), "agent"))
    return xr.concat(found, xr.DataArray(levels, dims="level", name="level"))


def personalisation(fleet: Fleet, start: Floats, seed: int) -> xr.DataArray:
    """Squared error of every agent to its own fixed point, (start, steps, run, agent).

    Each goes on alone, from the federated parameters ``start`` (run, d) or from scratch.
    """
    algo = FedSARSA(step_size=DECAY, sync_every=None)
    own = np.stack([theory.fixed_point(world, algo.features, algo.policy) for world in fleet])
    runs, dim = start.shape
    other = (seed + 2**32) % 2**64  # with the federation's random numbers, agents would walk its paths again
    errors = np.empty((2, len(ALONE), runs, len(fleet)))
    for row, origin in enumerate((start, np.zeros_like(start))):
        theta = np.broadcast_to(origin[:, None, :], (runs, len(fleet), dim))
        for column, steps in enumerate(ALONE):
            local = algo.train(fleet, steps, runs, other, theta0=theta).local.values if steps else theta
            errors[row, column] = ((local - own) ** 2).sum(axis=-1)
    return xr.DataArray(
        errors,
        dims=("start", "steps", "run", "agent"),
        coords={"start": ["federated", "scratch"], "steps": list(ALONE)},
    )


def returns(fleet: Fleet, theta: Floats) -> xr.DataArray:
    """Every agent's exact discounted return, (policy, agent), with a federated parameter (d,).

    ``federated`` is the softmax policy that was trained, ``greedy`` takes the best action by the same
    parameter; ``uniform`` and ``optimal``, the best any policy can do, are there to compare with.
    """
    policies = {"uniform": FixedPolicy("uniform"), "federated": FedSARSA().policy, "greedy": Greedy()}
    found = [theory.evaluate(fleet, FedSARSA(policy=policy), theta) for policy in policies.values()]
    rows = [one["discounted_return"].values for one in found]
    rows.append(found[0]["optimal_return"].values)
    names = [*policies, "optimal"]
    return xr.DataArray(np.array(rows), dims=("policy", "agent"), coords={"policy": names})
