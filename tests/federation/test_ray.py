"""The ray engine gives the reference engine's numbers, whatever happens to its workers."""

import os
import signal
import subprocess
import sys
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
    "actions drawn anew": fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 0.2, 7, redraw_actions=True),
    "failing": fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 1e9, 4),
}


CONTROL_CASES = {
    "traces": fs.FedSARSA(fs.TileCoding(4, 3), fs.EpsilonGreedy(0.2), 0.2, 7, trace_decay=0.8),
    "averaged": fs.FedSARSA(fs.FourierBasis(1), fs.Softmax(0.5), fs.LinearDecay(3.0, 9.0), 6),
    "own steps": fs.FedSARSA(
        fs.TileCoding(4, 3), fs.Softmax(0.5), [0.1, 0.2, 0.3, 0.2, 0.1], None, step_per_feature=True
    ),
}


@pytest.mark.parametrize("case", CONTROL_CASES)
def test_blocks_of_control_worlds_are_the_whole_fleet(case):
    # Short episodes, many of which go on from one round to the next.
    group = fs.control.fleet("CartPole", 5, spread=0.3, noise=0.01, time_limit=15)
    one, two = (
        CONTROL_CASES[case].train(group, 80, runs=2, seed=4, engine=engine, threads=2)
        for engine in ("reference", "ray")
    )
    assert one.episodes.sum() >= 2 * 5 * (80 // 15)
    for name in one.data:
        np.testing.assert_allclose(two.data[name], one.data[name], rtol=1e-12, atol=1e-12, err_msg=name)


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

    algo, group = fs.FedSARSA(sync_every=500), fs.paper.fleet(6)
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


def test_a_worker_that_always_dies_is_an_error_that_names_its_agents(monkeypatch, tmp_path):
    from fedsarsa.federation.engines import ray as engine

    lives = tmp_path / "lives"

    class Deadly(engine.Block):  # the block of the last agents dies in its third round, again and again
        def steps(self, held, part, central, t, steps):
            import os
            import signal

            if self.first_agent == 3 and t >= 20:
                with lives.open("a") as file:
                    file.write(".")
                os.kill(os.getpid(), signal.SIGKILL)
            return super().steps(held, part, central, t, steps)

    monkeypatch.setattr(engine, "Block", Deadly)
    with pytest.raises(
        ValueError,
        match=r"worker of agents 3 to 5 died at the steps from 20 on.*: The actor \S+ is unavailable",
    ):
        fs.FedSARSA(sync_every=10).train(fs.paper.fleet(6), 100, runs=1, engine="ray", threads=2)
    assert lives.read_text() == "...."  # once, and three times more


SWEEP = """
[fleet]
states = 10
actions = 5
[training]
steps = 2000
runs = 2
[sweep]
fleet.agents = [1, 2, 3, 4]
algorithm.step_size = [0.1, 0.01]
"""


def test_a_sweep_on_ray_stores_what_a_sweep_here_stores(cluster, tmp_path, monkeypatch):
    from fedsarsa.experiments import cluster as on_ray
    from fedsarsa.experiments import grid, sweep

    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    marker = tmp_path / "killed"
    train = on_ray._train

    def deadly(config, folder):  # the first worker that begins a cell is killed in the middle of it
        import os
        import signal

        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return train(config, folder)

    monkeypatch.setattr(on_ray, "_train", deadly)
    with sweep.opened(grid.load(path), tmp_path / "ray") as work:
        on_ray.train(work, "local")
        there = sweep.run(work, lambda cell, history: history.data)
    assert marker.exists()
    with sweep.opened(grid.load(path), tmp_path / "here") as work:
        here = sweep.run(work, lambda cell, history: history.data)
    assert len(there) == 8
    for one, two in zip(there, here, strict=True):
        assert one.equals(two)

    # What came from the cluster is taken as it is: nothing was trained again.
    assert not list((tmp_path / "ray").glob("*damaged*"))

    def fatal(config, folder):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(on_ray, "_train", fatal)
    with (
        sweep.opened(grid.load(path), tmp_path / "fatal") as work,
        pytest.raises(ValueError, match=r"cell with fleet.agents = .*: its worker died.*: The worker died"),
    ):
        on_ray.train(work, "local")

    def failing(config, folder):
        raise ValueError("no such world")

    monkeypatch.setattr(on_ray, "_train", failing)
    with (
        sweep.opened(grid.load(path), tmp_path / "wrong") as work,
        pytest.raises(ValueError, match=r"cell with fleet.agents = 4.*: no such world"),
    ):
        on_ray.train(work, "local")


def test_a_process_of_its_own_starts_its_own_ray():
    """Nothing of Ray is in the environment, and no cluster runs that this process has joined."""
    script = (
        "import fedsarsa as fs\n"
        "history = fs.FedSARSA().train(fs.paper.fleet(2), 20, 1, engine='ray')\n"
        "print(history.settings is not None, history.data.attrs['engine'])"
    )
    bare = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=bare, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["True", "ray"], done.stderr[-2000:]
