"""The arrays that compiled rounds work on."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning.finite_tables import Tables

BLOCK = 16  # lanes that take a phase together
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


class Options(NamedTuple):
    """What goes beyond Algorithm ``alg``, and does not change while training.

    Kernels take None where there is nothing, and are then compiled without any of it.

    ``rule`` is the server rule's place among those that are compiled, -1 for others, and ``coefficients`` are
    its numbers; ``opens`` says whether a round begins with an exchange of first directions.
    Steps are ``plain``, or have options: ``target`` and ``leaves``, by the numbers of ``local_step``; whether
    they see ``all_pairs``; and over how many transitions they look ``ahead``, 0 without a window, weighted by
    ``ratios`` (P S A,) if there are any.
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
    next start, and for the sums (N,) of the agents' step sizes in a round.
    """

    theta: Floats
    left: Floats
    shift: Floats
    starts: Floats
    mean: Floats
    spread: Floats
    start: Floats
    step_sums: Floats


class RunView(NamedTuple):
    """The runs that one thread trains, and the room it works in.

    ``first_run`` and ``first_agent`` are the numbers of its first run and agent where random streams count.
    ``theta``, ``progress``, ``shift`` and ``left`` are (R N d,) flat, or empty, ``states`` and ``actions``
    (R N,); ``progress`` gathers the updates of a round, each times the weight that theta-tilde gives to the
    rest of the round (empty without theta-tilde). ``masses`` (R, d) and ``base`` (R,) cache the central
    parameter's softmax (see ``finite_step``; empty where nothing is cached). ``takes_part`` (R N,) says whose
    agents take steps, where lanes are not listed.
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


class Lanes(NamedTuple):
    """The agents still learning: lane l is agent ``agent[l]`` of run ``run[l]`` (counted in the view).

    ``stream`` is the number of its random stream.
    """

    run: NDArray[np.uint64]
    agent: NDArray[np.uint64]
    stream: NDArray[np.uint64]


class Workspace(NamedTuple):
    """Working space of one call: a block's random numbers, next pairs and caches, and failures it sees.

    Random words are kept as they are used: split for the alias tables, and as floats for the policy. Lane h
    of the block is at ``place[h]`` in the view, its parameters begin at ``origin[h]``, and the fixed policy
    by which it acts, if any, at ``acting[h]`` in ``tables.cumulative``. ``best`` is for steps of all pairs,
    windows are for those that look ahead.
    """

    columns: NDArray[np.uint64]
    fractions: NDArray[np.uint64]
    uniforms: Floats
    place: NDArray[np.uint64]
    origin: NDArray[np.uint64]
    acting: NDArray[np.uint64]
    world: NDArray[np.uint64]
    schedule: NDArray[np.uint64]
    states: NDArray[np.uint64]
    actions: NDArray[np.uint64]
    next_states: NDArray[np.uint64]
    next_actions: NDArray[np.uint64]
    masses: Floats
    base: Floats
    rows: NDArray[np.uint64]
    groups: NDArray[np.uint64]
    updated: Floats
    exponents: Floats
    exponentials: Floats
    bits: NDArray[np.uint64]
    power: Floats
    values: Floats
    weights: Floats
    best: Floats
    window_states: NDArray[np.uint64]
    window_actions: NDArray[np.uint64]
    window_rewards: Floats
    failed_at: NDArray[np.int64]


def new_workspace(tables: Tables, options: Options | None, view: RunView) -> Workspace:
    """Empty working space for a view."""
    draws = BLOCK * AHEAD
    wide = max(BLOCK * int(tables.width), int(tables.dim))
    window = 0 if options is None else (options.ahead + 1) * BLOCK
    bits = np.zeros(wide, np.uint64)
    return Workspace(
        columns=np.empty(draws, np.uint64),
        fractions=np.empty(draws, np.uint64),
        uniforms=np.empty(draws),
        place=np.empty(BLOCK, np.uint64),
        origin=np.empty(BLOCK, np.uint64),
        acting=np.zeros(BLOCK, np.uint64),
        world=np.empty(BLOCK, np.uint64),
        schedule=np.empty(BLOCK, np.uint64),
        states=np.empty(BLOCK, np.uint64),
        actions=np.empty(BLOCK, np.uint64),
        next_states=np.empty(BLOCK, np.uint64),
        next_actions=np.empty(BLOCK, np.uint64),
        masses=np.empty(BLOCK * view.masses.shape[1]),
        base=np.zeros(BLOCK),
        rows=np.empty(BLOCK, np.uint64),
        groups=np.empty(BLOCK, np.uint64),
        updated=np.zeros(BLOCK),
        exponents=np.zeros(wide),
        exponentials=np.empty(wide),
        bits=bits,
        power=bits.view(np.float64),
        values=np.empty(int(tables.width)),
        weights=np.empty(int(tables.width)),
        best=np.empty(int(tables.worlds.states) if options is not None and options.all_pairs else 0),
        window_states=np.empty(window, np.uint64),
        window_actions=np.empty(window, np.uint64),
        window_rewards=np.empty(window),
        failed_at=np.full(len(view.failed_at), RUNNING, np.int64),
    )
