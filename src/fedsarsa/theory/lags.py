"""What the noise of a chain that remembers adds to the covariance of a parameter that contracts meanwhile.

Around a parameter, SARSA is theta_{t+1} = M theta_t + alpha xi_t with M = I + alpha J and noise xi of lagged
covariances C_k = E[xi_t xi_{t+k}']. At time t the parameter holds alpha M^{k-1} xi_{t-k} of past noise, which
the noise of the step is correlated with, so that its covariance V follows

    V <- M V M' + alpha^2 (C_0 + D_t + D_t'),    D_t = sum_{k=1}^t M^k C_k.

D_t tends to D, the sum over all lags. For M = I this gives the long-run covariance of the noise; otherwise
the parameter has forgotten part of a deviation that a slow chain still remembers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.theory.linearisation import Linearisation

# Lags are added up until they change the sum by less than this share; by doubling, so the limit is far.
FORGOTTEN = 1e-9
DOUBLINGS = 60


@dataclass(frozen=True, eq=False)
class Lags:
    """The lagged covariances of one agent's noise: C_1, and C_k = left P^{k-2} right for k > 1.

    Attributes
    ----------
    M : (d, d)
        One step of the mean.
    instant, first : (d, d)
        C_0 and C_1.
    left, right : (d, S), (S, d)
        Noise by the state two steps later; mean semi-gradient of a state.
    chain : (S, S)
        Transitions of states less their limit, which noise of mean zero does not see.
    """

    M: Floats
    instant: Floats
    first: Floats
    left: Floats
    right: Floats
    chain: Floats

    @cached_property
    def total(self) -> Floats:
        """sum_j M^j left P^j, (d, S)."""
        total, M, chain = self.left, self.M, self.chain
        for _ in range(DOUBLINGS):
            more = M @ total @ chain
            total = total + more
            if not np.abs(more).max() > FORGOTTEN * np.abs(total).max():
                break
            M, chain = M @ M, chain @ chain
        return total

    @cached_property
    def all_lags(self) -> Floats:
        """D + D', (d, d)."""
        return _both(self.M @ (self.first + self.M @ self.total @ self.right))

    @property
    def noise(self) -> Floats:
        """C_0 + D + D', (d, d)."""
        return self.instant + self.all_lags

    def missing(self, counts: Sequence[int]) -> Iterator[Floats]:
        """What lags from before the start would have added to the covariance, (d, d), over alpha^2.

        For stretches of ``counts`` steps from the start on, each at its end: the sum over its steps of
        M^n (D - D_t) M'^n and transpose, n steps before the end. Ends when nothing is missing any more.
        """
        M, right = self.M, self.right
        scale = np.abs(self.total).max()
        ahead = M @ M @ self.total  # D - D_t = ahead right, for t = 1
        powers: dict[int, tuple[Floats, Floats, Floats, Floats]] = {}
        lost, rest = self.all_lags, -1
        for count in counts:
            steps = count + rest  # the first step of all has been taken
            if steps:
                if steps not in powers:
                    powers[steps] = _powers(M, self.chain, right, steps)
                shorter, turned, moved, between = powers[steps]
                lost = turned @ lost @ turned.T + _both(shorter @ ahead @ between)
                ahead = turned @ ahead @ moved
            yield lost
            lost, rest = np.zeros_like(M), 0
            if not np.abs(ahead).max() > FORGOTTEN * scale:
                return


def lags(here: Linearisation, alpha: float) -> Lags:
    """The lagged covariances of a world at a parameter, for a step size."""
    return Lags(
        M=np.eye(len(here.g)) + alpha * here.J,
        instant=here.instant_noise,
        first=here.point.moment_with(here.error, here.arrived).T,
        left=here.gone.T,
        right=here.by_state,
        chain=here.states.chain - here.states.eta,
    )


def _powers(M: Floats, chain: Floats, right: Floats, count: int) -> tuple[Floats, Floats, Floats, Floats]:
    """M^{n-1}, M^n, P^n and sum_{t<n} P^t right M'^{n-1-t} for n = ``count``."""
    shorter, turned, moved, between = np.eye(len(M)), M, chain, right
    for bit in bin(count)[3:]:
        between = between @ turned.T + moved @ between
        shorter, turned, moved = turned @ shorter, turned @ turned, moved @ moved
        if bit == "1":
            between = between @ M.T + moved @ right
            shorter, turned, moved = turned, turned @ M, moved @ chain
    return shorter, turned, moved, between


def _both(matrix: Floats) -> Floats:
    return matrix + matrix.T
