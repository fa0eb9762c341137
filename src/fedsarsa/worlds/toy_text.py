"""Environments with tables of their own (FrozenLake, CliffWalking, Taxi) as finite MDPs."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fedsarsa import _checks
from fedsarsa.worlds.finite import FiniteMDP

if TYPE_CHECKING:
    from fedsarsa.worlds.gym import GymWorld

RESTART, ABSORBING = "restart", "absorbing"


def finite(world: "GymWorld", discount: float, ends: str) -> FiniteMDP:
    """The MDP in the table ``env.unwrapped.P[s][a] = [(probability, s', reward, terminated), ...]``.

    Finite worlds have no episodes, so what follows a termination must be said:

    - ``restart``: the next episode's first state. States that only end an episode (holes, goals), or that no
      move leads to (the cliff), are then left for ever; where a policy tries every action the others are one
      recurrent class, which the theory covers. Values count later episodes too, discounted.
    - ``absorbing``: the terminal state for ever, at reward 0. Values are those of an episode, but an agent
      that arrives there learns no more.

    Where one pair of states has several rewards, the world has their mean.
    """
    _checks.choice("ends", ends, (RESTART, ABSORBING))
    with world.opened() as env:
        inner: Any = env.unwrapped
        table, start = getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
        if table is None or start is None:
            raise ValueError(
                f"{world.label}: expected an environment with tables P and initial_state_distrib "
                "(FrozenLake, CliffWalking, Taxi), got one without"
            )
        if getattr(inner, "fickle_passenger", False):
            raise ValueError(
                f"{world.label}: expected an environment that is its tables, got fickle_passenger=True: "
                "that passengers change their mind is not in Taxi's tables"
            )
        states, actions = len(table), len(table[0])
        initial = np.asarray(start, dtype=float) / np.sum(start)
    transition, gained = np.zeros((actions, states, states)), np.zeros((states, actions, states))
    terminal = {s for rows in table.values() for row in rows.values() for _, s, _, over in row if over}
    for s in range(states):
        for a in range(actions):
            if s in terminal and ends == ABSORBING:
                transition[a, s, s] = 1.0
                continue
            for chance, s_next, reward, over in table[s][a]:
                onward = initial if over and ends == RESTART else np.eye(states)[s_next]
                transition[a, s] += chance * onward
                gained[s, a] += chance * reward * onward
    chances = transition.transpose(1, 0, 2)
    reward = np.divide(gained, chances, out=np.zeros_like(gained), where=chances > 0)
    return FiniteMDP(transition, reward, discount, initial)
