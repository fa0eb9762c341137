"""A file system that is full, made for one command: a small tmpfs in a mount namespace of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 300
# The mount ends with its processes: what is left there is copied out before.
SCRIPT = """
set -e
mount -t tmpfs -o size=256k tmpfs "$1"
mkdir "$1/out"
if [ -d "$2" ]; then cp "$2"/* "$1/out"; else mkdir "$2"; fi
cat /dev/zero > "$1/filler" 2>/dev/null || true
touch "$2/is-full"
place=$1 kept=$2; shift 2
status=0; "$@" || status=$?
cp "$place/out"/* "$kept" || true
exit $status
"""


class FullDisk:
    """A Python ``program`` whose directory ``place`` is full, with ``place``/out to write to.

    That directory begins with what is in ``kept``, and its files are in ``kept`` in the end. Needs root, or a
    system on which everybody may make user namespaces.
    """

    def __init__(self, folder, program, *arguments):
        self.place, self.kept = folder / "disk", folder / "kept"
        self.place.mkdir()
        self.process = subprocess.Popen(
            [
                *("unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh", self.place, self.kept),
                *(sys.executable, "-u", "-c", program, *map(str, arguments)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.wait(lambda: (self.kept / "is-full").exists())
        (self.kept / "is-full").unlink()

    def wait(self, condition):
        until = time.monotonic() + PATIENCE
        while not condition():
            if self.process.poll() is not None or time.monotonic() > until:
                said = self.process.communicate()
                raise AssertionError(f"no full disk, or an early end: {self.process.returncode}, {said}")
            time.sleep(0.05)

    def hear(self, words):
        """Read standard output up to a line with these words."""
        for line in self.process.stdout:
            if words in line:
                return line
        raise AssertionError(f"ended without {words!r}: {self.process.communicate()}")

    def child(self):
        """The number of the program's process."""
        (number,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(number)

    def make_room(self):
        Path(f"/proc/{self.process.pid}/root/{self.place}/filler").unlink()

    def end(self):
        """The exit code, and what was said since."""
        said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, *said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.kill(self.child(), 9)
            self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
