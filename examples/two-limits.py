"""FedSARSA's error to the federated point and to the central MDP's fixed point, which are two points.

After Mangold, Berthier and Moulines 2025, on their worlds (two garnets by turns): N agents, K local steps,
step size 0.01. Writes two-limits.png.

python examples/two-limits.py [steps] [runs]
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import fedsarsa as fs

AGENTS, PERIODS, STEP = (2, 10, 20, 50, 100), (1, 100, 10_000), 0.01


def errors(agents, every, steps, runs):
    """Mean squared errors (t,) to the federated point and to the central fixed point, and K's own limit."""
    fleet = fs.garnet.fleet(agents, "sarsa")
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(2.0), STEP, sync_every=every)
    federated = fs.theory.federated_point(fleet, algo.features, algo.policy)
    central = fs.theory.fixed_point(fleet.central(), algo.features, algo.policy)
    far = 10 / np.sqrt(len(federated))
    start = federated + np.random.default_rng(agents).uniform(-far, far, size=len(federated))
    history = algo.train(fleet, steps, runs, theta0=start, record_every=max(1, steps // every // 200))
    drift = np.sum((fs.theory.round_limit(fleet, algo) - federated) ** 2)
    return [history.mse(point).mean("run") for point in (federated, central)], drift


def main(steps=1_000_000, runs=10):
    """Draw the figure, and print where errors end."""
    figure, axes = plt.subplots(1, len(PERIODS), figsize=(11, 3.5), sharey=True, layout="constrained")
    for ax, every in zip(axes, PERIODS, strict=True):
        for colour, agents in enumerate(AGENTS):
            (ours, theirs), drift = errors(agents, every, steps, runs)
            ax.semilogy(ours.t, ours, f"C{colour}", label=f"N = {agents}")
            ax.semilogy(theirs.t, theirs, f"C{colour}--")
            late = [float(one.isel(t=slice(-len(one) // 4, None)).mean()) for one in (ours, theirs)]
            print(
                f"N = {agents:3}, K = {every:6}: error to the federated point {late[0]:.4f}, to the central "
                f"fixed point {late[1]:.4f}; squared bias of local steps {drift:.2g}"
            )
        ax.set(title=f"K = {every}", xlabel="steps per agent")
    axes[0].set_ylabel("squared error (solid: federated point)")
    axes[-1].legend(loc="lower center", ncols=2)
    figure.savefig("two-limits.png", dpi=150)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
