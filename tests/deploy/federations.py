"""A small federation for tests, and what it must compute."""

import json
import time

import numpy as np

from fedsarsa import engines
from fedsarsa.deploy import wire
from fedsarsa.engines.reference import local_step
from fedsarsa.federation.servers.mean import average
from fedsarsa.federation.servers.projection import project
from fedsarsa.federation.state import first_state

CONFIG = """
[fleet]
agents = 3
states = 12
actions = 6
[algorithm]
features = { kind = "modulo", d1 = 3, d2 = 2 }
policy = { kind = "softmax", temperature = 1.0 }
step_size = [0.1, 0.2, 0.05]
sync_every = 7
weights = [0.2, 0.5, 0.3]
radius = 8.0
[training]
steps = 70
seed = 11
"""
KEYS = {101: 0, 102: 1, 103: 2}  # nodes, and whose keys they have


def request(settings, number, **changes):
    return {
        "federation": "one",
        "round": number,
        "terms": settings.terms,
        "until": time.monotonic() + 600,
        "counted": {str(agent): number - 1 for agent in range(settings.agents)},
    } | changes


def question(address, asked, theta, wait=20.0, work=15.0):
    """The agent's answer over its socket."""
    header, vector = wire.ask(address, json.dumps(asked).encode(), wire.packed(theta), wait, work)
    return json.loads(header), wire.unpacked(vector)


def reference(settings):
    history = settings.algorithm.train(
        settings.worlds, settings.training.steps, runs=1, seed=settings.training.seed, engine="reference"
    )
    return history.central[0].values


def with_participation(settings, rounds):
    """The central parameters of a federation in which only some agents take part in each round.

    ``rounds`` lists the agents of every round; written with the reference engine's own step.
    """
    problem = settings.algorithm.problem(settings.worlds, settings.training.steps, 1, settings.training.seed)
    weights = problem.weights
    theta = settings.theta0
    state, engine = first_state(problem, theta), engines.build("reference", problem, None)
    engine.start(state)
    central = [theta]
    for number, present in enumerate(rounds):
        for i in present:
            state.theta[0, i] = theta
            for t in range(number * settings.every, (number + 1) * settings.every):
                alpha = problem.schedules[problem.schedule_of[i]].at(np.array([t]))[0]
                local_step(problem, state, 0, i, t, alpha * problem.step_factor)
        share = weights[present] / weights[present].sum()
        theta = project(average(share, state.theta[0, present]), problem.radius)
        central.append(theta)
    return np.array(central)
