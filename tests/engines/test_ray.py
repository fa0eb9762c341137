"""The ray engine gives the reference engine's numbers, whatever happens to its workers."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation import training
from tests.engines import anchors
from tests.experiments.commands import SWEEP
from tests.federation.trainings import Between, Corrected
from tests.worlds_of_tests import dense_features, fleet

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module", autouse=True)
def cluster():
    from fedsarsa._ray import connect, ray

    connect("local", cores=2)
    yield ray
    ray.shutdown()


@pytest.fixture
def engines_made(monkeypatch):
    """The engines that a test builds."""
    from fedsarsa.engines.ray import RayEngine

    made, build = [], RayEngine.__init__

    def noted(self, *arguments):
        build(self, *arguments)
        made.append(self)

    monkeypatch.setattr(RayEngine, "__init__", noted)
    return made


def process_of(block):
    import ray

    return ray.get(block.meet.remote(fs.__version__), timeout=60)


CASES = {
    "weighted and projected": fs.FedSARSA(
        fs.ModuloFeatures(2, 2), fs.Greedy(), 0.2, 5, 0.05, weights=[0.4, 0.1, 0.2, 0.2, 0.1]
    ),
    "averaged": fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(0.2), fs.LinearDecay(3.0, 9.0), 6),
    "ties to the first": fs.FedSARSA(fs.ModuloFeatures(2, 2), fs.Greedy(ties="first"), 0.2, 5),
    "own steps": fs.FedSARSA(dense_features(0, 5, 3, 4), fs.Softmax(1.0), [0.1, 0.2, 0.3, 0.2, 0.1], None),
    "actions drawn anew": fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 0.2, 7, redraw_actions=True),
    "failing": fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 1e9, 4),
    "own starts": fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 0.1, 6, server=Between()),
    "corrected": fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 0.1, 6, server=Corrected()),
    "visits": fs.FedSARSA(
        fs.OneHot(),
        fs.Softmax(1.0),
        0.1,
        6,
        server=fs.servers.Personal("mixture", 0.1 + np.eye(5) / 2, visits=True),
    ),
}


m, TD = fs.methods, (fs.ModuloFeatures(5, 1), fs.FixedPolicy(), 0.1)
METHODS = {
    "FedTD": m.FedTD(*TD, sync_every=6, server_step=0.5, radius=0.5),
    "NStepTD": m.NStepTD(*TD, sync_every=6, n=1),
    "OneShotTD": m.OneShotTD(*TD),
    "SCAFFLSA": m.SCAFFLSA(*TD, sync_every=6),
    "FedHSA, K = 1": m.FedHSA(*TD, sync_every=1),
    "DisSACC": m.DisSACC(*TD, sync_every=6),
    "PFLSA": m.PFLSA(*TD),
    "ConsensusTD": m.ConsensusTD(*TD),
    "FedQ, equal": m.FedQ([fs.FixedPolicy(row) for row in np.eye(3)[[0, 1, 2, 0, 1]]], 0.2, sync_every=6),
    "FedQ, importance": m.FedQ([fs.FixedPolicy()] * 5, 0.2, sync_every=6, averaging="importance"),
    "SARSA, expected": m.SARSA(fs.OneHot(), fs.Softmax(0.5), 0.2, sync_every=6, aim="expected"),
    "SARSA, max": m.SARSA(fs.OneHot(), fs.EpsilonGreedy(0.2), 0.2, sync_every=6, aim="max"),
    "ScaffoldSARSA": m.ScaffoldSARSA(fs.OneHot(), fs.Softmax(0.5), 0.2, sync_every=6),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_methods_are_those_of_the_reference(method):
    group = fleet(2, agents=5)
    one, two = (
        method.train(group, 20, runs=2, seed=4, engine=engine, threads=threads)
        for engine, threads in (("reference", None), ("ray", 2))
    )
    for name in one.data:
        np.testing.assert_allclose(two.data[name], one.data[name], rtol=1e-12, atol=1e-12, err_msg=name)
    assert two.data.attrs["engine"] == "ray"
    assert one.final.std() > 1e-3


def small_carts():
    """Short episodes, many of which last from one round to the next."""
    return fs.control.fleet("CartPole", 5, spread=0.3, noise=0.01, time_limit=15)


CONTROL_CASES = {
    "traces": fs.FedSARSA(fs.TileCoding(4, 3), fs.EpsilonGreedy(0.2), 0.2, 7, trace_decay=0.8),
    "averaged": fs.FedSARSA(fs.FourierBasis(1), fs.Softmax(0.5), fs.LinearDecay(3.0, 9.0), 6),
    "own steps": fs.FedSARSA(
        fs.TileCoding(4, 3), fs.Softmax(0.5), [0.1, 0.2, 0.3, 0.2, 0.1], None, step_per_feature=True
    ),
    "weighted and projected": fs.FedSARSA(
        fs.RBF(2), fs.Greedy(), 0.2, 5, 0.05, weights=[0.4, 0.1, 0.2, 0.2, 0.1], target="expected"
    ),
    "failing": fs.FedSARSA(fs.FourierBasis(1), fs.Softmax(0.5), 1e9, 10),
}


@pytest.mark.parametrize("case", CONTROL_CASES)
def test_blocks_of_control_worlds_are_the_whole_fleet(case):
    group = small_carts()
    one, two = (
        CONTROL_CASES[case].train(group, 80, runs=2, seed=4, engine=engine, threads=2)
        for engine in ("reference", "ray")
    )
    assert one.data["episodes"].sum() >= (80 // 15) * 10 or case == "failing"
    for name in one.data:
        np.testing.assert_allclose(two.data[name], one.data[name], rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_blocks_of_agents_are_the_whole_federation(case):
    algo = CASES[case]
    group = fleet(2, agents=5)
    size = 0.0 if case == "ties to the first" else 0.1  # from 0 all values tie
    start = np.random.default_rng(0).normal(size=(5, algo.feature_map(group).dim)) * size
    one, two = (
        algo.train(group, 80, runs=2, seed=4, engine=engine, theta0=start, threads=threads)
        for engine, threads in (("reference", None), ("ray", 2))
    )
    for name in one.data:
        np.testing.assert_allclose(two.data[name], one.data[name], rtol=1e-12, atol=1e-12, err_msg=name)
    assert (one.failed_at.values >= 0).all() == (case == "failing")
    assert two.data.attrs["engine"] == "ray"


def test_blocks_follow_a_schedule():
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(fs.LinearSchedule(5.0, 0.1, steps=200)), 0.2, 30)
    one, two = (
        algo.train(fleet(2, agents=3), 240, runs=2, engine=engine, threads=2)
        for engine in ("reference", "ray")
    )
    np.testing.assert_allclose(two.central, one.central, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["finite", "control"])
def test_numbers_that_were_written_down(kind):
    parts, numbers = getattr(anchors, kind)(), getattr(anchors, kind.upper())
    anchors.assert_anchored(parts, numbers, "ray")


KILLED = {
    "finite": (fs.FedSARSA(sync_every=500), fs.paper.fleet(6)),
    "control": (
        fs.FedSARSA(fs.TileCoding(4, 3), fs.EpsilonGreedy(0.2), 0.2, 500, trace_decay=0.8),
        fs.control.fleet("CartPole", 6, spread=0.3),
    ),
}


@pytest.mark.parametrize("case", KILLED)
def test_a_killed_worker_costs_a_round_and_changes_nothing(monkeypatch, tmp_path, case):
    from fedsarsa.engines import ray as engine

    algo, group = KILLED[case]
    expected = algo.train(group, 20_000, runs=2, engine="cpu")

    class Doomed(engine.AgentBlock):  # dies in the middle of a round, once
        def steps(self, held, part, central, t, steps, *rest):
            import os

            answer = super().steps(held, part, central, t, steps, *rest)
            life = tmp_path / str(self.first_agent)
            if t >= 5_000 + 1_000 * self.first_agent and not life.exists():
                life.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

    monkeypatch.setattr(engine, "AgentBlock", Doomed)
    history = algo.train(group, 20_000, runs=2, engine="ray", threads=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "3"]
    for name in expected.data:
        np.testing.assert_allclose(
            history.data[name], expected.data[name], rtol=1e-11, atol=1e-12, err_msg=name
        )


def test_workers_of_a_training_given_up_are_gone(cluster, engines_made):
    def stop(t):
        raise RuntimeError("enough")

    algo, group = fs.FedSARSA(), fs.paper.fleet(4)
    with pytest.raises(RuntimeError, match="enough") as kept:  # as a notebook keeps the last traceback
        algo.train(group, 100, runs=1, engine="ray", threads=2, progress=stop)
    assert kept.tb is not None

    def gone(block):
        try:
            process_of(block)
        except cluster.exceptions.RayActorError:
            return True
        return False

    until = time.monotonic() + 60
    while not all(gone(block) for block in engines_made[0].blocks):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_training_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    def stop(t):
        if t >= 40:
            raise RuntimeError("enough")

    monkeypatch.setattr("fedsarsa.federation.engine.FIRST_SPAN", 4 * 5 * 2)  # ends in the middle of rounds
    monkeypatch.setattr(training, "adapted", lambda *_: 4)
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)
    algo, group = CONTROL_CASES["traces"], small_carts()
    again = {"runs": 2, "engine": "ray", "threads": 2, "checkpoint": tmp_path / "checkpoint.nc"}
    with pytest.raises(RuntimeError, match="enough"):
        algo.train(group, 80, **again, progress=stop)
    began = []
    history = algo.train(group, 80, **again, progress=began.append)
    assert began[0] > 30
    expected = algo.train(group, 80, runs=2, engine="reference")
    for name in expected.data:
        np.testing.assert_allclose(
            history.data[name], expected.data[name], rtol=1e-12, atol=1e-12, err_msg=name
        )


def test_cores_that_others_hold_are_waited_for_with_a_word(cluster, monkeypatch, capsys):
    from fedsarsa.engines import ray as engine

    class Guest:
        def here(self):
            return True

    def hold(cores):
        guest = cluster.remote(num_cpus=cores)(Guest).remote()
        assert cluster.get(guest.here.remote())
        return guest

    algo, group = fs.FedSARSA(), fs.paper.fleet(4)
    monkeypatch.setattr(engine, "PATIENCE", 400.0)
    guest = hold(1)  # one of two: the other is enough for any number of workers
    algo.train(group, 20, runs=1, engine="ray", threads=3)
    cluster.kill(guest)
    assert "waiting" not in capsys.readouterr().err
    guest = hold(2)
    say_if_late = engine.say_if_late

    def say_and_free(calls, what):
        late = say_if_late(calls, what)
        if what.startswith("waiting"):
            cluster.kill(guest)
        return late

    monkeypatch.setattr(engine, "PATIENCE", 0.5)
    monkeypatch.setattr(engine, "say_if_late", say_and_free)
    algo.train(group, 20, runs=1, engine="ray", threads=2)
    assert "fedsarsa: waiting for 2 workers to start; the cluster may have no" in capsys.readouterr().err


def test_every_machine_has_the_same_fedsarsa(monkeypatch, tmp_path):
    from fedsarsa.engines import ray as engine
    from fedsarsa.experiments import cluster as on_ray
    from fedsarsa.experiments import grid, sweep

    def train():
        fs.FedSARSA().train(fs.paper.fleet(2), 20, runs=1, engine="ray")

    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)

    def train_cells():
        with sweep.opened(grid.load(path), tmp_path / "out") as work:
            on_ray.train(work, "local")

    for module, work in ((engine, train), (on_ray, train_cells)):
        with monkeypatch.context() as patch:
            patch.setattr(module, "__version__", "0.0.1")
            with pytest.raises(ValueError, match=r"expected fedsarsa 0.0.1 on every machine .*, got 0\."):
                work()
    # A module that only this process has, as fedsarsa is where workers lack it.
    monkeypatch.setitem(
        sys.modules, "fedsarsa_elsewhere", elsewhere := types.ModuleType("fedsarsa_elsewhere")
    )
    for module, name, work in ((engine, "AgentBlock", train), (on_ray, "_train", train_cells)):
        theirs = (
            types.new_class(name, (engine.AgentBlock,))
            if name == "AgentBlock"
            else types.FunctionType(on_ray._train.__code__, {}, name)
        )
        theirs.__module__, theirs.__qualname__ = elsewhere.__name__, name
        setattr(elsewhere, name, theirs)
        monkeypatch.setattr(module, name, theirs)
        with pytest.raises(
            ValueError, match=r"No module named 'fedsarsa_elsewhere'\); expected fedsarsa .* on every machine"
        ):
            work()


def test_a_worker_that_always_dies_is_an_error_that_names_its_agents(monkeypatch, tmp_path):
    from fedsarsa._ray import RETRIES
    from fedsarsa.engines import ray as engine

    lives = tmp_path / "lives"

    class Deadly(engine.AgentBlock):  # the block of the last agents dies in its third round, again and again
        def steps(self, held, part, central, t, steps, *rest):
            import os

            if self.first_agent == 3 and t >= 20:
                with lives.open("a") as file:
                    file.write(".")
                os.kill(os.getpid(), signal.SIGKILL)
            return super().steps(held, part, central, t, steps, *rest)

    monkeypatch.setattr(engine, "AgentBlock", Deadly)
    with pytest.raises(
        ValueError,
        match=r"worker of agents 3 to 5 died at the steps from 20 on.*: The actor \S+ is unavailable",
    ):
        fs.FedSARSA(sync_every=10).train(fs.paper.fleet(6), 100, runs=1, engine="ray", threads=2)
    assert 2 <= len(lives.read_text()) <= 1 + RETRIES  # Ray counts calls that do not reach a worker as well


def test_a_sweep_on_ray_stores_what_a_sweep_here_stores(cluster, tmp_path, monkeypatch):
    from fedsarsa.experiments import cluster as on_ray
    from fedsarsa.experiments import grid, sweep

    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    begun, first = tmp_path / "begun", tmp_path / "first"
    train = on_ray._train

    def deadly(config, folder, version):  # the first worker that begins a cell is killed in the middle of it
        import os

        with begun.open("a") as file:
            file.write(".")
        with contextlib.suppress(FileExistsError):
            first.touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
        return train(config, folder, version)

    monkeypatch.setattr(on_ray, "_train", deadly)
    with sweep.opened(grid.load(path), tmp_path / "ray") as work:
        reported = []
        on_ray.train(work, "local", lambda steps=0, cells=0: reported.append(cells))
        assert sum(reported) == 8
        assert begun.read_text() == "." * 9  # every cell once, and once more the one whose worker was killed
        there = [work.history(cell).data for cell in work.grid.cells]  # all are stored
    with sweep.opened(grid.load(path), tmp_path / "here") as work:
        here = sweep.run(work, lambda cell, history: history.data)
    assert len(there) == 8
    for one, two in zip(there, here, strict=True):
        assert one.equals(two)

    def fatal(config, folder, version):
        import os

        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(on_ray, "_train", fatal)
    # Ray tries every cell four times, each in a process of its own: one is enough.
    path.write_text(SWEEP.replace("[1, 2, 3, 4]", "[4]").replace("[0.1, 0.01]", "[0.1]"))
    with (
        sweep.opened(grid.load(path), tmp_path / "fatal") as work,
        pytest.raises(ValueError, match=r"cell with fleet.agents = .*: its worker died.*: The worker died"),
    ):
        on_ray.train(work, "local")

    def failing(config, folder, version):
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
    kept = "RAY_worker_niceness"
    bare = {name: own for name, own in os.environ.items() if name == kept or not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=bare, capture_output=True, text=True, timeout=400
    )
    assert done.stdout.split() == ["True", "ray"], done.stderr[-2000:]
