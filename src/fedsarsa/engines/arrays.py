"""The arrays that compiled rounds work on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning.finite_tables import Tables

BLOCK = 32  # lanes that take a phase together
AHEAD = 16  # steps whose random words are drawn at once


class RoundSettings(NamedTuple):
    """What does not change while training.

    ``world`` and ``schedule`` (N,) say which world and step size are agent i's; ``radius`` is infinite
    without projection; ``offset`` is the a of theta-tilde's weights a + t, negative without it. Agents begin
    a round with the central parameter if it is ``common``, else each with its own in ``theta``. ``cached``
    chooses the cached way of ``finite_step``; ``redraws`` draws executed actions anew.
    """

    world: NDArray[np.uint32]
    schedule: NDArray[np.uint32]
    weights: Floats
    radius: float
    offset: float
    seed: int
    common: bool
    cached: bool
    redraws: bool


class RunView(NamedTuple):
    """The runs that one thread trains, and the room it works in.

    ``first_run`` and ``first_agent`` are the numbers of its first run and agent where random streams count.
    ``theta`` and ``progress`` are (R N d,) flat, ``states`` and ``actions`` (R N,); ``progress`` gathers
    the updates of a round, each times the weight that theta-tilde gives to the rest of the round (empty
    without theta-tilde). ``masses`` (R, cells) and ``base`` (R,) cache the central parameter's softmax:
    exp((theta - base) / temperature), row by row, empty where nothing is cached. ``takes_part`` (R N,) says
    whose agents take steps, where lanes are not listed.
    """

    first_run: int
    first_agent: int
    theta: Floats
    states: NDArray[np.uint32]
    actions: NDArray[np.uint32]
    central: Floats
    weighted_sum: Floats
    progress: Floats
    failed_at: NDArray[np.int64]
    masses: Floats
    base: Floats
    takes_part: NDArray[np.bool]


class Span(NamedTuple):
    """The steps that one call takes: ``rounds`` whole rounds of ``steps`` each, or ``steps`` of one round.

    ``begun`` is when the first of these rounds began, ``left`` how many steps of the last one remain after
    the span; ``ends`` says whether none do, ``synchronises`` whether the server then acts.
    """

    t: int
    steps: int
    rounds: int
    begun: int
    left: int
    ends: bool
    synchronises: bool


class Lanes(NamedTuple):
    """The agents still learning: lane l is agent ``agent[l]`` of run ``run[l]`` (counted in the view)."""

    run: NDArray[np.uint64]
    agent: NDArray[np.uint64]


class Workspace(NamedTuple):
    """Working space of one call: what lanes hold, what a block works with, and failures that it sees.

    Arrays are (lanes,) unless said otherwise. A lane is an agent of a run, whose pair and parameters are at
    ``place`` and ``origin`` in the view. Its world's tables begin at ``kernel`` and ``rewards`` (see
    `WorldTables`); those of the pair it holds, ``states`` and ``actions``, at ``row`` and ``reward``, and
    what is drawn is turned by ``turn``. ``here`` is the parameter of the pair, ``value`` what it says, and
    ``cell`` its mass in the block's cache; ``changed`` is the mass that the last update has changed. The
    same names with ``next`` and ``ahead`` are those of the next pair.

    ``columns``, ``fractions`` and ``uniforms`` (AHEAD BLOCK,) are a block's random numbers as they are used:
    split for the alias tables, and as floats for the policy. ``masses`` (BLOCK cells,) are its softmax masses
    per action and ``counts`` (8,) the sizes of the first eight classes, with zeros.
    """

    place: NDArray[np.uint64]
    origin: NDArray[np.uint64]
    kernel: NDArray[np.uint64]
    action_size: NDArray[np.uint64]
    turns: NDArray[np.uint64]
    rewards: NDArray[np.uint64]
    schedule: NDArray[np.uint64]
    states: NDArray[np.uint64]
    actions: NDArray[np.uint64]
    row: NDArray[np.uint64]
    turn: NDArray[np.uint64]
    reward: NDArray[np.uint64]
    here: NDArray[np.uint64]
    cell: NDArray[np.uint64]
    changed: NDArray[np.uint64]
    next_states: NDArray[np.uint64]
    next_actions: NDArray[np.uint64]
    ahead: NDArray[np.uint64]
    next_cell: NDArray[np.uint64]
    groups: NDArray[np.uint64]
    value: Floats
    base: Floats
    size: Floats
    totals: Floats
    beyond: Floats
    mass: Floats
    change: Floats
    updated: Floats
    exponentials: Floats
    columns: NDArray[np.uint64]
    fractions: NDArray[np.uint64]
    uniforms: Floats
    masses: Floats
    sums: Floats
    counts: Floats
    values: Floats
    weights: Floats
    spread: Floats
    failed_at: NDArray[np.int64]


def cells_of(tables: Tables) -> int:
    """How many places a lane's masses take: rows of at least eight, a vector."""
    return int(tables.dim // tables.width) * max(int(tables.width), 8)


def new_workspace(tables: Tables, view: RunView, lanes: int) -> Workspace:
    """Empty working space for a view with a number of lanes."""
    draws, width, dim = BLOCK * AHEAD, int(tables.width), int(tables.dim)
    wide = max(lanes, dim) + 7  # masses are weighed eight at a time, of lanes and of all parameters of one
    counts = np.zeros(8)
    counts[:width] = tables.choice.counts[:8]

    def integers(count: int = lanes) -> NDArray[np.uint64]:
        return np.zeros(count, np.uint64)

    return Workspace(
        place=integers(),
        origin=integers(),
        kernel=integers(),
        action_size=integers(),
        turns=integers(),
        rewards=integers(),
        schedule=integers(),
        states=integers(),
        actions=integers(),
        row=integers(),
        turn=integers(),
        reward=integers(),
        here=integers(),
        cell=integers(),
        changed=integers(),
        next_states=integers(),
        next_actions=integers(),
        ahead=integers(),
        next_cell=integers(),
        groups=integers(),
        value=np.zeros(lanes),
        base=np.zeros(wide),
        size=np.zeros(lanes),
        totals=np.zeros(lanes),
        beyond=np.zeros(lanes),
        mass=np.zeros(lanes),
        change=np.zeros(lanes),
        updated=np.zeros(wide),
        exponentials=np.zeros(wide),
        columns=integers(draws),
        fractions=integers(draws),
        uniforms=np.zeros(draws),
        masses=aligned(BLOCK * view.masses.shape[1]),
        sums=aligned(BLOCK * 8),
        counts=counts,
        values=np.zeros(width),
        weights=np.zeros(width),
        spread=np.zeros(dim),
        failed_at=np.full(len(view.failed_at), RUNNING, np.int64),
    )


def aligned(count: int) -> Floats:
    """Room for ``count`` floats that begins at a cache line: a vector of eight that crosses two is slow."""
    room = np.empty(count + 7)
    skipped = -room.ctypes.data % 64 // room.itemsize
    return room[skipped : skipped + count]
