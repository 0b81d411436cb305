"""Access analysis: what becomes structured, with which bounds, and that nothing changes its meaning."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto import interp
from pypto.ir.core import Function, Region, Value
from pypto.ir.types import ArrayType, float32, int32, int64, scalar
from pypto.ir.verify import verify
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes import induction, optimize, prepare, raise_accesses, widen
from pypto.passes.pattern import constant_of

SIZE = 4096


def test_int32_indices_are_widened_where_they_become_addresses(becomes):
    becomes(
        widen,
        """
        %1: i32 = mul %n, %m
        %2: i32 = add %1, %n
        %3: i64 = cast %2 {dtype = i64}
        %4: ptr<f32> = array_ptr %x
        %5: ptr<f32> = addptr %4, %3
        store %5, %f
        print_ %2 {hex = false, prefix = ""}
    """,
        """
        %1: i32 = mul %n, %m
        %2: i32 = add %1, %n
        %91: i64 = cast %n {dtype = i64}
        %92: i64 = cast %m {dtype = i64}
        %93: i64 = mul %91, %92
        %94: i64 = cast %n {dtype = i64}
        %3: i64 = add %93, %94
        %4: ptr<f32> = array_ptr %x
        %5: ptr<f32> = addptr %4, %3
        store %5, %f
        print_ %2 {hex = false, prefix = ""}
    """,
    )


def test_casts_that_are_no_address_stay(becomes):
    text = """
        %1: i32 = mul %n, %m
        %2: i64 = cast %1 {dtype = i64}
        print_ %2 {hex = false, prefix = ""}
    """
    becomes(widen, text, text)


def test_moved_pointers_are_carried_as_a_distance(becomes):
    becomes(
        induction,
        """
        %lo: i32 = constant {value = 0}
        %one: i32 = constant {value = 1}
        %base: ptr<f32> = array_ptr %x
        %start: tile<8xptr<f32>> = broadcast_to %base {shape = [8]}
        %far: tile<8xptr<f32>> = for %lo, %n, %one, %start { (%i: i32, %p: tile<8xptr<f32>>)
          %v: tile<8xf32> = load %p
          store %p, %v
          %s: tile<8xi64> = broadcast_to %k {shape = [8]}
          %q: tile<8xptr<f32>> = addptr %p, %s
          yield %q
        }
        %w: tile<8xf32> = load %far
        store %far, %w
    """,
        """
        %lo: i32 = constant {value = 0}
        %one: i32 = constant {value = 1}
        %base: ptr<f32> = array_ptr %x
        %start: tile<8xptr<f32>> = broadcast_to %base {shape = [8]}
        %90: i64 = constant {value = 0}
        %95: i64 = for %lo, %n, %one, %90 { (%i: i32, %p: i64)
          %97: tile<8xi64> = broadcast_to %p {shape = [8]}
          %98: tile<8xptr<f32>> = addptr %start, %97
          %v: tile<8xf32> = load %98
          store %98, %v
          %s: tile<8xi64> = broadcast_to %k {shape = [8]}
          %q: tile<8xptr<f32>> = addptr %98, %s
          %99: i64 = add %p, %k
          yield %99
        }
        %96: tile<8xi64> = broadcast_to %95 {shape = [8]}
        %far: tile<8xptr<f32>> = addptr %start, %96
        %w: tile<8xf32> = load %far
        store %far, %w
    """,
    )


class Maker:
    """A kernel with one masked load and one masked store through random pointers, which may be moved by a loop."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        args = [Value(ArrayType(float32, 1), "x"), Value(ArrayType(float32, 1), "y"), Value(scalar(int32), "n"),
                Value(scalar(int32), "m"), Value(ArrayType(int32, 1), "t")]  # fmt: skip
        self.b = OpBuilder(Region(args))
        self.x, self.y, self.n, self.m, self.table = args
        self.shape = self.random.choice([(16,), (7,), (4, 8), (3, 5), (1, 9), (2, 3, 4)])

    def function(self) -> Function:
        b = self.b
        source = self.pointers(self.x)
        mask = self.mask()
        other = self.random.choice([[], *([b.constant(number, float32, self.shape)] for number in (-1.5, 0.0))])
        value = b.emit("load", source, *([mask, *other] if mask is not None else []))
        target = b.emit("addptr", b.broadcast(b.emit("array_ptr", self.y), self.shape), self.flat())
        b.op("store", target, value, *([] if (last := self.mask()) is None else [last]))
        b.create("yield")
        return Function("random", b.region, {"noalias": True})

    def flat(self) -> Value:
        """Distinct addresses: row-major order over the tile."""
        total, step = self.b.constant(0, int32, self.shape), 1
        for d in reversed(range(len(self.shape))):
            total = self.b.emit("add", total, self.scaled(self.line(d), self.b.constant(step, int32)))
            step *= self.shape[d]
        return total

    def line(self, d: int) -> Value:
        line = self.b.emit("arange", start=0, end=self.shape[d])
        if self.random.random() < 0.2:  # values of memory: no affine form
            place = self.b.emit("addptr", self.b.broadcast(self.b.emit("array_ptr", self.table), line.shape), line)
            line = self.b.emit("load", place)
        shape = tuple(n if k == d else 1 for k, n in enumerate(self.shape))
        return self.b.broadcast(self.b.emit("reshape", line, shape=shape), self.shape)

    def scaled(self, v: Value, factor: Value) -> Value:
        return self.b.emit("mul", v, self.b.broadcast(factor, v.shape))

    def scalar(self) -> Value:
        return self.random.choice([self.n, self.m, self.b.emit("program_id", axis=0), self.number(0, 5)])

    def number(self, low: int, high: int) -> Value:
        return self.b.constant(self.random.randint(low, high), int32)

    def index(self) -> Value:
        """A sum of scalars and scaled lines, all small and not negative."""
        total = self.b.broadcast(self.scalar(), self.shape)
        for d in range(len(self.shape)):
            total = self.b.emit("add", total, self.scaled(self.line(d), self.scalar()))
        return total

    def pointers(self, array: Value) -> Value:
        base = self.b.broadcast(self.b.emit("array_ptr", array), self.shape)
        return self.b.emit("addptr", base, self.index())

    def mask(self) -> Value | None:
        parts = [self.condition() for _ in range(self.random.randint(0, 3))]
        result = None
        for part in parts:
            joint = "or_" if self.random.random() < 0.1 else "and_"
            result = part if result is None else self.b.emit(joint, result, part)
        return result

    def condition(self) -> Value:
        name = self.random.choice(["lt", "le", "gt", "ge", "eq", "ne"])
        left = self.line(self.random.randrange(len(self.shape))) if self.random.random() < 0.8 else self.index()
        right = self.b.broadcast(self.scalar(), self.shape)
        return self.b.emit(name, *self.random.choice([(left, right), (right, left)]))


def result(function: Function) -> bytes:
    x, y = np.arange(SIZE, dtype=np.float32), np.full(SIZE, -7, np.float32)
    table = np.array([3, 0, 2, 9, 1, 1, 8, 4, 7, 5, 6, 0, 2, 11, 13, 12], np.int32)
    arrays = [interp.ArrayArg.of("x", x, float32), interp.ArrayArg.of("y", y, float32)]
    interp.run(function, [*arrays, np.int32(4), np.int32(3), interp.ArrayArg.of("t", table, int32)], (1, 1, 1))
    return y.tobytes()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_structured_accesses_mean_the_same(seed):
    function = prepare(Maker(seed).function())
    expected = result(function)
    for run in (raise_accesses, optimize):
        changed = run(function)
        verify(changed, TABLE)
        assert result(changed) == expected


def accesses(body: str, make_kernel) -> list[Access]:
    function = optimize(prepare(make_kernel(body)))
    return [Access.of(op) for op in function.walk() if op.name in ("tile_load", "tile_store")]


POINTERS = """
    %base: ptr<f32> = array_ptr %x
    %cols: tile<8xi32> = arange {start = 0, end = 8}
    %at: tile<8xi32> = broadcast_to %n {shape = [8]}
    %index: tile<8xi32> = add %at, %cols
    %bases: tile<8xptr<f32>> = broadcast_to %base {shape = [8]}
    %p: tile<8xptr<f32>> = addptr %bases, %index
    %one: tile<8xf32> = constant {value = 1.0}
"""
MASKS = {
    "lt": ("%lim: tile<8xi32> = broadcast_to %m {shape = [8]} %mask: tile<8xi1> = lt %index, %lim", "sub", False),
    "constant": ("%lim: tile<8xi32> = constant {value = 5} %mask: tile<8xi1> = lt %cols, %lim", 5, False),
    "at most": ("%lim: tile<8xi32> = constant {value = 5} %mask: tile<8xi1> = le %cols, %lim", 6, False),
    "guard": ("%mask: tile<8xi1> = broadcast_to %b {shape = [8]}", "where", False),
    "equal": ("%lim: tile<8xi32> = broadcast_to %m {shape = [8]} %mask: tile<8xi1> = eq %index, %lim", 2**62, True),
}


@pytest.mark.parametrize("name", MASKS)
def test_bounds_come_from_masks(name, make_kernel):
    mask, extent, masked = MASKS[name]
    (access,) = accesses(f"{POINTERS} {mask} store %p, %one, %mask", make_kernel)
    found = access.extents[0]
    assert (constant_of(found) if found.op.name == "constant" else found.op.name) == extent
    assert (access.mask is not None) == masked
    assert constant_of(access.offsets[0]) == 0 and constant_of(access.strides[0]) == 1
    assert access.base.shape == ()


def test_a_lower_bound_becomes_the_offset(make_kernel):
    mask = "%zero: tile<8xi32> = constant {value = 0} %mask: tile<8xi1> = ge %index, %zero"
    (access,) = accesses(f"{POINTERS} {mask} store %p, %one, %mask", make_kernel)
    assert access.offsets[0].op.name == "cast" and access.offsets[0].dtype == int64
    assert access.base.op.name == "array_ptr", "the offset counts from the array's begin"


def test_rows_of_an_index_tile_are_gathered_as_rows(make_kernel):
    (_, access) = accesses(
        """
        %base: ptr<f32> = array_ptr %x
        %cols: tile<4xi32> = arange {start = 0, end = 4}
        %line: tile<1x4xi32> = reshape %cols {shape = [1, 4]}
        %q: tile<4xptr<f32>> = broadcast_to %base {shape = [4]}
        %place: tile<4xptr<f32>> = addptr %q, %cols
        %values: tile<4xf32> = load %place
        %rows: tile<4xi32> = cast %values {dtype = i32}
        %r: tile<4x1xi32> = reshape %rows {shape = [4, 1]}
        %r4: tile<4x4xi32> = broadcast_to %r {shape = [4, 4]}
        %c4: tile<4x4xi32> = broadcast_to %line {shape = [4, 4]}
        %index: tile<4x4xi32> = add %r4, %c4
        %bases: tile<4x4xptr<f32>> = broadcast_to %base {shape = [4, 4]}
        %p: tile<4x4xptr<f32>> = addptr %bases, %index
        %one: tile<4x4xf32> = constant {value = 1.0}
        store %p, %one
    """,
        make_kernel,
    )
    assert access.base.shape == (4, 1)
    assert [constant_of(s) for s in access.strides] == [0, 1]
