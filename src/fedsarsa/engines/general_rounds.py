"""Compiled rounds of FedSARSA in control and finite worlds, with every option of the step.

Agents take a step side by side, lane after lane: while one waits for its cosine or for memory, the
processor works on the next. What a lane computes does not depend on the lanes beside it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import I64, U64, kernel, piece
from fedsarsa.engines import compiled_server
from fedsarsa.engines.arrays import AHEAD, BLOCK, Options, RoundSettings, RunView, Span, later_weight
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning import finite_step, local_step, random
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.learning.finite_tables import WorldTables
from fedsarsa.learning.step_arrays import AgentState, Model, Moment, StepWorkspace
from fedsarsa.worlds import alias
from fedsarsa.worlds.control import dynamics

FINITE = -1  # the kind of worlds that move by ``tables``


class Worlds(NamedTuple):
    """The worlds: their kind, every agent's physics, a row each, and time limit (N,), steps and bins.

    Finite worlds are in ``tables``; agent i's is ``world[i]``.
    """

    kind: int
    physics: Floats
    limits: Integers
    steps: int
    bins: int
    tables: WorldTables
    world: NDArray[np.uint64]


class Learners(NamedTuple):
    """Lanes of some runs: their agents learn ``theta`` (L, d), and hold ``agent_state`` and a state.

    That is ``physical`` (L, STATE) in control worlds, and ``states`` (L,) in finite ones.
    """

    agent_state: AgentState
    states: NDArray[np.uint32]
    physical: Floats
    theta: Floats
    progress: Floats


class RoundWorkspace(NamedTuple):
    """Working space of one thread, and the failures it sees (runs,).

    Lanes of a block have random streams of ``runs`` and ``streams`` (BLOCK,). ``firsts`` and ``seconds``
    (AHEAD BLOCK,) are their two words of every step.
    """

    step: StepWorkspace
    runs: NDArray[np.uint64]
    streams: NDArray[np.uint64]
    firsts: NDArray[np.uint64]
    seconds: NDArray[np.uint64]
    failed_at: Integers


@piece
def first_state(worlds: Worlds, learners: Learners, moment: Moment) -> None:
    """The state that begins an episode after the step, and what is seen of it."""
    lane, who, t = moment.lane, moment.who, moment.t
    if worlds.kind == FINITE:
        word, _ = local_step.words(moment, t)
        learners.states[lane] = finite_step.first_state(worlds.tables, worlds.world[who], word)
        learners.agent_state.seen[lane, 0] = learners.states[lane]
        return
    p = worlds.physics[who]
    one, two = local_step.words(moment, random.purpose(t, U64(random.FIRST_STATE)))
    three, four = local_step.words(moment, random.purpose(t, U64(random.FIRST_STATE_MORE)))
    x = learners.physical[lane]
    dynamics.reset(
        worlds.kind,
        p,
        x,
        random.uniform(one),
        random.uniform(two),
        random.uniform(three),
        random.uniform(four),
    )
    dynamics.observe(worlds.kind, p, x, learners.agent_state.seen[lane])


@piece
def move(worlds: Worlds, learners: Learners, lane: int, who: int, word: int) -> tuple[float, bool]:
    """Take the action that agent ``who`` holds; the reward, and whether the episode was terminated."""
    seen = learners.agent_state.seen[lane]
    if worlds.kind == FINITE:
        tables, world = worlds.tables, worlds.world[who]
        s, a = U64(learners.states[lane]), U64(learners.agent_state.actions[lane])
        column, fraction = alias.split(word, tables.states)
        s_next = finite_step.next_state(tables, world, s, a, column, fraction)
        learners.states[lane] = s_next
        seen[0] = np.float64(np.int64(s_next))
        return finite_step.reward_of(tables, world, s, a, s_next), False
    p, x = worlds.physics[who], learners.physical[lane]
    reward, terminated = dynamics.step(
        worlds.kind, p, x, learners.agent_state.numbers[lane], random.uniform(word)
    )
    dynamics.observe(worlds.kind, p, x, seen)
    return reward, terminated


@kernel
def start(
    worlds: Worlds,
    model: Model,
    settings: RoundSettings,
    first_agent: int,
    learners: Learners,
    workspace: RoundWorkspace,
) -> None:
    """Begin the first episode of every lane."""
    agents = len(settings.weights)
    for lane in range(len(learners.theta)):
        run, who = lane // agents, lane % agents
        agent = U64(0) if model.shared else first_agent + U64(who)
        moment = Moment(lane, who, settings.seed, U64(run), agent, U64(random.START))
        first_state(worlds, learners, moment)
        local_step.begin(model, learners.agent_state, learners.theta[lane], moment, workspace.step)


@kernel
def local_steps(
    worlds: Worlds,
    model: Model,
    settings: RoundSettings,
    view: RunView,
    learners: Learners,
    low: int,
    high: int,
    step_sizes: Floats,
    span: Span,
    k: int,
    workspace: RoundWorkspace,
) -> None:
    """The local steps of a span's k-th round for lanes ``low`` to ``high``."""
    agents = len(settings.weights)
    if k > 0 and settings.common:  # later rounds begin with the central parameters
        for lane in range(low, high):
            average, own = view.central[lane // agents], learners.theta[lane]
            for j in range(len(own)):
                own[j] = average[j]
    for first in range(low, high, BLOCK):
        last = min(first + BLOCK, high)
        for lane in range(first, last):
            run, agent = lane // agents, lane % agents
            workspace.runs[lane - first] = view.first_run + U64(run)
            workspace.streams[lane - first] = U64(0) if model.shared else view.first_agent + U64(agent)
        for ahead in range(0, span.steps, AHEAD):
            steps = min(AHEAD, span.steps - ahead)
            t = span.t + k * span.steps + ahead
            draw(
                settings.seed,
                workspace.runs,
                workspace.streams,
                U64(last - first),
                U64(t),
                U64(steps),
                workspace.firsts,
                workspace.seconds,
            )
            for step in range(steps):
                take_step(
                    worlds,
                    model,
                    settings,
                    view,
                    learners,
                    first,
                    last,
                    step_sizes,
                    span,
                    k,
                    ahead + step,
                    step * (last - first),
                    workspace,
                )


@piece
def take_step(
    worlds: Worlds,
    model: Model,
    settings: RoundSettings,
    view: RunView,
    learners: Learners,
    first: int,
    last: int,
    step_sizes: Floats,
    span: Span,
    k: int,
    step: int,
    at: int,
    workspace: RoundWorkspace,
) -> None:
    """A round's step of lanes ``first`` to ``last``, whose random words are those from ``at`` on."""
    agents, column = len(settings.weights), k * span.steps + step
    t = span.t + column
    time_bin = t * worlds.bins // worlds.steps
    rest = later_weight(settings.offset, t, span.steps - 1 - step + span.left)
    run, agent = first // agents, first % agents - 1
    for lane in range(first, last):
        agent += 1
        if agent == agents:
            run, agent = run + 1, 0
        if view.failed_at[run] != RUNNING or not view.takes_part[lane]:
            continue
        i = lane - first
        stream, word = workspace.streams[i], at + i
        moment = Moment(lane, agent, settings.seed, workspace.runs[i], stream, U64(t))
        if not one_step(
            worlds,
            model,
            learners,
            moment,
            workspace.firsts[word],
            workspace.seconds[word],
            time_bin,
            step_sizes[settings.schedule[agent], column],
            rest,
            workspace.step,
        ):
            compiled_server.fail(run, t, workspace.failed_at)


@kernel
def draw(
    seed: int,
    runs: NDArray[np.uint64],
    streams: NDArray[np.uint64],
    count: int,
    t: int,
    steps: int,
    firsts: NDArray[np.uint64],
    seconds: NDArray[np.uint64],
) -> None:
    """The random words of ``count`` lanes for ``steps`` steps from ``t`` on, step by step."""
    if count < steps:  # the longer loop is the inner one
        for i in range(count):
            for k in range(steps):
                at = k * count + i
                firsts[at], seconds[at] = random.words(seed, runs[i], streams[i], t + k)
        return
    for k in range(steps):
        for i in range(count):
            at = k * count + i
            firsts[at], seconds[at] = random.words(seed, runs[i], streams[i], t + k)


@piece
def one_step(
    worlds: Worlds,
    model: Model,
    learners: Learners,
    moment: Moment,
    one: int,
    two: int,
    time_bin: int,
    step_size: float,
    rest: float,
    workspace: StepWorkspace,
) -> bool:
    """One step of one lane by two random words; whether its parameters stay finite."""
    lane, who, agent_state = moment.lane, moment.who, learners.agent_state
    theta, progress = learners.theta[lane], learners.progress[lane]
    if model.redraws:
        local_step.redraw(model, agent_state, theta, moment, workspace)
    reward, terminated = move(worlds, learners, lane, who, one)
    local_step.note_reward(agent_state, lane, time_bin, reward)
    finite = local_step.go_on(
        model,
        agent_state,
        theta,
        reward,
        terminated,
        step_size,
        rest,
        progress,
        moment,
        two,
        workspace,
    )
    if terminated or agent_state.elapsed[lane] >= worlds.limits[who]:
        local_step.end_episode(agent_state, lane, time_bin)
        first_state(worlds, learners, moment)
        local_step.begin(model, agent_state, theta, moment, workspace)
    return finite


@kernel
def train(
    worlds: Worlds,
    model: Model,
    settings: RoundSettings,
    view: RunView,
    learners: Learners,
    options: Options | None,
    step_sizes: Floats,
    step_sums: Floats,
    span: Span,
    workspace: RoundWorkspace,
    central: Floats,
    drift: Floats,
) -> None:
    """All steps of a span; ``central`` (R, m, d) and ``drift`` (R, m) record its synchronisations."""
    first, last = I64(0), len(learners.theta)  # a literal 0 would be a type of its own, and compiled apart
    for k in range(span.rounds):
        local_steps(worlds, model, settings, view, learners, first, last, step_sizes, span, k, workspace)
        compiled_server.settle(
            settings, options, view, span, k, step_sums, workspace.failed_at, central, drift
        )
