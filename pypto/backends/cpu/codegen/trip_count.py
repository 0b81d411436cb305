"""Where a loop along the lanes may end early: behind the last element that exists, in blocks that are mostly empty.

Behind the extents of all that a statement reads, every chunk holds the same values. A store has nothing to do there. A
reduction is through with them as soon as one such chunk has left its accumulators as they were: then all would.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pypto.backends.cpu.codegen.reductions import Partial
from pypto.backends.cpu.codegen.register_transpose import IndexedValue, values_written
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue, signed
from pypto.backends.cpu.loopir.index_maps import GATHERING, IndexMap, is_tile, operand_map, tile_operands
from pypto.backends.cpu.loopir.ir import Buffer, Stmt
from pypto.backends.cpu.techniques import is_enabled
from pypto.ir.core import Value
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access
from pypto.ops.table import MOVEMENT_OPS

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.values import ValueEmitter

AccessBound = tuple[
    VectorValue, VectorValue
]  # offset and extent: the elements exist as long as offset + index lies below the extent


class TripCounts:
    """Tells where the live part of a nest's loops ends."""

    def __init__(self, nest: ValueEmitter) -> None:
        self.nest = nest
        self.e = nest.e
        self.readers: dict[Buffer, list[tuple[Stmt, IndexMap]]] = {}

    def record_readers(self, stmts: Iterable[Stmt]) -> None:
        """Say which statements read what of the kernel; without this, all memory is written whole."""
        for stmt in stmts:
            seen = set[IndexedValue]()
            for source in values_written(stmt):
                for v, index in self.nest.transposes.memory_operands(*source, seen):
                    if v in self.nest.buffers:
                        self.readers.setdefault(self.nest.buffers[v], []).append((stmt, index))

    def bound(self, body: list[Stmt], position: int) -> VectorValue | None:
        """Index along a loop behind which no statement has anything new to do."""
        if not is_enabled(self.nest.function, "trip_count"):
            return None
        found: set[AccessBound] = set()
        for stmt in body:
            ends = self.statement_bounds(stmt, body, position)
            if ends is None:
                return None
            found |= ends
        if any(covers_loop(end, body[0].sizes[position]) for end in found):
            return None
        lengths = [self.e.sub(extent, offset) for offset, extent in sorted(found, key=str)]
        return functools.reduce(self.e.maximum, lengths) if lengths else None

    def statement_bounds(self, stmt: Stmt, body: list[Stmt], position: int) -> set[AccessBound] | None:
        if stmt.kind == "store":
            access = Access.of(stmt.the_op)
            return self.access_bounds(access, stmt.index, position) or None
        if stmt.kind in ("reduce", "arg") and stmt.loops[position] in stmt.reduced:
            return self.value_bounds(stmt.the_op.operands[0], stmt.index, position, set())
        if stmt.kind != "compute" or stmt.source is not None or stmt.value is None:
            return None
        if stmt.the_buffer.contracted:
            return set()
        ends = self.value_bounds(stmt.value, stmt.index, position, set())
        return ends if ends and self.covers_readers(stmt, body, ends, position) else None

    def covers_readers(self, stmt: Stmt, body: list[Stmt], ends: set[AccessBound], position: int) -> bool:
        """True when nobody reads what the statement leaves out: readers elsewhere are stores that end there."""
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
        return all(reader.kind == "store" and self.is_bounded_by(reader, index[d], ends) for reader, index in readers)

    def is_bounded_by(self, store: Stmt, position: int | None, ends: set[AccessBound]) -> bool:
        access = Access.of(store.the_op)
        if position is None or any(v not in self.nest.env for v in (*access.offsets, *access.extents)):
            return False  # what is not computed yet is none of the ends
        found = self.access_bounds(access, store.index, position)
        return bool(found) and found <= ends

    def access_bounds(self, access: Access, index: IndexMap, position: int) -> set[AccessBound]:
        scalar = self.nest.memory.scalar
        dims = [d for d, p in enumerate(index) if p == position]
        return {(scalar(access.offsets[d]), scalar(access.extents[d])) for d in dims}

    def value_bounds(
        self, v: Value, index: IndexMap, position: int, seen: set[IndexedValue]
    ) -> set[AccessBound] | None:
        """Behind these a value is the same everywhere, as far as not `seen` before; None where that is not known."""
        if not is_tile(v) or position not in index or (v, index) in seen:
            return set()
        seen.add((v, index))
        if v.op is None or self.nest.in_memory(v) is not None or v.op.name in ("arange", *GATHERING):
            return None
        operands, found = tile_operands(v.op), set[AccessBound]()
        if v.op.name == "tile_load":
            access = Access.of(v.op)
            operands, found = (
                (access.other,) if access.other is not None else (),
                self.access_bounds(access, index, position),
            )
        elif v.op.name == "lt" and (end := self.comparison_bound(v, index, position)) is not None:
            return {end}
        for operand in operands:
            ends = self.value_bounds(operand, operand_map(v.op, operand, index), position, seen)
            if ends is None:
                return None
            found |= ends
        return found

    def comparison_bound(self, v: Value, index: IndexMap, position: int) -> AccessBound | None:
        """A number that grows by 1 with the index, below one that does not change."""
        assert v.op is not None
        a, b = v.op.operands
        first, limit = self.affine_start(a, operand_map(v.op, a, index), position), self.uniform_value(b)
        return (first, limit) if first is not None and limit is not None else None

    def affine_start(self, v: Value, index: IndexMap, position: int) -> VectorValue | None:
        """The first element of a tile that grows by 1 along a loop."""
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
                more = self.uniform_value(y)
                start = self.affine_start(x, index, position) if more is not None else None
                if start is not None and more is not None:
                    return self.nest.memory.sum(start, more)
        return None

    def uniform_value(self, v: Value) -> VectorValue | None:
        """The number that all elements are."""
        if not is_tile(v):
            return self.e.convert(self.nest.env[v], int64) if v.dtype.is_int and v.dtype.kind == "int" else None
        if v.op is not None and v.op.name in ("broadcast_to", "reshape"):
            return self.uniform_value(v.op.operands[0])
        if v.op is not None and v.op.name == "constant" and v.dtype.kind == "int":
            number = v.op.attrs["value"]
            assert isinstance(number, int)
            return self.e.const(number, int64)
        return None


def covers_loop(end: AccessBound, size: int) -> bool:
    """Whether constants tell that all elements of a loop exist."""
    offset, extent = (x.text for x in end)
    return "%" not in offset + extent and int(extent) - int(offset) >= size


def is_bitwise_equal(e: LaneEmitter, a: Partial, b: Partial) -> VectorValue:
    """Whether two partial results are the same, bit by bit."""
    bits = [[e.bitcast(v, signed(v.dtype)) for v in values] for values in (a, b)]
    changed = [e.any(e.cmp("ne", x, y)) for x, y in zip(*bits, strict=True)]
    return e.xor(functools.reduce(e.or_, changed), e.const(True, int1))
