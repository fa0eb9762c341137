"""Twenty numbers of one training per kind of world, written down once: engines cannot drift together.

Worlds are made of whole numbers, so that only this package's random numbers and steps decide. A change that
is meant to change trainings must say so, and write down new numbers; no other change may.
"""

import gymnasium as gym
import numpy as np

import fedsarsa as fs

RUNS, SEED = 2, 7
# The first ten final parameters of both runs. Engines agree to 1e-12; exp and cos of other machines may not.
TOLERANCE = 1e-9


def finite():
    s, a, t = np.ogrid[:6, :4, :6]
    worlds = []
    for i in range(3):
        rows = 1.0 + (3 * s + 5 * a + 7 * t * t + i * t) % 11
        transition = np.moveaxis(rows / rows.sum(axis=2, keepdims=True), 1, 0)
        reward = ((2 * s + 3 * a + i) % 5)[..., 0] / 4
        worlds.append(fs.FiniteMDP(transition, reward, 0.7))
    return fs.FedSARSA(fs.ModuloFeatures(5, 2), fs.Softmax(0.5), 0.1, 7), worlds, 300


def control():
    worlds = [fs.control.CartPole(length=length, noise=0.01) for length in (0.25, 0.5, 1.0)]
    algo = fs.FedSARSA(fs.FourierBasis(1), fs.EpsilonGreedy(0.25), 0.01, 20, trace_decay=0.5)
    return algo, worlds, 300


class Ring(gym.Env):
    """Five places in a ring; every step goes one or two on, and pays the more the further it gets.

    Episodes end at the last place, but not before the third step, and are cut after six.
    """

    observation_space, action_space = gym.spaces.Discrete(5), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = 0, 0
        return self.place, {}

    def step(self, action):
        self.place, self.t = (self.place + 1 + int(action)) % 5, self.t + 1
        return self.place, self.place / 4, self.place == 4 and self.t > 2, self.t == 6, {}


def gymnasium(processes=0):
    fleet = fs.GymFleet([fs.GymWorld(Ring)] * 3, 0.8, processes=processes)
    return fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(0.25, ties="first"), 0.1, 10), fleet, 300


FINITE = (
    0.994021736709,
    1.25717497316,
    1.20109605781,
    0.805157588904,
    0.834646994265,
    1.24087444518,
    1.27775159957,
    0.330410878037,
    1.18879015205,
    0.959418850044,
    0.977718115336,
    1.21927009775,
    1.25666275631,
    0.71611138464,
    0.840436170189,
    1.06529849136,
    1.18287764352,
    0.582485330282,
    1.04082936192,
    1.0209820733,
)
CONTROL = (
    0.27481539714,
    0.978232709999,
    0.0572342522115,
    0.327672927842,
    0.0335434982289,
    0.213685122343,
    -0.184571581731,
    -0.616518993597,
    -0.034586695449,
    -0.273764891138,
    1.01699052433,
    0.211552840709,
    -0.368183483092,
    -0.0794867106861,
    -0.236128751057,
    -0.0560254333413,
    -0.630157041511,
    -0.125823223242,
    0.312848342402,
    0.0638691793044,
)
GYMNASIUM = (
    1.38143992816,
    0.935500864365,
    1.56125586826,
    0.639931279672,
    1.50082800609,
    0.58530581712,
    0.998123083586,
    0.327844999282,
    0.0566132434277,
    0.0,
    1.41314777277,
    0.913107394662,
    1.57465321601,
    0.776442238745,
    1.48606365107,
    0.476935012293,
    0.998135861814,
    0.439891605476,
    0.0277012015251,
    0.0,
)


def assert_anchored(parts, numbers, engine="auto"):
    algo, fleet, steps = parts
    history = algo.train(fleet, steps, RUNS, SEED, engine=engine)
    assert len(numbers) == 20
    np.testing.assert_allclose(history.final.values[:, :10].ravel(), numbers, rtol=TOLERANCE, atol=TOLERANCE)
