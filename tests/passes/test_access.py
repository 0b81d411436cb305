"""Access analysis: what becomes structured, with which bounds, and that nothing changes its meaning."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto import interp
from pypto.ir.core import Function, Region, Value
from pypto.ir.types import ArrayType, float32, int32, int64, scalar
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes import optimize, prepare
from pypto.passes.access import raise_accesses
from pypto.passes.induction import induction
from pypto.passes.pattern import constant_of
from pypto.passes.widen import widen
from pypto.runtime.arrays import array_info

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
        %91: i64 = cast %n {dtype = i64}
        %92: i64 = cast %m {dtype = i64}
        %93: i64 = mul %91, %92
        %2: i32 = add %1, %n
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
            line = self.kept(d) if self.random.random() < 0.3 else self.line(d)
            product = self.random.random() < 0.2
            far = self.b.emit("mul", line, self.line(d)) if product else self.scaled(line, self.scalar())
            total = self.b.emit("add", total, far)
        return total

    def kept(self, d: int) -> Value:
        """An index along a dimension that is kept inside of something, in the ways that kernels have for it."""
        low = self.b.constant(self.random.choice([0, 0, 0, -3, 2**31 - 5]), int32)
        at = self.b.emit("add", self.line(d), self.b.broadcast(self.b.emit("add", self.scalar(), low), self.shape))
        bound, none = (self.b.broadcast(v, self.shape) for v in (self.number(0, 20), self.number(0, 0)))
        name = self.random.choice(["rem", "floordiv", "minimum", "maximum", "where"])
        if name == "where":
            test = self.b.emit(self.random.choice(["lt", "le", "gt", "ge"]), at, bound)
            return self.small(self.b.emit("where", test, at, self.random.choice([bound, none])))
        attrs = {"propagate_nan": False} if name.endswith("imum") else {}
        return self.small(self.b.emit(name, *self.random.choice([(at, bound)] * 3 + [(bound, at)]), **attrs))

    def small(self, v: Value) -> Value:
        """From 0 to 30, whatever it was."""
        least, most = (self.b.broadcast(self.b.constant(n, int32), self.shape) for n in (0, 30))
        v = self.b.emit("maximum", v, least, propagate_nan=False)
        return self.b.emit("minimum", v, most, propagate_nan=False)

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
    (x_info, y_info, table_info) = (array_info(array, "kernel", "x") for array in (x, y, table))
    interp.run(function, [x_info, y_info, np.int32(4), np.int32(3), table_info], (1, 1, 1))
    return y.tobytes()


@settings(max_examples=50, deadline=None)
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


def test_a_sum_of_itself_is_widened_once(make_kernel):
    sums = "".join(f"%s{k + 1}: i32 = add %s{k}, %s{k} " for k in range(60))
    text = f"%s0: i32 = add %n, %m {sums} %p: ptr<f32> = array_ptr %x %q: ptr<f32> = addptr %p, %s60 store %q, %f"
    assert sum(op.name == "add" for op in widen(make_kernel(text)).walk()) == 2 * 61


def test_an_index_of_many_steps(make_kernel):
    """Nothing is recursive along a chain of arithmetic or of conditions."""
    head = "%i0: tile<8xi32> = arange {start = 0, end = 8} %a0: tile<8xi1> = broadcast_to %b {shape = [8]}"
    add = "%i{1}: tile<8xi32> = add %i{0}, %n8 %c{0}: tile<8xi1> = lt %i{1}, %m8 %a{1}: tile<8xi1> = and_ %a{0}, %c{0}"
    steps = " ".join(add.format(k, k + 1) for k in range(1500))
    (access,) = accesses(
        f"""
        %n8: tile<8xi32> = broadcast_to %n {{shape = [8]}}
        %m8: tile<8xi32> = broadcast_to %m {{shape = [8]}}
        {head} {steps}
        %base: ptr<f32> = array_ptr %x
        %bases: tile<8xptr<f32>> = broadcast_to %base {{shape = [8]}}
        %p: tile<8xptr<f32>> = addptr %bases, %i1500
        %one: tile<8xf32> = constant {{value = 1.0}}
        store %p, %one, %a1500
    """,
        make_kernel,
    )
    assert access.base.shape == () and access.mask is None and constant_of(access.strides[0]) == 1


KEPT = {
    "remainder": "%kept: tile<8xi32> = rem %index, %lim",
    "at most": "%kept: tile<8xi32> = minimum %index, %lim {propagate_nan = false}",
    "at least": "%kept: tile<8xi32> = maximum %lim, %index {propagate_nan = false}",
    "column": "%row: tile<8xi32> = floordiv %index, %lim %col: tile<8xi32> = rem %index, %lim "
    "%far: tile<8xi32> = mul %row, %lim %kept: tile<8xi32> = add %far, %col",
    "or zero": "%in: tile<8xi1> = lt %index, %lim %kept: tile<8xi32> = where %in, %index, %zero",
}


@pytest.mark.parametrize("name", KEPT)
def test_an_index_that_is_kept_inside_is_one_load_of_neighbours(name, make_kernel):
    head = POINTERS.replace("%p: tile<8xptr<f32>> = addptr %bases, %index", "%zero: tile<8xi32> = constant {value = 0}")
    limit = "%lim: tile<8xi32> = broadcast_to %m {shape = [8]}"
    tail = '%p: tile<8xptr<f32>> = addptr %bases, %kept %v: tile<8xf32> = load %p print_ %v {hex=false, prefix=""}'
    beyond, inside = accesses(f"{head} {limit} {KEPT[name]} {tail}", make_kernel)
    assert beyond.base.shape == (8,) and constant_of(beyond.strides[0]) == 0 and beyond.extents[0].op.name == "where"
    assert inside.base.shape == () and constant_of(inside.strides[0]) == 1
    assert inside.extents[0].op.name in ("where", "minimum")
    assert inside.other.op.name == "tile_load" and inside.mask is None


def test_a_store_to_an_index_that_is_kept_inside_stays_a_scatter(make_kernel):
    kept = f"%lim: tile<8xi32> = broadcast_to %m {{shape = [8]}} {KEPT['remainder']}"
    (access,) = accesses(f"{POINTERS} {kept} %q: tile<8xptr<f32>> = addptr %bases, %kept store %q, %one", make_kernel)
    assert access.base.shape == (8,)


def test_rows_behind_pointers_from_memory_are_affine_in_the_row(make_kernel):
    (access,) = accesses(
        """
        %table: ptr<f32> = array_ptr %x
        %k4: tile<4xi64> = broadcast_to %k {shape = [4]}
        %rows: tile<4xptr<f32>> = ptr_cast %k4 {dtype = ptr<f32>}
        %r: tile<4x1xptr<f32>> = reshape %rows {shape = [4, 1]}
        %r8: tile<4x8xptr<f32>> = broadcast_to %r {shape = [4, 8]}
        %cols: tile<8xi32> = arange {start = 0, end = 8}
        %across: tile<1x8xi32> = reshape %cols {shape = [1, 8]}
        %c8: tile<4x8xi32> = broadcast_to %across {shape = [4, 8]}
        %p: tile<4x8xptr<f32>> = addptr %r8, %c8
        %one: tile<4x8xf32> = constant {value = 1.0}
        store %p, %one
    """,
        make_kernel,
    )
    assert access.base.shape == (4, 1)
    assert [constant_of(s) for s in access.strides] == [0, 1]


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
