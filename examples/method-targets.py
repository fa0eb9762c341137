"""Where methods end, beside the exact points that they tend to.

Values of a fixed policy on ten garnets of two kinds (those of SCAFFLSA's paper), policies on random MDPs.
Long-run means are over the second half of every run; distances are Euclidean, with a standard error.

python examples/method-targets.py [steps] [runs]
"""

import sys

import numpy as np

import fedsarsa as fs

GARNETS, STATES = fs.garnet.fleet(agents=10), fs.TabularFeatures(fs.garnet.features())
PI = fs.FixedPolicy(fs.garnet.policy())
MDPS = fs.random_mdps.fleet(agents=5, kappa=0.8)
m = fs.methods


def predictions(independent):
    """Those that learn the values of a fixed policy, with K = 100 where they have rounds."""
    common = {"features": STATES, "policy": PI, "step_size": 0.1, "independent": independent}
    rounds = common | {"sync_every": 100}
    ahead = rounds | {"independent": False}
    return {
        "FedTD": m.FedTD(**rounds),
        "FedTD, server step 0.5": m.FedTD(server_step=0.5, **rounds),
        "NStepTD, n = 3": m.NStepTD(n=3, **ahead),
        "ConsensusTD, ring": m.ConsensusTD(**common),
        "OneShotTD": m.OneShotTD(**common),
        "SCAFFLSA": m.SCAFFLSA(**rounds),
        "FedHSA": m.FedHSA(**rounds),
        "DisSACC": m.DisSACC(**(rounds | {"step_size": 2.0})),
        "PFLSA": m.PFLSA(**common),
    }


def controls():
    """Those that learn how to act, with a parameter per pair and K = 20."""
    acting = {"policy": fs.Softmax(2.0), "step_size": 0.05, "sync_every": 20}
    rounds = {"step_size": 0.05, "sync_every": 20}
    return {
        "SARSA": m.SARSA(**acting),
        "SARSA, expected": m.SARSA(aim="expected", **acting),
        "ScaffoldSARSA": m.ScaffoldSARSA(**acting),
        "FedQ, equal": m.FedQ(**rounds),
        "FedQ, importance": m.FedQ(averaging="importance", **rounds),
        "FedSynQ": m.FedSynQ(**rounds),
    }


def ends(method, fleet, steps, runs):
    """The long-run mean of every run, (R, d) or (R, N, d), and its mean squared error around that."""
    every = method.algorithm().sync_every
    if every is None:  # the end alone is recorded
        values = np.stack([method.train(fleet, steps // 5, runs, k).final for k in range(10)], axis=1)
    else:
        history = method.train(fleet, steps, runs, record_every=max(1, steps // every // 2000))
        personal = np.ndim(method.target(fleet)) == 2
        seen = history.personal if personal else history.central
        values = seen.sel(t=slice(steps // 2, None)).values
    mean = values.mean(axis=1)
    return mean, ((values - mean[:, None]) ** 2).sum(axis=-1).mean()


def distance(means, point):
    """How far the mean over runs is from a point, (d,) or (N, d), and its standard error."""
    off = means.mean(axis=0) - point
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    far = np.sqrt((off**2).sum(axis=-1).mean())
    return far, np.sqrt((error**2).sum(axis=-1).mean())


def main(steps=1_000_000, runs=10):
    """Print a row per method."""
    federated = fs.theory.federated_point(GARNETS, STATES, PI)
    print(f"federated point of norm {np.linalg.norm(federated):.3f}")
    for independent in (False, True):
        print(f"\nvalues, {'independent samples' if independent else 'chains'}")
        for name, method in predictions(independent).items():
            means, noise = ends(method, GARNETS, steps, runs)
            off, error = distance(means, method.target(GARNETS))
            print(
                f"{name:24} to its target {off:.4f} +- {error:.4f}, to the federated point "
                f"{distance(means, federated)[0]:.4f}, variance {noise:.2g}"
            )
    best = fs.theory.best_common_policy(MDPS)
    print(f"\ncontrol; return of the best common policy {best.mean_return:.4f}")
    for name, method in controls().items():
        means, noise = ends(method, MDPS, steps, runs)
        off, error = distance(means, method.target(MDPS))
        history = method.train(MDPS, steps, runs, record_every=steps)
        returns = fs.theory.returns_of(MDPS, method.policies(history)[:, None]).discounted_return
        print(
            f"{name:24} to its target {off:.4f} +- {error:.4f}, variance {noise:.2g}, "
            f"return {float(returns.mean()):.4f}"
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
