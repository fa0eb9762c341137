"""The constants of one step of the analysis (Sections ``sec:use-lem`` and ``sec:thm-pf``).

Two sets are computed. *Printed* is the paper's. In some places the proof does not give the printed constant;
*repaired* holds what it gives there, and bounds use it:

- ``H_3`` of the proof: Young's inequality for 2 x (4 y) leaves 16 y^2 / beta, not 4 y^2 / beta, so C_3
  holds 17 C_prog^2 instead of 5 C_prog^2.
- Equation ``eq:grad-norm-3`` takes agents for independent given the past up to t - tau. They share
  averages since then. The joint law of two agents is within 2 alpha C_back of independence, and so are
  their marginals: covariances are at most 4 alpha C_back H^2, which adds (68 (tau + 2K) + 16) C_back H^2
  to C_3 (nothing for fixed policies, whose C_back is 0).
- Given the past, the action at t - tau has been drawn: the virtual chain has one step less to mix, so
  tau is one longer.
- Corollary ``cor:msv`` needs the variance bound since t - tau, and that bound looks back tau steps more (its
  V is not increasing as claimed: with less to look back on, the mixing term is larger). So the
  recursion holds from t = 2 (tau + K) on, and not, as Theorem ``thm`` says, "for any" t. Before mixing, an
  unlucky start moves the parameter away at first order in the step size: E_1 >= E_0 + c alpha with c > 0,
  whatever alpha. The theorem allows no more than E_0 + alpha^2 (C_2 / N + alpha C_3 + alpha^2 C_4) where all
  worlds are one. So before mixing it fails for small alpha not only with these constants, which grow as
  powers of log(1 / alpha), but with any that are o(1 / alpha), and with any w > 0.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsarsa._checks import Floats

# A step size below this share of w is none.
TINY = 1e-60


@dataclass(frozen=True, eq=False)
class Scale:
    """What the constants of a step are made of; letters as in Table ``tb:const``."""

    N: int
    gamma: float
    m: float
    rho: float
    sigma: float
    L: float
    H: float
    K: float
    w: float


@dataclass(frozen=True, eq=False)
class Recursion:
    """E_{t+1} <= (1 - alpha w) E_t + alpha C_1 Lambda^2 + alpha^2 C_2 / N + alpha^3 C_3 + alpha^4 C_4.

    E_t = E||theta-bar_t - theta_*||^2 (Theorem ``thm``); repaired, from step 2 (tau + K) on.
    """

    tau: float
    beta: float
    C_alpha: float
    C_drift: float
    H_drift: float
    C_prog: float
    C_back: float
    C_var: float
    C_1: float
    C_2: float
    C_3: float
    C_4: float

    def additive(self, alpha: Floats, Lambda: float, agents: int) -> Floats:
        """What a step of size alpha adds to the error."""
        first, second = _product(self.C_1, Lambda, Lambda), self.C_2 / agents
        return alpha * (first + alpha * (second + alpha * (self.C_3 + alpha * self.C_4)))


def backtrack(alpha: float, m: float, rho: float) -> float:
    """tau of ``eq:tau``: the least whole number with m rho^tau <= alpha; infinite where rho is 1."""
    if rho >= 1:
        return math.inf
    return max(0, math.ceil((math.log(m) - math.log(alpha)) / -math.log(rho)))


def recursion(scale: Scale, alphas: Floats, repaired: bool) -> Recursion:
    """The constants for step sizes ``alphas`` (T,); infinite where the theory gives none."""
    s = scale
    alpha_0, alpha_last = float(alphas[0]), float(alphas[-1])
    tau = backtrack(alpha_last, s.m, s.rho) + repaired
    # sK > t - tau - K (printed), or as far back as the variance bound looks (repaired).
    C_alpha = _largest_ratio(alphas, (tau + s.K) * (2 if repaired else 1))
    C_drift = 2 * s.K * s.H
    H_drift = math.hypot(math.sqrt(2) * s.H, math.sqrt(8) * alpha_0 * C_drift)
    C_prog = 2 * (tau + 2 * s.K) * (s.H + 2 * alpha_0 * C_drift)
    C_back = _product(tau, s.L, C_prog)
    smooth = _product(s.H, s.L, s.sigma)
    H2, prog2, drift2, back2 = (_square(x) for x in (s.H, C_prog, C_drift, C_back))
    smooth2 = _square(smooth)
    C_var = 4 * (4 * (3 + smooth2) * drift2 + 4 * _product(smooth2, prog2) + _product(H2, back2))
    beta = (s.w - 64 * alpha_0) / 8  # the largest with 8 beta + 64 alpha_0 <= w
    C_1 = C_3 = math.inf
    if beta > 0:
        C_1 = 1 / beta + (2 * beta + 64 * alpha_0) / s.w / s.w
        C_3 = (
            _square((1 + s.gamma + smooth) * C_drift)
            + _square(_product(C_prog, s.L, H_drift, s.sigma))
            + _square(H_drift)
            + (17 if repaired else 5) * prog2
            + 2 * _product(back2, _square(H_drift))
        ) / beta + 4 * C_prog * H_drift
        if repaired:
            C_3 += _product(68 * (tau + 2 * s.K) + 16, C_back, H2)
    rest = 8448 * prog2 + 4 * C_var + 16 * H2 + _product(back2, H2)
    return Recursion(
        tau=tau,
        beta=beta,
        C_alpha=C_alpha,
        C_drift=C_drift,
        H_drift=H_drift,
        C_prog=C_prog,
        C_back=C_back,
        C_var=C_var,
        C_1=C_1,
        C_2=4 * (33 * C_alpha * (tau + 2 * s.K) + 8) * H2,
        C_3=_square(C_alpha) * C_3,
        C_4=_square(C_alpha) * C_alpha * ((tau + 2 * s.K) * rest + C_var + 4 * H2),
    )


def step_limit(scale: Scale, decay: float = 1.0) -> float:
    """The largest first step size that the proof of Theorem ``thm`` allows; 0 where none is.

    ``decay`` is the last step size over the first: tau is that of the last.

    4 K alpha <= 1 (``lem:drift``), 132 alpha (tau + K) <= 1 (``cor:msv``), and with the largest beta that
    8 beta + 64 alpha <= w leaves, 132 alpha (tau + 2K) <= beta (``sec:thm-pf``). The condition printed in
    ``cor:err-con`` lacks the factor 1/log(1/rho) of tau and does not imply these in slow chains.
    """
    s = scale
    if not (s.w > TINY and s.rho < 1 and math.isfinite(s.K)):
        return 0.0

    def allowed(alpha: float) -> bool:
        tau = backtrack(alpha * decay, s.m, s.rho) + 1
        beta = (s.w - 64 * alpha) / 8
        return 4 * s.K * alpha <= 1 and 132 * alpha * max(tau + s.K, (tau + 2 * s.K) / beta) <= 1

    low, high = s.w * TINY, s.w / 64 * (1 - 1e-12)
    if not allowed(low):
        return 0.0
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def printed_step_limit(scale: Scale) -> float:
    """The step size that Corollary ``cor:err-con`` asks for: w / (2120 (2K + 8 + ln(m / (rho w))))."""
    if not scale.w > 0:
        return 0.0
    return scale.w / (2120 * (2 * scale.K + 8 + math.log(scale.m / scale.rho / scale.w)))


def _largest_ratio(alphas: Floats, lag: float) -> float:
    """The largest alpha_{t - lag} / alpha_t, times before the first step counting as the first."""
    back = int(min(lag, len(alphas)))
    earlier = np.concatenate([np.full(back, alphas[0]), alphas[: len(alphas) - back]])
    return float((earlier / alphas).max())


def _product(*factors: float) -> float:
    """A product in which zero times infinity is zero: no heterogeneity or change, no effect."""
    return 0.0 if 0 in factors else math.prod(factors)


def _square(x: float) -> float:
    return x * x
