"""What a program asks for ahead of the next one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.prefetch import moves
from pypto.ops.memory import Access
from tests.backends_cpu.lowering import lowered, optimized
from tests.conformance.cases import Launch


@pto.jit
def rows(x, out, K: pto.constexpr):
    """Two rows further with every program, one column further along the grid's second axis."""
    i = pto.program_id(0) * 2 + pto.program_id(1)
    t = x[i + K, :]
    out[i, :] = t / pto.sum(t)


@pto.jit
def pointer_rows(x, out, stride, n, BLOCK: pto.constexpr):
    cols = pto.arange(0, BLOCK)
    t = pto.load(x + pto.program_id(0) * stride + cols, mask=cols < n, other=0.0)
    pto.store(out + pto.program_id(0) * stride + cols, t / pto.sum(t), mask=cols < n)


@pto.jit
def stream(x, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] + 1


@pto.jit
def picked(x, index, out):
    """Nobody knows which row the next program takes."""
    out[pto.program_id(0), :] = x[index[pto.program_id(0)], :] * 2


@pto.jit
def spread(x, out):
    """Two loops before the one that stores, in which a square root comes before it."""
    t = x[pto.program_id(0), :]
    centred = t - pto.sum(t)
    out[pto.program_id(0), :] = centred / pto.sqrt(pto.sum(centred * centred))


@pto.jit
def scaled(x, out):
    """One loop before the one that stores."""
    t = x[pto.program_id(0), :]
    out[pto.program_id(0), :] = t / pto.sqrt(pto.sum(t * t))


@pto.jit
def shared(x, out):
    """All programs read the same row."""
    t = x[0, :]
    out[pto.program_id(0), :] = t - pto.max(t)


@pto.jit
def in_order(x, out):
    """A cell between the loop that reads and the one that stores."""
    out[pto.program_id(0), :] = pto.sort(x[pto.program_id(0), :])


X = np.ones((64, 1024), np.float32)
OUT = np.empty_like(X)
LAUNCHES = {
    "rows": Launch(rows, 8, {"x": X, "out": OUT, "K": 3}, {}),
    "pointer_rows": Launch(pointer_rows, 8, {"x": X, "out": OUT, "stride": 1024, "n": 1024, "BLOCK": 1024}, {}),
    "stream": Launch(stream, 8, {"x": X.reshape(-1), "out": OUT.reshape(-1), "BLOCK": 4096}, {}),
    "picked": Launch(picked, 8, {"x": X, "index": np.arange(64), "out": OUT}, {}),
    "spread": Launch(spread, 8, {"x": X, "out": OUT}, {}),
    "scaled": Launch(scaled, 8, {"x": X, "out": OUT}, {}),
    "in_order": Launch(in_order, 8, {"x": X, "out": OUT}, {}),
    "shared": Launch(shared, 8, {"x": X, "out": OUT}, {}),
}


def first_access(name: str) -> Access:
    return next(Access.of(op) for op in optimized(LAUNCHES[name]).walk() if op.name == "tile_load")


@pytest.mark.parametrize("name", LAUNCHES)
def test_rows_that_lie_ahead_are_asked_for(name: str) -> None:
    assert ("@llvm.prefetch" in lowered(LAUNCHES[name]).text) == (name not in ("stream", "picked", "shared"))


@pytest.mark.parametrize(("columns", "level"), [(1024, "3"), (4096, "3"), (8192, "2")])
def test_short_rows_are_asked_for_to_the_first_level(columns: int, level: str) -> None:
    x = np.zeros((8, columns), np.float32)
    text = lowered(Launch(scaled, 8, {"x": x, "out": x.copy()}, {})).text
    assert set(re.findall(r"prefetch\.p0\(ptr [^,]+, i32 0, i32 (\d)", text)) == {level}


@pytest.mark.parametrize(("name", "early"), [("spread", True), ("scaled", False)])
def test_which_loop_over_a_row_asks_for_the_next_one(name: str, early: bool) -> None:
    text = lowered(LAUNCHES[name]).text
    assert (text.index("@llvm.prefetch") < text.index("@llvm.sqrt")) == early
    assert text.index("@llvm.prefetch") > text.index("fadd")


@pytest.mark.parametrize(("columns", "asked"), [(256, 0), (1024, 8), (600, 5)])
def test_a_sort_asks_for_a_long_row_while_it_works(columns: int, asked: int) -> None:
    x = np.zeros((8, columns), np.float32)
    text = lowered(Launch(in_order, 8, {"x": x, "out": x.copy()}, {})).text
    network, rest = text.split("\ndefine void", 1)
    assert network.count("call void @llvm.prefetch") == asked, "of each group of registers, those where the row lies"
    assert ("call void @llvm.prefetch" in rest) == (not asked)


def test_how_far_the_next_row_is() -> None:
    access = first_access("rows")
    assert moves(access) == [((access.strides[0],), 2)]


@pytest.mark.parametrize("name", ["stream", "picked", "shared"])
def test_no_known_distance(name: str) -> None:
    assert [moves(Access.of(op)) for op in optimized(LAUNCHES[name]).walk() if op.name == "tile_load"][-1:] == [None]
