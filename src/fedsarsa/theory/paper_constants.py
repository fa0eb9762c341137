"""Every constant of the paper's analysis for a given fleet and algorithm (Table 4, ``tb:const``)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, plain
from fedsarsa.federation.problem import Problem
from fedsarsa.learning.features import Aggregation
from fedsarsa.learning.policies import improvement
from fedsarsa.theory.conditions import Condition, check
from fedsarsa.theory.fixed_points import fixed_point
from fedsarsa.theory.mixing import mixing, mixing_rate, perturbation
from fedsarsa.theory.operators import Operators, average, operators
from fedsarsa.theory.recursion import Recursion, Scale, printed_step_limit, recursion, step_limit
from fedsarsa.theory.smoothness import lipschitz
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet

# Above this many parameters the eigenvalue is found from S x S matrices instead of a d x d one.
DENSE = 400
PRECISION = 1e-10
# Eigenvalues below this share of the largest entry of Phi are rounding.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Constants(Scale, Recursion):
    """The paper's constants by its letters, as printed; NaN or infinite where the theory gives none.

    Attributes
    ----------
    N, S, A, K : int
        Agents, states, actions, and local steps per round (a float; infinite where the server never
        averages).
    R, gamma : float
        Reward cap and discount factor (Section 3.2, ``sec:pre-mdp``).
    eps_p, eps_r : float
        Measured heterogeneity (Definition 1, ``asmp:ker-het``; Definition 2, ``asmp:r-het``).
    m, rho : float
        ||P_pi^t(s, .) - eta_pi||_TV <= m rho^t for every agent, the central MDP and every policy
        (Assumption 1, ``asmp:steady``), by the Dobrushin coefficient over all state-action pairs.
    rate : float
        The exact rate of the slowest world under its own Gamma(theta_*): what rho could be at best.
    sigma_prime, sigma : float
        n + m rho^n / (1 - rho) with n = ceil(log_rho(1/m)) (eq. 9, ``eq:sigma``), and sigma_prime + 2.
    L : float
        Lipschitz constant of the policy operator in total variation (Assumption 2, ``asmp:lip``).
    G_bar, G : float
        Radius of the projection, and the bound of ||theta-bar_t|| it gives: 2 (2 G_bar + R) /
        (1 - 16 alpha_0^2 K^2 gamma) (Corollary on the parameter bound, ``cor:G``). Without a radius, where
        features are one-hot or aggregate pairs: infinite, and sqrt(d) R / (1 - gamma) (the argument of
        Appendix M, ``sec:tab``, needs no more); otherwise those for G_bar = R / w, as the footnote in
        Appendix L (``sec:const-dep``) proposes.
    H : float
        R + (1 + gamma) G (eq. 8, ``eq:H``).
    Lambda : float
        R eps_r + H sigma eps_p (Theorem 1, ``thm:fix-drift``; Lemma on gradient heterogeneity,
        ``lem:grad-hetero``).
    lam, w : float
        The least eigenvalue of Phi (eq. 18, ``eq:lam``), and -lambda_max(sym(A-bar)) / 2 (eq. 19, ``eq:w``),
        both under Gamma(theta_*^(i)) and least over the agents and the central MDP.
    lam_each, w_each : (N + 1,)
        The same for the central MDP and every agent.
    visited : int
        Dimension of the subspace of parameters that is ever visited; lam and w are its.
    theta_star, theta_each : (d,), (N, d)
        Fixed points of the central MDP and of every agent; None where one was not found.
    alpha_0, alpha_last : float
        First and last step size.
    alpha_limit, alpha_printed : float
        The largest first step size that the proofs allow (steps decaying by the same share), and the
        constant one that the Corollary on constant steps (``cor:err-con``) prints.
    tau : int
        ceil((log alpha_last - log m) / log rho) (eq. 49, ``eq:tau``).
    beta : float
        (w - 64 alpha_0) / 8, the largest constant of Young's inequality that Appendix J (``sec:thm-pf``)
        allows; it must be positive, which rules out alpha_0 = w / 64 that Table 4 (``tb:const``) includes.
    C_alpha : float
        The largest alpha_{t - tau - K} / alpha_t; 1 for constant steps (Appendix J, ``sec:thm-pf``).
    C_drift, H_drift : float
        2 K H (Lemma on client drift, ``lem:drift``) and sqrt(2 H^2 + 8 alpha_0^2 C_drift^2) (Appendix J,
        ``sec:thm-pf``).
    C_prog, C_back : float
        2 (tau + 2K) (H + 2 alpha_0 C_drift) (Lemma on central parameter progress, ``lem:v-para-prog``) and
        tau L C_prog (Lemma on backtracking, ``lem:stat``).
    C_var : float
        4 (4 (3 + H^2 L^2 sigma^2) C_drift^2 + 4 H^2 L^2 sigma^2 C_prog^2 + H^2 C_back^2) (Lemma on gradient
        variance, ``lem:grad-norm``).
    C_1, C_2, C_3, C_4 : float
        The constants of Theorem 2 (``thm``; eq. 50, ``eq:per-const``), as printed.
    B : float
        ((C_1 + 6/w) Lambda^2 + alpha_0 C_2 / N + alpha_0^2 C_3 + alpha_0^3 C_4) / w (Corollary on constant
        steps, ``cor:err-con``).
    conditions : tuple of Condition
        What the theory asks, what is the case, and by how much.
    """

    S: int
    A: int
    R: float
    eps_p: float
    eps_r: float
    rate: float
    sigma_prime: float
    G_bar: float
    G: float
    Lambda: float
    lam: float
    lam_each: Floats
    w_each: Floats
    visited: int
    theta_star: Floats | None
    theta_each: Floats | None
    alpha_0: float
    alpha_last: float
    alpha_limit: float
    alpha_printed: float
    B: float
    conditions: tuple[Condition, ...]

    def scalars(self) -> dict[str, float]:
        """Every constant that is one number, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int | float)}

    @property
    def applies(self) -> bool:
        """Whether everything that the theory asks is the case."""
        return all(condition.holds for condition in self.conditions if condition.needed)


def constants(fleet: Fleet | Sequence[FiniteMDP], algo: FedSARSA, steps: int | None = None) -> Constants:
    """The constants of a fleet under an algorithm, and which assumptions hold.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    algo : FedSARSA
        How they train.
    steps : int, optional
        T. Constants that depend on the last step size (tau and what follows from it) take the first
        step size for it unless T is given.

    Returns
    -------
    Constants
        Those for which there is no fixed point are NaN; a policy that jumps gets a warning.

    Raises
    ------
    TypeError
        The fleet is not one of finite worlds, or the algorithm is not a `FedSARSA`.

    Notes
    -----
    Among them (eq. 19, ``eq:w``; eq. 8, ``eq:H``; eq. 9, ``eq:sigma``; Theorem 1, ``thm:fix-drift``)

        w = half the smallest eigenvalue of -(A + A') / 2
        H = R + (1 + discount) G
        Lambda = R eps_r + H sigma eps_p

    Examples
    --------
    >>> import fedsarsa as fs
    >>> c = fs.theory.constants(fs.paper.fleet(2, 0.5, 0.5, states=10, actions=10), fs.FedSARSA())
    >>> [condition.name for condition in c.conditions if condition.needed and not condition.holds]
    ['smooth policy', 'step size']
    """
    result = compute(as_fleet(fleet), plain(algo), steps)
    if math.isinf(result.L):
        warnings.warn(
            f"{algo.policy!r} jumps where two actions tie: its Lipschitz constant is infinite, and the "
            "paper's convergence theory does not apply",
            stacklevel=2,
        )
    return result


@single_threaded
def compute(fleet: Fleet, algo: FedSARSA, steps: int | None = None) -> Constants:
    """As `constants`, without its warning."""
    problem = algo.problem(fleet, 1 if steps is None else steps, runs=1, seed=0)
    alphas = np.max([schedule.at(np.arange(problem.steps)) for schedule in problem.schedules], axis=0)
    worlds = [fleet.central(), *fleet.worlds]
    mixed = [mixing(world.kernel) for world in worlds]
    m, rho = max(pair[0] for pair in mixed), max(pair[1] for pair in mixed)
    sigma_prime = perturbation(m, rho)
    sigma = sigma_prime + 2
    points, w_worlds, lam_worlds, visited, rate, failure = _at_fixed_points(worlds, algo, problem)
    w = float(w_worlds.min())
    R, gamma, alpha_0 = fleet.reward_cap, fleet.discount, float(alphas[0])
    K = math.inf if algo.sync_every is None else float(algo.sync_every)
    G_bar, G = _parameter_bound(problem, R, gamma, alpha_0 * K, w)
    H = R + (1 + gamma) * G
    Lambda = R * fleet.eps_r + (H * sigma * fleet.eps_p if fleet.eps_p > 0 else 0.0)
    scale = Scale(len(fleet), gamma, m, rho, sigma, lipschitz(algo.policy, fleet.actions), H, K, w)
    step = recursion(scale, alphas, repaired=False)
    floor = float(step.additive(np.array(alpha_0), Lambda, len(fleet))) / alpha_0
    agents = np.concatenate([[0], 1 + fleet.world_of])  # the central MDP, then every agent's world
    return Constants(
        **vars(scale),
        **vars(step),
        S=fleet.states,
        A=fleet.actions,
        R=R,
        eps_p=fleet.eps_p,
        eps_r=fleet.eps_r,
        rate=rate,
        sigma_prime=sigma_prime,
        G_bar=G_bar,
        G=G,
        Lambda=Lambda,
        lam=float(lam_worlds.min()),
        lam_each=lam_worlds[agents],
        w_each=w_worlds[agents],
        visited=visited,
        theta_star=None if points is None else points[0],
        theta_each=None if points is None else points[agents[1:]],
        alpha_0=alpha_0,
        alpha_last=float(alphas[-1]),
        alpha_limit=step_limit(scale, float(alphas[-1]) / alpha_0),
        alpha_printed=printed_step_limit(scale),
        B=(floor + 6 / w * Lambda * Lambda) / w if w > 0 else math.inf,
        conditions=check(problem, alphas, scale, G_bar, points, visited, failure),
    )


def _at_fixed_points(
    worlds: list[FiniteMDP], algo: FedSARSA, problem: Problem
) -> tuple[Floats | None, Floats, Floats, int, float, str]:
    """Fixed points (W, d), w and lambda there, visited dimension, slowest mixing rate, and what failed."""
    (_, features), policy = problem.finite_worlds, algo.policy
    try:
        points = np.array([fixed_point(world, algo.features, policy) for world in worlds])
        policies = [improvement(policy, features, theta) for theta in points]
        each = [operators(world, features, pi) for world, pi in zip(worlds, policies, strict=True)]
    except ValueError as error:  # no fixed point, or more than one recurrent class
        unknown = np.full(len(worlds), math.nan)
        return None, unknown, unknown, features.dim, math.nan, str(error)
    rates = [mixing_rate(world.kernel.under(one.policy)) for world, one in zip(worlds, each, strict=True)]
    return points, *contraction(each), max(rates), ""


def _parameter_bound(problem: Problem, R: float, gamma: float, local: float, w: float) -> tuple[float, float]:
    """G-bar and G; ``local`` is alpha_0 K."""
    if problem.radius is None and isinstance(problem.features, Aggregation):
        # Every parameter is a mean of returns: |theta_j| <= R / (1 - gamma) stays true, projection or not.
        return math.inf, math.sqrt(problem.features.dim) * R / (1 - gamma)
    G_bar = problem.radius if problem.radius is not None else R / w if w > 0 else math.inf
    rest = 1 - 16 * local * local * gamma
    return G_bar, 2 * (2 * G_bar + R) / rest if rest > 0 else math.inf


def contraction(each: Sequence[Operators]) -> tuple[Floats, Floats, int]:
    """w_i and lambda_i of every world's operators, and the dimension of the subspace they are about.

    w_i = -lambda_max(sym(A-bar)) / 2 and lambda_i is the least eigenvalue of Phi. Directions that no
    world visits do not count: parameters never move there. Where one world visits a direction that
    another does not, that other's constants are 0 and the theory says nothing.
    """
    together = average(each, np.full(len(each), 1 / len(each)))
    # A direction is missing in one world where its features span less than those of all together.
    whole = np.array([one.rank == together.rank for one in each])
    lam = np.array([one.lam for one in each]) * whole
    if together.table is None:
        least = [_diagonal_case(one, together.visited) for one in each]
    else:
        basis = together.basis
        least = [_least(-basis.T @ _sym(one.A) @ basis) for one in each]
    # By eq:w twice w is never below (1 - gamma) lambda: that is what is known where rounding hides more.
    floor = (1 - each[0].discount) * lam
    clear = np.array(least) > [ROUNDING * one.gram.max() for one in each]
    w: Floats = np.where(clear, np.maximum(np.array(least) * whole, floor), floor) / 2
    return w, lam, together.rank


def _diagonal_case(one: Operators, visited: NDArray[np.bool_]) -> float:
    """-lambda_max(sym(A-bar)) on the visited parameters, where Phi is diagonal."""
    phi, inflow, ahead = one.gram[visited], one.inflow[:, visited], one.ahead[:, visited]
    if phi.min() == 0:
        return 0.0
    if len(phi) <= DENSE:
        return _least(np.diag(phi) - one.discount * _sym(inflow.T @ ahead))
    # -sym(A) - x is positive definite just when the matrix below has S negative eigenvalues (inertia of
    # a Schur complement): halve the interval between two bounds of the least eigenvalue.
    states = len(ahead)
    factors = np.vstack([inflow, ahead])
    swap = np.roll(np.eye(2 * states), states, axis=0) * (2 / one.discount)
    low = (1 - one.discount) * phi.min()
    high = (phi - one.discount * (inflow * ahead).sum(axis=0)).min()
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        small = swap - (factors / (phi - middle)) @ factors.T
        if (np.linalg.eigvalsh(small) < 0).sum() == states:
            low = middle
        else:
            high = middle
    return float(low)


def _least(matrix: Floats) -> float:
    return float(np.linalg.eigvalsh(matrix)[0])


def _sym(matrix: Floats) -> Floats:
    return (matrix + matrix.T) / 2
