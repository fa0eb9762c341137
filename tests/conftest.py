import gc
import os
import sys
from pathlib import Path

# Before NumPy is imported, here or in a process of its own. Two processes with two threads of linear algebra
# each, on two cores, need almost twice the time: the threads wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests start hundreds of processes, and three of them collect tests. Each would compile all sources anew
# where the environment forbids to keep bytecode: that took a third of the time to collect.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from hypothesis import HealthCheck, settings

sys.dont_write_bytecode = False  # the same for this process

settings.register_profile(
    "fedsarsa", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fedsarsa")
# Ray's workers give way to every other process, and so to the tests beside them: compiling took minutes.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
# Commands print to a terminal of this kind, here and in processes of their own.
os.environ.update(COLUMNS="200", NO_COLOR="1")

# The files that take longest, as measured. They start first, so that processes that share the tests out end
# together.
LONGEST = (
    "deploy/test_faults.py",
    "theory/test_beyond_the_paper.py",
    "theory/test_prediction_against_training.py",
    "engines/test_ray.py",
    "deploy/test_demo.py",
    "theory/test_prediction.py",
    "test_extending.py",
    "engines/test_cuda.py",
    "engines/test_ray_clusters.py",
    "experiments/reproduction/test_reproduction.py",
    "experiments/test_sweep.py",
    "explore/test_page.py",
    "test_docs.py",
    "federation/test_joining_late.py",
    "deploy/test_personal_processes.py",
    "deploy/test_continuous.py",
)


def pytest_collection_modifyitems(items):
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_collection_finish():
    """Have the garbage collector skip what was imported and collected, all of which stays."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
