"""Checked kernels against the interpreter, which checks every element: the same errors, and none that are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.errors import Diagnostic
from pypto.errors.interp import OutOfBounds, WriteRace
from tests.conftest import ALL_LEVELS


def line(x, out, n, first, step, stride, BLOCK: pto.constexpr):
    i = first + pto.program_id(0) * step + pto.arange(0, BLOCK)
    pto.store(out + i, pto.load(x + i * stride, mask=i < n), mask=i < n)


def window(x, out, m, n, pitch, step, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * step + pto.arange(0, BM), pto.program_id(1) * BN + pto.arange(0, BN)
    inside = (i[:, None] < m) & (j[None, :] < n)
    value = pto.load(x + i[:, None] * pitch + j[None, :], mask=inside)
    pto.store(out + i[:, None] * pitch + j[None, :], value * 2, mask=inside)


def picked(x, out, index, n, no, BLOCK: pto.constexpr):
    """A gather under a mask that no extent stands for."""
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    at = pto.load(index + i, mask=i < n)
    pto.store(out + i, pto.load(x + at, mask=(i < n) & (at % 7 != no)), mask=(i < n) & (i % 5 != no))


def scattered(x, out, index, n, no, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    at = pto.load(index + i, mask=i < n)
    pto.store(out + at, pto.load(x + i, mask=i < n), mask=(i < n) & (at != no))


def summed(x, out, n, steps, BLOCK: pto.constexpr):
    """Loads in a loop, a store of one element, and an atomic."""
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    total = pto.zeros((BLOCK,), pto.float32)
    for k in range(steps):
        total += pto.load(x + i + k * n)
    pto.store(out + pto.program_id(0), pto.sum(total, axis=0))
    pto.atomic_add(out + 8 + pto.arange(0, 4) * n, 1.0)


def stepped(x, out, first, last, stride, other, BLOCK: pto.constexpr):
    """Accesses that move evenly with loops, the inner one of them unknown."""
    j = pto.arange(0, BLOCK)
    for k in range(first, last, 3):
        pto.store(out + (k * BLOCK + j), pto.load(x + k * stride + j))
        for m in range(k, other):
            pto.store(out + m + (j - j), pto.load(x + (m + k) * 2 - stride))


def view(size: int, step: int) -> np.ndarray[Any, Any]:
    """An array of so many elements, some memory apart."""
    return np.arange(abs(step) * size, dtype=np.float32)[::step]


SIZES, STEPS = st.integers(1, 40), st.sampled_from([1, 1, 1, 2, -1, -3])
VIEWS = st.builds(view, SIZES, STEPS)
INDICES = st.lists(st.integers(-1, 40), min_size=24, max_size=24).map(lambda x: np.array(x, np.int32))
PERMUTED = st.permutations(range(24)).map(lambda x: np.array(x, np.int32))
SMALL = st.integers(-3, 40)
CASES = {
    "line": (line, 3, st.tuples(VIEWS, VIEWS, SMALL, st.integers(-2, 2), st.integers(6, 9), st.integers(-2, 2)),
             {"BLOCK": 8}),
    "blocks": (line, 4, st.tuples(*[st.builds(view, st.integers(400, 700), STEPS)] * 2, st.integers(300, 800),
        st.integers(0, 80), st.integers(120, 140), st.just(1)), {"BLOCK": 128}),
    "window": (window, (2, 2), st.tuples(*[st.builds(lambda r, c, s: view(r * c, s).reshape(r, c), st.integers(1, 14),
        st.integers(1, 14), st.sampled_from([1, -1]))] * 2, st.integers(0, 14), st.integers(0, 14), st.integers(8, 15),
        st.integers(3, 5)), {"BM": 4, "BN": 8}),
    "picked": (picked, 3, st.tuples(VIEWS, VIEWS, INDICES | PERMUTED, SMALL, st.integers(0, 8)), {"BLOCK": 8}),
    "scattered": (scattered, 3, st.tuples(VIEWS, VIEWS, INDICES | PERMUTED, SMALL, SMALL), {"BLOCK": 8}),
    "stepped": (stepped, 1, st.tuples(*[st.builds(view, st.integers(30, 60), STEPS)] * 2, st.integers(-1, 4),
        st.integers(0, 16), st.integers(-2, 6), st.integers(0, 9)), {"BLOCK": 4}),
    "summed": (summed, 3, st.tuples(*[st.builds(view, st.integers(30, 60), STEPS)] * 2, st.integers(-2, 9),
        st.integers(0, 5)), {"BLOCK": 8}),
}  # fmt: skip


def outcome(kernel: Any, grid: Any, args: tuple[Any, ...], constants: dict[str, int]) -> tuple[Any, Any]:
    """What a launch raised, and otherwise what it left in the arrays."""
    arrays = [np.array(a, subok=True) if a.base is None else a.base.copy() for a in args if isinstance(a, np.ndarray)]
    fresh = iter(arrays)
    given = [like(a, next(fresh)) if isinstance(a, np.ndarray) else a for a in args]
    try:
        kernel[grid](*given, **constants)
    except Diagnostic as error:
        return type(error), error.message
    return None, [a.tobytes() for a in arrays]


def like(a: np.ndarray[Any, Any], memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A view of other memory as `a` is one of its own."""
    base: Any = a if a.base is None else a.base
    start = (a.ctypes.data - base.ctypes.data) // a.itemsize
    return np.lib.stride_tricks.as_strided(memory.reshape(-1)[start:], a.shape, a.strides)


@pytest.mark.parametrize("level", ALL_LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_checked_kernels_find_what_the_interpreter_finds(name: str, level: str) -> None:
    function, grid, arguments, constants = CASES[name]
    plain = pto.jit(function)
    checked = pto.jit(level=level, checked=True, num_threads=1)(function)
    seen = set()

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(arguments)
    def compare(args: tuple[Any, ...]) -> None:
        expected = outcome(pto.interpret(plain), grid, args, constants)
        got = outcome(checked, grid, args, constants)
        if name in ("picked", "scattered") and expected[0]:  # lanes at a time: of two faults, either may come first
            assert got[0] in (OutOfBounds, WriteRace)
        else:
            assert got == expected
        seen.add(expected[0])

    compare()
    assert {None, OutOfBounds} <= seen, "the cases are worth their time"
    assert name != "blocks" or WriteRace in seen
