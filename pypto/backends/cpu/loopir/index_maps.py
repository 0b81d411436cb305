"""Index maps: which element of an operand an element of the result needs, through elementwise and shape ops.

An index map has one entry for each dimension of a value: the position of the loop that indexes it, or None for
index 0. Code generation inlines an op at the place of its reader by composing these maps (rematerialisation): the
tile in between needs no memory. That is legal for ops whose elements can be computed one by one (`is_inlinable`).

Example, for a reader in the loops (i, j), that is at the map (0, 1):

    %t = permute %x, dims=[1, 0]      reads %x at (1, 0)
    %b = broadcast_to %r              reads %r of shape [1, 64] at (None, 1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pypto.ir.core import Op, Value
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.analysis.dimensions import is_unit_reshape

IndexMap = tuple[int | None, ...]
IndexedValue = tuple[Value, IndexMap]
_INLINABLE = frozenset({"elementwise", "indexable"})
GATHERING = ("slice", "gather")  # ops that read their first operand at computed indices
UNKNOWN_POSITION = -1  # entry of an index map for a computed index: no loop has this position


def is_tile(v: Value) -> bool:
    """Whether a value has a shape; a scalar has none."""
    return bool(getattr(v.type, "shape", ()))


def is_inlinable(op: Op) -> bool:
    """Whether each element of the op's result can be computed at the place of its reader.

    A reshape is inlinable when it only adds or removes dimensions of size 1: index maps express no div or mod.
    """
    if len(op.results) != 1 or not is_tile(op.results[0]):
        return False
    if op.name == "reshape":
        return is_unit_reshape(op)
    return not TABLE[op.name].traits.isdisjoint(_INLINABLE)


def operand_map(op: Op, operand: Value, index: IndexMap) -> IndexMap:
    """The index map of an operand, given that of the op's result (for a store: that of the stored tile)."""
    if not is_tile(operand):
        return ()
    if op.name in GATHERING and operand is op.operands[0]:
        return (UNKNOWN_POSITION,) * len(operand.shape)
    if op.name == "reshape":
        positions = iter([p for p, n in zip(index, op.results[0].shape, strict=True) if n > 1])
        return tuple(next(positions) if n > 1 else None for n in operand.shape)
    if op.name == "permute":
        position_of = dict(zip(op.attrs["dims"], index, strict=True))
        return tuple(position_of[d] for d in range(len(index)))
    return tuple(None if n == 1 else p for n, p in zip(operand.shape, index, strict=True))


def tile_operands(op: Op) -> tuple[Value, ...]:
    """Operands that are tiles; the offsets, extents and strides of an access are scalars."""
    if op.name in ("tile_load", "tile_store"):
        access = Access.of(op)
        return tuple(v for v in (access.base, access.value, access.mask, access.other) if v is not None and is_tile(v))
    return tuple(v for v in op.operands if is_tile(v))


def operand_reads(op: Op, index: IndexMap | None = None) -> list[IndexedValue]:
    """Tile operands of an op with their index maps, given that of its result (the identity by default)."""
    result_index = tuple(range(len(op.results[0].shape))) if index is None else index
    return [(v, operand_map(op, v, result_index)) for v in tile_operands(op)]


def inlined_operands(roots: list[IndexedValue], stop: Callable[[Value], bool]) -> Iterator[IndexedValue]:
    """The expression trees under some values, in preorder: each value at each index map once.

    A value for which `stop` holds, such as one in memory, is a leaf: its operands are not visited.
    """
    work = roots[::-1]
    seen: set[IndexedValue] = set()
    while work:
        node = v, index = work.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        if v.op is not None and not stop(v):
            work += reversed(operand_reads(v.op, index))
