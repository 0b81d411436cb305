"""Where a loop along the lanes may end early: behind the last element that exists, in blocks that are mostly empty.

Behind the extents of all that a statement reads, every chunk holds the same values. A store has nothing to do there. A
reduction is through with them as soon as one such chunk has left its accumulators as they were: then all would.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pypto.backends.cpu.crosswise import Leaf, stored
from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, signed
from pypto.backends.cpu.loopir import Buffer, Stmt
from pypto.backends.cpu.pull import PICKS, IndexMap, is_tile, operand_map, pulled_operands
from pypto.backends.cpu.reductions import Partial
from pypto.ir.core import Value
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access

if TYPE_CHECKING:
    from pypto.backends.cpu.values import ValueEmitter

End = tuple[Lanes, Lanes]  # offset and extent: the elements exist as long as offset + index lies below the extent
_SAME = ("broadcast_to", "reshape", "permute", "cast")


class Live:
    """Tells where the live part of a nest's loops ends."""

    def __init__(self, nest: ValueEmitter) -> None:
        self.nest = nest
        self.e = nest.e
        self.readers: dict[Buffer, list[tuple[Stmt, IndexMap]]] = {}

    def read_by(self, stmts: Iterable[Stmt]) -> None:
        """Say which statements read what of the kernel; without this, all memory is written whole."""
        for stmt in stmts:
            seen = set[Leaf]()
            for source in stored(stmt):
                for v, index in self.nest.crossing.leaves(*source, seen):
                    if v in self.nest.buffers:
                        self.readers.setdefault(self.nest.buffers[v], []).append((stmt, index))

    def end(self, body: list[Stmt], position: int) -> Lanes | None:
        """Index along a loop behind which no statement has anything new to do."""
        found: set[End] = set()
        for stmt in body:
            ends = self.of(stmt, body, position)
            if ends is None:
                return None
            found |= ends
        if any(reaches(end, body[0].sizes[position]) for end in found):
            return None
        lengths = [self.e.sub(extent, offset) for offset, extent in sorted(found, key=str)]
        return functools.reduce(self.e.maximum, lengths) if lengths else None

    def of(self, stmt: Stmt, body: list[Stmt], position: int) -> set[End] | None:
        if stmt.kind == "store":
            access = Access.of(stmt.does)
            return self.extents(access, stmt.index, position) or None
        if stmt.kind in ("reduce", "arg") and stmt.loops[position] in stmt.reduced:
            return self.ends(stmt.does.operands[0], stmt.index, position, set())
        if stmt.kind != "compute" or stmt.source is not None or stmt.value is None:
            return None
        if stmt.into.unused:
            return set()
        ends = self.ends(stmt.value, stmt.index, position, set())
        return ends if ends and self.enough(stmt, body, ends, position) else None

    def enough(self, stmt: Stmt, body: list[Stmt], ends: set[End], position: int) -> bool:
        """True when nobody reads what the statement leaves out: readers elsewhere are stores that end there."""
        buffer = stmt.into
        readers = [(reader, index) for reader, index in self.readers.get(buffer, []) if reader not in body]
        if not readers or position not in stmt.written or buffer.view_of is not None or buffer.panel or buffer.dense:
            return False
        d = stmt.written.index(position)
        return all(reader.kind == "store" and self.within(reader, index[d], ends) for reader, index in readers)

    def within(self, store: Stmt, position: int | None, ends: set[End]) -> bool:
        access = Access.of(store.does)
        if position is None or any(v not in self.nest.env for v in (*access.offsets, *access.extents)):
            return False  # what is not computed yet is none of the ends
        found = self.extents(access, store.index, position)
        return bool(found) and found <= ends

    def extents(self, access: Access, index: IndexMap, position: int) -> set[End]:
        scalar = self.nest.memory.scalar
        dims = [d for d, p in enumerate(index) if p == position]
        return {(scalar(access.offsets[d]), scalar(access.extents[d])) for d in dims}

    def ends(self, v: Value, index: IndexMap, position: int, seen: set[Leaf]) -> set[End] | None:
        """Behind these a value is the same everywhere, as far as not `seen` before; None where that is not known."""
        if not is_tile(v) or position not in index or (v, index) in seen:
            return set()
        seen.add((v, index))
        if v.op is None or self.nest.in_memory(v) is not None or v.op.name in ("arange", *PICKS):
            return None
        operands, found = pulled_operands(v.op), set[End]()
        if v.op.name == "tile_load":
            access = Access.of(v.op)
            operands, found = (access.other,) if access.other is not None else (), self.extents(access, index, position)
        elif v.op.name == "lt" and (end := self.compared(v, index, position)) is not None:
            return {end}
        for operand in operands:
            ends = self.ends(operand, operand_map(v.op, operand, index), position, seen)
            if ends is None:
                return None
            found |= ends
        return found

    def compared(self, v: Value, index: IndexMap, position: int) -> End | None:
        """A number that grows by 1 with the index, below one that does not change."""
        assert v.op is not None
        a, b = v.op.operands
        first, limit = self.first(a, operand_map(v.op, a, index), position), self.uniform(b)
        return (first, limit) if first is not None and limit is not None else None

    def first(self, v: Value, index: IndexMap, position: int) -> Lanes | None:
        """The first element of a tile that grows by 1 along a loop."""
        if v.op is None or position not in index or not v.dtype.is_int:
            return None
        if v.op.name == "arange":
            start = v.op.attrs["start"]
            assert isinstance(start, int)
            return self.e.const(start, int64)
        a = v.op.operands[0] if v.op.operands else v
        if v.op.name in _SAME and a.shape and a.dtype.is_int and a.dtype.bits >= 32:
            return self.first(a, operand_map(v.op, a, index), position)
        if v.op.name == "add" and v.dtype == int64:
            for x, y in (v.op.operands, v.op.operands[::-1]):
                more = self.uniform(y)
                start = self.first(x, index, position) if more is not None else None
                if start is not None and more is not None:
                    return self.nest.memory.sum(start, more)
        return None

    def uniform(self, v: Value) -> Lanes | None:
        """The number that all elements are."""
        if not is_tile(v):
            return self.e.convert(self.nest.env[v], int64) if v.dtype.is_int and v.dtype.kind == "int" else None
        if v.op is not None and v.op.name in ("broadcast_to", "reshape"):
            return self.uniform(v.op.operands[0])
        if v.op is not None and v.op.name == "constant" and v.dtype.kind == "int":
            number = v.op.attrs["value"]
            assert isinstance(number, int)
            return self.e.const(number, int64)
        return None


def reaches(end: End, size: int) -> bool:
    """Whether constants tell that all elements of a loop exist."""
    offset, extent = (x.text for x in end)
    return "%" not in offset + extent and int(extent) - int(offset) >= size


def same(e: LaneEmitter, a: Partial, b: Partial) -> Lanes:
    """Whether two partial results are the same, bit by bit."""
    bits = [[e.bitcast(v, signed(v.dtype)) for v in values] for values in (a, b)]
    changed = [e.any(e.cmp("ne", x, y)) for x, y in zip(*bits, strict=True)]
    return e.xor(functools.reduce(e.or_, changed), e.const(True, int1))
