"""The cuda engine in Numba's simulator, and what is said where there is no GPU."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.engines import cuda_device
from fedsarsa_benchmarks import gpu
from tests.experiments.commands import command
from tests.worlds_of_tests import fleet


@pytest.mark.slow
def test_kernels_in_the_simulator():
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "tests/engines/cuda_suite.py"]
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=450)
    assert done.returncode == 0, done.stdout[-5000:]
    assert re.search(r"\d\d+ passed", done.stdout), done.stdout


def test_no_gpu_is_said_in_one_sentence(monkeypatch):
    monkeypatch.setattr(cuda_device, "missing", lambda: "there is no NVIDIA GPU here")
    with pytest.raises(ValueError, match="engine 'cuda' does not work here: there is no NVIDIA GPU here"):
        fs.FedSARSA(fs.OneHot()).train(fleet(), 10, engine="cuda")


def test_a_numpy_that_numba_cuda_does_not_know(monkeypatch):
    monkeypatch.delattr("numpy.row_stack", raising=False)
    assert re.match(r"numba-cuda does not know NumPy .*: pip install 'numpy<2.5'", str(cuda_device.missing()))


def test_without_numba_cuda(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    assert engines.ENGINES["cuda"].missing == "it needs numba-cuda: pip install 'fedsarsa[cuda]'"


def test_a_benchmark_without_a_gpu_is_one_sentence(monkeypatch):
    missing = replace(engines.ENGINES["cuda"], device=lambda: "there is no NVIDIA GPU here")
    monkeypatch.setitem(engines.ENGINES, "cuda", missing)
    done = command("bench", "--gpu")
    assert done.returncode == 2
    assert done.stderr == "fedsarsa: engine 'cuda' does not work here: there is no NVIDIA GPU here\n"
    assert "there is no NVIDIA GPU here" in command("bench", "--part", "gpu").stdout


def test_what_a_benchmark_tells_of_a_kernel(monkeypatch):
    """On an H200, by the numbers of docs/gpu.md: 15 warps, which issue in 55% of all cycles."""
    h200 = cuda_device.Limits(132, 233_472, 2048, 65_536, 232_448, 1024)
    device = SimpleNamespace(MULTIPROCESSOR_COUNT=132, CLOCK_RATE=1_980_000)
    monkeypatch.setattr(cuda_device, "limits", lambda: h200)
    monkeypatch.setattr("numba.cuda.get_current_device", lambda: device)
    compiled = SimpleNamespace(regs_per_thread=128, local_mem_per_thread=40, shared_mem_per_block=0)
    launches = [
        gpu.Launch(SimpleNamespace(compiled=compiled), 160, 408 * 160, seconds=2.0, memory=0),
        gpu.Launch(None, 32, 0, seconds=1.0, memory=0),
    ]
    told = [result.measured for result in gpu.facts(launches, 3.2e10)]
    assert told == ["128, 40 bytes", "160, 65,280 bytes", "15 of 64, 23%", "54%", gpu.STALLS]
