"""Loop bound tightening: a lane loop ends at the last valid element instead of at the end of the tile.

It pays in tiles that are mostly out of bounds: of 1024 columns over rows of 300, two thirds hold nothing. Legal where
all elements behind the bound are alike. A store has nothing to write there. A reduction combines the same values again
and again, so it may stop when one chunk has left its accumulators unchanged (see `emit_early_exit_remainder`). A value
in scratch need not be written where all its readers are stores with that bound.

for i in 0..1024 step 64: store(load(i, extent n), extent n) becomes for i in 0..min(n, 1024) step 64: store(load(i,
extent n), extent n)
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pypto.backends.cpu.codegen.reductions import Partial
from pypto.backends.cpu.codegen.register_transpose import values_written
from pypto.backends.cpu.loopir.index_maps import GATHERING, IndexedValue, IndexMap, is_tile, operand_map, tile_operands
from pypto.backends.cpu.loopir.ir import Buffer, Stmt
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.cpu.techniques import is_enabled
from pypto.backends.llvm.value import VectorValue, signed
from pypto.ir.core import Value
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access
from pypto.ops.table import MOVEMENT_OPS

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.values import ValueEmitter

# Offset and extent: elements are valid as long as offset + index < extent.
AccessBound = tuple[VectorValue, VectorValue]


class TripCounts:
    """Computes trip counts of the lane loops of nests."""

    def __init__(self, nest: ValueEmitter) -> None:
        self.nest = nest
        self.e = nest.e
        self.readers: dict[Buffer, list[tuple[Stmt, IndexMap]]] = {}  # with the index maps of their reads

    def record_readers(self, stmts: Iterable[Stmt]) -> None:
        """Record which statements read which buffers. Without this, every buffer is written as a whole."""
        for stmt in stmts:
            for v, index in self.nest.transposes.memory_operands(values_written(stmt)):
                if v in self.nest.buffers:
                    self.readers.setdefault(self.nest.buffers[v], []).append((stmt, index))

    def bound(self, body: list[Stmt], position: int) -> VectorValue | None:
        """The trip count of a loop: no statement has work behind it. None where it is not known or is the
        whole loop.
        """
        if not is_enabled(self.nest.function, "trip_count"):
            return None
        bounds: set[AccessBound] = set()
        for stmt in body:
            statement_bounds = self.statement_bounds(stmt, body, position)
            if statement_bounds is None:
                return None
            bounds |= statement_bounds
        if any(covers_loop(bound, body[0].sizes[position]) for bound in bounds):
            return None
        lengths = [self.e.sub(extent, offset) for offset, extent in sorted(bounds, key=str)]
        return functools.reduce(self.e.maximum, lengths) if lengths else None

    def statement_bounds(self, stmt: Stmt, body: list[Stmt], position: int) -> set[AccessBound] | None:
        """The bounds of what a statement accesses along a loop; None where they are not known."""
        if stmt.kind == "store":
            access = Access.of(stmt.the_op)
            return self.access_bounds(access, stmt.index, position) or None
        if stmt.kind in ("reduce", "arg") and stmt.loops[position] in stmt.reduced:
            return self.value_bounds(stmt.the_op.operands[0], stmt.index, position, set())
        if stmt.kind != "compute" or stmt.source is not None or stmt.value is None:
            return None
        if stmt.the_buffer.contracted:
            return set()
        bounds = self.value_bounds(stmt.value, stmt.index, position, set())
        return bounds if bounds and self.covers_readers(stmt, body, bounds, position) else None

    def covers_readers(self, stmt: Stmt, body: list[Stmt], bounds: set[AccessBound], position: int) -> bool:
        """Whether nobody reads what a statement would leave out: all readers outside of the body are stores with its
        bounds.
        """
        buffer = stmt.the_buffer
        readers = [(reader, index) for reader, index in self.readers.get(buffer, []) if reader not in body]
        if (
            not readers
            or position not in stmt.buffer_index
            or buffer.view_of is not None
            or buffer.panel
            or buffer.unpadded
        ):
            return False
        d = stmt.buffer_index.index(position)
        return all(reader.kind == "store" and self.is_bounded_by(reader, index[d], bounds) for reader, index in readers)

    def is_bounded_by(self, store: Stmt, position: int | None, bounds: set[AccessBound]) -> bool:
        """Whether a store ends along a loop at some of these bounds."""
        access = Access.of(store.the_op)
        if position is None or any(v not in self.nest.env for v in (*access.offsets, *access.extents)):
            return False  # a scalar that is not computed yet is none of the bounds
        store_bounds = self.access_bounds(access, store.index, position)
        return bool(store_bounds) and store_bounds <= bounds

    def access_bounds(self, access: Access, index: IndexMap, position: int) -> set[AccessBound]:
        """The bounds of an access along a loop."""
        scalar = self.nest.memory.scalar
        dims = [d for d, p in enumerate(index) if p == position]
        return {(scalar(access.offsets[d]), scalar(access.extents[d])) for d in dims}

    def value_bounds(
        self, v: Value, index: IndexMap, position: int, seen: set[IndexedValue]
    ) -> set[AccessBound] | None:
        """The bounds behind which a value is uniform along a loop, without those of `seen` values; None where not
        known.
        """
        if not is_tile(v) or position not in index or (v, index) in seen:
            return set()
        seen.add((v, index))
        if v.op is None or self.nest.in_memory(v) is not None or v.op.name in ("arange", *GATHERING):
            return None
        operands = tile_operands(v.op)
        bounds = set[AccessBound]()
        if v.op.name == "tile_load":
            access = Access.of(v.op)
            operands = (access.other,) if access.other is not None else ()
            bounds = self.access_bounds(access, index, position)
        elif v.op.name == "lt":
            bound = self.comparison_bound(v, index, position)
            if bound is not None:
                return {bound}
        for operand in operands:
            operand_bounds = self.value_bounds(operand, operand_map(v.op, operand, index), position, seen)
            if operand_bounds is None:
                return None
            bounds |= operand_bounds
        return bounds

    def comparison_bound(self, v: Value, index: IndexMap, position: int) -> AccessBound | None:
        """The bound of a comparison of an index, which grows by 1 along the loop, with a uniform limit."""
        assert v.op is not None
        a, b = v.op.operands
        first = self.affine_start(a, operand_map(v.op, a, index), position)
        limit = self.uniform_value(b)
        return (first, limit) if first is not None and limit is not None else None

    def affine_start(self, v: Value, index: IndexMap, position: int) -> VectorValue | None:
        """The first element of a tile that grows by 1 along a loop; None for other tiles.

        `passes.affine` builds such forms as ops of Tile IR, of tiles as they are. Here the function is finished: the
        form is that at an index map of one statement, and its start is a number in the text that is being written.
        """
        if v.op is None or position not in index or not v.dtype.is_int:
            return None
        if v.op.name == "arange":
            start = v.op.attrs["start"]
            assert isinstance(start, int)
            return self.e.const(start, int64)
        a = v.op.operands[0] if v.op.operands else v
        if (v.op.name in MOVEMENT_OPS or v.op.name == "cast") and a.shape and a.dtype.is_int and a.dtype.bits >= 32:
            return self.affine_start(a, operand_map(v.op, a, index), position)
        if v.op.name == "add" and v.dtype == int64:
            for x, y in (v.op.operands, v.op.operands[::-1]):
                addend = self.uniform_value(y)
                start = self.affine_start(x, index, position) if addend is not None else None
                if start is not None and addend is not None:
                    return self.nest.memory.sum(start, addend)
        return None

    def uniform_value(self, v: Value) -> VectorValue | None:
        """The value of a tile whose elements are all equal; None for other tiles."""
        if not is_tile(v):
            return self.e.convert(self.nest.env[v], int64) if v.dtype.is_int and v.dtype.kind == "int" else None
        if v.op is not None and v.op.name in ("broadcast_to", "reshape"):
            return self.uniform_value(v.op.operands[0])
        if v.op is not None and v.op.name == "constant" and v.dtype.kind == "int":
            number = v.op.attrs["value"]
            assert isinstance(number, int)
            return self.e.const(number, int64)
        return None


def covers_loop(bound: AccessBound, size: int) -> bool:
    """Whether a bound is constant and lies at or behind the end of the loop."""
    offset, extent = (x.text for x in bound)
    return "%" not in offset + extent and int(extent) - int(offset) >= size


def is_bitwise_equal(e: CpuLaneEmitter, a: Partial, b: Partial) -> VectorValue:
    """Whether two partial results are equal bit for bit: NaN equals NaN, and -0 differs from 0."""
    bits = [[e.bitcast(v, signed(v.dtype)) for v in values] for values in (a, b)]
    changed = [e.any(e.cmp("ne", x, y)) for x, y in zip(*bits, strict=True)]
    return e.xor(functools.reduce(e.or_, changed), e.const(True, int1))
