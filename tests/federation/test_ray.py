"""The ray engine gives the reference engine's numbers, whatever happens to its workers."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import fedsarsa as fs
from tests.worlds_of_tests import dense_features, fleet

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module", autouse=True)
def cluster():
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield ray
    ray.shutdown()


CASES = {
    "weighted and projected": fs.FedSARSA(
        fs.ModuloFeatures(2, 2), fs.Greedy(), 0.2, 5, 0.05, weights=[0.4, 0.1, 0.2, 0.2, 0.1]
    ),
    "averaged": fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(0.2), fs.LinearDecay(3.0, 9.0), 6),
    "own steps": fs.FedSARSA(dense_features(0, 5, 3, 4), fs.Softmax(1.0), [0.1, 0.2, 0.3, 0.2, 0.1], None),
    "failing": fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 1e9, 4),
}


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_agents_are_the_whole_federation(case):
    algo = CASES[case]
    group = fleet(2, agents=5)
    start = np.random.default_rng(0).normal(size=(5, algo.feature_map(group).dim)) * 0.1
    one, two = (
        algo.train(group, 80, runs=2, seed=4, engine=engine, theta0=start, threads=threads)
        for engine, threads in (("reference", None), ("ray", 2))
    )
    for name in one.data:
        np.testing.assert_allclose(two.data[name], one.data[name], rtol=1e-12, atol=1e-12, err_msg=name)
    assert (one.failed_at.values >= 0).all() == (case == "failing")
    assert two.data.attrs["engine"] == "ray"


def test_a_killed_worker_costs_a_round_and_changes_nothing(cluster, monkeypatch):
    from fedsarsa.federation.engines.ray import RayEngine

    algo, group = fs.FedSARSA(fs.ModuloFeatures(2, 2), fs.Softmax(1.0), 0.1, 500), fleet(3, agents=6)
    expected = algo.train(group, 20_000, runs=2, engine="cpu")
    killed = []
    build = RayEngine.__init__

    def doomed(self, problem, threads):
        build(self, problem, threads)

        def kill():
            for block in self.blocks:
                time.sleep(0.2)
                process = cluster.get(block.process.remote())
                os.kill(process, signal.SIGKILL)
                killed.append(process)

        threading.Thread(target=kill, daemon=True).start()

    monkeypatch.setattr(RayEngine, "__init__", doomed)
    history = algo.train(group, 20_000, runs=2, engine="ray", threads=2)
    assert len(set(killed)) == 2
    np.testing.assert_allclose(history.central, expected.central, rtol=0, atol=1e-12)
    np.testing.assert_allclose(history.drift, expected.drift, rtol=1e-11, atol=1e-14)
