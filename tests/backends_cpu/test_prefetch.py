"""What a program asks for ahead of the next one."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.codegen.prefetch import L1, L2, address_step, mostly_overlap, target_level
from pypto.backends.cpu.target import host_target
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
def known_rows(x, out, N: pto.constexpr):
    """One loop before the one that stores, over rows that follow each other."""
    place = pto.program_id(0) * N + pto.arange(0, N)
    t = pto.load(x + place)
    pto.store(out + place, t / pto.sqrt(pto.sum(t * t)))


@pto.jit
def weighted(x, scale, out):
    """All programs read the same scale."""
    t = x[pto.program_id(0), :]
    out[pto.program_id(0), :] = t / pto.sqrt(pto.sum(t * t)) * scale[:]


@pto.jit
def shared(x, out):
    """All programs read the same row."""
    t = x[0, :]
    out[pto.program_id(0), :] = t - pto.max(t)


@pto.jit
def in_order(x, out):
    """A cell between the loop that reads and the one that stores."""
    out[pto.program_id(0), :] = pto.sort(x[pto.program_id(0), :])


@pto.jit
def taps(x, out, APART: pto.constexpr):
    """Tiles of a row, some columns apart."""
    i = pto.program_id(0)
    out[i, :] = x[i, 0:1024] + x[i, APART : APART + 1024] + x[i, 2 * APART : 2 * APART + 1024]


X = np.ones((64, 1024), np.float32)
OUT = np.empty_like(X)
LAUNCHES = {
    "rows": Launch(rows, 8, {"x": X, "out": OUT, "K": 3}, {}),
    "pointer_rows": Launch(pointer_rows, 8, {"x": X, "out": OUT, "stride": 1024, "n": 1024, "BLOCK": 1024}, {}),
    "stream": Launch(stream, 8, {"x": X.reshape(-1), "out": OUT.reshape(-1), "BLOCK": 4096}, {}),
    "picked": Launch(picked, 8, {"x": X, "index": np.arange(64), "out": OUT}, {}),
    "spread": Launch(spread, 8, {"x": X, "out": OUT}, {}),
    "scaled": Launch(scaled, 8, {"x": X, "out": OUT}, {}),
    "known_rows": Launch(known_rows, 8, {"x": X, "out": OUT, "N": 1024}, {}),
    "in_order": Launch(in_order, 8, {"x": X, "out": OUT}, {}),
    "shared": Launch(shared, 8, {"x": X, "out": OUT}, {}),
}


def first_access(name: str) -> Access:
    return next(Access.of(op) for op in optimized(LAUNCHES[name]).walk() if op.name == "tile_load")


@pytest.mark.parametrize("name", LAUNCHES)
def test_rows_that_lie_ahead_are_asked_for(name: str) -> None:
    assert ("@llvm.prefetch" in lowered(LAUNCHES[name]).text) == (name not in ("picked", "shared"))


@pytest.mark.parametrize(("apart", "overlap"), [(1, [True, True]), (512, [True, False]), (1024, [False, False])])
def test_tiles_overlap_up_to_half_of_their_length(apart: int, overlap: list[bool]) -> None:
    x = np.zeros((8, 4096), np.float32)
    function = optimized(Launch(taps, 8, {"x": x, "out": x[:, :1024].copy(), "APART": apart}, {}))
    first, *others = [Access.of(op) for op in function.walk() if op.name == "tile_load"]
    assert [mostly_overlap(first, other) for other in others] == overlap


def test_the_taps_of_a_stencil_are_asked_for_once() -> None:
    x = np.zeros((8, 4096), np.float32)
    texts = [lowered(Launch(taps, 8, {"x": x, "out": x[:, :1024].copy(), "APART": n}, {})).text for n in (1, 1024)]
    near, far = (text.count("call void @llvm.prefetch") for text in texts)
    assert 0 < near < far


@pytest.mark.parametrize(("columns", "level"), [(1024, "3"), (4096, "3"), (8192, "2")])
def test_short_rows_are_asked_for_to_the_first_level(columns: int, level: str) -> None:
    x = np.zeros((8, columns), np.float32)
    text = lowered(Launch(scaled, 8, {"x": x, "out": x.copy()}, {})).text
    assert set(re.findall(r"prefetch\.p0\(ptr [^,]+, i32 0, i32 (\d)", text)) == {level}


@pytest.mark.parametrize("name", ["spread", "scaled"])
def test_the_last_loop_over_a_row_asks_for_the_next_one(name: str) -> None:
    text = lowered(LAUNCHES[name]).text
    assert text.rindex("@llvm.sqrt.f32(float %") < text.index("call void @llvm.prefetch")


def test_a_stream_is_asked_for_where_stores_pass_the_caches() -> None:
    text = lowered(LAUNCHES["stream"]).text
    past, plain = text[: text.index("fence")].split("!nontemporal", 1)
    assert len(re.findall(r"getelementptr float, ptr [^,]+, i64 512\n", past)) == 1, "2 KB ahead of a chunk"
    assert "call void @llvm.prefetch" in past
    assert "call void @llvm.prefetch" not in plain


def test_rows_of_a_known_length_are_asked_for_as_others_are() -> None:
    text = lowered(LAUNCHES["known_rows"]).text
    assert "call void @llvm.prefetch" in text
    assert re.search(r"getelementptr float, ptr [^,]+, i64 1024\n", text), "a row further"


@pytest.mark.parametrize(("first", "near"), [(32, False), (48, True), (64, True)])
def test_what_all_programs_load_leaves_less_room(first: int, near: bool) -> None:
    columns = 4096  # 16 KB of the row, as much of the next one, and of what scales all rows
    x, scale = np.zeros((8, columns), np.float32), np.zeros(columns, np.float32)
    function = optimized(Launch(weighted, 8, {"x": x, "scale": scale, "out": x.copy()}, {}))
    loads = dict.fromkeys(op for op in function.walk() if op.name == "tile_load")
    target = replace(host_target(), caches=(first << 10, 1 << 20, 32 << 20))
    assert target_level(loads, 0, target) == (L1 if near else L2)
    assert target_level(loads, 8 << 10, target) == L2


@pytest.mark.parametrize(("columns", "asked"), [(256, 0), (1024, 8), (600, 5)])
def test_a_sort_asks_for_a_long_row_while_it_works(columns: int, asked: int) -> None:
    x = np.zeros((8, columns), np.float32)
    text = lowered(Launch(in_order, 8, {"x": x, "out": x.copy()}, {})).text
    network, rest = text.split("\ndefine void", 1)
    assert network.count("call void @llvm.prefetch") == asked, "of each group of registers, those where the row lies"
    assert ("call void @llvm.prefetch" in rest) == (not asked)


def test_how_far_the_next_row_is() -> None:
    access = first_access("rows")
    assert address_step(access) == {(access.strides[0],): 2}


@pytest.mark.parametrize("name", ["picked", "shared"])
def test_no_known_distance(name: str) -> None:
    assert [address_step(Access.of(op)) for op in optimized(LAUNCHES[name]).walk() if op.name == "tile_load"][-1:] == [
        None
    ]
