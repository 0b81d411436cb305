"""Column tiling: a product that goes to the vector cores is computed some columns at a time.

If L0C has no room for two results, the next product would wait until the last one has left. Narrower tiles fit twice:
one leaves while the next is computed. It is legal because columns of a product are independent. A left operand that
would be loaded again for each tile stays in L1 meanwhile; that pays only where a result does not fit even once.

    s = dot(q, k); store(s)      ->      for column in range(0, n, 128):
                                             store(dot(q, k[:, column : column + 128]))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.blocking import has_l1_room, l1_bytes
from pypto.backends.ascend.tile.core_partition import CorePartition
from pypto.backends.ascend.tile.cube_regions import cube_regions_of
from pypto.backends.ascend.tile.fractals import SIDE
from pypto.backends.ascend.tile.operand_facts import side_of
from pypto.backends.ascend.tile.software_pipeline import marked_copy
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import TileType, int64
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access

MIN_COLUMNS: Final = 4 * SIDE  # narrower tiles make copies too short


def tile_columns(function: Function, sides: CorePartition, target: AscendTarget) -> Function:
    """Return the cube core's side with narrower products where two results do not fit in L0C."""
    regions = cube_regions_of(function)
    widths = dict[Op, int]()
    region_of_op = {op: region for region in regions.regions() for op in region.ops}
    for op in function.walk():
        stored = Access.of(op).value if op in sides.transfer_of_op and op.name == "tile_store" else None
        dot = stored.op if stored is not None else None
        if dot is None or dot not in regions.dots or dot.operands[2:] or regions.users[dot.result] != [op]:
            continue
        left = regions.sources[dot.operands[0]]
        width = column_width(dot, regions.product_count, target)
        is_outside = left.load not in sides.transfer_of_op or region_of_op[left.load] is not region_of_op[dot]
        has_room = has_l1_room(l1_bytes(left, side_of(left, True, target)), target)
        if width and (is_outside or (has_room and exceeds_share(dot, regions.product_count, target))):
            widths[op] = width
    tiled_products = {Access.of(op).value for op in widths}
    return rewrite(function, lambda r, op: narrow_store(r, op, sides, widths, tiled_products), OpBuilder)


def exceeds_share(dot: Op, share: int, target: AscendTarget) -> bool:
    """Whether a product's result takes more than its share of L0C."""
    rows, columns = dot.result.shape[-2:]
    return bool(4 * rows * columns * share > target.memories["L0C"].bytes)


def column_width(dot: Op, share: int, target: AscendTarget) -> int:
    """Return the columns that fit twice in a product's share of L0C; 0 for all, or for too few."""
    rows, columns = dot.result.shape[-2:]
    columns_that_fit = target.memories["L0C"].bytes // (2 * share * 4 * rows)
    return (
        next((n for n in (256, 128, 64) if MIN_COLUMNS <= n <= columns_that_fit and columns % n == 0), 0)
        if columns > columns_that_fit
        else 0
    )


def narrow_store(
    r: Rewriter[OpBuilder], op: Op, sides: CorePartition, widths: dict[Op, int], tiled_products: set[Value | None]
) -> Sequence[Value]:
    """Rewrite a store of a product as a loop over column tiles that contains the product."""
    if tiled_products & set(op.results):
        return op.results  # it has moved into the loop, and has no other user
    if op not in widths:
        return marked_copy(r, op, sides).results
    access = Access.of(op)
    b = r.builder
    assert access.value is not None and access.value.op is not None and access.base.op is not None
    dot = access.value.op
    width = widths[op]
    body = Region([Value(TileType((), int64), "column")])
    (column,), columns, right = body.args, dot.result.shape[-1], dot.operands[1]
    with b.inside(body):
        product = b.emit("dot", r.value(dot.operands[0]), slice_operand(r, right, len(right.shape) - 1, column, width))
        offsets = (*map(r.value, access.offsets[:-1]), b.emit("add", r.value(access.offsets[-1]), column))
        place = (b.emit("array_ptr", r.value(access.base.op.operands[0])), *offsets,
                 *map(r.value, (*access.strides, *access.extents)))  # fmt: skip
        shape = (*access.shape[:-1], width)
        store = b.create("tile_store", (*place, product), {**op.attrs, "shape": shape})
        b.create("yield")
    sides.transfer_of_op[store] = sides.transfer_of_op[op]
    sides.column_stores[store] = (column, columns - width)
    b.create("for", tuple(b.constant(n, int64) for n in (0, columns, width)), {}, (), (body,))
    return ()


def slice_operand(r: Rewriter[OpBuilder], v: Value, d: int, start: Value, width: int) -> Value:
    """Return an operand from an index of one dimension on, built again from its load and moves."""
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
    operands = (r.value(x) for x in access.operands[1 + len(offsets) :])
    return b.emit("tile_load", r.value(access.base), *offsets, *operands, **{**op.attrs, "shape": shape})
