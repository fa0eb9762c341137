"""The local step in every kind of world, as compiled pieces: look, choose, learn.

The reference engine says the same in plain Python and is the specification. An agent is a *lane*: row
``lane`` of the arrays in ``AgentState``. Parameters are rows too, ``theta`` (d,).
"""

import math
from typing import Any

from fedsarsa._checks import Floats
from fedsarsa._numba import I64, U64, piece, sized
from fedsarsa.learning import bases, choice, random
from fedsarsa.learning.continuous_features import INPUTS, Integers
from fedsarsa.learning.step_arrays import AgentState, Model, Moment, StepWorkspace
from fedsarsa.learning.targets import LEAVES, TARGETS

_, EXPECTED, MAX = range(len(TARGETS))  # what the step aims at, as kernels know it
_, DIRECTION, LOG_WEIGHTS, VISITS = range(len(LEAVES))  # what it leaves for the server


@piece
def words(moment: Moment, counter: int) -> tuple[int, int]:
    """Two 64-bit words of the lane's random stream."""
    return random.words(moment.seed, moment.run, moment.agent, counter)


def _scaling(count: int) -> Any:
    """A piece that scales ``count`` inputs."""

    @piece
    def scale(model: Model, inputs: Floats, unit: Floats) -> bool:
        inside = True
        for i in range(count or model.inputs):
            x = inputs[i]
            if model.raw:
                unit[i] = x
                continue
            within = model.low[i] <= x <= model.high[i]  # not so for what is not a number
            scaled = min((x - model.low[i]) * model.scale[i], 1.0)
            unit[i] = scaled if within else (1.0 if x > model.high[i] else 0.0)
            inside &= within
        return inside

    return scale


_scale = sized(_scaling, INPUTS)


@piece
def encode(model: Model, inputs: Floats, unit: Floats, index: Integers, value: Floats) -> bool:
    """The active basis functions at ``inputs``; whether any input was outside and clipped."""
    inside = _scale(model.inputs, model, inputs, unit)
    bases.encode(model.kind, model.basis, unit, index, value)
    return not inside


@piece
def look(model: Model, theta: Floats, seen: Floats, workspace: StepWorkspace) -> bool:
    """Values ``workspace.q`` of all candidates at an observation; whether it was outside and clipped."""
    if model.finite:
        look_up(model, theta, I64(seen[0]), workspace)
        return False
    actions, outside = len(workspace.numbers), False
    for row in range(actions if model.joint else 1):
        if model.joint:
            seen[model.inputs - 1] = workspace.numbers[row]
        outside |= encode(model, seen, workspace.unit, workspace.places[row], workspace.value[row])
    for c in range(actions):
        row, shift = (c, 0) if model.joint else (0, c)
        workspace.q[c] = summed(theta, workspace.places[row], workspace.value[row], model.stack, shift)
    return outside


def _sum_of(count: int) -> Any:
    """A piece that adds up ``count`` parameters."""

    @piece
    def summed(theta: Floats, places: Integers, value: Floats, stack: int, shift: int) -> float:
        total = 0.0
        for k in range(count or len(value)):
            total += value[k] * theta[U64(places[k] * stack + shift)]
        return total

    return summed


_summed = sized(_sum_of, (8,))


@piece
def summed(theta: Floats, places: Integers, value: Floats, stack: int, shift: int) -> float:
    """The sum of the parameters at ``places`` times ``stack`` plus ``shift``, each times its value."""
    return _summed(len(value), theta, places, value, stack, shift)


@piece
def look_up(model: Model, theta: Floats, s: int, workspace: StepWorkspace) -> None:
    """Values ``workspace.q`` of all actions in state ``s`` of a finite world."""
    actions = len(workspace.q)
    if model.dense.size == 0:
        at = I64(model.rows[s]) * model.width
        for c in range(actions):
            workspace.q[c] = theta[at + I64(model.columns[model.order[c]])]
        return
    for c in range(actions):
        workspace.q[c] = 0.0
    for j in range(len(theta)):
        for c in range(actions):
            workspace.q[c] += model.dense[s, j, model.order[c]] * theta[j]


@piece
def value_of(model: Model, theta: Floats, s: int, c: int) -> float:
    """The value of candidate ``c`` in state ``s`` of a finite world."""
    a = I64(model.order[c])
    if model.dense.size == 0:
        return theta[I64(model.rows[s]) * model.width + I64(model.columns[a])]
    total = 0.0
    for j in range(len(theta)):
        total += model.dense[s, j, a] * theta[j]
    return total


@piece
def largest(model: Model, theta: Floats, s: int) -> float:
    """The largest value in state ``s`` of a finite world; every column of an aggregation is some action's."""
    if model.dense.size == 0:
        at = I64(model.rows[s]) * model.width
        best = theta[at]
        for column in range(1, model.width):
            best = max(best, theta[at + column])
        return best
    best = value_of(model, theta, s, 0)
    for c in range(1, len(model.order)):
        best = max(best, value_of(model, theta, s, c))
    return best


@piece
def draw_fixed(model: Model, who: int, s: int, word: int) -> int:
    """The candidate that agent ``who`` draws in state ``s`` of a finite world, by a fixed policy.

    It is the one that ``choice.select`` finds, by halves: how many of the sums but the last are not beyond.
    """
    actions = len(model.order)
    policies = model.cumulative.size // (model.states * actions)
    at = ((who % policies) * model.states + s) * actions
    target = random.uniform(word) * model.cumulative[at + actions - 1]
    low, high = 0, actions - 1
    while low < high:
        middle = (low + high) >> 1
        if model.cumulative[at + middle] <= target:
            low = middle + 1
        else:
            high = middle
    return low


@piece
def draw_candidates(model: Model, moment: Moment, what: int, workspace: StepWorkspace) -> None:
    """Fresh candidate actions, two per counter."""
    width = model.action_high - model.action_low
    for c in range(0, len(workspace.numbers), 2):
        one, two = words(moment, random.purpose(moment.t, U64(what) + U64(c >> 1)))
        workspace.numbers[c] = model.action_low + width * random.uniform(one)
        if c + 1 < len(workspace.numbers):
            workspace.numbers[c + 1] = model.action_low + width * random.uniform(two)


@piece
def choose(
    model: Model,
    agent_state: AgentState,
    theta: Floats,
    moment: Moment,
    what: int,
    word: int,
    workspace: StepWorkspace,
) -> tuple[int, float]:
    """A candidate at the observation in ``agent_state.seen``, and the sum of the policy's masses.

    It is drawn by ``word``, from the policy at ``theta`` or at the agent's mixture, or from its behaviour.
    Fresh candidates are those of the step for ``what``.
    """
    lane, actions = moment.lane, len(workspace.q)
    seen = agent_state.seen[lane]
    if model.joint:
        draw_candidates(model, moment, what, workspace)
    mixes = agent_state.others.shape[1] > 0
    if mixes:
        look(model, agent_state.others[lane], seen, workspace)
        for c in range(actions):
            workspace.mixed[c] = workspace.q[c]
    agent_state.clipped[lane] += look(model, theta, seen, workspace)
    values = workspace.q
    if mixes:
        values = workspace.mixed
        for c in range(actions):
            values[c] += agent_state.own[lane] * workspace.q[c]
    s = I64(seen[0]) if model.finite else 0
    total = choice.weigh(model.choice, s if model.states > 1 else 0, values, workspace.mass)
    masses, acting = workspace.mass, total
    if model.behaviour.size > 0:
        policies = model.behaviour.size // (model.states * actions)
        at = ((moment.who % policies) * model.states + s) * actions
        masses, acting = workspace.acting, choice.copy_masses(model.behaviour, at, actions, workspace.acting)
    place, _ = choice.select(masses, U64(0), U64(actions), random.uniform(word) * acting)
    return I64(place), total


@piece
def take(model: Model, agent_state: AgentState, lane: int, c: int, workspace: StepWorkspace) -> None:
    """Make candidate ``c`` at the observation just looked at the pair that the lane holds."""
    if model.finite:
        take_up(model, agent_state, lane, I64(agent_state.seen[lane, 0]), I64(model.order[c]))
        return
    row = c if model.joint else 0
    shift = 0 if model.joint else c
    for k in range(model.basis.active):
        agent_state.places[lane, k] = workspace.places[row, k] * model.stack + shift
        agent_state.value[lane, k] = workspace.value[row, k]
    agent_state.actions[lane] = c
    agent_state.numbers[lane] = workspace.numbers[c]


@piece
def take_up(model: Model, agent_state: AgentState, lane: int, s: int, a: int) -> None:
    """Make (s, a) of a finite world the pair that the lane holds."""
    agent_state.actions[lane] = a
    agent_state.numbers[lane] = a
    if model.dense.size == 0:
        agent_state.places[lane, 0] = I64(model.rows[s]) * model.width + I64(model.columns[a])
        agent_state.value[lane, 0] = 1.0
        return
    for j in range(model.basis.active):
        agent_state.places[lane, j] = j
        agent_state.value[lane, j] = model.dense[s, j, a]


@piece
def learn(
    model: Model,
    agent_state: AgentState,
    lane: int,
    theta: Floats,
    target: float,
    step_size: float,
    rest: float,
    progress: Floats,
) -> bool:
    """Move ``theta`` towards ``target`` for the pair that the lane holds; whether it stays finite.

    Where steps leave their directions for the server, those are added up, and ``theta`` stays.
    """
    places, value, left = agent_state.places[lane], agent_state.value[lane], agent_state.left[lane]
    here = summed(theta, places, value, 1, 0)
    moving, size = theta, step_size
    if model.leaves == DIRECTION:
        moving, size, rest = left, 1.0, 0.0
    elif model.leaves == LOG_WEIGHTS:
        for k in range(model.basis.active):
            left[places[k]] -= math.log1p(-step_size * value[k])
    elif model.leaves == VISITS:
        for k in range(model.basis.active):
            left[places[k]] += step_size * (value[k] * value[k])
    change = size * (target - here)
    finite = math.isfinite(change)
    if model.trace_decay == 0.0:
        for k in range(model.basis.active):
            finite &= add(moving, progress, rest, places[k], change * value[k])
    else:
        follow(model, agent_state, lane)
        for k in range(agent_state.live_count[lane]):
            j = agent_state.live[lane, k]
            finite &= add(moving, progress, rest, j, change * agent_state.trace[lane, j])
    shift = agent_state.shift[lane]
    for j in range(len(shift)):
        finite &= add(moving, progress, rest, j, size * shift[j])
    return finite


@piece
def add(moving: Floats, progress: Floats, rest: float, j: int, moved: float) -> bool:
    """Add to a parameter, and to what theta-tilde gathers of the round; whether it stays finite."""
    moving[j] += moved
    if len(progress) > 0:
        progress[j] += rest * moved
    return math.isfinite(moving[j])


@piece
def follow(model: Model, agent_state: AgentState, lane: int) -> None:
    """Traces: fade, then add the features of the pair, or put them in their place."""
    fade = model.discount * model.trace_decay
    kept = 0
    for k in range(agent_state.live_count[lane]):
        j = agent_state.live[lane, k]
        faded = fade * agent_state.trace[lane, j]
        agent_state.trace[lane, j] = faded
        if faded != 0.0:  # what vanished leaves the list, and may enter it again
            agent_state.live[lane, kept] = j
            kept += 1
    for k in range(model.basis.active):
        j, value = agent_state.places[lane, k], agent_state.value[lane, k]
        before = agent_state.trace[lane, j]
        after = value if model.replacing else before + value
        agent_state.trace[lane, j] = after
        if before == 0.0 and after != 0.0:
            agent_state.live[lane, kept] = j
            kept += 1
    agent_state.live_count[lane] = kept


@piece
def note_reward(agent_state: AgentState, lane: int, time_bin: int, reward: float) -> None:
    """Add a step's reward to its episode and, where there are bins of time, to its bin."""
    agent_state.elapsed[lane] += 1
    agent_state.gain[lane] += reward
    if agent_state.steps.shape[1] > 0:
        agent_state.steps[lane, time_bin] += 1
        agent_state.rewards[lane, time_bin] += reward


@piece
def end_episode(agent_state: AgentState, lane: int, time_bin: int) -> None:
    """Note an episode that is over, in bin ``time_bin`` of time, and forget its traces."""
    agent_state.episodes[lane, time_bin] += 1
    agent_state.returns[lane, time_bin] += agent_state.gain[lane]
    agent_state.lengths[lane, time_bin] += agent_state.elapsed[lane]
    agent_state.elapsed[lane], agent_state.gain[lane] = 0, 0.0
    if len(agent_state.live_count) > 0:
        for k in range(agent_state.live_count[lane]):
            agent_state.trace[lane, agent_state.live[lane, k]] = 0.0
        agent_state.live_count[lane] = 0


@piece
def begin(
    model: Model,
    agent_state: AgentState,
    theta: Floats,
    moment: Moment,
    workspace: StepWorkspace,
) -> None:
    """The first action of an episode that begins after the step, at what is seen."""
    what = random.FIRST_CANDIDATES
    if model.finite:
        _, word = words(moment, moment.t)
    else:
        word, _ = words(moment, random.purpose(moment.t, U64(random.FIRST_ACTION)))
    c, _ = choose(model, agent_state, theta, moment, what, word, workspace)
    take(model, agent_state, moment.lane, c, workspace)


@piece
def redraw(
    model: Model,
    agent_state: AgentState,
    theta: Floats,
    moment: Moment,
    workspace: StepWorkspace,
) -> None:
    """Draw the action to execute anew."""
    what = random.REDRAW_CANDIDATES
    word, _ = words(moment, moment.t + U64(random.REDRAW))
    c, _ = choose(model, agent_state, theta, moment, what, word, workspace)
    take(model, agent_state, moment.lane, c, workspace)


@piece
def go_on(
    model: Model,
    agent_state: AgentState,
    theta: Floats,
    reward: float,
    terminated: bool,
    step_size: float,
    rest: float,
    progress: Floats,
    moment: Moment,
    word: int,
    workspace: StepWorkspace,
) -> bool:
    """Steps 2 to 4: the next action at the observation in ``agent_state.seen``, and the update.

    After a termination the target is the reward alone, and there is no next action. Whether ``theta`` stays
    finite.
    """
    lane = moment.lane
    if terminated:
        return learn(model, agent_state, lane, theta, reward, step_size, rest, progress)
    if model.cumulative.size > 0 and model.target != EXPECTED:
        s = I64(agent_state.seen[lane, 0])
        c = draw_fixed(model, moment.who, s, word)
        ahead = largest(model, theta, s) if model.target == MAX else value_of(model, theta, s, c)
        finite = learn(
            model, agent_state, lane, theta, reward + model.discount * ahead, step_size, rest, progress
        )
        take_up(model, agent_state, lane, s, I64(model.order[c]))
        return finite
    what = random.CANDIDATES
    c, total = choose(model, agent_state, theta, moment, what, word, workspace)
    ahead = workspace.q[c]
    if model.target == EXPECTED:
        ahead = 0.0
        for b in range(len(workspace.q)):
            ahead += workspace.mass[b] * workspace.q[b]
        ahead = ahead / total
    elif model.target == MAX:
        for b in range(len(workspace.q)):
            ahead = max(ahead, workspace.q[b])
    finite = learn(
        model, agent_state, lane, theta, reward + model.discount * ahead, step_size, rest, progress
    )
    take(model, agent_state, moment.lane, c, workspace)
    return finite
