"""Processes that cannot import Numba."""

import subprocess
import sys
import textwrap

WITHOUT_NUMBA = """
import sys


class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"numba", "llvmlite"}:
            raise ImportError(f"{name} must not be imported")


sys.meta_path.insert(0, Refused())
"""


def run_without_numba(code, *arguments):
    """Run ``code`` in a process that cannot import Numba; the lines it prints."""
    script = WITHOUT_NUMBA + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
