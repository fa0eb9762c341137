"""The arrays that compiled rounds work on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import piece
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning.finite_tables import Tables

BLOCK = 32  # lanes that take a phase together
AHEAD = 16  # steps whose random words are drawn at once


class RoundSettings(NamedTuple):
    """What does not change while training.

    ``world`` and ``schedule`` (N,) say which world and step size are agent i's; ``radius`` is infinite
    without projection; ``offset`` is the a of theta-tilde's weights a + t, negative without it. Agents begin
    a round with the central parameter if it is ``common``, else each with its own in ``theta``. ``cached``
    chooses the cached way of ``finite_step``; ``redraws`` draws executed actions anew, ``independent`` all
    pairs.
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
    independent: bool


class Options(NamedTuple):
    """What goes beyond Algorithm ``alg``, and does not change while training.

    Kernels take None where there is nothing, and are then compiled without any of it.

    ``rule`` is the server rule's place among those that are compiled, -1 for others, and ``coefficients`` are
    its numbers; ``opens`` says whether a round begins with an exchange of first directions.
    Steps are ``plain``, or have options: ``target`` and ``leaves``, by the numbers of ``local_step``; whether
    they see ``all_pairs``; and over how many transitions they look ``ahead``, 0 without a window, weighted by
    ``ratios`` if there are any: a number per action, rows as those of ``cumulative`` in `Tables`.
    """

    rule: int
    coefficients: Floats
    opens: bool
    plain: bool
    target: int
    leaves: int
    all_pairs: bool
    ahead: int
    ratios: Floats


class ServerView(NamedTuple):
    """What the server reads and writes of the same runs: ``theta``, ``left`` and ``shift`` (R, N, d).

    ``starts`` are those of the round, (R, N, d) if they are personal, else (R, 1, d): the central ones. The
    others are room to work in: for the mean and the spread of the agents' parameters, (d,), for one run's
    next start, for the sums (N,) of the agents' step sizes in a round, and (3, d) for the rule.
    """

    theta: Floats
    left: Floats
    shift: Floats
    starts: Floats
    mean: Floats
    spread: Floats
    start: Floats
    step_sums: Floats
    room: Floats


class RunView(NamedTuple):
    """The runs that one thread trains, and the room it works in.

    ``first_run`` and ``first_agent`` are the numbers of its first run and agent where random streams count.
    ``theta``, ``progress``, ``shift`` and ``left`` are (R N d,) flat, or empty, ``states`` and ``actions``
    (R N,); ``progress`` gathers the updates of a round, each times the weight that theta-tilde gives to the
    rest of the round (empty without theta-tilde). ``masses`` (R, cells) and ``base`` (R,) cache the central
    parameter's softmax: exp((theta - base) / temperature), row by row, empty where nothing is cached.
    ``takes_part`` (R N,) says whose agents take steps, where lanes are not listed.
    """

    first_run: int
    first_agent: int
    theta: Floats
    states: NDArray[np.uint32]
    actions: NDArray[np.uint32]
    central: Floats
    weighted_sum: Floats
    progress: Floats
    shift: Floats
    left: Floats
    failed_at: NDArray[np.int64]
    masses: Floats
    base: Floats
    takes_part: NDArray[np.bool]
    server: ServerView


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


@piece
def later_weight(offset: float, t: int, remaining: int) -> float:
    """What theta-tilde gives to the ``remaining`` steps of a round after step ``t``: a + t' to step t'."""
    return remaining * (offset + t + 0.5 * (remaining + 1))


class Lanes(NamedTuple):
    """The agents still learning: lane l is agent ``agent[l]`` of run ``run[l]`` (counted in the view).

    ``stream`` is the number of its random stream.
    """

    run: NDArray[np.uint64]
    agent: NDArray[np.uint64]
    stream: NDArray[np.uint64]


class Workspace(NamedTuple):
    """Working space of one call: what lanes hold, what a block works with, and failures that it sees.

    Arrays are (lanes,) unless said otherwise. A lane is an agent of a run, whose pair and parameters are at
    ``place`` and ``origin`` in the view. Its world's tables begin at ``kernel`` and ``rewards`` (see
    `WorldTables`); those of the pair it holds, ``states`` and ``actions``, at ``row`` and ``reward``, and
    what is drawn is turned by ``turn``. ``here`` is the parameter of the pair, ``value`` what it says, and
    ``cell`` its mass in the block's cache; ``changed`` is the mass that the last update has changed. The
    same names with ``next`` and ``ahead`` are those of the next pair.
    A lane's parameters are ``behind`` by so many times its shift, and what theta-tilde gathers of them by
    ``owed`` times; ``large`` counts the numbers in the shift that must not wait. All three are empty without
    one. ``now`` is room for a row of parameters that are not behind.

    ``columns``, ``fractions`` and ``uniforms`` (AHEAD BLOCK,) are a block's random numbers as they are used:
    split for the alias tables, and as floats for the policy; with ``pair``, those of pairs drawn anew.
    ``masses`` (BLOCK cells,) are its softmax masses per action and ``counts`` (8,) the sizes of the first
    eight classes, with zeros.

    The fixed policy by which a lane acts, if any, begins at ``acting`` in ``tables.cumulative``. ``best`` is
    (S,), for steps of all pairs; windows are ((n + 1) lanes,), for those that look n transitions ahead.
    """

    place: NDArray[np.uint64]
    origin: NDArray[np.uint64]
    acting: NDArray[np.uint64]
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
    next_value: Floats
    base: Floats
    size: Floats
    totals: Floats
    beyond: Floats
    mass: Floats
    change: Floats
    updated: Floats
    behind: Floats
    owed: Floats
    large: NDArray[np.uint64]
    exponentials: Floats
    columns: NDArray[np.uint64]
    fractions: NDArray[np.uint64]
    uniforms: Floats
    pair_columns: NDArray[np.uint64]
    pair_fractions: NDArray[np.uint64]
    pair_uniforms: Floats
    masses: Floats
    sums: Floats
    counts: Floats
    values: Floats
    weights: Floats
    now: Floats
    best: Floats
    window_states: NDArray[np.uint64]
    window_actions: NDArray[np.uint64]
    window_rewards: Floats
    window_places: NDArray[np.uint64]
    window_ratios: Floats
    failed_at: NDArray[np.int64]


def cells_of(tables: Tables) -> int:
    """How many places a lane's masses take: rows of at least eight, a vector."""
    return int(tables.dim // tables.width) * max(int(tables.width), 8)


def new_workspace(tables: Tables, options: Options | None, view: RunView, lanes: int) -> Workspace:
    """Empty working space for a view with a number of lanes."""
    draws, width, dim = BLOCK * AHEAD, int(tables.width), int(tables.dim)
    # Masses are weighed eight at a time: of lanes, of all parameters of one, and of a row of every lane.
    wide = max(lanes, dim, BLOCK * width) + 7
    pairs = int(tables.worlds.states) if options is not None and options.all_pairs else 0
    window = 0 if options is None or options.ahead == 0 else (options.ahead + 1) * lanes
    weighed = 0 if options is None or options.ratios.size == 0 else window
    with_options = 0 if options is None else lanes
    shifted = lanes if view.shift.size > 0 else 0
    counts = np.zeros(8)
    counts[:width] = tables.choice.counts[:8]

    def integers(count: int = lanes) -> NDArray[np.uint64]:
        return np.zeros(count, np.uint64)

    return Workspace(
        place=integers(),
        origin=integers(),
        acting=integers(),
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
        next_value=np.zeros(with_options),
        base=np.zeros(wide),
        size=np.zeros(lanes),
        totals=np.zeros(lanes),
        beyond=np.zeros(lanes),
        mass=np.zeros(lanes),
        change=np.zeros(lanes),
        updated=np.zeros(wide),
        behind=np.zeros(shifted),
        owed=np.zeros(shifted),
        large=integers(shifted),
        exponentials=np.zeros(wide),
        columns=integers(draws),
        fractions=integers(draws),
        uniforms=np.zeros(draws),
        pair_columns=integers(draws),
        pair_fractions=integers(draws),
        pair_uniforms=np.zeros(draws),
        masses=aligned(BLOCK * view.masses.shape[1]),
        sums=aligned(BLOCK * 8),
        counts=counts,
        values=np.zeros(width),
        weights=np.zeros(width),
        now=np.zeros(width),
        best=np.zeros(pairs),
        window_states=integers(window),
        window_actions=integers(window),
        window_rewards=np.zeros(window),
        window_places=integers(window),
        window_ratios=np.zeros(weighed),
        failed_at=np.full(len(view.failed_at), RUNNING, np.int64),
    )


def aligned(count: int) -> Floats:
    """``count`` zeros that begin at a cache line: a vector of eight that crosses two is slow."""
    room = np.zeros(count + 7)
    skipped = -room.ctypes.data % 64 // room.itemsize
    return room[skipped : skipped + count]
