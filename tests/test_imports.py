"""What works where there is no compiler: everything but training and rollouts."""

import subprocess
import sys

import pytest

import fedsarsa as fs
from tests.without_numba import run_without_numba


def test_numba_is_refused_where_kernels_are_defined():
    assert run_without_numba(
        """
        try:
            import fedsarsa.engines.general
        except ImportError as error:
            print(error)
        """
    ) == ["numba must not be imported"]


def test_public_names_import_without_numba():
    """All but ``rollouts``, which plays episodes with a kernel."""
    printed = run_without_numba(
        """
        import fedsarsa as fs

        for name in sorted(fs.__all__):
            if name != "rollouts":
                getattr(fs, name)
                print(name)
        """
    )
    assert printed == sorted(set(fs.__all__) - {"rollouts"})


def test_results_are_read_without_numba(tmp_path):
    fleet = fs.paper.fleet(2, states=6, actions=4)
    history = fs.FedSARSA(features=fs.ModuloFeatures(3, 2)).train(fleet, steps=40, runs=2)
    history.save(tmp_path / "history.nc")
    printed = run_without_numba(
        """
        import sys
        import fedsarsa as fs

        history = fs.History.load(sys.argv[1])
        print(history)
        print(history.final.values.tolist())
        print(history.mse([0.0] * 6).values[:, -1].tolist())
        """,
        str(tmp_path / "history.nc"),
    )
    assert printed == [
        repr(history),
        repr(history.final.values.tolist()),
        repr(history.mse([0.0] * 6).values[:, -1].tolist()),
    ]


THEORY = """
import sys
import numpy as np
import fedsarsa as fs

fleet = fs.paper.fleet(3, eps_p=0.2, eps_r=0.2, states=6, actions=4)
fleet = fs.Fleet([*fleet, fs.FiniteMDP(fleet[0].transition, fleet[0].reward, fleet[0].discount)])
algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(5.0), step_size=0.05, sync_every=5)
for features in (fs.OneHot(), fs.TabularFeatures(np.eye(24).reshape(6, 4, 24))):
    for policy in (fs.Greedy(), fs.EpsilonGreedy(0.2), fs.FixedPolicy()):
        fs.FedSARSA(features, policy, fs.LinearDecay(0.1, 100.0), server=fs.servers.Median())
theta = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
prediction = fs.theory.predict(fleet, algo, 200)
plan = fs.theory.plan(fleet, algo, 0.05 * float(prediction.mse[0]), most_steps=20_000)
print(theta.tolist())
print(fs.theory.federated_point(fleet, algo.features, algo.policy).tolist())
print(fs.theory.round_limit(fleet, algo).tolist())
print(sorted(fs.theory.constants(fleet, algo).scalars().items()))
print([row.bound for row in fs.theory.bounds(fleet, algo, 20)])
print(prediction.mse.values.tolist())
print(plan)
print(fs.evaluate(fleet, algo, theta)["gap"].values.tolist())
print(fs.theory.evaluate(fleet, algo, theta)["average_reward"].values.tolist())
"""


@pytest.mark.slow
def test_theory_needs_no_numba_and_does_not_import_it():
    code = THEORY + "\nprint([name for name in sys.modules if name.startswith('numba')])"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert there.splitlines()[-1] == "[]"
    assert run_without_numba(code) == there.splitlines()
