"""QAvg: agents plan values with their own kernel, and a server averages them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.policies import Greedy
from fedsarsa.learning.step_sizes import ConstantStep, StepSize, schedules
from fedsarsa.methods.planner import Model, Planning
from fedsarsa.theory.optimality import optimal_values
from fedsarsa.worlds.fleet import Fleet, as_fleet

PAPER, RELEASED = FORMS = ("paper", "released")
MOST_ROUNDS = 200_000  # until a fixed point of rounds is found
EXACT = 1e-14  # share of the values by which a round moves them at its fixed point


@dataclass(frozen=True, eq=False)
class QAvg(Planning):
    """Jin, Peng, Yang, Wang and Zhang 2022: QAvg, value iteration with kernels of the agents' own.

    Two algorithms have this name. As printed, agents take E steps Q_k <- (1 - eta) Q_k + eta T_k Q_k, with
    the Bellman optimality operator T_k of their world. As released, they begin a round with V = max_a Q,
    take E steps V_k <- (1 - eta) V_k + eta max_a (r + discount P_k V_k), and end it with the whole backup
    Q_k = r + discount P_k V_k. Either way the server averages Q_k, and the policy is greedy.

    Parameters
    ----------
    step_size : float, ConstantStep, LinearDecay, PiecewiseDecay, or a list with one per agent
        eta_t; where it is above 1 it counts as 1. The theorem's 2 / ((1 - discount) (t + E)) is
        ``LinearDecay(2 * (1 - discount), E - 1)``, which is above 1 at first.
    sync_every : int or None
        E, steps per round; None: agents never meet, and are averaged once, at the end.
    form : {"paper", "released"}
        Which of the two algorithms.
    decay : float in (0, 1], optional
        By what step sizes are multiplied at the beginning of every round, from the fourth on, if the mean
        return rose by less than 0.1 % between the beginnings of the two rounds before. Unless given, 0.5 in
        the released form (the released programs have 0.5, 0.95 and 0.1) and 1 in the paper's.

    Raises
    ------
    ValueError
        An argument is out of its range.

    Notes
    -----
    With (T_k Q)(s, a) = r_k(s, a) + discount sum_s' P_k(s' | s, a) max_b Q(s', b), E times and then the mean
    over agents,

        Q_k <- (1 - eta) Q_k + eta T_k Q_k

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet, method = fs.windy_cliffs.fleet(agents=5), fs.methods.QAvg(form="released", step_size=0.001)
    >>> policies = method.policies(method.train(fleet, steps=256, runs=1))
    >>> round(float(fs.theory.returns_of(fleet, policies[0]).discounted_return.mean()), 3)
    99.636
    """

    step_size: StepSize = 0.1
    sync_every: int | None = 4
    form: str = PAPER

    name: ClassVar[str] = "QAvg"

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.choice("form", self.form, FORMS)
        constants = [one.value for one in schedules(self.step_size) if isinstance(one, ConstantStep)]
        if constants and max(constants) > 1:
            raise ValueError(
                f"step_size must be at most 1, beyond which a backup is overshot, got {max(constants)}; "
                "SoftPAvg and ProjPAvg take larger ones"
            )

    @property
    def shrink(self) -> float:
        """What step sizes are multiplied by where rounds hardly raise the mean return."""
        return 0.5 if self.decay is None and self.form == RELEASED else super().shrink

    def opening(self, tables: Floats) -> Floats:
        """In the released form agents begin a round with the values of states, (..., S)."""
        return tables.max(axis=-1) if self.form == RELEASED else super().opening(tables)

    def local(self, model: Model, tables: Floats, kept: Floats, step: Floats) -> tuple[Floats, Floats]:
        """One step towards the optimality backup of tables (M, S, A), or of values (M, S)."""
        step = np.minimum(step, 1.0)
        if self.form == PAPER:
            return (1 - step) * tables + step * model.ahead(tables.max(axis=-1)), kept
        step = step[..., 0]
        values = (1 - step) * kept + step * model.ahead(kept).max(axis=-1)
        return model.ahead(values), values

    def policy_of(self, tables: Floats) -> Floats:
        """Greedy; ties share."""
        return Greedy().probabilities(tables)

    def target(self, fleet: Fleet) -> Floats:
        """Where rounds rest, (S A,): the optimal Q of the central MDP, if E is 1 or step sizes vanish.

        In the paper's form with constant step sizes and E above 1 it is the fixed point of the mean of
        ((1 - eta) I + eta T_k)^E, off by O(eta E); in the released form with ``decay=1`` likewise. Agents
        that never meet end at the mean of their own optimal Q.

        Parameters
        ----------
        fleet : Fleet
            The agents' worlds.

        Returns
        -------
        (S A,) array
            The table to which training converges.

        Raises
        ------
        ValueError
            The fixed point of rounds was not found, as steps are too small.
        """
        fleet = as_fleet(fleet)
        if self.sync_every is None:
            own = [optimal_values(world).ravel() for world in fleet.worlds]
            return np.asarray(np.mean([own[place] for place in fleet.world_of], axis=0))
        best = optimal_values(fleet.central())
        kinds = schedules(self.step_size)
        steps = [one.value for one in kinds if isinstance(one, ConstantStep)]
        exact = self.form == PAPER and self.sync_every == 1
        if exact or self.shrink < 1 or len(steps) < len(kinds):
            return best.ravel()
        return self._rest(fleet, best, np.resize(steps, len(fleet))).ravel()

    def _rest(self, fleet: Fleet, tables: Floats, steps: Floats) -> Floats:
        """The fixed point (S, A) of rounds with constant step sizes (N,), a contraction."""
        models = [Model(world) for world in fleet.worlds]
        # Agents with the same world and step size move alike.
        alike, counts = np.unique(np.stack([fleet.world_of, steps], axis=1), axis=0, return_counts=True)
        for _ in range(MOST_ROUNDS):
            after = np.zeros_like(tables)
            for (place, step), count in zip(alike, counts, strict=True):
                one, kept, size = tables[None], self.opening(tables[None]), np.full((1, 1, 1), step)
                for _ in range(self.sync_every or 1):
                    one, kept = self.local(models[int(place)], one, kept, size)
                after += count / len(fleet) * one[0]
            moved = np.abs(after - tables).max()
            tables = after
            if moved <= EXACT * np.abs(tables).max():
                return tables
        raise ValueError(
            f"step_size must be large enough for a fixed point to be found in {MOST_ROUNDS} rounds, "
            f"got {self.step_size!r}, with which rounds still move tables by {moved:.2g}"
        )
