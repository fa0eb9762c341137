"""The local step in every kind of world, as compiled pieces: look, choose, learn.

The reference engine says the same in plain Python and is the specification. An agent is a *lane*: row
``lane`` of the arrays in ``Flock``. Parameters are rows too, ``theta`` (d,).
"""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import I64, U64, piece
from fedsarsa.learning import choice, fourier, random, rbf, tile_coding
from fedsarsa.learning.boxes import Integers
from fedsarsa.learning.episodic_layout import Desk, Flock, Model
from fedsarsa.learning.targets import TARGETS

_, EXPECTED, MAX = range(len(TARGETS))  # what the step aims at, as kernels know it


@piece
def encode(model: Model, inputs: Floats, unit: Floats, index: Integers, value: Floats) -> bool:
    """The active basis functions at ``inputs``; whether any input was outside and clipped."""
    inside = True
    for i in range(model.inputs):
        x = inputs[i]
        within = model.low[i] <= x <= model.high[i]  # not so for what is not a number
        scaled = min((x - model.low[i]) * model.scale[i], 1.0)
        unit[i] = scaled if within else (1.0 if x > model.high[i] else 0.0)
        inside &= within
    if model.basis.kind == tile_coding.KIND:
        tile_coding.encode(model.basis, unit, index, value)
    elif model.basis.kind == fourier.KIND:
        fourier.encode(model.basis, unit, index, value)
    else:
        rbf.encode(model.basis, unit, index, value)
    return not inside


@piece
def look(model: Model, theta: Floats, seen: Floats, desk: Desk) -> bool:
    """Values ``desk.q`` of all candidates at an observation; whether it was outside and clipped."""
    if model.finite:
        look_up(model, theta, I64(seen[0]), desk)
        return False
    actions, active = len(desk.numbers), model.basis.active
    outside = False
    for row in range(actions if model.joint else 1):
        if model.joint:
            seen[model.inputs - 1] = desk.numbers[row]
        outside |= encode(model, seen, desk.unit, desk.places[row], desk.value[row])
    for c in range(actions):
        desk.q[c] = 0.0
    if model.joint:
        for c in range(actions):
            for k in range(active):
                desk.q[c] += desk.value[c, k] * theta[desk.places[c, k]]
        return outside
    for k in range(active):
        at, value = desk.places[0, k] * actions, desk.value[0, k]
        for c in range(actions):
            desk.q[c] += value * theta[at + c]
    return outside


@piece
def look_up(model: Model, theta: Floats, s: int, desk: Desk) -> None:
    """Values ``desk.q`` of all actions in state ``s`` of a finite world."""
    actions = len(desk.q)
    if model.dense.size == 0:
        at = I64(model.rows[s]) * model.width
        for c in range(actions):
            desk.q[c] = theta[at + I64(model.columns[model.order[c]])]
        return
    for c in range(actions):
        desk.q[c] = 0.0
    for j in range(len(theta)):
        for c in range(actions):
            desk.q[c] += model.dense[s, j, model.order[c]] * theta[j]


@piece
def draw_candidates(model: Model, seed: int, run: int, agent: int, t: int, what: int, desk: Desk) -> None:
    """Fresh candidate actions, two per counter."""
    width = model.action_high - model.action_low
    for c in range(0, len(desk.numbers), 2):
        one, two = random.words(seed, run, agent, random.purpose(t, U64(what) + U64(c >> 1)))
        desk.numbers[c] = model.action_low + width * random.uniform(one)
        if c + 1 < len(desk.numbers):
            desk.numbers[c + 1] = model.action_low + width * random.uniform(two)


@piece
def choose(
    model: Model,
    flock: Flock,
    lane: int,
    theta: Floats,
    seed: int,
    run: int,
    agent: int,
    who: int,
    t: int,
    what: int,
    word: int,
    desk: Desk,
) -> tuple[int, float]:
    """A candidate at the observation in ``flock.seen``, and the sum of the policy's masses.

    It is drawn by ``word``, from the policy or from the agent's behaviour. Fresh candidates are those of step
    ``t`` for ``what``. ``agent`` is the number of the agent's random stream, ``who`` its place among those of
    the problem.
    """
    seen, actions = flock.seen[lane], len(desk.q)
    if model.joint:
        draw_candidates(model, seed, run, agent, t, what, desk)
    flock.clipped[lane] += look(model, theta, seen, desk)
    s = I64(seen[0]) if model.finite else 0
    total = choice.weigh(model.choice, s if model.states > 1 else 0, desk.q, desk.mass)
    masses, acting = desk.mass, total
    if model.behaviour.size > 0:
        policies = model.behaviour.size // (model.states * actions)
        at = ((who % policies) * model.states + s) * actions
        masses, acting = desk.acting, choice.copy_masses(model.behaviour, at, actions, desk.acting)
    place, _ = choice.select(masses, U64(0), U64(actions), random.uniform(word) * acting)
    return I64(place), total


@piece
def take(model: Model, flock: Flock, lane: int, c: int, desk: Desk) -> None:
    """Make candidate ``c`` at the observation just looked at the pair that the lane holds."""
    if model.finite:
        take_up(model, flock, lane, I64(flock.seen[lane, 0]), I64(model.order[c]))
        return
    row = c if model.joint else 0
    shift = 0 if model.joint else c
    for k in range(model.basis.active):
        flock.places[lane, k] = desk.places[row, k] * model.stack + shift
        flock.value[lane, k] = desk.value[row, k]
    flock.actions[lane] = c
    flock.numbers[lane] = desk.numbers[c]


@piece
def take_up(model: Model, flock: Flock, lane: int, s: int, a: int) -> None:
    """Make (s, a) of a finite world the pair that the lane holds."""
    flock.actions[lane] = a
    flock.numbers[lane] = a
    if model.dense.size == 0:
        flock.places[lane, 0] = I64(model.rows[s]) * model.width + I64(model.columns[a])
        flock.value[lane, 0] = 1.0
        return
    for j in range(model.basis.active):
        flock.places[lane, j] = j
        flock.value[lane, j] = model.dense[s, j, a]


@piece
def learn(
    model: Model,
    flock: Flock,
    lane: int,
    theta: Floats,
    target: float,
    step_size: float,
    rest: float,
    progress: Floats,
) -> bool:
    """Move ``theta`` towards ``target`` for the pair that the lane holds; whether it stays finite."""
    active = model.basis.active
    here = 0.0
    for k in range(active):
        here += flock.value[lane, k] * theta[flock.places[lane, k]]
    change = step_size * (target - here)
    finite = math.isfinite(change)
    if model.trace_decay == 0.0:
        for k in range(active):
            j, moved = flock.places[lane, k], change * flock.value[lane, k]
            theta[j] += moved
            finite &= math.isfinite(theta[j])
            if len(progress) > 0:
                progress[j] += rest * moved
        return finite
    follow(model, flock, lane)
    for k in range(flock.live_count[lane]):
        j = flock.live[lane, k]
        moved = change * flock.trace[lane, j]
        theta[j] += moved
        finite &= math.isfinite(theta[j])
        if len(progress) > 0:
            progress[j] += rest * moved
    return finite


@piece
def follow(model: Model, flock: Flock, lane: int) -> None:
    """Traces: fade, then add the features of the pair, or put them in their place."""
    fade = model.discount * model.trace_decay
    kept = 0
    for k in range(flock.live_count[lane]):
        j = flock.live[lane, k]
        faded = fade * flock.trace[lane, j]
        flock.trace[lane, j] = faded
        if faded != 0.0:  # what vanished leaves the list, and may enter it again
            flock.live[lane, kept] = j
            kept += 1
    for k in range(model.basis.active):
        j, value = flock.places[lane, k], flock.value[lane, k]
        before = flock.trace[lane, j]
        after = value if model.replacing else before + value
        flock.trace[lane, j] = after
        if before == 0.0 and after != 0.0:
            flock.live[lane, kept] = j
            kept += 1
    flock.live_count[lane] = kept


@piece
def end_episode(flock: Flock, lane: int, span: int) -> None:
    """Note an episode that is over, in bin ``span`` of time, and forget its traces."""
    flock.episodes[lane, span] += 1
    flock.returns[lane, span] += flock.gain[lane]
    flock.lengths[lane, span] += flock.elapsed[lane]
    flock.elapsed[lane], flock.gain[lane] = 0, 0.0
    if len(flock.live_count) > 0:
        for k in range(flock.live_count[lane]):
            flock.trace[lane, flock.live[lane, k]] = 0.0
        flock.live_count[lane] = 0


@piece
def begin(
    model: Model,
    flock: Flock,
    lane: int,
    theta: Floats,
    seed: int,
    run: int,
    agent: int,
    who: int,
    t: int,
    desk: Desk,
) -> None:
    """The first action of an episode that begins after step ``t``, at the observation in ``flock.seen``."""
    what = random.FIRST_CANDIDATES
    if model.finite:
        _, word = random.words(seed, run, agent, t)
    else:
        word, _ = random.words(seed, run, agent, random.purpose(t, U64(random.FIRST_ACTION)))
    c, _ = choose(model, flock, lane, theta, seed, run, agent, who, t, what, word, desk)
    take(model, flock, lane, c, desk)


@piece
def redraw(
    model: Model,
    flock: Flock,
    lane: int,
    theta: Floats,
    seed: int,
    run: int,
    agent: int,
    who: int,
    t: int,
    desk: Desk,
) -> None:
    """Draw the action to execute at step ``t`` anew."""
    what = random.REDRAW_CANDIDATES
    word, _ = random.words(seed, run, agent, t + U64(random.REDRAW))
    c, _ = choose(model, flock, lane, theta, seed, run, agent, who, t, what, word, desk)
    take(model, flock, lane, c, desk)


@piece
def go_on(
    model: Model,
    flock: Flock,
    lane: int,
    theta: Floats,
    reward: float,
    terminated: bool,
    step_size: float,
    rest: float,
    progress: Floats,
    seed: int,
    run: int,
    agent: int,
    who: int,
    t: int,
    word: int,
    desk: Desk,
) -> bool:
    """Steps 2 to 4: the next action at the observation in ``flock.seen``, and the update.

    After a termination the target is the reward alone, and there is no next action. Whether ``theta`` stays
    finite.
    """
    if terminated:
        return learn(model, flock, lane, theta, reward, step_size, rest, progress)
    what = random.CANDIDATES
    c, total = choose(model, flock, lane, theta, seed, run, agent, who, t, what, word, desk)
    ahead = desk.q[c]
    if model.target == EXPECTED:
        ahead = 0.0
        for b in range(len(desk.q)):
            ahead += desk.mass[b] * desk.q[b]
        ahead = ahead / total
    elif model.target == MAX:
        for b in range(len(desk.q)):
            ahead = max(ahead, desk.q[b])
    finite = learn(model, flock, lane, theta, reward + model.discount * ahead, step_size, rest, progress)
    take(model, flock, lane, c, desk)
    return finite
