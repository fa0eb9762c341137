"""Where local steps and averaging rest: the limit of rounds without noise."""

from dataclasses import replace

import numpy as np

from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, plain
from fedsarsa.theory.affine import DivergenceError
from fedsarsa.theory.federation_model import federation_model, limiting_step_sizes, mean_field
from fedsarsa.theory.roots import MeanField, end_of_flow
from fedsarsa.theory.smoothness import require_smooth
from fedsarsa.worlds.fleet import Fleet, as_fleet


@single_threaded
def round_limit(fleet: Fleet, algo: FedSARSA) -> Floats:
    """The parameter that K local steps and one average lead back to, noise apart, (d,).

    With a fixed policy, operators A_i, fixed points theta_i and M_i = (I + alpha A_i)^K,

        theta(alpha, K) = [sum_i w_i (I - M_i)]^-1 sum_i w_i (I - M_i) theta_i,

    exactly. K = 1 gives `federated_point`; as K grows it tends to the weighted mean of the agents' fixed
    points, since every agent then reaches its own within a round. Where the policy moves with the parameter,
    every agent's mean is followed through the round, linearised again in blocks that grow as it slows down.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    algo : FedSARSA
        Its weights, K and step sizes count, per agent too; schedules by what they tend to. Where step sizes
        vanish, K does not matter, and this is the federated point. The projection is left out. Agents that
        never synchronise (``sync_every=None``) count alike, as in the plain average at the end. Training
        starts from 0: of several limits, this is the one near the root that its mean path reaches.

    Returns
    -------
    (d,) array
        Parameters that are never visited are 0.

    Raises
    ------
    ValueError
        The policy is not smooth, a chain is not ergodic, or no limit was found.

    Notes
    -----
    The fixed point of a round's mean map theta -> sum_i w_i (M_i theta + (I - M_i) theta_*^(i)).

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(2, 0.5, 0.5, states=10, actions=10)
    >>> fs.theory.round_limit(fleet, fs.FedSARSA(sync_every=1))[:2].round(3)  # the federated point
    array([8.624, 8.344])
    """
    fleet, algo = as_fleet(fleet), plain(algo)
    require_smooth(algo.policy, fleet.actions)
    problem = algo.problem(fleet, algo.sync_every or 1, runs=1, seed=0)
    model = replace(federation_model(problem), radius=None, noisy=False)
    flow, start = mean_field(problem, model), np.zeros(problem.features.dim)
    theta = flow.root_from(start)
    late = limiting_step_sizes(problem, model.groups.schedule)[0]
    if theta is None or not late.any():
        return _found(theta, algo)
    if problem.sync_every is None:
        alone = [MeanField(model.classes, [model.worlds[w]], np.ones(1)) for w in model.groups.world]
        return model.groups.total @ [_found(one.root_from(start), algo) for one in alone]
    still = np.zeros((len(theta), len(theta)))

    def moved(point: Floats) -> tuple[Floats, Floats]:
        one = model.round(model.node(point, still, late), late, late**2)
        return one.M @ point + one.c - point, one.M - np.eye(len(point))

    share = min(1.0, float(late.max()) * model.period)  # of the way that a round takes
    try:
        return _found(end_of_flow(moved, theta, share * flow.residual, flow.longest), algo)
    except DivergenceError:
        return _found(None, algo)


def _found(theta: Floats | None, algo: FedSARSA) -> Floats:
    if theta is None:
        raise ValueError(
            f"no limit was found for step_size {algo.step_size!r}, sync_every {algo.sync_every} and "
            f"{algo.policy!r}: smaller steps help where rounds diverge, a higher temperature where actions "
            "are hardly ever chosen"
        )
    return theta
