"""Compiled kernels between processes: a second one neither lowers nor calls LLVM, and edits are noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import limit

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.parametrize("path", ["native"], indirect=True)  # of this process, which launches nothing

COUNTING = """
import numpy as np
import pypto as pto
from pypto.backends.cpu.runtime.engine import Engine
from kernels import SCALE, add

compiled = []
compile = Engine.compile
Engine.compile = lambda self, *args: compiled.append(1) or compile(self, *args)

for count in (64, 2**20):  # a launch on one thread, and one for the pool
    x, out = np.arange(count, dtype=np.float32), np.zeros(count, np.float32)
    add[(count + 1023) // 1024](x, x, out, count, BLOCK=1024)
    assert (out == 2 * x * SCALE).all()
import pypto.compile
counters = pypto.compile.session().cache.counters
print(len(compiled), counters.hits, counters.made, sorted(add.specializations[0].timings))
"""
KERNELS = """
import pypto as pto

SCALE = 1

@pto.jit
def add(x, y, out, n, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    mask = offs < n
    pto.store(out + offs, (pto.load(x + offs, mask=mask) + pto.load(y + offs, mask=mask)) * SCALE, mask=mask)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNELS, encoding="utf-8")
    return tmp_path


def run(folder: Path, code: str = COUNTING, **environment: str) -> list[Any]:
    """What a new process prints, by words."""
    path = os.pathsep.join((str(ROOT), str(folder)))
    settings = {"PYTHONPATH": path, "PYPTO_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **settings, **environment},
        capture_output=True,
        text=True,
        timeout=limit(120),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(maxsplit=3)


def test_a_second_process_takes_everything_from_the_cache(folder: Path) -> None:
    compiled, hits, made, timings = run(folder)
    assert int(compiled) >= 1 and int(made) > int(compiled)  # beside code, facts about the machine and the compiler
    assert "codegen" in timings and "llvm_emit" in timings
    second, hits, made, timings = run(folder)
    assert (second, made) == ("0", "0") and int(hits) > int(compiled)
    assert timings.strip() == "['cache', 'load']"


def test_without_the_cache_every_process_compiles(folder: Path) -> None:
    first, second = run(folder, PYPTO_CACHE="off"), run(folder, PYPTO_CACHE="off")
    assert int(first[0]) >= 1 and first[0] == second[0]
    assert not (folder / "cache").exists()


def test_a_changed_global_is_another_kernel(folder: Path) -> None:
    run(folder)
    (folder / "kernels.py").write_text(KERNELS.replace("SCALE = 1", "SCALE = 2 - 1"), encoding="utf-8")
    assert run(folder)[0] == "0"  # the same value gives the same code
    (folder / "kernels.py").write_text(KERNELS.replace("SCALE = 1", "SCALE = 3"), encoding="utf-8")
    assert int(run(folder)[0]) >= 1


def test_only_what_is_used_is_loaded(folder: Path) -> None:
    code = """
import sys
import numpy as np
import pypto as pto
from kernels import add
later = ("pypto.frontend", "pypto.passes", "pypto.backends.cpu", "llvmlite", "ml_dtypes", "pypto.interp", "numpy.ma")
later += ("html", "fractions")
print([name for name in later if name in sys.modules])
x = np.zeros(4, np.float32)
add.compile(x, x, x.copy(), 4, BLOCK=4)
print([name for name in ("ml_dtypes", "pypto.interp", "numpy.ma", "diskcache") if name in sys.modules])
"""
    run(folder)
    run(folder, code.replace("x.copy(), 4, BLOCK=4", "x.copy(), 4, BLOCK=1024"))
    assert run(folder, code.replace("BLOCK=4", "BLOCK=1024")) == ["[]", "[]"]
