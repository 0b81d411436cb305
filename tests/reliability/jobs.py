"""Real kernels in processes of their own, each with a disk cache that a trial has done something to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import limit

ROOT = Path(__file__).resolve().parents[2]
KERNELS = """
import pypto as pto
from helpers import twice

SCALE = 3


@pto.jit
def scaled(x, out, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(out + i, twice(pto.load(x + i, mask=i < n)) * SCALE, mask=i < n)
"""
HELPERS = """
import pypto as pto


@pto.jit
def twice(x):
    return x * 2
"""
# Launches `scaled` at as many block sizes as the first argument says, and tells what became of the cache.
JOB = """
import json, sys, time, warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import kernels
    import pypto as pto
    from pypto.compile import session
    from pypto.errors.advice import ManyVersions
    warnings.simplefilter("ignore", ManyVersions)
    right = True
    for n in range(int(sys.argv[1])):
        x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
        kernels.scaled[1000 // (16 + n) + 1](x, out, 1000, BLOCK=16 + n)
        right = right and bool((out == x * 2 * kernels.SCALE).all())
counters = session().cache.counters
print(json.dumps({"right": right, "hits": counters.hits, "misses": counters.misses, "made": counters.made,
                  "warnings": [str(w.message) for w in caught]}))
"""


@dataclass(frozen=True)
class Said:
    """What a job told when it was done."""

    right: bool
    hits: int
    misses: int
    made: int
    warnings: list[str]


def write_kernels(folder: Path) -> Path:
    """The files of a job, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("kernels.py", KERNELS), ("helpers.py", HELPERS), ("job.py", JOB)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def start(folder: Path, count: int = 1, cache: Path | None = None, *, before: Callable[[], None] | None = None,
          root: Path = ROOT, **environment: str | None) -> subprocess.Popen[str]:  # fmt: skip
    """A job that was started; `before` runs in its process, ahead of Python."""
    settings = {"PYTHONPATH": f"{root}{os.pathsep}{folder}", "PYPTO_CACHE_DIR": str(cache or folder / "cache"),
                "PYTHONDONTWRITEBYTECODE": "1", "PYPTO_NUM_THREADS": "1", **environment}  # fmt: skip
    env = {k: v for k, v in {**os.environ, **settings}.items() if v is not None}
    command = [sys.executable, str(folder / "job.py"), str(count)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                            preexec_fn=before)  # fmt: skip  # noqa: PLW1509


def finish(job: subprocess.Popen[str], seconds: float = 120) -> Said:
    out, err = job.communicate(timeout=limit(seconds))
    assert job.returncode == 0, err
    said: dict[str, Any] = json.loads(out)
    return Said(**said)


def run(folder: Path, count: int = 1, cache: Path | None = None, **more: Any) -> Said:
    """What a job says."""
    return finish(start(folder, count, cache, **more))
