"""Whom an agent should listen to: the weights of all agents' parameters whose mixture errs least for it.

Every agent learns alone. After ``steps`` agent j's parameter theta_j has mean m_j and covariance S_j, and
agents are independent of each other. The mixture sum_j w_j theta_j then errs from agent i's fixed point
theta_i* by

    |sum_j w_j m_j - theta_i*|^2 + sum_j w_j^2 tr S_j

on average. The first term asks for agents whose worlds are alike, the second for many of them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import SUM_TOLERANCE, Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.servers.mixtures import mixture_errors, mixture_weights
from fedsarsa.theory.federation_model import federation_model
from fedsarsa.theory.learners import Learners, Way, apart, learn_alone, way_notes
from fedsarsa.theory.predicted_moments import follow_training, named_divergence
from fedsarsa.worlds.fleet import Fleet, as_fleet


@dataclass(frozen=True, eq=False)
class PersonalWeights:
    """The weights that minimise every agent's predicted error, and that error beside what else it could do.

    Attributes
    ----------
    weights : (N, N)
        Row i holds agent i's weights of all agents' parameters. Rows sum to one.
    alone, together, personal : (N,)
        Predicted mean of the squared distance to the agent's own fixed point after ``steps``: of its own
        learner; of the federation's central parameter (``algo``'s own K and weights, at the last
        synchronisation); of its mixture. ``personal`` is never above ``alone``.
    points : (N, d)
        Every agent's fixed point theta_i*.
    means, covariances : (N, d), (N, d, d)
        Of every agent's own learner after ``steps``.
    steps : int
        Steps per agent.
    warnings : tuple of str
        Why the predictions may be off; empty when all is well.
    """

    weights: Floats
    alone: Floats
    together: Floats
    personal: Floats
    points: Floats
    means: Floats
    covariances: Floats
    steps: int
    warnings: tuple[str, ...]

    def error(self, weights: ArrayLike) -> Floats:
        """Predicted error (N,) of other mixtures than the best: ``weights`` (N, N), whose rows sum to one.

        Parameters
        ----------
        weights : (N, N) array
            Row i holds agent i's weights of all agents' parameters.

        Returns
        -------
        (N,) array
            Mean squared distance of every mixture to its agent's own fixed point.

        Raises
        ------
        ValueError
            The shape is another, or a row does not sum to one.
        """
        given, agents = _checks.real_array("weights", weights), len(self.points)
        if given.shape != (agents, agents):
            raise ValueError(f"weights must have shape ({agents}, {agents}), got {given.shape}")
        sums = given.sum(axis=1)
        worst = int(np.abs(sums - 1).argmax())
        if abs(sums[worst] - 1) > SUM_TOLERANCE:
            raise ValueError(f"weights must sum to one in every row, got {sums[worst]:.12g} in row {worst}")
        variances = np.trace(self.covariances, axis1=1, axis2=2)
        return mixture_errors(given, self.means, self.points, variances)

    def __repr__(self) -> str:
        return (
            f"PersonalWeights({len(self.points)} agents, {self.steps} steps, mean error alone "
            f"{self.alone.mean():.4g}, together {self.together.mean():.4g}, personal "
            f"{self.personal.mean():.4g})"
        )

    def __str__(self) -> str:
        lines = [f"Errors to the agent's own fixed point after {self.steps} steps:"]
        lines.append("  agent       alone    together    personal   own weight")
        rows = zip(self.alone, self.together, self.personal, np.diag(self.weights), strict=True)
        for agent, (alone, together, personal, own) in enumerate(rows):
            lines.append(f"  {agent:<5d} {alone:11.4g} {together:11.4g} {personal:11.4g} {own:12.3f}")
        lines.append(
            f"  mean  {self.alone.mean():11.4g} {self.together.mean():11.4g} {self.personal.mean():11.4g}"
        )
        lines += [f"\n  warning: {note}" for note in self.warnings]
        return "\n".join(lines)


@single_threaded
def personal_weights(
    fleet: Fleet,
    algo: FedSARSA,
    steps: int,
    theta0: ArrayLike | None = None,
    *,
    nonnegative: bool = True,
) -> PersonalWeights:
    """The weights of all agents' parameters that minimise every agent's predicted error.

    Agents learn alone for ``steps``, as ``sync_every=None`` trains them; then agent i takes the mixture
    sum_j weights[i, j] theta_j. Its error to the agent's own fixed point follows from the means and
    covariances that `predict` computes, transient included; one small quadratic programme per agent
    minimises it.

    Parameters
    ----------
    fleet : Fleet
    algo : FedSARSA
        Its features, policy and step sizes; K, weights and radius count for ``together`` alone. Its server is
        the mean, or ``fs.servers.Personal()``, which means the same here: every agent learns apart.
    steps : int
        Steps per agent.
    theta0 : (d,), optional
        Where every agent starts, 0 unless given.
    nonnegative : bool
        Whether weights must be at least 0; else they may have either sign, and still sum to one.

    Returns
    -------
    PersonalWeights

    Raises
    ------
    ValueError
        The policy is not smooth (greedy policies may have no fixed point), a chain is not ergodic, there are
        too many parameters, or the step size is so large that parameters diverge.

    Notes
    -----
    With the means m_j and covariances S_j of independent learners and the fixed point theta_*^(i), over
    weights w that sum to one,

        w_i = argmin |sum_j w_j m_j - theta_*^(i)|^2 + sum_j w_j^2 tr S_j

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(4, 0.5, 0.5, states=10, actions=10)
    >>> best = fs.theory.personal_weights(fleet, fs.FedSARSA(), steps=2_000)
    >>> bool((best.personal <= best.alone).all())
    True
    """
    fleet, algo = as_fleet(fleet), apart(algo)
    agents = len(fleet)
    _checks.fits("fleet", f"{agents} agents", 8 * agents**2, "weights of each agent for every other")
    learners = learn_alone(fleet, algo, steps, theta0)
    means, points, of = learners.means, learners.points, learners.of
    variances = learners.variances / learners.count  # of the mean over agents of a kind, which weigh alike
    kinds = np.stack([mixture_weights(means, point, variances, nonnegative) for point in points])
    personal = mixture_errors(kinds, means, points, variances)
    together, said = _federated(fleet, algo, steps, learners)
    told = tuple(dict.fromkeys([*learners.warnings, *said]))
    for note in told:
        warnings.warn(note, stacklevel=3)
    return PersonalWeights(
        weights=(kinds / learners.count)[np.ix_(of, of)],
        alone=learners.alone[of],
        together=together[of],
        personal=personal[of],
        points=points[of],
        means=means[of],
        covariances=learners.covariances[of],
        steps=int(steps),
        warnings=told,
    )


def _federated(
    fleet: Fleet, algo: FedSARSA, steps: int, learners: Learners
) -> tuple[Floats, tuple[str, ...]]:
    """The central parameter's error to the points of all kinds of learners, (m,), and why it may be off."""
    if algo.sync_every is None:  # the plain average of agents apart
        shares, variances = learners.count / len(fleet), learners.variances / learners.count
        return mixture_errors(shares, learners.means, learners.points, variances), ()
    problem = algo.problem(fleet, steps, runs=1, seed=0)
    model = federation_model(problem)
    # Agents' mean error is that to the mean of their points, and the scatter of the points around it.
    target = learners.points[learners.of].mean(axis=0)
    with named_divergence(algo):
        way = Way(*follow_training(problem, model, learners.start, target), target)
    mean, spread = way.trajectory.end
    errors = ((mean - learners.points) ** 2).sum(axis=1) + np.trace(spread)
    return errors, tuple(way_notes(problem, model, learners.worlds, [way]))
