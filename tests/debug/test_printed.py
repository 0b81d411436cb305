"""What compiled kernels print: the lines of the interpreter, program by program, whatever threads run them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.backends.base import Artifact
from pypto.debug.printed import LIMIT
from pypto.errors.interp import OutOfBounds

F32 = np.float32


@pto.jit
def everything(x, h, f8, out, n):
    """Numbers and tiles of many types, in loops and branches, before and after a product."""
    i, j = pto.program_id(0), pto.program_id(1)
    for k in range(n):
        if (k + i) % 2 == 0:
            print("k", k, x[i : i + 3] > 1, "half", h[0:3].to(pto.float16), h[0:2].to(pto.bfloat16), f8[:])
    t = pto.dot(pto.full((16, 16), 2.0, pto.float32), pto.full((16, 16), 1.0, pto.float32))
    pto.device_print("dot", t[0:1, 0:3], pto.sum(t))
    pto.device_print("hex", x[0:2].to(pto.int32), hex=True)
    print()
    print("only text", 3)
    out[i, j] = pto.sum(t)


@pto.jit
def numbered(out, times):
    i = pto.program_id(0)
    for k in range(times):
        print("k", k)
    out[i] = i


@pto.jit
def printing_and_failing(out):
    print("before", out[0])
    out[pto.program_id(0) + 1] = 1.0


def arguments() -> list[Any]:
    f8 = np.array([1, 2.5], ml_dtypes.float8_e4m3fn)
    return [np.arange(10, dtype=F32), np.arange(3, dtype=F32), f8, np.zeros((3, 2), F32), 3]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("level", ["", "x86-64-v2"])
def test_what_the_interpreter_prints(capsys: pytest.CaptureFixture[str], threads: int, level: str) -> None:
    pto.interpret(everything)[3, 2](*arguments())
    wanted = capsys.readouterr().out
    assert wanted.count("\n") > 30 and "program (2, 1, 0): hex [0x0 0x1]\n" in wanted
    kernel = pto.jit(num_threads=threads, level=level)(everything.function)
    for _ in range(2):  # cold and warm
        kernel[3, 2](*arguments())
        assert capsys.readouterr().out == wanted
    with pto.checked():
        kernel[3, 2](*arguments())
    assert capsys.readouterr().out == wanted
    with pto.profile():
        kernel[3, 2](*arguments())
    assert capsys.readouterr().out == wanted


def test_programs_print_in_their_order_from_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    out = np.zeros(2000, np.int32)
    numbered[2000](out, 2)
    assert out.tolist() == list(range(2000))
    lines = [f"program ({i}, 0, 0): k {k}" for i in range(2000) for k in range(2)]
    assert capsys.readouterr().out.splitlines() == lines


def test_a_launch_keeps_so_much(capsys: pytest.CaptureFixture[str]) -> None:
    """The same is left out every time, and counted: of programs that print much, and where there are many programs."""
    for grid, times in ((2, 100_000), (100_000, 1)):
        out = np.zeros(grid, np.int32)
        texts = []
        for _ in range(2):
            numbered[grid](out, times)
            texts.append(capsys.readouterr().out)
        *lines, last = texts[0].splitlines()
        assert texts[0] == texts[1] and out[-1] == grid - 1
        left = grid * times - len(lines)
        assert last == f"… and {left:,} more prints, which are left out: a launch keeps {LIMIT:,} bytes of them"
        assert LIMIT // 32 < len(lines) <= LIMIT // 16


def test_what_was_printed_comes_before_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pto.checked(), pytest.raises(OutOfBounds):
        printing_and_failing[1](np.zeros(1, F32))
    assert capsys.readouterr().out == "program (0, 0, 0): before 0.0\n"


def test_what_is_printed_is_kept_beside_the_code() -> None:
    artifact = everything.compile(*arguments()).program.artifact
    assert len(artifact.prints) == 6 and Artifact.from_bytes(artifact.to_bytes()) == artifact
