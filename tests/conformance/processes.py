"""Python in processes of their own, with this checkout's package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.patience import limit

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: str | Path, seconds: float = 300, **environment: str) -> str:
    """Output of a Python program; fails with its error text, and when it takes longer than an idle machine may."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=limit(seconds),
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr}"
    return done.stdout
