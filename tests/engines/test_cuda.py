"""The cuda engine in Numba's simulator, and what is said where there is no GPU."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
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


@pytest.fixture
def driver(monkeypatch):
    """Numba's driver, as with one GPU, a driver for CUDA 13.0 and the packages of 13.1."""
    if not hasattr(np, "row_stack"):
        pytest.skip("numba-cuda does not know this NumPy")
    from numba.cuda.cudadrv.driver import driver

    monkeypatch.setitem(vars(driver), "cuDeviceGetCount", lambda: 1)
    monkeypatch.setitem(vars(driver), "cuDriverGetVersion", lambda: 13_000)
    monkeypatch.setattr("numba.cuda.cudadrv.runtime._get_nvrtc_version", lambda: (13, 1))
    return driver


def fails(message):
    def call(*_):
        raise RuntimeError(message)

    return call


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, None),
        ({"cuDeviceGetCount": lambda: 0}, "there is no NVIDIA GPU here"),
        (
            {
                "cuDeviceGetCount": fails(
                    "Error at driver init: Call to cuInit results in CUDA_ERROR_NO_DEVICE"
                )
            },
            "there is no NVIDIA GPU here",
        ),
        (
            {"cuDriverGetVersion": lambda: 12_040},
            (
                "the NVIDIA driver knows CUDA 12.4, and 13.1 is installed: update the driver, or install "
                "CUDA packages of version 12"
            ),
        ),
        ({"cuDriverGetVersion": lambda: 14_010}, None),
        (
            {
                "cuDeviceGetCount": fails(
                    "\nPossible CUDA driver libraries are found:\nwrong ELF class. And so.\n"
                )
            },
            "the NVIDIA driver does not answer: Possible CUDA driver libraries are found: wrong ELF class",
        ),
    ],
)
def test_what_drivers_answer(monkeypatch, driver, change, told):
    for name, answer in change.items():
        monkeypatch.setitem(vars(driver), name, answer)
    assert cuda_device.missing() == told


def test_no_driver_is_one_sentence(monkeypatch, driver):
    from numba.cuda.cudadrv.driver import DRIVER_NOT_FOUND_MSG

    for name in ("cuDeviceGetCount", "cuDriverGetVersion"):
        monkeypatch.delitem(vars(driver), name)
    monkeypatch.setattr(driver, "is_initialized", True)
    monkeypatch.setattr(driver, "initialization_error", DRIVER_NOT_FOUND_MSG)
    assert cuda_device.missing() == "there is no NVIDIA driver here"


def test_no_compiler_is_one_sentence(monkeypatch, driver):
    monkeypatch.setattr("numba.cuda.cudadrv.runtime._get_nvrtc_version", fails("Failure finding libnvrtc"))
    assert cuda_device.missing() == "CUDA's compiler is not installed: pip install 'numba-cuda[cu13]'"


def test_a_gpu_that_other_processes_fill(monkeypatch):
    full = fails("[2] Call to cuDevicePrimaryCtxRetain results in CUDA_ERROR_OUT_OF_MEMORY")
    monkeypatch.setattr("numba.cuda.current_context", full)
    cuda_device.limits.cache_clear()
    for ask in (cuda_device.limits, cuda_device.free_memory):
        with pytest.raises(
            ValueError, match="memory must have room for CUDA itself; other processes hold it"
        ):
            ask()


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
    """On an H200, by the numbers of docs/gpu.md: 15 warps, which issue in half of all cycles."""
    h200 = cuda_device.Limits(132, 233_472, 2048, 65_536, 232_448, 1024)
    device = SimpleNamespace(MULTIPROCESSOR_COUNT=132, CLOCK_RATE=1_980_000)
    monkeypatch.setattr(cuda_device, "limits", lambda: h200)
    monkeypatch.setattr("numba.cuda.get_current_device", lambda: device)
    known = SimpleNamespace(num_regs=128, local_size_bytes=40, shared_size_bytes=0)
    compiled = SimpleNamespace(kernel=SimpleNamespace(attributes=known))
    launches = [
        gpu.Launch(compiled, 160, 408 * 160, seconds=2.0, memory=0),
        gpu.Launch(None, 32, 0, seconds=1.0, memory=0),
    ]
    told = [result.measured for result in gpu.facts(launches, 5.6e10)]
    assert told == ["128, 40 bytes", "160, 65,280 bytes", "15 of 64, 23%", "52%", gpu.STALLS]
