"""A process that a kernel ends writes one line before it does, and other handlers of the signal still run."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.runtime.crash import CrashHandler, crash_object
from pypto.backends.cpu.runtime.elf import symbol_range
from pypto.backends.cpu.runtime.pool import is_native
from pypto.compile import session
from pypto.options import KernelOptions
from tests.conformance.processes import ROOT

pytestmark = pytest.mark.skipif(not is_native(), reason="the handler is for Linux")
LINE = "pypto: kernel `far` (PLACE) touched memory that is in none of its arrays, and ends this process; " \
    "run with PYPTO_CHECKED=1 to see where\n"  # fmt: skip
ELSEWHERE = "pypto: this process ends by a fault outside of kernels, perhaps since a kernel stored outside of its " \
    "arrays; the latest compiled is `far` (PLACE); run with PYPTO_CHECKED=1 to see where\n"  # fmt: skip
FAR = """
import ctypes, faulthandler, os, signal, sys
import numpy as np
import pypto as pto

@pto.jit
def near(x, o):
    o[:] = x[:]

@pto.jit
def far(x, o, at, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(o + i, pto.load(x + i + at))

x, o = np.zeros(1 << 20, np.float32), np.zeros(1 << 20, np.float32)
near[1](x[:8], o[:8])
near[1](x[:16], o[:16])
far[1](x, o, 0, BLOCK=8)
"""


def ended(tmp_path: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(FAR + text, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "", **environment}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=False)
    line = FAR.splitlines().index("def far(x, o, at, BLOCK: pto.constexpr):")  # of its decorator
    done.stderr = done.stderr.replace(f"{script}:{line}", "PLACE")
    return done


@pytest.mark.parametrize("programs", [1, 1 << 17])
def test_the_kernel_is_named(programs: int, tmp_path: Path) -> None:
    """In the caller's thread, and in those of the pool."""
    done = ended(tmp_path, f"far[{programs}](x, o, 1 << 44, BLOCK=8)\n")
    assert done.returncode == -signal.SIGSEGV
    assert done.stderr == LINE


@pytest.mark.parametrize("order", ["before", "after"])
def test_pythons_own_handler_still_runs(order: str, tmp_path: Path) -> None:
    early = {"PYTHONFAULTHANDLER": "1"} if order == "before" else {}
    done = ended(tmp_path, "faulthandler.enable()\nfar[1](x, o, 1 << 44, BLOCK=8)\n", **early)
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert done.stderr.startswith(LINE) == (order == "before")


def test_a_fault_elsewhere_names_a_kernel_that_may_have_caused_it(tmp_path: Path) -> None:
    done = ended(tmp_path, "ctypes.string_at(8)\n")
    assert (done.returncode, done.stderr) == (-signal.SIGSEGV, ELSEWHERE)


def test_a_heap_that_a_kernel_breaks_names_it(tmp_path: Path) -> None:
    """The C library finds out later, when memory is freed, and calls `abort`."""
    text = "p = [np.ones(4, np.float32) for _ in range(99)]\nfor a in p:\n    far[1](x + 7, a, 0, BLOCK=512)\n"
    done = ended(tmp_path, text + "del a, p\n")
    assert done.returncode in (-signal.SIGABRT, -signal.SIGSEGV)
    assert ELSEWHERE in done.stderr


def test_checked_kernels_are_above_suspicion(tmp_path: Path) -> None:
    done = ended(tmp_path, "os.abort()\n", PYPTO_CHECKED="1")
    assert (done.returncode, done.stderr) == (-signal.SIGABRT, "")


@pytest.mark.parametrize("sent", [signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_that_is_sent_ends_the_process_too(sent: signal.Signals, tmp_path: Path) -> None:
    done = ended(tmp_path, f"os.kill(os.getpid(), {int(sent)})\n")
    assert (done.returncode, done.stderr) == (-sent, "")


def test_what_the_line_advises_finds_the_place(tmp_path: Path) -> None:
    done = ended(tmp_path, "far[1](x, o, 1 << 24, BLOCK=8)\n", PYPTO_CHECKED="1")
    assert "load out of bounds: x[16777216]" in done.stderr


def test_the_table_has_the_memory_of_a_kernel() -> None:
    @pto.jit
    def twice(x: Any, o: Any) -> None:
        o[:] = x[:] * 2

    backend = session().backend(KernelOptions())
    x = np.ones(8, np.float32)
    found = twice.compile(x, x.copy())
    before, size = symbol_range(found.program.artifact.code, "twice")
    assert 0 <= before < size <= len(found.program.artifact.code)
    lines = backend.crashes
    begin, end, text, length, *_ = lines.words[6 * lines.count - 6 : 6 * lines.count]
    assert begin <= found.program.executable.address < end
    assert b"`twice`" in ctypes.string_at(text, length)
    assert symbol_range(found.program.artifact.code, "missing") == (0, 0)


def test_the_table_grows() -> None:
    backend = session().backend(KernelOptions())
    lines = CrashHandler(backend.engine, crash_object(backend.engine))
    for n in range(600):
        lines.add(f"k{n}", n, b"\0" * 64)
    assert lines.count == 600
    assert list(lines.words[0:2]) == [0, 0]
    assert list(lines.words[6 * 599 : 6 * 599 + 2]) == [599, 599]
