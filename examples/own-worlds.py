"""Worlds of your own: ten pumps that wear differently, one policy for all of them.

States are the pump's condition from 0 (new) to 4 (broken); actions are run, run slowly, repair.
"""

import numpy as np

import fedsarsa as fs

RUN, SLOW, REPAIR = range(3)
CONDITIONS = 5


def pump(wear: float) -> fs.FiniteMDP:
    transition = np.zeros((3, CONDITIONS, CONDITIONS))
    for s in range(CONDITIONS):
        worse = min(s + 1, CONDITIONS - 1)
        for action, chance in ((RUN, wear), (SLOW, wear / 3)):
            transition[action, s, worse] += chance
            transition[action, s, s] += 1 - chance
        transition[REPAIR, s, max(s - 2, 0)] = 1.0
    output = np.array([1.0, 1.0, 0.8, 0.5, 0.0])
    reward = np.stack([output, 0.6 * output, np.full(CONDITIONS, -0.5)], axis=1)
    return fs.FiniteMDP(transition, reward, discount=0.9)


fleet = fs.Fleet(pump(wear) for wear in np.linspace(0.1, 0.3, 10))
algo = fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(0.05), step_size=0.05, sync_every=20)
history = algo.train(fleet, steps=20_000, runs=5)
print(f"kernels differ by eps_p = {fleet.eps_p:.2f}")
print(fs.evaluate(fleet, algo, history.final.mean("run")).to_dataframe().round(3))
