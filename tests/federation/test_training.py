import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa._interrupts import Interrupted
from fedsarsa.algorithm import train_prepared
from tests.worlds_of_tests import fleet

ENGINES = ["reference", "cpu"]


@pytest.fixture
def step_by_step(monkeypatch):
    """Stretches of a single step: a training is cut wherever it can be."""
    monkeypatch.setattr("fedsarsa.federation.engine.FIRST_SPAN", 1)
    monkeypatch.setattr("fedsarsa.federation.training.SPAN_SECONDS", 1e-9)


def small(**options):
    return fs.FedSARSA(fs.ModuloFeatures(2, 2), fs.Softmax(1.0), 0.1, **({"sync_every": 5} | options))


@pytest.mark.parametrize("engine", ENGINES)
def test_records_are_at_zero_and_at_every_synchronisation(engine):
    history = small().train(fleet(), 23, runs=2, engine=engine)
    assert history.central.dims == ("run", "t", "d")
    assert history.central.t.values.tolist() == [0, 5, 10, 15, 20]
    assert (history.central[:, 0] == 0).all()
    assert np.isnan(history.drift[:, 0]).all()
    assert (history.drift[:, 1:] > 0).all()
    # The last three steps stay local; the final parameter is the plain average of the local ones.
    np.testing.assert_allclose(history.final, history.local.mean("agent"), atol=1e-15)
    assert not np.allclose(history.final, history.central[:, -1])


def test_thinned_records_are_some_of_all_records():
    every = small().train(fleet(), 100, runs=2)
    some = small().train(fleet(), 100, runs=2, record_every=3)
    assert some.central.t.values.tolist() == [0, 15, 30, 45, 60, 75, 90]
    np.testing.assert_array_equal(some.central, every.central.sel(t=some.central.t))
    np.testing.assert_array_equal(some.drift, every.drift.sel(t=some.drift.t))
    np.testing.assert_array_equal(some.final, every.final)


@pytest.mark.parametrize("engine", ENGINES)
def test_stretches_of_any_length_give_the_same_history(engine, request):
    whole = small().train(fleet(), 100, runs=2, engine=engine)
    request.getfixturevalue("step_by_step")
    pieces = small().train(fleet(), 100, runs=2, engine=engine)
    assert pieces.data.equals(whole.data)


def test_independent_learners_never_meet():
    group = fleet()
    together = small(sync_every=None).train(group, 50, runs=2)
    assert together.central.t.values.tolist() == [0]
    first = small(sync_every=None).train(group[:1], 50, runs=2)
    np.testing.assert_array_equal(together.local[:, :1], first.local)
    assert (together.local.std("agent").max() > 0).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_projected_parameter_stays_in_the_ball(engine):
    radius = 0.03
    history = small(radius=radius).train(fleet(), 200, runs=3, engine=engine)
    norms = np.sqrt((history.central**2).sum("d"))
    assert (norms <= radius * (1 + 1e-12)).all()
    assert norms.max() == pytest.approx(radius)  # the ball is reached, so the test can fail


def test_a_huge_radius_changes_nothing():
    free = small().train(fleet(), 100, runs=1)
    wide = small(radius=1e6).train(fleet(), 100, runs=1)
    np.testing.assert_array_equal(wide.central, free.central)


def test_weights_decide_who_is_heard():
    group = fleet()
    only_second = small(weights=[0.0, 1.0, 0.0], sync_every=1).train(group, 40, runs=1)
    # Alone, agent 1 would draw agent 0's random numbers; so compare with the other way to be heard alone.
    never = small(sync_every=None).train(group, 40, runs=1)
    np.testing.assert_allclose(only_second.final[0], never.local[0, 1], atol=1e-15)


@pytest.mark.parametrize("engine", ENGINES)
def test_averaged_iterate_is_the_weighted_average_of_all_steps(engine):
    w, a, steps = 3.0, 7.0, 20
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), fs.LinearDecay(w, a), sync_every=1)
    history = algo.train(fleet(), steps, runs=2, engine=engine)
    weights = a + history.central.t
    expected = (weights * history.central).sum("t") / weights.sum()
    np.testing.assert_allclose(history.averaged, expected.transpose("run", "d"), atol=1e-14)


def test_averaged_iterate_counts_the_steps_between_synchronisations():
    # With K = 6 the parameters between synchronisations are those of shorter trainings' ends.
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), fs.LinearDecay(3.0, 7.0), sync_every=6)
    group, steps = fleet(), 20
    bars = [np.zeros(15)] + [algo.train(group, t, runs=1).final[0].values for t in range(1, steps + 1)]
    weights = 7.0 + np.arange(steps + 1)
    history = algo.train(group, steps, runs=1)
    np.testing.assert_allclose(history.averaged[0], weights @ np.stack(bars) / weights.sum(), atol=1e-14)


def test_other_step_sizes_have_no_averaged_iterate():
    history = small().train(fleet(), 10, runs=1)
    with pytest.raises(
        AttributeError, match="averaged is kept when every agent's step size is a LinearDecay"
    ):
        _ = history.averaged


def test_warm_start_goes_on_from_what_was_learned():
    group, algo = fleet(), small()
    federated = algo.train(group, 100, runs=1)
    theta = federated.final[0].values
    alone = small(sync_every=None).train(group[:1], 1, runs=1, theta0=theta)
    assert np.count_nonzero(alone.local[0, 0].values != theta) <= 1  # one step moves one parameter
    np.testing.assert_array_equal(alone.central[0, 0], theta)
    each = algo.train(group, 5, runs=2, theta0=federated.local[[0, 0]].values)
    np.testing.assert_allclose(each.central[:, 0], [theta, theta], atol=1e-15)


def diverging():
    """A world of two halves: in one nothing happens, in the other a large step size diverges."""
    stay = np.eye(2)[None]
    return fs.FiniteMDP(stay, [0.0, 1.0], 0.5)


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_that_diverge_stop_and_the_others_go_on(engine):
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 1e10, sync_every=4)
    history = algo.train([diverging()], 200, runs=8, engine=engine)
    failed = history.failed_at.values
    assert set(failed[failed < 0]) == {-1}
    assert len(failed[failed >= 0]) > 0
    assert len(failed[failed < 0]) > 0
    # theta grows as |1 - 1e10 / 2|^t: past the largest float after t = 31 updates, whatever the run.
    assert set(failed[failed >= 0]) == {31}
    assert np.isnan(history.final[failed >= 0]).all()
    assert np.isfinite(history.final[failed < 0]).all()
    assert np.isnan(history.central.values[failed >= 0][:, history.central.t.values > 31]).all()
    assert np.isfinite(history.central.values[failed >= 0][:, history.central.t.values <= 31]).all()
    assert "failed (see failed_at)" in repr(history)


def test_engines_agree_on_what_diverged():
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), [1e10, 1e4, 0.1], sync_every=None)
    group = [diverging()] * 3
    one, two = (algo.train(group, 100, runs=6, engine=name) for name in ENGINES)
    np.testing.assert_array_equal(one.failed_at, two.failed_at)
    np.testing.assert_array_equal(one.local, two.local)
    assert len(set(one.failed_at.values.tolist())) > 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
        ({"runs": 0}, "runs must be an integer of at least 1, got 0"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"seed": 2**64}, r"seed must be below 2\*\*64"),
        ({"engine": "gpuu"}, "engine must be one of auto, cpu, cuda, gym, ray, reference, got 'gpuu'"),
        ({"engine": "referense"}, "did you mean 'reference'"),
        ({"threads": 0}, "threads must be an integer of at least 1, got 0"),
        ({"record_every": 0}, "record_every must be an integer of at least 1, got 0"),
        ({"theta0": [1.0, 2.0]}, r"theta0 must have shape \(4,\), \(3, 4\) or \(10, 3, 4\), got \(2,\)"),
        ({"theta0": [1.0, np.nan, 0, 0]}, r"theta0 must be finite, got nan at \[1\]"),
        ({"fleet": fleet()[0]}, "fleet must be a Fleet or a sequence of FiniteMDP, got FiniteMDP"),
        ({"checkpoint": "/no/such/place.nc"}, "/no/such: expected a directory that can be written to"),
        ({"fleet": []}, "worlds must hold at least one FiniteMDP, got none"),
    ],
)
def test_bad_trainings(arguments, message):
    with pytest.raises((ValueError, TypeError, OSError), match=message):
        small().train(**({"fleet": fleet(), "steps": 10} | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sync_every": 0}, "sync_every must be an integer of at least 1, got 0"),
        ({"sync_every": -3}, "sync_every must be an integer of at least 1, got -3"),
        ({"sync_every": 2.5}, "sync_every must be an integer, or None to never average, got 2.5"),
        ({"radius": 0}, "radius must be a positive number, got 0"),
        ({"weights": [0.5, 0.6]}, "weights must sum to one along its last axis, got 1.1"),
        ({"weights": [1.5, -0.5]}, r"weights must hold probabilities, got -0.5 at \[1\]"),
        ({"weights": [[1.0]]}, r"weights must have shape \(N,\), got \(1, 1\)"),
    ],
)
def test_bad_settings(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fs.FedSARSA(**arguments)


def test_settings_that_do_not_fit_the_fleet():
    with pytest.raises(ValueError, match=r"weights must have shape \(3,\), got \(2,\)"):
        small(weights=[0.5, 0.5]).train(fleet(), 5)
    with pytest.raises(ValueError, match=r"step_size must be one or one per agent \(3\), got 2"):
        fs.FedSARSA(fs.OneHot(), step_size=[0.1, 0.2]).train(fleet(), 5)
    with pytest.raises(ValueError, match="pi must be an action below 3, got 7"):
        fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(7)).train(fleet(), 5)


def test_interrupted_training_goes_on_where_it_stopped(tmp_path, monkeypatch, step_by_step):
    from fedsarsa.engines.fast_path import FastPathEngine

    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), fs.LinearDecay(3.0, 9.0), sync_every=5)
    whole = algo.train(fleet(), 103, runs=2, record_every=2)
    path = tmp_path / "checkpoint.nc"
    advance = FastPathEngine.advance

    def with_ctrl_c(self, state, steps):
        signal.raise_signal(signal.SIGINT)
        return advance(self, state, steps)

    with monkeypatch.context() as patched:
        patched.setattr(FastPathEngine, "advance", with_ctrl_c)
        for done in range(1, 4):  # in the first stretch, again and again
            with pytest.raises(Interrupted, match=f"after {done} of 103 steps"):
                algo.train(fleet(), 103, runs=2, record_every=2, checkpoint=path)
    resumed = algo.train(fleet(), 103, runs=2, record_every=2, checkpoint=path)
    assert resumed.data.equals(whole.data)


def test_an_end_that_is_not_saved_is_handed_over_whatever_is_pressed(tmp_path):
    path, whole = tmp_path / "checkpoint.nc", small().train(fleet(), 20, runs=1)

    def press(t):
        if t == 20:
            signal.raise_signal(signal.SIGINT)

    def train(progress, extendable):
        prepared = small().prepare(fleet(), 20, runs=1)
        return train_prepared(prepared, "cpu", 1, progress, 1, path, extendable=extendable)

    assert train(False, extendable=False).data.equals(whole.data)
    assert not path.exists()
    with pytest.raises(Interrupted, match="after 20 of 20 steps"):
        train(press, extendable=True)
    path.unlink()  # it was saved
    assert train(press, extendable=False).data.equals(whole.data)


def test_a_checkpoint_of_another_training_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.nc"
    monkeypatch.setattr("fedsarsa.federation.training.CHECKPOINT_SECONDS", -1.0)
    small().train(fleet(), 20, runs=1, checkpoint=path)
    for other in (small(sync_every=4), small(radius=1.0)):
        with pytest.raises(ValueError, match="expected a checkpoint of this training, got one of another"):
            other.train(fleet(), 20, runs=1, checkpoint=path)
    with pytest.raises(ValueError, match="got one of another"):
        small().train(fleet(1), 20, runs=1, checkpoint=path)
    path.unlink()
    shared, first = (fs.FedSARSA(fs.OneHot(), fs.Greedy(ties), 0.1, 5) for ties in ("share", "first"))
    shared.train(fleet(), 20, runs=1, checkpoint=path)
    with pytest.raises(ValueError, match="got one of another"):
        first.train(fleet(), 20, runs=1, checkpoint=path)
    path.write_text("not a file of ours")
    with pytest.raises(ValueError, match="expected a fedsarsa checkpoint in netCDF"):
        small().train(fleet(), 20, runs=1, checkpoint=path)


def test_a_killed_training_leaves_a_whole_checkpoint(tmp_path):
    path = tmp_path / "checkpoint.nc"
    program = textwrap.dedent(f"""
        import fedsarsa as fs, fedsarsa.federation.training as training
        from fedsarsa.federation import engine
        training.CHECKPOINT_SECONDS = -1.0
        engine.FIRST_SPAN, training.SPAN_SECONDS = 1, 1e-9
        fs.FedSARSA().train(fs.paper.fleet(5), 50_000_000, runs=2, checkpoint={str(path)!r}, record_every=100)
    """)
    child = subprocess.Popen([sys.executable, "-c", program])
    deadline = time.monotonic() + 300
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    child.send_signal(signal.SIGKILL)
    child.wait()
    import xarray as xr

    saved = xr.load_dataset(path, engine="h5netcdf")
    assert 0 < saved.attrs["t"] < 50_000_000
    assert np.isfinite(saved["theta"]).all()


def test_drift_is_the_spread_of_local_parameters():
    group, weights = fleet(), np.array([0.2, 0.5, 0.3])
    apart = small(sync_every=None).train(group, 5, runs=2).local.values
    for given in (None, weights):
        drift = small(weights=given).train(group, 5, runs=2).drift[:, 1]
        share = np.full(3, 1 / 3) if given is None else given
        for run in range(2):
            mean = share @ apart[run]
            spread = sum(w * np.sum((theta - mean) ** 2) for w, theta in zip(share, apart[run], strict=True))
            assert float(drift[run]) == pytest.approx(spread)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_remains_after_the_last_round_is_averaged_plainly(engine):
    # Neither weighted nor projected, whatever the server does.
    algo = small(weights=[0.2, 0.5, 0.3], radius=0.01)
    history = algo.train(fleet(), 13, runs=2, engine=engine)
    np.testing.assert_allclose(history.final, history.local.mean("agent"), atol=1e-15)
    weighted = np.einsum("i,rid->rd", [0.2, 0.5, 0.3], history.local)
    assert not np.allclose(history.final, weighted)


@pytest.mark.parametrize("steps", [200, 203])
@pytest.mark.parametrize("cut", [True, False])
def test_a_failed_run_keeps_the_step_at_which_it_failed(steps, cut, request):
    if cut:
        request.getfixturevalue("step_by_step")
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 1e10, sync_every=4)
    one, two = (algo.train([diverging()], steps, runs=6, engine=name) for name in ENGINES)
    assert set(one.failed_at.values.tolist()) == {-1, 31}
    np.testing.assert_array_equal(one.failed_at, two.failed_at)
    np.testing.assert_array_equal(one.final, two.final)


@pytest.mark.parametrize("engine", ENGINES)
def test_averages_that_overflow_after_the_last_step_are_failures(engine):
    history = small(sync_every=7).train(fleet(), 20, runs=2, theta0=np.full(4, 1e308), engine=engine)
    assert (history.failed_at >= 0).all()


def test_where_a_training_is_cut_changes_nothing(request):
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), fs.LinearDecay(3.0, 9.0), sync_every=7)
    whole = algo.train(fleet(), 40, runs=2)
    request.getfixturevalue("step_by_step")
    cut = algo.train(fleet(), 40, runs=2)
    assert cut.data.equals(whole.data)


def test_numbers_of_numpy_are_numbers():
    algo = small(sync_every=np.int64(5), radius=np.float32(5))
    plain = small(sync_every=5, radius=5)
    one, two = algo.train(fleet(), 20, runs=1), plain.train(fleet(), np.int32(20), runs=1)
    np.testing.assert_array_equal(one.central, two.central)
    assert one.settings["sync_every"] == 5


def test_labels_decide_what_a_start_means():
    group = fleet(agents=4)
    history = small().train(group, 20, runs=4)
    with pytest.raises(ValueError, match=r"theta0 must have the dimensions \['d'\] or .* got \['agent'\]"):
        small().train(group, 20, runs=4, theta0=history.local[0, :, 0])
    for_runs = small().train(group, 20, runs=4, theta0=history.final)  # as many agents as runs: labels decide
    np.testing.assert_allclose(for_runs.central[:, 0], history.final, atol=1e-15)
    with pytest.raises(ValueError, match=r"theta must have the dimensions"):
        fs.evaluate(group, small(), history.final)
    again = small().train(group, 20, runs=4, theta0=history.local)
    np.testing.assert_allclose(again.central[:, 0], history.final, atol=1e-15)


def test_weights_are_a_copy():
    weights = np.array([0.2, 0.5, 0.3])
    algo = small(weights=weights)
    weights[:] = 100
    assert float(np.sum(algo.weights)) == pytest.approx(1)


@pytest.mark.parametrize("change", ["seed", "runs", "theta0", "record_every"])
def test_every_setting_is_part_of_a_checkpoint(tmp_path, monkeypatch, change):
    monkeypatch.setattr("fedsarsa.federation.training.CHECKPOINT_SECONDS", -1.0)
    settings = {"seed": 0, "steps": 20, "runs": 2, "theta0": None, "record_every": 1, "engine": "cpu"}
    other = {"seed": 1, "runs": 3, "theta0": np.ones(4), "record_every": 2}
    path = tmp_path / "checkpoint.nc"
    small().train(fleet(), checkpoint=path, **settings)
    with pytest.raises(ValueError, match="expected a checkpoint of this training, got one of another"):
        small().train(fleet(), checkpoint=path, **(settings | {change: other[change]}))


def test_ctrl_c_is_heard_in_the_last_stretch_too(tmp_path, monkeypatch):
    from fedsarsa.engines.fast_path import FastPathEngine

    advance = FastPathEngine.advance

    def last(self, state, steps):
        if state.t + steps == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return advance(self, state, steps)

    path = tmp_path / "checkpoint.nc"
    with monkeypatch.context() as patched:
        patched.setattr(FastPathEngine, "advance", last)
        with pytest.raises(Interrupted, match="interrupted after 20 of 20 steps"):
            small().train(fleet(), 20, runs=1, checkpoint=path)
    resumed = small().train(fleet(), 20, runs=1, checkpoint=path)
    assert resumed.data.equals(small().train(fleet(), 20, runs=1).data)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (lambda t: np.where(t == 7, np.nan, 0.1), "step_size must be positive, got nan at step 7"),
        (lambda t: 0.1 * (2.0 - t), r"step_size must be positive, got 0.0 at step 2"),
        (lambda t: np.ones(len(t) + 3), "step_size must give one number per step"),
    ],
)
def test_schedules_of_ones_own_are_checked(sizes, message):
    class Own:
        def at(self, t):
            return sizes(t)

    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), Own(), 5)
    with pytest.raises(ValueError, match=message):
        algo.train(fleet(), 20, runs=1)
