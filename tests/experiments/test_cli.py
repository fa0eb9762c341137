import subprocess
import sys
import textwrap

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import plots
from tests.experiments.commands import SMALL, command, command_in_its_own_process


def test_train_writes_what_python_would_compute(tmp_path):
    config = tmp_path / "small.toml"
    config.write_text(SMALL)
    done = command_in_its_own_process("train", config, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"history.nc", "error.png", "error.pdf"}
    assert done.stdout.splitlines()[-1].startswith("final error ")
    written = fs.History.load(tmp_path / "out" / "history.nc")
    expected = fs.FedSARSA().train(fs.paper.fleet(3, states=10, actions=5), 50, runs=2, seed=4)
    np.testing.assert_array_equal(written.central, expected.central)
    assert "measured eps_p" in done.stdout
    again = command("train", config, "--out", tmp_path / "out")
    assert again.returncode == 2
    assert "history.nc: already exists; choose another --out" in again.stderr


@pytest.mark.slow
def test_interrupt_saves_and_the_same_command_resumes(tmp_path):
    config = tmp_path / "long.toml"
    config.write_text(SMALL.replace("steps = 50", "steps = 3_000_000\nrecord_every = 1000"))
    out = tmp_path / "out"
    program = textwrap.dedent("""
        import os, signal
        from fedsarsa.cli import main
        from fedsarsa.engines.fast_path import FastPathEngine

        advance = FastPathEngine.advance

        def with_ctrl_c(self, state, steps):
            if state.t:
                os.killpg(0, signal.SIGINT)  # as a terminal does, to the whole group, in the second stretch
            return advance(self, state, steps)

        FastPathEngine.advance = with_ctrl_c
        main()
    """)
    interrupted = subprocess.run(
        [sys.executable, "-c", program, "train", config, "--out", out],
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=300,
    )
    assert interrupted.returncode == 130, interrupted.stderr
    assert "3 agents" in interrupted.stdout
    assert "resume with: fedsarsa train" in interrupted.stdout
    assert [path.name for path in out.iterdir()] == ["checkpoint.nc"]
    again = command("train", config, "--out", out)
    assert again.returncode == 0, again.stderr
    assert "resuming from" in again.stdout
    assert {path.name for path in out.iterdir()} == {"history.nc", "error.png", "error.pdf"}
    whole = fs.FedSARSA().train(
        fs.paper.fleet(3, states=10, actions=5), 3_000_000, runs=2, seed=4, record_every=1000
    )
    assert fs.History.load(out / "history.nc").data.equals(whole.data)


def test_a_training_that_is_over_is_extended(tmp_path):
    config, out = tmp_path / "small.toml", tmp_path / "out"
    config.write_text(SMALL)
    longer = ("train", config, "--out", out, "--set", "training.steps=80")
    assert command("train", config, "--out", out).returncode == 0
    lost = command(*longer, "--extend")
    assert lost.returncode == 2
    assert "checkpoint.nc: expected the checkpoint that a training with --extend keeps" in lost.stderr
    assert command("train", config, "--out", out, "--force", "--extend").returncode == 0
    unasked = command(*longer)
    assert unasked.returncode == 2
    assert "history.nc: already exists" in unasked.stderr
    assert "--extend to resume" in unasked.stderr
    done = command(*longer, "--extend")
    assert done.returncode == 0, done.stderr
    assert "resuming from" in done.stdout
    whole = fs.FedSARSA().train(fs.paper.fleet(3, states=10, actions=5), 80, runs=2, seed=4)
    assert fs.History.load(out / "history.nc").data.equals(whole.data)
    shorter = command("train", config, "--out", out, "--extend")
    assert shorter.returncode == 2
    assert "expected a checkpoint of at most 50 steps, got one after 80" in shorter.stderr


def test_diverged_runs_are_reported(tmp_path):
    config = tmp_path / "wild.toml"
    config.write_text(SMALL + "\n[algorithm]\nstep_size = 1e150\n")
    done = command("train", config, "--out", tmp_path / "out")
    assert "run 0: parameters stopped being finite at step" in done.stdout
    assert done.returncode == 1
    assert "every run failed: the parameters of run 0 stopped being finite at step" in done.stderr
    assert (fs.History.load(tmp_path / "out" / "history.nc").failed_at >= 0).all()  # the files are kept


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("step_size", [4, 8, 50])
def test_errors_that_grow_out_of_bounds_are_drawn_as_far_as_they_go(tmp_path, step_size):
    config, out = tmp_path / "wild.toml", tmp_path / "out"
    config.write_text(SMALL.replace("50", "600") + f"\n[algorithm]\nstep_size = {step_size}\n")
    done = command("train", config, "--out", out)
    assert done.stdout.splitlines()[-1].startswith("final error ")
    assert "Axis limits" not in done.stderr
    assert {path.name for path in out.iterdir()} == {"history.nc", "error.png", "error.pdf"}
    if done.returncode:
        assert "every run failed" in done.stderr
    else:
        assert float(fs.History.load(out / "history.nc").central.max()) > 1e10


def test_the_outcome_is_printed_where_the_picture_cannot_be_drawn(tmp_path, monkeypatch):
    def fails(*_):
        raise ValueError("no pen")

    monkeypatch.setattr(plots, "save", fails)
    config = tmp_path / "small.toml"
    config.write_text(SMALL)
    done = command("train", config, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith("final error ")
    assert "fedsarsa: no pen" in done.stderr


@pytest.mark.parametrize(("kind", "said"), [("softmax", ""), ("greedy", ", of policies that jump to the av")])
def test_the_last_line_says_what_applies(tmp_path, kind, said):
    config = tmp_path / "small.toml"
    config.write_text(SMALL + f'\n[algorithm.policy]\nkind = "{kind}"\n')
    last = command("train", config, "--out", tmp_path / "out").stdout.splitlines()[-1]
    assert f"central parameter to agent 0's fixed point{said}" in last
    assert last.endswith("fixed point)" if kind == "softmax" else "a long run)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[training]\nstpes = 3", "did you mean 'steps'?"),
        ("[training]\nsteps = 0", "training.steps: expected at least 1, got 0"),
        ("agents = 3", "bad.toml: agents: unknown key; did you mean 'fleet.agents'?; valid: algorithm, "),
        ("seed = 3", "bad.toml: seed: unknown key; did you mean 'fleet.seed' or 'training.seed'?"),
        ("[algorithm]\nsync_every = 0", "bad.toml: algorithm: sync_every must be an integer of at least 1"),
        ('[training]\nengine = "cpo"', "did you mean 'cpu'?"),
        ("[training]\nsteps = 100_000_000_000", "bad.toml: training.record_every must leave at most 4 GiB"),
        ("[algorithm]\nweights = [0.5, 0.5]", "bad.toml: algorithm.weights must have shape (20,), got (2,)"),
        ("[fleet]\neps_p = 5", "fleet.eps_p: expected at most 2, got 5"),
    ],
)
def test_bad_configurations_write_nothing(tmp_path, text, message):
    config = tmp_path / "bad.toml"
    config.write_text(text)
    done = command("train", config, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_is_found_before_training(tmp_path):
    config = tmp_path / "long.toml"
    config.write_text("[training]\nsteps = 2_000_000_000\nrecord_every = 1_000_000")
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    done = command("train", config, "--out", blocked / "out")
    assert done.returncode == 2
    assert "expected a directory that can be written to" in done.stderr.replace("\n", " ")
    missing = command("train", tmp_path / "none.toml")
    assert missing.returncode == 2
    assert "cannot be read" in missing.stderr


@pytest.mark.slow
def test_theory_and_plan_print_tables(tmp_path):
    config = tmp_path / "small.toml"
    config.write_text(SMALL + "\n[algorithm]\nfeatures = { d1 = 2, d2 = 2 }\n")
    shown = command("theory", config)
    assert shown.returncode == 0, shown.stderr
    for words in (
        "What the theory asks",
        "thm:fix-drift",
        "contraction rate",
        "Mean squared error to expect",
    ):
        assert words in shown.stdout
    planned = command("plan", config, "--target", 1.0)
    assert planned.returncode == 0, planned.stderr
    assert "To reach a mean squared error of 1:" in planned.stdout
    assert "verdict" in planned.stdout
    for given, got in (((), "neither"), (("--target", 1.0, "--gap", 0.2), "both")):
        unclear = command("plan", config, *given)
        assert unclear.returncode == 2
        assert f"expected either --target or --gap, got {got}" in unclear.stderr
    hopeless = command("plan", config, "--target", 1e-12)
    assert hopeless.returncode == 2
    assert "the smallest error reachable" in hopeless.stderr.replace("\n", " ")


def test_theory_that_does_not_apply_says_so(tmp_path):
    config = tmp_path / "greedy.toml"
    config.write_text(SMALL + '\n[algorithm]\npolicy = { kind = "greedy" }\n')
    shown = command("theory", config)
    assert shown.returncode == 0, shown.stderr
    assert "does not apply" in shown.stdout
    assert "no prediction: policy must change smoothly" in shown.stdout


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("participation = 0.5", "no bounds: participation must be 1 here, got participation 0.5"),
        (
            'server = { kind = "private-mean", clip = 20.0, noise = 0.1 }',
            "no bounds: server must be the mean here, the only rule the theory covers, got PrivateMean",
        ),
    ],
)
def test_a_prediction_without_bounds_is_shown(tmp_path, setting, reason):
    config = tmp_path / "rehearsal.toml"
    config.write_text(SMALL + f"\n[algorithm]\n{setting}\n")
    shown = command("theory", config)
    assert shown.returncode == 0, shown.stderr
    assert reason in shown.stdout
    assert "Mean squared error to expect" in shown.stdout
    config.write_text(SMALL + f"\n[algorithm]\n{setting}\nfaults = {{ absent = 0.1 }}\n")
    neither = command("theory", config)
    assert neither.returncode == 2
    assert "faults must be None here, as no theory follows them" in neither.stderr


def test_help_and_version():
    assert fs.__version__ in command_in_its_own_process("--version").stdout
    for words in (["--help"], ["train", "--help"], ["sweep", "--help"], ["reproduce", "--help"]):
        assert "Usage" in command(*words).stdout


def test_names_are_printed_as_they_are(tmp_path):
    config = tmp_path / "small [x].toml"
    config.write_text(SMALL)
    out = tmp_path / "o[red]x [y]"
    done = command("train", config, "--out", out)
    assert done.returncode == 0, done.stderr
    assert f"wrote {out}/history.nc" in done.stdout
    assert (out / "history.nc").exists()


def test_settings_are_changed_on_the_command_line(tmp_path):
    config, out = tmp_path / "small.toml", tmp_path / "out"
    config.write_text(SMALL)
    assert command("train", config, "--out", out).returncode == 0
    change = ("--set", "algorithm.step_size=0.1", "--set", "algorithm.sync_every=never")
    refused = command("train", config, "--out", out, *change)
    assert refused.returncode == 2
    assert "choose another --out, or pass --force to retrain" in refused.stderr
    assert command("train", config, "--out", out, *change, "--force").returncode == 0
    expected = fs.FedSARSA(step_size=0.1, sync_every=None).train(
        fs.paper.fleet(3, states=10, actions=5), 50, runs=2, seed=4
    )
    written = fs.History.load(out / "history.nc")
    np.testing.assert_array_equal(written.final, expected.final)
    for bad, message in (
        ("algorithm.step_size", "set: expected key=value"),
        ("algorithm.stepsize=1", "algorithm.stepsize: unknown key; did you mean 'step_size'?"),
        ("fleet.agents.x=1", "fleet.agents: expected a table, since fleet.agents.x is set, got 3"),
    ):
        assert message in command("train", config, "--out", tmp_path / "no", "--set", bad).stderr


def test_the_kind_of_a_table_is_changed_with_the_table(tmp_path):
    config = tmp_path / "small.toml"
    config.write_text(SMALL + '\n[algorithm]\npolicy = { kind = "epsilon-greedy", eps = 0.1 }\n')
    kept = command("train", config, "--out", tmp_path / "no", "--set", "algorithm.policy.kind=softmax")
    assert kept.returncode == 2
    assert "algorithm.policy.eps: unknown key of this kind, but one of kind epsilon-greedy" in kept.stderr
    whole = 'algorithm.policy={ kind = "softmax" }'
    said = " ".join(kept.stderr.split())
    assert f"softmax keeps the other keys of the table; to replace all of it: --set '{whole}'" in said
    assert command("train", config, "--out", tmp_path / "out", "--set", whole).returncode == 0
