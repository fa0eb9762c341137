"""The fleets of the leaderboard, with the features and policies that methods meet there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsarsa import _checks
from fedsarsa.learning.features import FiniteFeatures, ModuloFeatures, OneHot, TabularFeatures
from fedsarsa.learning.policies import FixedPolicy
from fedsarsa.worlds import garnet, paper, random_mdps, seven_states, two_state, windy_cliffs
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet


@dataclass(frozen=True, eq=False)
class Ground:
    """A fleet of the leaderboard.

    Attributes
    ----------
    name, about : str
        What it is called, and what is special about it.
    fleet : Fleet
        The worlds.
    features : FiniteFeatures
        For control: what values are linear in.
    behaviour : FixedPolicy, or one per agent
        How agents act whose methods do not act by what they learn.
    state_features, policy : FiniteFeatures, FixedPolicy
        For prediction: features of states, and the policy whose values are learned.
    planning_steps : int
        At most so many sweeps over their tables of methods that know the worlds.
    control : bool
        Whether it is on the board of control as well.
    """

    name: str
    about: str
    fleet: Fleet
    features: FiniteFeatures
    behaviour: FixedPolicy | Sequence[FixedPolicy]
    state_features: FiniteFeatures
    policy: FixedPolicy
    planning_steps: int = 10**6
    control: bool = True

    @property
    def spread(self) -> float:
        """The largest difference of two rewards: the unit of temperatures."""
        rewards = [world.expected_reward for world in self.fleet.worlds]
        return float(np.max(rewards) - np.min(rewards))


def _ground(name: str, about: str, fleet: Fleet) -> Ground:
    """A fleet with tables of all pairs for control, of all states for prediction, and the uniform policy."""
    uniform = FixedPolicy()
    return Ground(name, about, fleet, OneHot(), uniform, ModuloFeatures(fleet.states, 1), uniform)


def _published(seed: int) -> Ground:
    fleet = paper.fleet(agents=5, eps_p=1.0, eps_r=1.0, seed=seed)
    about = "the worlds of the paper's figures: 100 states and actions, discount 0.2, so nearly one step deep"
    features, uniform = ModuloFeatures(5, 5), FixedPolicy()
    return Ground("published", about, fleet, features, uniform, ModuloFeatures(5, 1), uniform, 16)


def _garnet(seed: int) -> Ground:
    about = "two supports by turns and opposite rewards: the mean world pays nothing"
    features, policy = TabularFeatures(garnet.features(seed=seed)), FixedPolicy(garnet.policy(seed=seed))
    fleet = garnet.fleet(agents=10, seed=seed)
    return Ground("garnet", about, fleet, OneHot(), FixedPolicy(), features, policy)


def _two_state(seed: int) -> Ground:
    about = "one world for all, but every agent tries one action only"
    fleet = two_state.fleet(agents=20, seed=seed)
    each = [FixedPolicy(action) for action in two_state.behaviour(20)]
    return Ground("two-state", about, fleet, OneHot(), each, ModuloFeatures(2, 1), FixedPolicy())


def _random_mdps(kappa: float) -> Callable[[int], Ground]:
    about = f"random kernels that differ by kappa = {kappa:g} from a centre, rewards alike"
    return lambda seed: _ground(f"random-{kappa:g}", about, random_mdps.fleet(5, kappa, seed))


def _uneven_visits() -> Ground:
    """Even agents are mostly in state 0, odd ones in state 1; it pays them 1, and the other one -1.

    The federated point is (4.5, 4.5), the values that agents see where they are, and the mean of their fixed
    points (3.6, 3.6).
    """
    often, seldom = 0.95, 0.05
    pair = [
        FiniteMDP(np.tile(to, (2, 2, 1)), reward, 0.8)
        for to, reward in (([often, seldom], [1.0, -1.0]), ([seldom, often], [-1.0, 1.0]))
    ]
    about = "two kinds of agents, each mostly in a state where the others seldom are: local steps are biased"
    ground = _ground("uneven-visits", about, Fleet(pair[agent % 2] for agent in range(10)))
    return replace(ground, control=False)


GROUNDS: dict[str, Callable[[int], Ground]] = {
    "published": _published,
    "random-0": _random_mdps(0.0),
    "random-0.4": _random_mdps(0.4),
    "random-0.8": _random_mdps(0.8),
    "windy-cliffs": lambda seed: _ground(
        "windy-cliffs", "cliff walks in winds of different strengths", windy_cliffs.fleet(5, seed=seed)
    ),
    "garnet": _garnet,
    "two-state": _two_state,
    "seven-states": lambda _: _ground(
        "seven-states",
        "two worlds in which the good actions of one state are swapped; restarts with chance 0.05",
        seven_states.fleet(10, restart=0.05),
    ),
    "uneven-visits": lambda _: _uneven_visits(),
}


def grounds(names: Sequence[str], seed: int) -> list[Ground]:
    """The fleets of these names, or all of them."""
    chosen = [_checks.choice("fleet", name, GROUNDS) for name in names] or list(GROUNDS)
    return [GROUNDS[name](seed) for name in dict.fromkeys(chosen)]
