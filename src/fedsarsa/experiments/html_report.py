"""Pieces of reports in HTML that need no other file."""

import base64
import os
import platform
from dataclasses import asdict
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedsarsa._version import __version__

PACKAGES = ("numpy", "scipy", "numba", "xarray", "matplotlib")
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ddd; }
h3 { margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.45rem 0.5rem; border-bottom: 1px solid #ddd; }
td small { color: #555; } td.number { white-space: nowrap; }
.wide { overflow-x: auto; }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; }
.holds { color: #00614d; } .part { color: #7a5200; } .fails { color: #9c1f00; } .open { color: #444; }
pre { background: #f6f6f4; padding: 0.8rem; overflow-x: auto; font-size: 0.8rem; line-height: 1.35; }
a { color: #00538a; } .code { font-size: 0.85rem; }
"""


def picture(path: Path, title: str, caption: str = "") -> str:
    """A picture inside the page; the caption is HTML."""
    content = base64.b64encode(path.read_bytes()).decode()
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure><img src="data:image/png;base64,{content}" alt="{escape(title)}">{below}</figure>'


def settings_table(scale: Any, seed: int, seconds: float) -> str:
    """What was trained (``scale``, a dataclass), with what, where, and how long it took."""
    rows = {name.replace("_", " "): value for name, value in asdict(scale).items()}
    rows |= {
        "seed": seed,
        "time taken": f"{seconds:.1f} s",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "Python": platform.python_version(),
        "fedsarsa": __version__,
    }
    rows |= {name: version(name) for name in PACKAGES}
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(_plain(value))}</td></tr>" for name, value in rows.items()
    )
    return f"<table>{cells}</table>"


def _processor() -> str:
    """The processor's name where the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _plain(value: object) -> str:
    return ", ".join(f"{one:g}" for one in value) if isinstance(value, tuple) else str(value)
