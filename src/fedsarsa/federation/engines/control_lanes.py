"""Compiled rounds of FedSARSA in control and finite worlds, with every option of the step.

Agents take a step side by side, lane after lane: while one waits for its cosine or for memory, the
processor works on the next. What a lane computes does not depend on the lanes beside it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, kernel, piece
from fedsarsa.federation.engines import server
from fedsarsa.federation.engines.layout import Plan, Stretch, Team
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning import episodic, random, sarsa
from fedsarsa.learning.boxes import Integers
from fedsarsa.learning.episodic_layout import Desk, Flock, Model
from fedsarsa.learning.tables import Tables
from fedsarsa.worlds import alias
from fedsarsa.worlds.control import dynamics

FINITE = -1  # the kind of worlds that move by ``tables``


class Control(NamedTuple):
    """The worlds: their kind, every agent's physics (N, PHYSICS) and time limit (N,), steps and bins.

    Finite worlds are in ``tables``; agent i's is ``world[i]``.
    """

    kind: int
    physics: Floats
    limits: Integers
    steps: int
    bins: int
    tables: Tables
    world: NDArray[np.uint64]


class Herd(NamedTuple):
    """Lanes of some runs: their agents learn ``theta`` (L, d), and hold ``flock`` and a state.

    That is ``physical`` (L, STATE) in control worlds, and ``states`` (L,) in finite ones.
    """

    flock: Flock
    states: NDArray[np.uint32]
    physical: Floats
    theta: Floats
    progress: Floats


class Bench(NamedTuple):
    """Working space of one thread, and the failures it sees (runs,)."""

    desk: Desk
    spread: Floats
    failed_at: Integers


@piece
def first_state(
    control: Control, herd: Herd, lane: int, who: int, seed: int, run: int, agent: int, t: int
) -> None:
    """The state that begins an episode of agent ``who`` after step ``t``, and what is seen of it."""
    if control.kind == FINITE:
        word, _ = random.words(seed, run, agent, t)
        herd.states[lane] = sarsa.first_state(control.tables, control.world[who], word)
        herd.flock.seen[lane, 0] = herd.states[lane]
        return
    p = control.physics[who]
    one, two = random.words(seed, run, agent, random.purpose(t, U64(random.FIRST_STATE)))
    three, four = random.words(seed, run, agent, random.purpose(t, U64(random.FIRST_STATE_MORE)))
    x = herd.physical[lane]
    dynamics.reset(
        control.kind,
        p,
        x,
        random.uniform(one),
        random.uniform(two),
        random.uniform(three),
        random.uniform(four),
    )
    dynamics.observe(control.kind, p, x, herd.flock.seen[lane])


@piece
def move(control: Control, herd: Herd, lane: int, who: int, word: int) -> tuple[float, bool]:
    """Take the action that agent ``who`` holds; the reward, and whether the episode was terminated."""
    seen = herd.flock.seen[lane]
    if control.kind == FINITE:
        tables, world = control.tables, control.world[who]
        s, a = U64(herd.states[lane]), U64(herd.flock.actions[lane])
        column, fraction = alias.split(word, tables.states)
        s_next = sarsa.next_state(tables, world, s, a, column, fraction)
        herd.states[lane] = s_next
        seen[0] = np.float64(np.int64(s_next))
        return sarsa.reward_of(tables, world, s, a, s_next), False
    p, x = control.physics[who], herd.physical[lane]
    reward, terminated = dynamics.step(control.kind, p, x, herd.flock.numbers[lane], random.uniform(word))
    dynamics.observe(control.kind, p, x, seen)
    return reward, terminated


@kernel
def start(control: Control, model: Model, plan: Plan, first_agent: int, herd: Herd, bench: Bench) -> None:
    """Begin the first episode of every lane."""
    agents = len(plan.weights)
    t = U64(random.START)
    for lane in range(len(herd.theta)):
        who = lane % agents
        run, agent = U64(lane // agents), first_agent + U64(who)
        first_state(control, herd, lane, who, plan.seed, run, agent, t)
        episodic.begin(model, herd.flock, lane, herd.theta[lane], plan.seed, run, agent, who, t, bench.desk)


@kernel
def local_steps(
    control: Control,
    model: Model,
    plan: Plan,
    team: Team,
    herd: Herd,
    low: int,
    high: int,
    step_sizes: Floats,
    stretch: Stretch,
    k: int,
    bench: Bench,
) -> None:
    """The local steps of a stretch's k-th round for lanes ``low`` to ``high``."""
    agents = len(plan.weights)
    column = k * stretch.steps
    t = stretch.t + column
    if k > 0:  # later rounds begin with the central parameters
        for lane in range(low, high):
            average, own = team.central[lane // agents], herd.theta[lane]
            for j in range(len(own)):
                own[j] = average[j]
    for step in range(stretch.steps):
        # What theta-tilde gives to the steps of this round after this one: a + t each.
        remaining = stretch.steps - 1 - step + stretch.left
        rest = remaining * (plan.offset + t + step + 0.5 * (remaining + 1))
        run, agent = low // agents, low % agents - 1
        for lane in range(low, high):
            agent += 1
            if agent == agents:
                run, agent = run + 1, 0
            if team.failed_at[run] != RUNNING:
                continue
            size = step_sizes[plan.schedule[agent], column + step]
            if not one_step(control, model, plan, team, herd, lane, run, agent, t + step, size, rest, bench):
                server.fail(run, t + step, bench.failed_at)


@piece
def one_step(
    control: Control,
    model: Model,
    plan: Plan,
    team: Team,
    herd: Herd,
    lane: int,
    team_run: int,
    team_agent: int,
    t: int,
    step_size: float,
    rest: float,
    bench: Bench,
) -> bool:
    """One step of one lane; whether its parameters stay finite."""
    flock, theta, progress = herd.flock, herd.theta[lane], herd.progress[lane]
    run, agent, now = team.first_run + U64(team_run), team.first_agent + U64(team_agent), U64(t)
    one, two = random.words(plan.seed, run, agent, now)
    if model.redraws:
        episodic.redraw(model, flock, lane, theta, plan.seed, run, agent, team_agent, now, bench.desk)
    reward, terminated = move(control, herd, lane, team_agent, one)
    flock.elapsed[lane] += 1
    flock.gain[lane] += reward
    finite = episodic.go_on(
        model,
        flock,
        lane,
        theta,
        reward,
        terminated,
        step_size,
        rest,
        progress,
        plan.seed,
        run,
        agent,
        team_agent,
        now,
        two,
        bench.desk,
    )
    if terminated or flock.elapsed[lane] >= control.limits[team_agent]:
        episodic.end_episode(flock, lane, t * control.bins // control.steps)
        first_state(control, herd, lane, team_agent, plan.seed, run, agent, now)
        episodic.begin(model, flock, lane, theta, plan.seed, run, agent, team_agent, now, bench.desk)
    return finite


@kernel
def train(
    control: Control,
    model: Model,
    plan: Plan,
    team: Team,
    herd: Herd,
    step_sizes: Floats,
    stretch: Stretch,
    bench: Bench,
    central: Floats,
    drift: Floats,
) -> None:
    """All steps of a stretch; ``central`` (R, m, d) and ``drift`` (R, m) record its synchronisations."""
    for k in range(stretch.rounds):
        local_steps(control, model, plan, team, herd, 0, len(herd.theta), step_sizes, stretch, k, bench)
        server.settle(plan, team, stretch, k, bench.failed_at, bench.spread, central, drift)
