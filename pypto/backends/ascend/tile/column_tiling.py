"""Products that go to the vector cores as they are, some columns at a time.

Where L0C has no room for two results, a loop makes narrower ones: some columns are taken away while the next are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.core_partition import CorePartition
from pypto.backends.ascend.tile.cube_regions import cube_regions_of
from pypto.backends.ascend.tile.fractals import SIDE
from pypto.backends.ascend.tile.software_pipeline import marked_copy
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import TileType, int64
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access

MIN_COLUMNS: Final = 4 * SIDE  # columns, so that copies are long enough


def tile_columns(function: Function, sides: CorePartition, target: AscendTarget) -> Function:
    """The cube core's side with narrower products where two of a result do not fit in L0C."""
    parts, widths = cube_regions_of(function), dict[Op, int]()
    homes = {op: region for region in parts.regions() for op in region.ops}
    for op in function.walk():
        stored = Access.of(op).value if op in sides.marks and op.name == "tile_store" else None
        dot = stored.op if stored is not None else None
        if dot is None or dot not in parts.dots or dot.operands[2:] or parts.users[dot.result] != [op]:
            continue
        left = parts.sources[dot.operands[0]].load
        width = column_width(dot, len(parts.dots), target)
        if width and (left not in sides.marks or homes[left] is not homes[dot]):  # else it would be loaded again
            widths[op] = width
    gone = {Access.of(op).value for op in widths}
    return rewrite(function, lambda r, op: narrow_store(r, op, sides, widths, gone), OpBuilder)


def column_width(dot: Op, share: int, target: AscendTarget) -> int:
    """Columns that fit twice in a product's share of L0C, 0 for all or for too few of them."""
    rows, columns = dot.result.shape[-2:]
    room = target.memories["L0C"].bytes // (2 * share * 4 * rows)
    return (
        next((n for n in (256, 128, 64) if MIN_COLUMNS <= n <= room and columns % n == 0), 0) if columns > room else 0
    )


def narrow_store(
    r: Rewriter[OpBuilder], op: Op, sides: CorePartition, widths: dict[Op, int], gone: set[Value | None]
) -> Sequence[Value]:
    """A store of a product's columns in a loop, with the product, which is `gone` from where it was."""
    if gone & set(op.results):
        return op.results  # nothing asks for it
    if op not in widths:
        return marked_copy(r, op, sides).results
    access, b = Access.of(op), r.builder
    assert access.value is not None and access.value.op is not None and access.base.op is not None
    dot, width = access.value.op, widths[op]
    inside = Region([Value(TileType((), int64), "column")])
    (column,), columns, right = inside.args, dot.result.shape[-1], dot.operands[1]
    with b.inside(inside):
        product = b.emit("dot", r.value(dot.operands[0]), slice_operand(r, right, len(right.shape) - 1, column, width))
        offsets = (*map(r.value, access.offsets[:-1]), b.emit("add", r.value(access.offsets[-1]), column))
        place = (b.emit("array_ptr", r.value(access.base.op.operands[0])), *offsets,
                 *map(r.value, (*access.strides, *access.extents)))  # fmt: skip
        shape = (*access.shape[:-1], width)
        made = b.create("tile_store", (*place, product), {**op.attrs, "shape": shape})
        b.create("yield")
    sides.marks[made], sides.columns[made] = sides.marks[op], (column, columns - width)
    b.create("for", tuple(b.constant(n, int64) for n in (0, columns, width)), {}, (), (inside,))
    return ()


def slice_operand(r: Rewriter[OpBuilder], v: Value, d: int, start: Value, width: int) -> Value:
    """An operand from an index of one of its dimensions on, made of a load and moves."""
    op, b = v.op, r.builder
    assert op is not None
    if op.name == "permute":
        return b.emit(
            "permute", slice_operand(r, op.operands[0], op.attrs["dims"][d], start, width), dims=op.attrs["dims"]
        )
    shape = tuple(width if i == d else n for i, n in enumerate(v.shape))
    if op.name == "reshape":
        new, old = ([i for i, n in enumerate(x.shape) if n != 1] for x in (v, op.operands[0]))
        return b.emit("reshape", slice_operand(r, op.operands[0], old[new.index(d)], start, width), shape=shape)
    access = Access.of(op)
    offsets = [r.value(x) for x in access.offsets]
    offsets[d] = b.emit("add", offsets[d], start)
    rest = (r.value(x) for x in access.operands[1 + len(offsets) :])
    return b.emit("tile_load", r.value(access.base), *offsets, *rest, **{**op.attrs, "shape": shape})
