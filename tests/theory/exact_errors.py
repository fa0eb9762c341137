"""E||theta-bar_t - target||^2 of FedSARSA with a fixed policy, exactly, for very small fleets."""

import itertools

import numpy as np

from tests.worlds_of_tests import dense


def exact_errors(fleet, algo, steps, theta0, target):
    """Second moments of all local parameters, carried along the joint chain of pairs; (T + 1,).

    With a fixed policy a step is affine in the parameters, given the pairs before and after it: moments
    on the event that the pairs are z follow a linear recursion. The chain has (S A)^N states.
    """
    features = algo.features.on(fleet.states, fleet.actions)
    policy = algo.policy.table(fleet.states, fleet.actions)
    pairs = list(itertools.product(range(fleet.states), range(fleet.actions)))
    joint = list(itertools.product(range(len(pairs)), repeat=len(fleet)))
    agents, dim = len(fleet), features.dim
    size = agents * dim
    phi = np.array([dense(features, [s], a) for s, a in pairs])
    chains = [
        np.array([[mdp.kernel.matrix(a)[s, t] * policy[t, u] for t, u in pairs] for s, a in pairs])
        for mdp in fleet
    ]
    first = [np.array([mdp.initial[s] * policy[s, a] for s, a in pairs]) for mdp in fleet]
    move = np.array([[np.prod([chains[i][z[i], y[i]] for i in range(agents)]) for y in joint] for z in joint])
    mass = np.array([np.prod([first[i][z[i]] for i in range(agents)]) for z in joint])

    matrices = np.zeros((len(joint), len(joint), size, size))
    offsets = np.zeros((len(joint), size))
    for (n, z), i in itertools.product(enumerate(joint), range(agents)):
        block = slice(i * dim, (i + 1) * dim)
        s, a = pairs[z[i]]
        offsets[n, block] = phi[z[i]] * fleet[i].expected_reward[s, a]
        for k, y in enumerate(joint):
            matrices[n, k, block, block] = np.outer(phi[z[i]], fleet.discount * phi[y[i]] - phi[z[i]])
    mean = np.kron(np.full((1, agents), 1 / agents), np.eye(dim))
    together = np.kron(np.full((agents, agents), 1 / agents), np.eye(dim))

    start = np.tile(np.asarray(theta0) - target, agents)  # parameters are kept as differences to the target
    offsets = np.einsum("zyij,j->zyi", matrices, np.tile(target, agents)) + offsets[:, None]
    one = mass[:, None] * start
    two = mass[:, None, None] * np.outer(start, start)
    errors = [start[:dim] @ start[:dim]]
    alphas = algo.problem(fleet, steps, 1, 0).schedules[0].at(np.arange(steps))
    for t, alpha in enumerate(alphas):
        step = np.eye(size) + alpha * matrices
        shift = alpha * offsets
        if algo.sync_every is not None and (t + 1) % algo.sync_every == 0:
            step, shift = together @ step, shift @ together
        cross = np.einsum("zyij,zj,zyk->zyik", step, one, shift)
        squares = step @ two[:, None] @ np.swapaxes(step, 2, 3) + cross + np.swapaxes(cross, 2, 3)
        squares += mass[:, None, None, None] * shift[..., :, None] * shift[..., None, :]
        firsts = np.einsum("zyij,zj->zyi", step, one) + mass[:, None, None] * shift
        two = np.einsum("zy,zyij->yij", move, squares)
        one = np.einsum("zy,zyi->yi", move, firsts)
        mass = mass @ move
        errors.append(np.trace(mean @ two.sum(axis=0) @ mean.T))
    return np.array(errors)
