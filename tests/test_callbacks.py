"""Callbacks: an event for every record, early stops, and what the ready-made ones do."""

import json

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation import training
from tests.worlds_of_tests import fleet

CARTS = fs.control.fleet("CartPole", 2, time_limit=20)
POLES = fs.GymFleet([fs.GymWorld("CartPole-v1", max_episode_steps=20)] * 2, processes=0)


def small(**options):
    settings = {"step_size": 0.1, "sync_every": 5} | options
    return fs.FedSARSA(fs.ModuloFeatures(2, 2), fs.Softmax(1.0), **settings)


def control(**options):
    return fs.FedSARSA(
        fs.FourierBasis(1, bounds=fs.control.CartPole().bounds), fs.EpsilonGreedy(0.1), 0.1, 10
    )


KINDS = {
    "reference": (small(), fleet(), "reference"),
    "cpu": (small(), fleet(), "cpu"),
    "control": (control(), CARTS, "cpu"),
    "gym": (control(), POLES, "gym"),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.mark.parametrize("record_every", [1, 3])
def test_an_event_is_a_record(kind, record_every):
    algo, group, engine = kind
    events = []
    history = algo.train(
        group, 200, runs=2, engine=engine, record_every=record_every, callback=[events.append]
    )
    assert [event.t for event in events] == history.central.t.values.tolist()
    np.testing.assert_array_equal(
        [event.central for event in events], history.central.transpose("t", "run", "d")
    )
    np.testing.assert_array_equal([event.drift for event in events], history.drift.transpose("t", "run"))
    assert {event.steps for event in events} == {200}
    plain = algo.train(group, 200, runs=2, engine=engine, record_every=record_every)
    np.testing.assert_array_equal(history.local, plain.local)


@pytest.mark.parametrize("span", [7, 20, 10_000])
def test_a_stop_is_at_its_record_however_fast_the_engine_is(kind, span, monkeypatch, tmp_path):
    algo, group, engine = kind
    monkeypatch.setattr(training, "adapted", lambda *_: span)
    monkeypatch.setattr("fedsarsa.federation.engine.FIRST_SPAN", span * 4)
    whole = algo.train(group, 200, runs=2, engine=engine)
    path = tmp_path / "training.nc"

    def stop(event):
        if event.t == 60:
            event.stop("enough")

    history = algo.train(group, 200, runs=2, engine=engine, callback=stop, checkpoint=path)
    assert history.central.t.values[-1] == history.settings["steps"] == 60
    assert history.settings["stopped_early"] == "enough"
    np.testing.assert_array_equal(history.central, whole.central.sel(t=slice(0, 60)))
    np.testing.assert_array_equal(history.final, whole.central.sel(t=60))
    np.testing.assert_array_equal(history.local, np.repeat(history.final.values[:, None], len(group), axis=1))
    if not group.finite:
        inside = whole.data.bin_end <= 60
        assert history.learning_curve().t.values[-1] == 60
        np.testing.assert_array_equal(
            history.data.returns.values[..., : int(inside.sum())], whole.data.returns.values[..., inside]
        )
    history.save(tmp_path / "history.nc")
    again = fs.History.load(tmp_path / "history.nc")
    assert again.data.identical(history.data)
    assert repr(again) == repr(history)
    seen = []
    resumed = algo.train(
        group, 200, runs=2, engine=engine, checkpoint=path, callback=lambda e: seen.append(e.t)
    )
    assert seen[0] > 60
    assert resumed.central.t.values[-1] == 200
    if engine != "gym":  # environments begin anew
        np.testing.assert_array_equal(resumed.local, whole.local)


def test_large_states_are_not_kept_to_be_replayed(monkeypatch):
    monkeypatch.setattr(training, "REPLAYED", 0)
    whole = small().train(fleet(), 200, runs=1)
    history = small().train(fleet(), 200, runs=1, callback=lambda event: event.t == 50 and event.stop())
    np.testing.assert_array_equal(history.central, whole.central.sel(t=slice(0, 50)))


def test_a_stop_before_the_first_step():
    history = small().train(fleet(), 200, runs=1, callback=lambda event: event.stop("at once"))
    assert history.settings["steps"] == 0
    assert history.central.sizes["t"] == 1
    assert (history.final == 0).all()


def test_theta_tilde_of_a_training_that_was_stopped_is_that_of_a_shorter_one():
    algo = small(step_size=fs.LinearDecay(1.0, 100.0))
    stopped = algo.train(fleet(), 200, runs=2, callback=lambda event: event.t == 50 and event.stop())
    np.testing.assert_allclose(stopped.averaged, algo.train(fleet(), 50, runs=2).averaged, rtol=1e-12)


def test_metrics_are_means_of_what_was_so_far():
    found = {}
    history = control().train(
        CARTS, 400, runs=2, callback=lambda event: found.update({event.t: event.metrics})
    )
    assert "return" not in found[0]
    data, t = history.data, 200
    ended = data.isel(bin=(data.bin_end <= t).values)
    counts = ended.episodes.sum(("run", "agent"))
    last = int(np.flatnonzero(counts)[-1])
    expected = float(ended.returns.isel(bin=last).sum() / counts[last])
    assert found[t]["return"] == pytest.approx(expected)
    assert found[t]["norm"] == pytest.approx(float(np.linalg.norm(history.central.sel(t=t), axis=1).mean()))
    assert found[t]["drift"] == pytest.approx(float(history.drift.sel(t=t).mean()))


def test_early_stopping_waits_and_knows_what_is_enough():
    values = iter([1.0, 2.0, 1.5, 2.05, 1.0, 1.0, 9.0])

    def told(event):
        event.metrics["score"] = next(values)

    stopping = fs.callbacks.EarlyStopping("score", patience=3, min_delta=0.1)
    history = small().train(fleet(), 500, runs=1, callback=[told, stopping])
    assert history.settings["steps"] == 20  # 2.0 at t = 5, and three records that are no better by 0.1
    assert history.settings["stopped_early"] == "score has not improved in 3 records, at t = 20"
    values = iter([3.0, 2.0, 1.0])
    enough = fs.callbacks.EarlyStopping("score", mode="min", stopping_threshold=1.0)
    assert small().train(fleet(), 500, runs=1, callback=[told, enough]).settings["steps"] == 10
    for wrong in ({"mode": "most"}, {"patience": 0}, {"metric": 3}):
        with pytest.raises((ValueError, TypeError), match=f"{next(iter(wrong))} must be"):
            fs.callbacks.EarlyStopping(**wrong)


def test_early_stopping_on_what_is_never_there():
    with pytest.raises(
        ValueError, match=r"metric must be one of norm, drift, got 'dirft', .* 4 records.*mean 'drift'"
    ):
        small().train(fleet(), 500, runs=1, callback=fs.callbacks.EarlyStopping("dirft", patience=4))
    told = []
    with pytest.raises(
        ValueError, match=r"metric must be one of norm, drift, got 'return'.* had; no episode has ended"
    ):
        small().train(fleet(), 500, runs=1, callback=[told.append, fs.callbacks.EarlyStopping()])
    assert told[-1].t == 50  # a tenth: where episodes take long, the first may end so late
    carts = fs.control.fleet("CartPole", 2, time_limit=20)
    algo = fs.FedSARSA(fs.FourierBasis(1), fs.EpsilonGreedy(0.1), 0.1, sync_every=1)
    history = algo.train(carts, 2000, runs=1, callback=fs.callbacks.EarlyStopping(patience=5))
    assert 20 < history.settings["steps"] < 2000  # 9 records without a return, and then some with one
    values = iter([3.0, None, None, None, None, 2.0, 1.0])

    def told_now_and_then(event):
        event.metrics.update({} if (value := next(values)) is None else {"score": value})

    stopping = fs.callbacks.EarlyStopping("score", patience=2)
    history = small().train(fleet(), 500, runs=1, callback=[told_now_and_then, stopping])
    assert history.settings["steps"] == 30


def test_callbacks_that_are_called_once_are_warned_of():
    told = []
    with pytest.warns(UserWarning, match="called once, at t = 0.* 50 steps with sync_every=None and"):
        small(sync_every=None).train(fleet(), 50, runs=1, callback=told.append)
    assert [event.t for event in told] == [0]
    with pytest.warns(UserWarning, match="sync_every=5 and record_every=11 have none"):
        small().train(fleet(), 50, runs=1, record_every=11, callback=told.append)


def test_rewards_of_a_step_are_a_metric_where_no_episode_ends():
    found = {}
    rods = fs.control.fleet("Pendulum", 2, time_limit=10_000)
    algo = fs.FedSARSA(fs.FourierBasis(1), fs.Softmax(1.0), 0.1, 10, actions=fs.GridActions(3))
    history = algo.train(rods, 400, runs=2, callback=lambda event: found.update({event.t: event.metrics}))
    assert found[0].keys() == {"norm"}
    assert found[400].keys() == {"norm", "drift", "reward"}
    assert found[400]["reward"] == pytest.approx(float(history.reward_curve().isel(t=-1).mean()))
    assert found[400]["reward"] < 0


def test_evaluation_begins_where_a_training_goes_on(tmp_path):
    algo, path, told = small(), tmp_path / "training.nc", []
    algo.train(fleet(), 50, runs=1, checkpoint=path)
    evaluation = fs.callbacks.Evaluation(fleet(), algo, every=3)
    algo.train(fleet(), 70, runs=1, checkpoint=path, callback=[evaluation, told.append])
    assert ["evaluation" in event.metrics for event in told] == [True, False, False, True]


def test_evaluation_in_finite_worlds_is_exact():
    group, algo, found = fleet(), small(), {}
    evaluation = fs.callbacks.Evaluation(group, algo, every=2)
    history = algo.train(group, 20, runs=1, callback=[evaluation, lambda e: found.update({e.t: e.metrics})])
    assert ["evaluation" in found[t] for t in (0, 5, 10)] == [True, False, True]
    expected = fs.evaluate(group, algo, history.central[0].sel(t=10)).discounted_return.mean()
    assert found[10]["evaluation"] == pytest.approx(float(expected))


def test_json_lines(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for _ in range(2):  # a second training replaces it
        small().train(fleet(), 20, runs=1, callback=fs.callbacks.JSONLines(path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["t"] for line in lines] == [0, 5, 10, 15, 20]
    assert lines[0] == {"t": 0, "norm": 0.0}
    assert lines[-1]["drift"] > 0
    with pytest.raises(OSError, match="expected a directory that can be written to"):
        fs.callbacks.JSONLines(tmp_path / "nowhere" / "metrics.jsonl")


def test_json_lines_of_a_training_that_resumes_are_not_repeated(tmp_path):
    """A killed training resumes from its last checkpoint, and has written lines since."""
    path, saved = tmp_path / "metrics.jsonl", tmp_path / "training.nc"
    small().train(fleet(), 20, runs=1, checkpoint=saved)
    writer = fs.callbacks.JSONLines(path)
    small().train(fleet(), 40, runs=1, callback=writer)
    with path.open("a") as file:
        file.write('{"t": 45, "no')  # killed while it wrote
    for again in (fs.callbacks.JSONLines(path), writer):
        state = saved.read_bytes()
        small().train(fleet(), 40, runs=1, checkpoint=saved, callback=again)
        saved.write_bytes(state)
        lines = [json.loads(line)["t"] for line in path.read_text().splitlines()]
        assert lines == [0, 5, 10, 15, 20, 25, 30, 35, 40]


def test_metrics_may_be_words(tmp_path):
    path = tmp_path / "metrics.jsonl"
    note = lambda event: event.metrics.update(note="as ever")  # noqa: E731
    small().train(fleet(), 10, runs=1, callback=[note, fs.callbacks.JSONLines(path)])
    assert [json.loads(line)["note"] for line in path.read_text().splitlines()] == ["as ever"] * 3


def test_evaluation_cuts_episodes():
    rods = fs.control.fleet("Pendulum", 2, time_limit=10**9)
    algo = fs.FedSARSA(fs.FourierBasis(1), fs.Softmax(1.0), 0.1, 10, actions=fs.GridActions(3))
    told = []
    evaluation = fs.callbacks.Evaluation(rods, algo, every=1, episodes=2, steps=20)
    history = algo.train(rods, 10, runs=1, callback=[evaluation, told.append])
    expected = fs.rollouts(rods, algo, history.final[0], 2, steps=20).mean_return.mean()
    assert told[-1].metrics["evaluation"] == pytest.approx(float(expected))


def test_weights_and_biases_gets_numbers_and_steps():
    class Run:
        def __init__(self):
            self.logged = []

        def log(self, numbers, step):
            self.logged.append((step, numbers))

    run = Run()
    small().train(fleet(), 10, runs=1, callback=fs.callbacks.WeightsAndBiases(run))
    assert [step for step, _ in run.logged] == [0, 5, 10]
    assert run.logged[-1][1].keys() == {"norm", "drift"}
    with pytest.raises(TypeError, match="run must be a run of Weights & Biases"):
        fs.callbacks.WeightsAndBiases("project")


def test_tensorboard_writes_event_files(tmp_path):
    pytest.importorskip("tensorboardX")
    board = fs.callbacks.TensorBoard(tmp_path)
    note = lambda event: event.metrics.update(note="as ever")  # noqa: E731
    small().train(fleet(), 10, runs=1, callback=[note, board])
    board.close()
    (written,) = tmp_path.iterdir()
    content = written.read_bytes()
    assert b"drift" in content
    assert b"norm" in content
    assert b"as ever" in content


def test_what_is_no_callback():
    for wrong in (3, [3], fs.callbacks.JSONLines):
        with pytest.raises(TypeError, match="callback must be a function of an event"):
            small().train(fleet(), 10, runs=1, callback=wrong)


@pytest.mark.parametrize("t", [0, 60])
def test_errors_of_callbacks_come_through_once_the_training_is_saved(kind, t, tmp_path):
    algo, group, engine = kind
    path, seen = tmp_path / "training.nc", []

    def fails(event):
        if event.t == t:
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        algo.train(group, 200, runs=2, engine=engine, callback=fails, checkpoint=path)
    assert path.exists() == (t > 0)
    history = algo.train(
        group, 200, runs=2, engine=engine, checkpoint=path, callback=lambda e: seen.append(e.t)
    )
    assert seen == [one for one in history.central.t.values.tolist() if one > t or t == 0]
    if engine != "gym":  # environments begin anew
        whole = algo.train(group, 200, runs=2, engine=engine)
        np.testing.assert_array_equal(history.local, whole.local)
        np.testing.assert_array_equal(history.central, whole.central)


def test_an_error_of_a_callback_is_not_hidden_by_a_full_disk(tmp_path, monkeypatch):
    def fails(event):
        if event.t == 10:
            raise RuntimeError("no more")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(training.checkpoint, "save", full)
    with pytest.raises(RuntimeError, match="no more") as caught:
        small().train(fleet(), 50, runs=1, callback=fails, checkpoint=tmp_path / "training.nc")
    assert "The training is not saved: [Errno 28]" in caught.value.__notes__[0]


def test_records_cannot_be_written_to(kind):
    algo, group, engine = kind

    def write(event):
        for array in (event.central, event.drift):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 5.0

    history = algo.train(group, 50, runs=1, engine=engine, callback=write)
    assert (history.central[:, 0] == 0).all()
