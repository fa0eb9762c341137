"""The SARSA step of equation ``eq:g``, as compiled pieces for CPU and GPU kernels.

The reference engine says the same in plain NumPy and is the specification. Pieces take parameters as
one flat array and the place ``start`` where an agent's begin; integers are unsigned 64-bit.
"""

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, piece
from fedsarsa.learning import choice
from fedsarsa.learning.tables import Tables
from fedsarsa.worlds import alias


@piece
def first_state(tables: Tables, world: int, word: int) -> int:
    """s_0 from the world's initial distribution."""
    column, fraction = alias.split(word, tables.states)
    return alias.draw(tables.alias, tables.alias_start[world], column, fraction)


@piece
def next_state(tables: Tables, world: int, s: int, a: int, column: int, fraction: int) -> int:
    """s' ~ P_a(s, .) of ``world``, from a split random word."""
    row = tables.kernel_start[world] + a * tables.action_size[world] + s * tables.states
    turned = alias.draw(tables.alias, row, column, fraction) + tables.turns[world] * tables.rotation[a]
    beyond = turned - tables.states
    return beyond + (tables.states & (U64(0) - (beyond >> alias.SIGN)))  # no branch, as in alias.draw


@piece
def increment(
    tables: Tables,
    theta: Floats,
    start: int,
    world: int,
    s: int,
    a: int,
    s_next: int,
    a_next: int,
    step_size: float,
) -> float:
    """alpha (r + discount Q(s', a') - Q(s, a)): what the step adds along phi(s, a)."""
    reward = tables.reward[
        world * tables.reward_world
        + s * tables.reward_state
        + a * tables.reward_action
        + s_next * tables.reward_next
    ]
    next_value = choice.value(tables, theta, start, s_next, a_next)
    here = choice.value(tables, theta, start, s, a)
    return step_size * (reward + tables.discount * next_value - here)
