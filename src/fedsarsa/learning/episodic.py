"""A SARSA step on continuous observations, as compiled pieces: look, choose, learn.

The reference engine for control worlds says the same in plain Python and is the specification. An agent is
a *lane*: row ``lane`` of the arrays in ``Flock``. Parameters are rows too, ``theta`` (d,).
"""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, piece
from fedsarsa.learning import fourier, random, rbf, tile_coding
from fedsarsa.learning.boxes import Integers
from fedsarsa.learning.episodic_layout import Desk, Flock, Model
from fedsarsa.learning.tables import EPSILON_GREEDY, FIXED, SOFTMAX


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
def draw_candidates(model: Model, seed: int, run: int, agent: int, t: int, what: int, desk: Desk) -> None:
    """Fresh candidate actions, two per counter."""
    width = model.action_high - model.action_low
    for c in range(0, len(desk.numbers), 2):
        one, two = random.words(seed, run, agent, random.purpose(t, U64(what) + U64(c >> 1)))
        desk.numbers[c] = model.action_low + width * random.uniform(one)
        if c + 1 < len(desk.numbers):
            desk.numbers[c + 1] = model.action_low + width * random.uniform(two)


@piece
def weigh(model: Model, q: Floats, mass: Floats) -> float:
    """The mass of every candidate under the policy, up to a common factor; their sum."""
    actions = len(q)
    total = 0.0
    if model.policy == FIXED:
        for c in range(actions):
            mass[c] = model.masses[c]
            total += mass[c]
        return total
    best = q[0]
    for c in range(1, actions):
        best = max(best, q[c])
    if model.policy == SOFTMAX:
        for c in range(actions):
            mass[c] = math.exp((q[c] - best) / model.parameter)
            total += mass[c]
        return total
    tied = 0.0  # candidates that share the greedy mass
    for c in range(actions):
        mass[c] = 1.0 if q[c] == best and not (model.ties_first and tied > 0.0) else 0.0
        tied += mass[c]
    explore = model.parameter if model.policy == EPSILON_GREEDY else 0.0
    for c in range(actions):
        mass[c] = explore / actions + ((1.0 - explore) / tied if mass[c] > 0.0 else 0.0)
        total += mass[c]
    return total


@piece
def select(mass: Floats, target: float) -> int:
    """The candidate at which the cumulative mass passes ``target``; never one without mass."""
    passed, chosen, found = 0.0, 0, False
    for c in range(len(mass)):
        passed += mass[c]
        if not found and mass[c] > 0.0:
            chosen = c
            found = passed > target
    return chosen


@piece
def take(model: Model, flock: Flock, lane: int, c: int, desk: Desk) -> None:
    """Make candidate ``c`` at the observation just looked at the pair that the lane holds."""
    row = c if model.joint else 0
    shift = 0 if model.joint else c
    for k in range(model.basis.active):
        flock.places[lane, k] = desk.places[row, k] * model.stack + shift
        flock.value[lane, k] = desk.value[row, k]
    flock.actions[lane] = c
    flock.numbers[lane] = desk.numbers[c]


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
    model: Model, flock: Flock, lane: int, theta: Floats, seed: int, run: int, agent: int, t: int, desk: Desk
) -> None:
    """The first action of an episode that begins after step ``t``, at the observation in ``flock.seen``."""
    if model.joint:
        draw_candidates(model, seed, run, agent, t, random.FIRST_CANDIDATES, desk)
    flock.clipped[lane] += look(model, theta, flock.seen[lane], desk)
    total = weigh(model, desk.q, desk.mass)
    word, _ = random.words(seed, run, agent, random.purpose(t, U64(random.FIRST_ACTION)))
    take(model, flock, lane, select(desk.mass, random.uniform(word) * total), desk)


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
    if model.joint:
        draw_candidates(model, seed, run, agent, t, random.CANDIDATES, desk)
    flock.clipped[lane] += look(model, theta, flock.seen[lane], desk)
    total = weigh(model, desk.q, desk.mass)
    c = select(desk.mass, random.uniform(word) * total)
    ahead = desk.q[c]
    if model.expected:
        ahead = 0.0
        for b in range(len(desk.q)):
            ahead += desk.mass[b] * desk.q[b]
        ahead = ahead / total
    finite = learn(model, flock, lane, theta, reward + model.discount * ahead, step_size, rest, progress)
    take(model, flock, lane, c, desk)
    return finite
