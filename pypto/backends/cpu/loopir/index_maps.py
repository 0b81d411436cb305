"""How an element of a value depends on elements of its operands: index maps through ops of one lane or none.

An index map says for every dimension of a value which loop position it follows, or None for index 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pypto.ir.core import Op, Value
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.dimensions import is_unit_reshape

IndexMap = tuple[int | None, ...]
IndexedValue = tuple[Value, IndexMap]
_INLINABLE = frozenset({"elementwise", "indexable"})
GATHERING = ("slice", "gather")  # their first operand is read elsewhere than at the result's index
UNKNOWN_POSITION = -1  # in an index map: a position that no loop has


def is_tile(v: Value) -> bool:
    """A value with elements to loop over; scalars are no tiles here."""
    return bool(getattr(v.type, "shape", ()))


def is_inlinable(op: Op) -> bool:
    """True when an element of the op's only tile result can be computed alone, where it is needed."""
    if len(op.results) != 1 or not is_tile(op.results[0]):
        return False
    if op.name == "reshape":
        return is_unit_reshape(op)
    return not TABLE[op.name].traits.isdisjoint(_INLINABLE)


def operand_map(op: Op, operand: Value, index: IndexMap) -> IndexMap:
    """The map of an operand, given the map of the op's result (for a load: of the loaded tile)."""
    if not is_tile(operand):
        return ()
    if op.name in GATHERING and operand is op.operands[0]:
        return (UNKNOWN_POSITION,) * len(operand.shape)
    if op.name == "reshape":
        kept = iter([i for i, n in zip(index, op.results[0].shape, strict=True) if n > 1])
        return tuple(next(kept) if n > 1 else None for n in operand.shape)
    if op.name == "permute":
        placed = dict(zip(op.attrs["dims"], index, strict=True))
        return tuple(placed[d] for d in range(len(index)))
    return tuple(None if n == 1 else i for n, i in zip(operand.shape, index, strict=True))


def tile_operands(op: Op) -> tuple[Value, ...]:
    """Operands that are computed per element: not the scalars of an access."""
    if op.name in ("tile_load", "tile_store"):
        access = Access.of(op)
        return tuple(v for v in (access.base, access.value, access.mask, access.other) if v is not None and is_tile(v))
    return tuple(v for v in op.operands if is_tile(v))


def operand_reads(op: Op, index: IndexMap | None = None) -> list[IndexedValue]:
    """What an op reads per element, at the maps that follow from that of its result, or of each of its elements."""
    own = tuple(range(len(op.results[0].shape))) if index is None else index
    return [(v, operand_map(op, v, own)) for v in tile_operands(op)]


def inlined_operands(leaves: list[IndexedValue], stop: Callable[[Value], bool]) -> Iterator[IndexedValue]:
    """Values at index maps, and all that computing them reads, once each, down to where `stop` holds."""
    work, seen = leaves[::-1], set[IndexedValue]()
    while work:
        leaf = v, index = work.pop()
        if leaf in seen:
            continue
        seen.add(leaf)
        yield leaf
        if v.op is not None and not stop(v):
            work += reversed(operand_reads(v.op, index))
