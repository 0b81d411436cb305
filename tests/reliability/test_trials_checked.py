"""Trials 31 and 32: accesses out of bounds and races are reported, interpreted and compiled with checks."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic
from pypto.errors.interp import OutOfBounds, WriteRace
from tests.conformance.processes import ROOT, python
from tests.conftest import ALL_LEVELS

WAYS = ("interpreter", *(f"checked {level}".strip() for level in ALL_LEVELS))


def launcher(kernel: Any, way: str, threads: int = 1) -> Callable[..., None]:
    """Launches a kernel in the interpreter, or compiled with checks: on one thread programs run in order there, too."""
    name, _, level = way.partition(" ")
    run = pto.interpret(kernel) if name == "interpreter" else pto.jit(level=level, num_threads=threads)(kernel.function)
    mode = nullcontext if name == "interpreter" else pto.checked

    def launch(grid: Any, *args: Any, **given: Any) -> None:
        with mode():
            run[grid](*args, **given)

    return launch


@pto.jit
def shifted(x, out, rows, columns, by, BLOCK: pto.constexpr):
    """Rows of a matrix into another one, from a column on."""
    row = pto.program_id(0)
    column = pto.arange(0, BLOCK)
    value = pto.load(x + row * columns + column + by, mask=column < columns)
    pto.store(out + row * columns + column, value, mask=column < columns)


@pto.jit
def neighbours(x, out, n, BLOCK: pto.constexpr):
    """Every program stores one element more than its block has."""
    at = pto.program_id(0) * BLOCK + pto.arange(0, 2 * BLOCK)
    pto.store(out + at, pto.load(x + at, mask=at < n), mask=(at < n) & (pto.arange(0, 2 * BLOCK) <= BLOCK))


@pto.jit
def everywhere_zero(out):
    pto.store(out, 1.0)


def shown(error: pytest.ExceptionInfo[Diagnostic]) -> str:
    return re.sub(r"--> .*/(\w+\.py):\d+:", r"--> \1:", re.sub(r"\n  \d+ \|", "\n  n |", str(error.value)))


@pto.jit
def one_element(x, out):
    out[7] = x[1000] + 1


@pto.jit
def one_of_a_matrix(x, out, i, j):
    if i != 3:
        out[i, j] += x[j]


@pytest.mark.parametrize("way", WAYS)
def test_trial_31_an_index_of_no_element(way: str) -> None:
    """Of integers alone: it has to name an element, while slices are clipped."""
    x, out = np.ones(100, np.float32), np.zeros(4, np.float32)
    for size, text in ((100, "load out of bounds: x[1000] in"), (1001, "store out of bounds: out[7] in")):
        with pytest.raises(OutOfBounds) as caught:
            launcher(one_element, way)(1, np.ones(size, np.float32), out)
        assert isinstance(caught.value, IndexError) and text in str(caught.value)
        assert f"the shape is {(size,) if 'load' in text else (4,)}" in str(caught.value)
    assert out.tolist() == [0, 0, 0, 0]
    launch, matrix = launcher(one_of_a_matrix, way), np.zeros((2, 3), np.float32)
    launch(1, x, matrix, 1, 2)
    launch(1, x, matrix, 3, 2)  # nothing is touched
    for i, j in ((2, 0), (-1, 0), (0, 3), (0, -1)):
        with pytest.raises(OutOfBounds, match=rf"load out of bounds: out\[{i}, {j}\] in program \(0, 0, 0\)"):
            launch(1, x, matrix, i, j)
    assert matrix.tolist() == [[0, 0, 0], [0, 0, 1]]


def test_an_index_of_no_element_without_checks() -> None:
    """It reads 0 and stores nothing, as `docs/semantics.md` says."""
    out = np.full(8, 5, np.float32)
    one_element[1](np.ones(100, np.float32), out)
    assert out.tolist() == [5, 5, 5, 5, 5, 5, 5, 1]
    one_element[1](np.ones(1001, np.float32), out[:4])
    assert out.tolist() == [5, 5, 5, 5, 5, 5, 5, 1]


@pytest.mark.parametrize("way", WAYS)
def test_trial_31_a_load_out_of_bounds(way: str) -> None:
    x, out = np.zeros((6, 5), np.float32), np.zeros((6, 5), np.float32)
    launcher(shifted, way)(6, x, out, 6, 5, 0, BLOCK=8)
    with pytest.raises(OutOfBounds) as caught:
        launcher(shifted, way)(6, x, out, 6, 5, 3, BLOCK=8)
    assert shown(caught).splitlines()[:3] == [
        "[E401] load out of bounds: x[6, 0] in program (5, 0, 0); the shape is (6, 5)",
        "  --> test_trials_checked.py:13, in shifted",
        "  n |     value = pto.load(x + row * columns + column + by, mask=column < columns)",
    ]
    assert "\n  help: mask the access" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_trial_31_a_store_out_of_bounds_touches_nothing(way: str) -> None:
    memory = np.full((8, 5), 7, np.float32)
    with pytest.raises(OutOfBounds, match=re.escape("store out of bounds: out[4, 0] in program (4, 0, 0)")):
        launcher(shifted, way)(6, np.zeros((6, 5), np.float32), memory[:4], 6, 5, 0, BLOCK=8)
    assert (memory[4:] == 7).all(), "behind the array nothing has changed"
    assert not memory[:4].any(), "earlier programs have run"


@pytest.mark.parametrize("way", WAYS)
def test_trial_31_between_the_elements_of_a_view(way: str) -> None:
    memory = np.full((6, 9), 7, np.float32)
    text = "store out of bounds: out[0, 5] in program (1, 0, 0); the shape is (6, 5)"
    with pytest.raises(OutOfBounds, match=re.escape(text)):
        launcher(shifted, way)(6, np.zeros((6, 5), np.float32), memory[:, :5], 6, 5, 0, BLOCK=8)
    assert (memory[:, 5:] == 7).all()


@pytest.mark.parametrize("way", WAYS)
def test_trial_32_two_programs_store_to_one_element(way: str) -> None:
    x, out = np.zeros(40, np.float32), np.zeros(40, np.float32)
    with pytest.raises(WriteRace) as caught:
        launcher(neighbours, way, 0)(5, x, out, 40, BLOCK=8)
    text = r"one element: out\[(\d+)\], program \((\d), 0, 0\) and program \((\d), 0, 0\)"
    found = re.search(text, str(caught.value))
    assert found, str(caught.value)
    index, *programs = map(int, found.groups())
    assert index == 8 * max(programs)
    assert abs(programs[0] - programs[1]) == 1
    assert "pto.store(out + at, pto.load(x + at, mask=at < n)" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("programs", [2, 1000])
def test_trial_32_every_program_stores_to_one_address(way: str, programs: int) -> None:
    for _ in range(20 if way != "interpreter" else 1):
        with pytest.raises(WriteRace, match=r"two programs write one element: out\[0\]"):
            launcher(everywhere_zero, way, 0)(programs, np.zeros(1, np.float32))


@pytest.mark.slow
def test_no_false_alarm_in_the_conformance_suite() -> None:
    """All its kernels pass with checks too: pytest's own option runs them so."""
    tests = [str(ROOT / "tests" / "conformance" / f"test_{name}.py") for name in ("kernels", "arrays")]
    said = python("-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", "--checked", "-m", "not slow", *tests)
    assert re.search(r"\d+ passed", said.splitlines()[-1]), said
