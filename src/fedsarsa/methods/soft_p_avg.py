"""SoftPAvg: agents plan logits of a policy with their own kernel, and a server averages them."""

from dataclasses import dataclass
from typing import ClassVar

import scipy

from fedsarsa._checks import Floats
from fedsarsa.learning.step_sizes import StepSize
from fedsarsa.methods.planner import Model, Planning


@dataclass(frozen=True, eq=False)
class SoftPAvg(Planning):
    """Jin, Peng, Yang, Wang and Zhang 2022: SoftPAvg, policy gradients on logits that a server averages.

    As in the released program agents take E steps L_k <- L_k + eta A_k / (1 - discount) on the logits of
    pi = softmax(L), with the exact advantage A_k(s, a) = Q_k(s, a) - V_k(s) of pi in their world: the natural
    gradient, in which states do not count by their visits. The mean of logits is a geometric mean of
    policies. With E = 1 a policy rests if no action has a positive mean advantage over the agents, and those
    that are taken have 0; in worlds that differ it may mix actions.

    Parameters
    ----------
    step_size : float, ConstantStep, LinearDecay, PiecewiseDecay, or a list with one per agent
        eta_t.
    sync_every : int or None
        E, steps per round; None: agents never meet, and are averaged once, at the end.
    decay : float in (0, 1]
        By what step sizes are multiplied at the beginning of every round, from the fourth on, if the mean
        return rose by less than 0.1 % between the beginnings of the two rounds before; 0.8, 0.9 and 0.4 in
        the released programs.

    Raises
    ------
    ValueError
        An argument is out of its range.

    Notes
    -----
    With logits L_k, pi_k = softmax(L_k) and the exact advantage A_k of pi_k in world k, E times and then the
    mean over agents,

        L_k <- L_k + eta A_k / (1 - discount)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet, method = fs.random_mdps.fleet(agents=3), fs.methods.SoftPAvg(sync_every=1)
    >>> method.policies(method.train(fleet, steps=20, runs=2)).shape
    (2, 5, 5)
    """

    step_size: StepSize = 0.05
    sync_every: int | None = 4
    decay: float | None = 0.8

    name: ClassVar[str] = "SoftPAvg"

    def local(self, model: Model, tables: Floats, kept: Floats, step: Floats) -> tuple[Floats, Floats]:
        """One step of logits (M, S, A) along the advantages of their policies."""
        values = model.values(self.policy_of(tables))
        advantage = model.ahead(values) - values[..., None]
        return tables + step * advantage / (1 - model.discount), kept

    def policy_of(self, tables: Floats) -> Floats:
        """The softmax of logits."""
        policies: Floats = scipy.special.softmax(tables, axis=-1)
        return policies
