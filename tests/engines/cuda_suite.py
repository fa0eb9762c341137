"""The cuda engine beside the reference: on a GPU (``make test-gpu``), or in the simulator (test_cuda.py)."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from signal import SIGINT, raise_signal
from types import SimpleNamespace

import numba
import numpy as np
import pytest
import xarray as xr
from numba import cuda

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa._interrupts import Interrupted
from fedsarsa._numba import SIMULATED
from fedsarsa.engines import cuda as cuda_engines
from fedsarsa.engines import cuda_batch, cuda_device, cuda_general, cuda_layout, cuda_memory
from fedsarsa.engines.compiled import finish_span, span_of
from fedsarsa.experiments import grid, sweep
from fedsarsa.experiments.leaderboard import entries, fleets, together
from fedsarsa.experiments.leaderboard.cells import Cell
from fedsarsa.experiments.leaderboard.entries import CONTROL
from fedsarsa.experiments.leaderboard.scale import Scale
from fedsarsa.experiments.reproduction import settings
from fedsarsa.federation import training
from fedsarsa.federation.state import first_state
from fedsarsa_benchmarks import gpu
from tests.engines.parity import assert_same_training
from tests.methods.cases import CASES as METHODS
from tests.methods.cases import FLEET as METHODS_FLEET
from tests.pairwise import pairwise
from tests.worlds_of_tests import dense_features, fleet, kernel_of

STATES, ACTIONS = 7, 4
POLICIES = [
    fs.Softmax(1.0),
    fs.Softmax(0.004),  # masses vanish and overflow
    fs.Greedy(),
    fs.Greedy(ties="first"),
    fs.EpsilonGreedy(0.2),
    fs.FixedPolicy("uniform"),
]
FEATURES = [fs.ModuloFeatures(3, 2), fs.OneHot(), dense_features(0, STATES, ACTIONS, 4)]
WORLDS = {
    "CartPole": (fs.TileCoding(2, 2), None),
    "MountainCar": (fs.FourierBasis(2), None),
    "Acrobot": (fs.RandomFourier(5), None),
    "Pendulum": (fs.RBF([2, 2, 2]), fs.GridActions(3)),
    "MountainCarContinuous": (fs.TileCoding(2, 2, memory=64), fs.RandomActions(3)),
}
RULES = [
    fs.servers.Median(),
    fs.servers.TrimmedMean(0.34),
    fs.servers.Krum(0),
    fs.servers.ServerStep(0.7),
    fs.servers.ControlVariates(),
    fs.servers.MeanDirection(),
    fs.servers.SharedDirections(),
    fs.servers.Consensus("ring"),
    fs.servers.PrivateMean(1.0, 0.1),
    fs.servers.Personal(),
    fs.servers.Personal(visits=True),
    fs.servers.ImportanceMean(),
]


def same(algo, group, steps, **more):
    assert_same_training(algo, group, steps, engine="cuda", **more)


def group_of(agents=3, kind="shift", axes=2):
    return fleet(1, agents=agents, states=STATES, actions=ACTIONS, kind=kind, reward_axes=axes)


@pytest.mark.parametrize(
    ("policy", "features", "world"), pairwise(POLICIES, FEATURES, [("shift", 1), ("dense", 3)]), ids=repr
)
def test_every_policy_and_feature(policy, features, world):
    kind, axes = world
    same(fs.FedSARSA(features, policy, 0.3, 4), group_of(kind=kind, axes=axes), steps=10)


@pytest.mark.parametrize(
    "settings",
    [
        {"step_size": fs.LinearDecay(4.0, 8.0)},
        {"step_size": fs.PiecewiseDecay([0.4, 0.1], [5])},
        {"step_size": [0.1, 0.2, fs.LinearDecay(4.0, 8.0)]},
        {"radius": 0.3, "weights": [0.2, 0.5, 0.3]},
        {"sync_every": None},
        {"sync_every": 1},
        {"policy": fs.Softmax(fs.LinearSchedule(2.0, 1.0, 10))},
        {"step_size": fs.LinearDecay(4.0, 8.0), "trace_decay": 0.5},
        {"trace_decay": 0.8, "traces": "replacing", "redraw_actions": True},
        {"target": "expected", "behaviour": fs.FixedPolicy("uniform")},
        {"target": "max", "step_per_feature": True},
        {"participation": 0.6},
        {"faults": fs.Faults(absent=0.3)},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_every_setting(settings):
    chosen = {
        "features": fs.ModuloFeatures(3, 2),
        "policy": fs.Softmax(1.0),
        "step_size": 0.3,
        "sync_every": 4,
    }
    same(fs.FedSARSA(**(chosen | settings)), group_of(), steps=11)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_every_server_rule(rule):
    policy = fs.FixedPolicy("uniform") if rule.shifts or rule.leaves else fs.Softmax(1.0)
    same(fs.FedSARSA(fs.ModuloFeatures(3, 2), policy, 0.1, 4, server=rule), group_of(), steps=9)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method(method):
    problem = method.problem(METHODS_FLEET, 9, runs=1, seed=5)
    if engines._other_samples(problem) is not None:
        with pytest.raises(ValueError, match="engine must be cpu or reference"):
            engines.build("cuda", problem)
    else:
        same(method, METHODS_FLEET, steps=9, runs=1)


@pytest.mark.parametrize("agents", [1, 2, 70])
def test_one_agent_and_more_than_a_block_has(agents):
    for size in (0.3, fs.LinearDecay(4.0, 8.0)):
        algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(1.0), size, 4)
        same(algo, group_of(agents), steps=9, runs=3)


@pytest.mark.skipif(not SIMULATED, reason="needs the simulator, which gives memory to blocks")
@pytest.mark.parametrize("agents", [1, 3, 40])
@pytest.mark.parametrize("radius", [None, 0.3])
@pytest.mark.parametrize("size", [0.3, fs.LinearDecay(4.0, 8.0)], ids=repr)
def test_nothing_is_read_before_it_is_written(monkeypatch, agents, radius, size):
    """Blocks begin with what others left in shared memory, which may be NaN."""
    from numba.cuda.simulator import kernelapi

    own = kernelapi.FakeCUDAShared.__init__

    def begin(self, dynshared_size):
        own(self, dynshared_size)
        self._dynshared[:] = -1  # NaN in float64

    monkeypatch.setattr(kernelapi.FakeCUDAShared, "__init__", begin)
    monkeypatch.setattr(cuda_engines, "FIRST_SPAN", 1)  # several spans: later ones begin with the mean
    same(fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(1.0), size, 2, radius), group_of(agents), 8, runs=2)


def test_precisions_in_one_process():
    """Large federations are settled by a kernel of their own, for numbers of their precision."""
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(1.0), 0.3, 4, 0.3)
    algo.train(group_of(70), 8, runs=1, engine="cuda", precision="float32")
    same(algo, group_of(70), steps=8, runs=1)


def test_many_active_features_stay_in_rows(monkeypatch):
    monkeypatch.setattr(cuda_general, "HELD", 2)
    cuda_general.kernels.cache_clear()
    try:
        same(fs.FedSARSA(fs.FourierBasis(2), fs.Softmax(1.0), 0.1, 4), fs.control.fleet("MountainCar", 2), 9)
    finally:
        cuda_general.kernels.cache_clear()


@pytest.mark.parametrize(
    ("policy", "trace_decay", "agents", "steps", "seed"),
    [(fs.Greedy(), 0.0, 40, 4, 0), (fs.EpsilonGreedy(0.2), 0.0, 40, 6, 1), (fs.Greedy(), 0.5, 70, 4, 0)],
)
def test_ties_among_more_agents_than_a_block_has(monkeypatch, policy, trace_decay, agents, steps, seed):
    """All rewards are the same, and so are many values: sums in another order would break their ties."""
    monkeypatch.setattr(cuda_engines, "PART", 9)
    world = fs.FiniteMDP(kernel_of("shift", np.random.default_rng(0), STATES, ACTIONS), [-0.3] * STATES, 0.6)
    algo = fs.FedSARSA(fs.OneHot(), policy, 0.3, 1, trace_decay=trace_decay)
    for size in (agents,) if SIMULATED else (agents, 600):
        same(algo, fs.Fleet([world] * size), steps, runs=1, seed=seed, scale=0.0)


def test_sums_of_parts(monkeypatch):
    """Of agents, and of more parameters than a block sums up."""
    monkeypatch.setattr(cuda_engines, "PART", 9)
    algo = fs.FedSARSA(
        dense_features(0, STATES, ACTIONS, 40), fs.Softmax(1.0), fs.LinearDecay(4.0, 8.0), 2, trace_decay=0.5
    )
    same(algo, group_of(20), steps=4, runs=1)


@pytest.mark.parametrize("world", WORLDS)
def test_every_control_world_and_basis(world):
    features, actions = WORLDS[world]
    algo = fs.FedSARSA(features, fs.EpsilonGreedy(0.2), 0.1, 4, actions=actions, trace_decay=0.5)
    group = fs.control.fleet(world, agents=2, seed=0)
    one, two = (algo.train(group, 13, runs=2, engine=name) for name in ("reference", "cuda"))
    # Cosines may differ in their last bit, and with them what follows.
    np.testing.assert_allclose(two.central, one.central, rtol=0, atol=1e-12)
    np.testing.assert_allclose(two.local, one.local, rtol=0, atol=1e-12)


@pytest.mark.parametrize("trace_decay", [0.0, 0.5])
def test_runs_that_fail_fail_at_the_same_step(trace_decay):
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.FixedPolicy(0), 1e60, 4, trace_decay=trace_decay)
    one, two = (algo.train(group_of(), 12, runs=3, engine=name) for name in ("reference", "cuda"))
    assert np.isnan(one.final).all()
    np.testing.assert_array_equal(two.central, one.central)
    np.testing.assert_array_equal(two.data.failed_at, one.data.failed_at)


def test_problems_side_by_side_are_those_alone():
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(1.0), 0.3, 4)
    groups = [group_of(agents) for agents in (1, 2, 2, 5)]
    problems = [
        fs.FedSARSA(algo.features, fs.Softmax(1.0 + i), 0.1 + i / 10, 4).problem(group, 8, 2, i)
        for i, group in enumerate(groups)
    ]
    batch = cuda_batch.Batch(problems)
    states = [first_state(problem, np.zeros(problem.features.dim)) for problem in problems]
    batch.start(states)
    central, drift = batch.train(states, span_of(problems[0], 0, 8))
    for i, problem in enumerate(problems):
        alone, runs = first_state(problem, np.zeros(problem.features.dim)), slice(2 * i, 2 * i + 2)
        engine = engines.build("reference", problem)
        engine.start(alone)
        seen = engine.advance(alone, 8)
        np.testing.assert_allclose(central[runs], seen.central, rtol=0, atol=1e-12)
        np.testing.assert_allclose(drift[runs], seen.drift, rtol=1e-11, atol=1e-14)
        np.testing.assert_array_equal(states[i].states, alone.states)


@pytest.fixture
def trained_together(monkeypatch):
    """How many problems were trained side by side, batch by batch."""
    sizes, build = [], engines.build_together

    def counted(name, problems):
        sizes.append(len(problems))
        return build(name, problems)

    monkeypatch.setattr(engines, "build_together", counted)
    return sizes


def cells(engine):
    """Two fleets, two temperatures and greedy policies, rounds of two lengths."""
    content = {
        "fleet": {"states": STATES, "actions": ACTIONS, "eps_p": 0.5, "eps_r": 0.5},
        "algorithm": {"features": {"kind": "modulo", "d1": 3, "d2": 2}, "step_size": 0.3},
        "training": {"steps": 14, "runs": 2, "record_every": 2, "engine": engine},
    }
    policies = [{"temperature": 1.0}, {"temperature": 2.0}, {"kind": "greedy"}]
    axes = {"fleet.agents": [1, 3], "algorithm.policy": policies, "algorithm.sync_every": [2, 3]}
    return grid.build(content, axes, Path(), "test")


def final_and_records(cell, history):
    return history.final.values, history.central.values, history.drift.values[:, 1:]


def test_a_sweep_trains_its_cells_side_by_side(tmp_path, trained_together):
    found = {}
    for engine in ("reference", "cuda"):
        with sweep.opened(cells(engine), tmp_path / engine) as work:
            steps = []
            found[engine] = sweep.run(
                work, final_and_records, report=lambda *, steps=0, cells=0, told=steps: told.append(steps)
            )
            assert sum(steps) == sum(cell.work for cell in work.grid.cells)
    assert sorted(trained_together) == [2, 2, 4, 4]  # greedy and softmax, K = 2 and 3
    for one, two in zip(found["reference"], found["cuda"], strict=True):
        for wanted, array in zip(one, two, strict=True):
            np.testing.assert_allclose(array, wanted, rtol=1e-11, atol=1e-12)


def test_cells_side_by_side_that_are_interrupted_go_on(tmp_path, monkeypatch, trained_together):
    grid_of = cells("cuda")
    with sweep.opened(grid_of, tmp_path / "whole") as work:
        whole = sweep.run(work, final_and_records)
    trained_together.clear()

    def press(*, steps=0, cells=0):
        if steps:
            raise_signal(SIGINT)

    with sweep.opened(grid_of, tmp_path / "cut") as work:
        with monkeypatch.context() as patch:
            patch.setattr(training, "SPAN_NUMBERS", 1)  # a round at a time
            with pytest.raises(Interrupted):
                sweep.run(work, final_and_records, report=press)
        begun = len(list((tmp_path / "cut").glob("*.checkpoint.nc")))
        assert begun == trained_together[0] > 1
        for one, two in zip(whole, sweep.run(work, final_and_records), strict=True):
            for wanted, array in zip(one, two, strict=True):
                np.testing.assert_allclose(array, wanted, rtol=1e-11, atol=1e-12)
    assert sum(trained_together) == len(grid_of.cells)


def test_a_leaderboard_trains_its_cells_side_by_side(trained_together):
    ground = fleets.GROUNDS["two-state"](0)
    scale = Scale(10, 10, 8, 1, 1, (0.1, 0.3), (0.5,), 1)
    labels = ["FedSARSA", "pooled, SARSA", "FedQ, equal averaging", "alone, SARSA"]
    rows = [one for one in entries.ENTRIES if one.label in labels]
    every = [Cell(place, CONTROL, ground, one) for place, one in enumerate(rows)]
    assert all(together.takes("cuda", cell, scale) for cell in every)
    slow, fast = (dict(together.measured(every, name, scale, 0)) for name in ("reference", "cuda"))
    # Both settings of both rows that average; of the row that never does; and the chosen ones.
    assert sorted(trained_together) == [1, 2, 2, 4]
    assert len(fast) == len(every)
    for cell in every:
        xr.testing.assert_allclose(fast[cell], slow[cell], rtol=1e-9)
        assert fast[cell].attrs == slow[cell].attrs


@pytest.mark.parametrize("agents", [1, 2, 40])
def test_every_other_synchronisation_is_recorded(agents):
    problems = [fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 0.3, 1).problem(group_of(agents), 9, 1, 0)]
    found = []
    for record_every, lengths in ((1, [9]), (2, [3, 1, 5]), (4, [2, 7])):
        batch, seen = cuda_batch.Batch(problems), []
        states = [first_state(problems[0], np.zeros(batch.dim))]
        batch.start(states)
        for steps in lengths:
            span = span_of(problems[0], states[0].t, steps)
            seen.append(batch.train(states, span, record_every))
            finish_span(problems[0], states[0], span, steps)
        found.append([np.concatenate(arrays, axis=1) for arrays in zip(*seen, strict=True)])
    for record_every, arrays in zip((2, 4), found[1:], strict=True):
        for every, some in zip(found[0], arrays, strict=True):
            np.testing.assert_array_equal(some, every[:, record_every - 1 :: record_every])


def test_batches_fit_into_the_memory(monkeypatch):
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(1.0), 0.3, 4)
    problems = [algo.problem(group_of(agents), 8, 2, 0) for agents in (5, 1, 3)]
    assert engines.batches("cuda", problems) == [[1, 2, 0]]
    monkeypatch.setattr(cuda_device, "free_memory", lambda: (1, 1))
    assert engines.batches("cuda", problems) == [[1], [2], [0]]
    assert engines.batches("cuda", [algo.problem(group_of(), 9, 2, 0), problems[0]]) == [[0], [1]]
    apart = [
        fs.FedSARSA(algo.features, algo.policy, trace_decay=0.5),
        fs.FedSARSA(algo.features, fs.Softmax(fs.LinearSchedule(2.0, 1.0, 10))),
        fs.FedSARSA(algo.features, algo.policy, server=fs.servers.Median()),
    ]
    assert engines.batches("cuda", [one.problem(group_of(), 8, 2, 0) for one in apart]) == []


def test_a_checkpoint_moves_to_another_engine(tmp_path):
    algo, path = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(1.0), 0.3, 4), tmp_path / "checkpoint.nc"
    algo.train(group_of(), 10, runs=2, engine="cuda", checkpoint=path)
    extended = algo.train(group_of(), 18, runs=2, engine="reference", checkpoint=path)
    whole = algo.train(group_of(), 18, runs=2, engine="reference")
    np.testing.assert_allclose(extended.local, whole.local, rtol=0, atol=1e-12)


def test_blocks_have_every_agent_once():
    agents = np.repeat([1, 3, 40, 200], [70, 5, 3, 2])
    blocks = cuda_layout.whole_blocks(agents, 256)
    assert (blocks.federations * blocks.agents <= 256).all()
    assert blocks.federations.max() <= cuda_layout.MOST_FEDERATIONS
    covered = [
        int(f + i) for f, n in zip(blocks.first, blocks.federations, strict=True) for i in range(int(n))
    ]
    assert covered == list(range(len(agents)))
    np.testing.assert_array_equal(blocks.agents, agents[blocks.first.astype(int)])
    blocks, owned = cuda_layout.split_blocks(agents, 64)
    np.testing.assert_array_equal(np.add.reduceat(blocks.agents, owned[:-1].astype(int)), agents)


def test_blocks_that_a_multiprocessor_runs_at_once():
    """Of an H200: in the published setting, three blocks of 160 agents with 408 bytes each are 15 warps."""
    limits = cuda_device.Limits(132, 233_472, 2048, 65_536, 232_448, 1024)
    assert cuda_layout.at_once(limits, 408 * 160, registers=64, threads=160) == 3
    assert cuda_layout.at_once(limits, 0, registers=128, threads=160) == 3
    assert cuda_layout.at_once(limits, 0, registers=16, threads=1024) == 2
    assert cuda_layout.at_once(limits, 0, registers=16, threads=32) == 32


def test_the_benchmark_measures_all_it_says(monkeypatch):
    few = {"steps": 10, "runs": 1, "period_runs": 1, "team": 1, "small_team": 1}
    tiny = replace(settings.QUICK, sizes=(1,), levels=(0.0,), horizons=(10,), periods=(5,), **few)
    monkeypatch.setattr(gpu.settings, "QUICK", tiny)
    monkeypatch.setattr(gpu, "START", "print(1.5)")
    small = {"STEPS": 100, "LEVELS": (0.0,), "SIZES": (1,), "RUNS": 10, "SHORT": 10}
    small |= {"AGENTS": 1000, "CARS": 20, "COMPARED": 10}
    for name, value in small.items():
        monkeypatch.setattr(gpu, name, value)
    told = {result.what: result for result in gpu.measure(quick=True)}
    wanted = ["kernel", "with transfers", "cpu engine", "float32", "sweeps of reproduce", "K = 10, wall"]
    wanted += [
        "d = 25, memory of arrays",
        "mountain cars",
        "first result in a second process",
        "numbers than cpu",
    ]
    wanted += (
        [] if SIMULATED else ["registers", "theoretical occupancy", "can be issued", "what it waits for"]
    )
    for words in wanted:
        assert any(words in what for what in told), words
    assert told["first result in a second process"].measured == "1.5 s"


def test_what_the_engine_refuses():
    windows = fs.methods.NStepTD(features=fs.OneHot(), policy=fs.FixedPolicy("uniform"), n=2)
    with pytest.raises(ValueError, match="engine must be cpu or reference for steps that see other"):
        windows.train(group_of(), 10, runs=1, engine="cuda")
    own = fs.FedSARSA(numba.njit(lambda x: x / 3), fs.Softmax(1.0))
    with pytest.raises(ValueError, match="engine must be cpu or ray or reference for features that are"):
        own.train(fs.control.fleet("CartPole", 2), 10, runs=1, engine="cuda")
    assert cuda_device.missing() is None


ENGINES = {
    "finite": lambda: fs.FedSARSA(fs.OneHot(), step_size=fs.LinearDecay(4.0, 8.0)),
    "general": lambda: fs.FedSARSA(fs.OneHot(), trace_decay=0.5),
    "transfers": lambda: fs.FedSARSA(fs.OneHot(), server=fs.servers.Median()),
}


@pytest.fixture
def full_from(monkeypatch):
    """Let a copy to the GPU fail, counted from now on; a list whose first item counts them."""
    counted, copy = [0, -1], cuda.to_device

    def to_device(*arguments):
        counted[0] += 1
        if counted[0] == counted[1]:
            raise RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")
        return copy(*arguments)

    monkeypatch.setattr(cuda, "to_device", to_device)

    def fail(place):
        counted[:] = [0, place]
        return counted

    return fail


@pytest.mark.parametrize("kind", ENGINES)
def test_a_gpu_whose_memory_is_full_at_any_copy(kind, full_from):
    def train():
        ENGINES[kind]().train(group_of(), 10, runs=2, engine="cuda")

    copies = full_from(-1)
    train()
    assert copies[0] > 30
    for place in range(1, copies[0] + 1, 1 if kind == "finite" else 7):
        full_from(place)
        with pytest.raises(ValueError, match=r"runs must fit into the GPU's memory, got 2: "):
            train()


def test_side_by_side_on_a_gpu_whose_memory_is_full(full_from):
    problems = [ENGINES["finite"]().problem(group_of(agents), 10, 2, 0) for agents in (1, 3)]

    def train():
        states = [first_state(problem, np.zeros(problem.features.dim)) for problem in problems]
        trainer = engines.build_together("cuda", problems)
        trainer.start(states)
        trainer.advance(states, 10, 1)

    copies = full_from(-1)
    train()
    for place in range(1, copies[0] + 1, 5):
        full_from(place)
        with pytest.raises(ValueError, match=r"runs must fit into the GPU's memory, got 4: "):
            train()


@pytest.mark.parametrize(
    ("own", "free", "told"),
    [
        (0, 10, "10 of 10 GiB are free; at most 7 fit"),
        (4, 6, "10 of 10 GiB are free; at most 7 fit"),
        (0, 9, "9 of 10 GiB are free; at most 7 fit"),
        (3, 4, "7 of 10 GiB are free (other processes hold 3 GiB); at most 5 fit"),
        (1, 0, "1 of 10 GiB are free (other processes hold 9 GiB); not even one fits"),
    ],
)
def test_how_many_runs_fit(monkeypatch, own, free, told):
    """A tenth of a GiB of worlds, a GiB for each run, and eight tenths of the memory to plan with."""
    arrays = {place: SimpleNamespace(size=own * 2**29) for place in range(2)}
    context = SimpleNamespace(
        get_memory_info=lambda: SimpleNamespace(free=free * 2**30, total=10 * 2**30),
        memory_manager=SimpleNamespace(allocations=arrays),
    )
    problem = fs.FedSARSA(fs.OneHot()).problem(group_of(2), 10, 8, 0)
    assert cuda_memory.run_bytes(problem) == 2 * (8 * STATES * ACTIONS + 8)
    monkeypatch.setattr(cuda, "current_context", lambda: context)
    monkeypatch.setattr(cuda_device, "SIMULATED", False)
    monkeypatch.setattr(cuda_memory, "run_bytes", lambda _: 2**30)
    monkeypatch.setattr(cuda_memory, "world_bytes", lambda _: 2**30 // 10)
    assert cuda_memory.too_large([problem]) == (
        "runs must fit into the GPU's memory, got 8: their agents take 8 GiB, the worlds 0.1 GiB, and " + told
    )


@pytest.mark.parametrize("kind", ENGINES)
def test_nothing_of_a_launch_is_kept(monkeypatch, kind):
    launch, used = cuda_device.DeviceKernel.launch, set()

    def noted(self, *arguments):
        launch(self, *arguments)
        used.add(self)
        if SIMULATED:  # which keeps nothing
            self.sent[:] = [(one, []) for one in arguments[3:]]

    monkeypatch.setattr(cuda_device.DeviceKernel, "launch", noted)
    problem = ENGINES[kind]().problem(group_of(), 14, 2, 0)
    engine, state = engines.build("cuda", problem), first_state(problem, np.zeros(problem.features.dim))
    engine.start(state)
    for steps in (10, 4):
        assert used
        assert all(kernel.sent == [] for kernel in used)
        engine.advance(state, steps)
    assert all(kernel.sent == [] for kernel in used)


@pytest.mark.skipif(SIMULATED, reason="needs a GPU")
def test_the_published_setting_in_full():
    group = fs.paper.fleet(agents=20, eps_p=0.5, eps_r=0.5, seed=0)
    one, two = (fs.FedSARSA().train(group, 20_000, runs=10, engine=name) for name in ("cpu", "cuda"))
    np.testing.assert_array_equal(one.central, two.central)
    np.testing.assert_array_equal(one.local, two.local)


def test_float32_is_the_same_in_the_mean():
    """Floors and drifts of two hundred runs; differences beyond five standard errors are no chance (6e-7)."""
    group, algo = group_of(5), fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(1.0), 0.1, 5)
    runs, steps = (4, 10) if SIMULATED else (2000, 400)
    double, single = (
        algo.train(group, steps, runs=runs, seed=seed, engine="cuda", precision=precision)
        for seed, precision in ((0, "float64"), (1, "float32"))
    )
    assert single.settings["precision"] == "float32"
    if SIMULATED:
        assert np.isfinite(single.central).all()
        return
    for one, two in ((double.final, single.final), (double.drift[:, -1:], single.drift[:, -1:])):
        one, two = np.asarray(one), np.asarray(two)
        error = np.sqrt((one.var(axis=0) + two.var(axis=0)) / runs)
        assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) < 5 * error).all()


def test_float32_is_for_what_it_serves():
    with pytest.raises(ValueError, match="precision must be 'float64' with engine 'reference'"):
        fs.FedSARSA(fs.OneHot()).train(group_of(), 10, engine="reference", precision="float32")
    with pytest.raises(ValueError, match="precision must be 'float64' here, got 'float32', which is for"):
        fs.FedSARSA(fs.OneHot(), trace_decay=0.5).train(group_of(), 10, engine="cuda", precision="float32")
    greedy = fs.FedSARSA(fs.OneHot(), fs.Greedy())  # whose means need not be summed up in order then
    greedy.train(group_of(40 if SIMULATED else 400), 4, runs=1, engine="cuda", precision="float32")
    with pytest.raises(ValueError, match="precision must be one of float32, float64"):
        fs.FedSARSA(fs.OneHot()).train(group_of(), 10, engine="cuda", precision="half")


class Library:
    """What Numba has of a compiled kernel: its name and its machine code."""

    name, kernel, code = "entry", "compiled", b"machine\ncode"

    @property
    def _codelibrary(self):
        return self

    def get_cufunc(self):
        return self

    def get_cubin(self):
        return self


def test_kernels_are_kept(monkeypatch, tmp_path):
    """The next process reads what was compiled; what is damaged is compiled anew."""
    import cuda.core

    class Code:
        @staticmethod
        def from_cubin(code):
            return SimpleNamespace(get_kernel=lambda name: (name, code))

    compiled = []
    path = tmp_path / "folder" / "kernel.cubin"
    monkeypatch.setattr(cuda.core, "ObjectCode", Code)
    monkeypatch.setattr(cuda_device, "kept_at", lambda _: path)
    monkeypatch.setattr(cuda_device, "compiling", lambda _: nullcontext())

    def machine_code():
        own = cuda_device.DeviceKernel(lambda: None)
        own.dispatcher = SimpleNamespace(compile=lambda types: compiled.append(types) or Library())
        return own._machine_code(("float64",))

    assert machine_code() == "compiled"
    assert machine_code() == ("entry", b"machine\ncode")
    path.write_bytes(path.read_bytes().replace(b"machine", b"machina"))
    assert machine_code() == "compiled"
    assert compiled == [("float64",)] * 2


def test_arguments_as_kernels_take_them():
    """As Numba lays out arrays: two addresses that are not used, sizes, the address, shape and strides."""
    array = SimpleNamespace(
        __cuda_array_interface__={"data": (99, False)}, shape=(2, 3), size=6, dtype=np.dtype(np.uint32)
    )
    numbers = list(cuda_device.numbers_of((array, (np.uint64(2**63), 0.5), True)))
    assert numbers[:9] == [0, 0, 6, 4, 99, 2, 3, 12, 4]
    assert numbers[9].value == 2**63
    assert numbers[10:] == [0.5, True]
