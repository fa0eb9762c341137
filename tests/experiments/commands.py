"""The command line as a user runs it, and configurations that train at once."""

import io
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

with warnings.catch_warnings():  # Typer uses names that Click is about to drop
    warnings.simplefilter("ignore", DeprecationWarning)
    from fedsarsa.cli import main

SMALL = """
[fleet]
agents = 3
states = 10
actions = 5

[training]
steps = 50
runs = 2
seed = 4
"""

# Eight cells.
SWEEP = """
[fleet]
states = 10
actions = 5
[training]
steps = 2000
runs = 2
[sweep]
fleet.agents = [1, 2, 3, 4]
algorithm.step_size = [0.1, 0.01]
"""


def command(*arguments):
    """Run ``fedsarsa`` in this process: no start, no imports, and a warning is an error."""
    said, errors = io.StringIO(), io.StringIO()
    words = ["fedsarsa", *map(str, arguments)]
    with patch.object(sys, "argv", words), redirect_stdout(said), redirect_stderr(errors):
        try:
            code = main()
        except SystemExit as end:
            code = end.code
    return subprocess.CompletedProcess(words, code or 0, said.getvalue(), errors.getvalue())


def command_in_its_own_process(*arguments, **options):
    """Run ``fedsarsa`` as a shell does."""
    return subprocess.run(
        [sys.executable, "-c", "from fedsarsa.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )
