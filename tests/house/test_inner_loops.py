"""Innermost loops at each x86-64 level are as the file says, and a loop that gets longer is named."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.house.inner_loops import (
    FILE,
    LEVELS,
    Counts,
    changes,
    counts_of,
    hot_loop,
    kernels,
    llvm_version,
    read,
    text_of,
)
from tests.house.measure import ROOT

LISTING = """
f:
\tmovq\t(%rdi), %rax
.LBB0_1:
\tvmovups\t(%rax), %ymm0          # 32-byte load
.LBB0_2:
\tvfmadd231ps\t%ymm0, %ymm1, %ymm2
\tvmovups\t%ymm2, -96(%rsp)
\tincq\t%rcx
\tjne\t.LBB0_2
\tvaddps\t%ymm0, %ymm1, %ymm1
\tvaddps\t%ymm0, %ymm1, %ymm1
\tjmp\t.LBB0_1
.LBB0_3:
\tincq\t%rdx
\tjne\t.LBB0_3
"""


def test_loops_are_as_the_file_says() -> None:
    version, before = read(FILE.read_text(encoding="utf-8"))
    if version != llvm_version():
        pytest.skip(f"loops at x86-64 levels were counted with LLVM {version}")
    assert set(before) == {f"{name} {level}" for name in kernels() for level in LEVELS}
    command = [sys.executable, "-m", "tests.house.inner_loops"]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hot_loop_is_an_innermost_one() -> None:
    assert counts_of(hot_loop(LISTING)) == Counts(4, 1, 1)


def test_a_longer_loop_is_named() -> None:
    before = {"add v3": Counts(20, 4, 0), "gelu v3": Counts(50, 20, 0), "gone v3": Counts(1, 1, 0)}
    assert changes(before, before) == []
    table = changes(before, {"add v3": Counts(24, 4, 0), "gelu v3": Counts(45, 20, 0)})
    assert len(table) == 4
    assert "20 -> 24" in table[1]
    assert table[1].endswith("WORSE")
    assert table[2].endswith("better")
    assert table[3].endswith("is in the file alone")
    assert "WORSE" in changes({"a": Counts(20, 4, 0)}, {"a": Counts(20, 4, 2)})[1]


def test_counts_come_back() -> None:
    counts = {"vector add v3": Counts(20, 4, 0), "gelu v2": Counts(111, 30, 12)}
    assert read(text_of(counts)) == (llvm_version(), counts)
