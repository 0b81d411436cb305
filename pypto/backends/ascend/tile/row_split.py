"""Row split: the two vector cores of a block take half of the rows each.

It halves the vector work of a mixed kernel. It is legal if all exchanged tiles have the same rows, these rows are one
independent dimension of the kernel, and only left operands go to the cube core. If UB is too small, a core goes through
its rows in several chunks.

Tiles may also have rows of several independent dimensions: dequantised weights have rows along K, results those of the
product. Then each core takes half of each, and no tile may have two of these dimensions.

    p = exp(s)   # 128 rows      ->      for part in range(0, 64, size):
                                             rows = sub_block * 64 + part
                                             p[rows] = exp(s[rows])
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pypto.backends.ascend.tile.core_partition import CorePartition
from pypto.backends.ascend.tile.cube_regions import source_of
from pypto.backends.ascend.tile.pipeline_partition import PipelinePartition, can_rematerialize_prologue, partition_loop
from pypto.backends.ascend.tile.tile_splitting import TileSplitting, class_extent, is_splittable
from pypto.backends.ascend.tile.transfers import Transfer
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import TileType, int64
from pypto.ops.build import OpBuilder
from pypto.ops.dims import Dim, rank
from pypto.ops.memory import Access
from pypto.passes.analysis.dimensions import DimensionClasses, dimension_classes
from pypto.passes.analysis.memory_effects import is_load, is_same_access, may_alias, writes_memory

SUB_BLOCK = "sub_block"  # argument for a vector core's number in its block


@dataclass(frozen=True)
class RowChunk:
    """The rows that one pass processes."""

    start: Value  # first row of the pass
    size: int  # rows of one pass
    rows: int  # rows of a core


@dataclass(frozen=True)
class RowSplit:
    """The vector side for one of two cores."""

    function: Function  # the kernel
    chunk: RowChunk | None  # the loop over chunks of rows, if there is one
    steps: PipelinePartition | None  # the stages of its pipelined loop, if there is one


def split_rows_in_two(sides: CorePartition, chunks: int = 1) -> RowSplit | None:
    """Return the vector side for one of two cores, in some chunks; None where rows are not independent."""
    function = sides.vector
    classes = dimension_classes(sides.vector)
    rows = row_class(sides, classes)
    if rows is None and chunks == 1:
        return split_each_in_two(sides, independent_rows(sides, classes), classes)
    if (
        rows is None
        or rows in classes.pinned
        or class_extent(rows) % (2 * chunks)
        or not is_splittable(function, classes, rows)
    ):
        return None
    steps = partition_loop(function.body.body, sides)
    if chunks > 1 and not is_single_transfer(sides) and (steps is None or not can_rematerialize_prologue(steps, sides)):
        return None
    in_chunks = chunks > 1 or steps is not None
    outer = Region([Value(a.type, a.hint) for a in function.args])
    core = Value(TileType((), int64), SUB_BLOCK)
    part = Value(TileType((), int64), "part")
    outer.args.append(core)
    b = OpBuilder(outer, function.loc)
    half = class_extent(rows) // 2
    size = class_extent(rows) // 2 // chunks
    mapping = dict(zip(function.args, outer.args[:-1], strict=True))
    start = b.emit("mul", core, b.constant(half, int64))
    body = Region([part]) if in_chunks else outer
    bounds = tuple(b.constant(n, int64) for n in (0, half, size))
    with b.inside(body):
        start = b.emit("add", start, part) if in_chunks else start
        rewriter = RowSplitRewriter(b, classes, {rows: size}, {rows: start}, mapping, sides.transfer_of_op)
        for op in function.body.body:
            rewriter.emit_op(op)
        b.create("yield")
    if in_chunks:
        b.create("for", bounds, {}, (), (body,))
        b.create("yield")
    sides.transfer_of_op.update(rewriter.new_transfer_of_op)
    new_function = replace(function, body=outer, attrs=dict(function.attrs))
    new_steps = None if steps is None else partition_loop(body.body, sides)
    return RowSplit(new_function, RowChunk(part, size, half) if in_chunks else None, new_steps)


def split_each_in_two(sides: CorePartition, rows: list[Dim], classes: DimensionClasses) -> RowSplit | None:
    """Return the vector side for one of two cores, which takes half of each of some dimensions."""
    if not rows:
        return None
    function = sides.vector
    outer = Region([Value(a.type, a.hint) for a in function.args])
    core = Value(TileType((), int64), SUB_BLOCK)
    outer.args.append(core)
    b = OpBuilder(outer, function.loc)
    halves = {dim: class_extent(dim) // 2 for dim in rows}
    starts = {dim: b.emit("mul", core, b.constant(half, int64)) for dim, half in halves.items()}
    mapping = dict(zip(function.args, outer.args[:-1], strict=True))
    rewriter = RowSplitRewriter(b, classes, halves, starts, mapping, sides.transfer_of_op)
    for op in function.body.body:
        rewriter.emit_op(op)
    b.create("yield")
    sides.transfer_of_op.update(rewriter.new_transfer_of_op)
    return RowSplit(replace(function, body=outer, attrs=dict(function.attrs)), None, None)


def independent_rows(sides: CorePartition, classes: DimensionClasses) -> list[Dim]:
    """Return the dimensions of rows of all exchanged tiles, if halves of them are independent; otherwise none.

    All that is written must have exactly one of them, and no other tile more than one.
    """
    function = sides.vector
    rows = list(dict.fromkeys(classes.root((v, len(v.shape) - 2)) for v in exchanged_tiles(sides)))
    if any(dim in classes.pinned or class_extent(dim) % 2 for dim in rows):
        return []

    def count(v: Value) -> int:
        return sum(len(classes.dims_of(v, dim)) for dim in rows)

    writes = [op for op in function.walk() if writes_memory(op)]
    written = [Access.of(op).value if op.name == "tile_store" else None for op in writes]
    is_whole = all(v is not None and count(v) == 1 for v in written)
    is_single = all(count(v) <= 1 for op in function.walk() for v in op.results if rank(v))
    reads = [op for op in function.walk() if is_load(op)]
    meets = any(may_alias(function, r, w) and not is_same_access(r, w) for r in reads for w in writes)
    return rows if is_whole and is_single and not meets else []


def exchanged_tiles(sides: CorePartition) -> list[Value]:
    """Return the tiles of the vector side that are exchanged."""
    transfers = [op for op in sides.vector.walk() if op in sides.transfer_of_op]
    tiles = [op.result if op.results else Access.of(op).value for op in transfers]
    return [v for v in tiles if v is not None]


def is_single_transfer(sides: CorePartition) -> bool:
    """Whether tiles only come from the cube core, once in each program."""
    transfers = [op for op in sides.vector.walk() if op in sides.transfer_of_op]
    return all(op.name == "tile_load" and any(op is x for x in sides.vector.body.ops) for op in transfers)


def row_class(sides: CorePartition, classes: DimensionClasses) -> Dim | None:
    """Return the dimension of rows that all exchanged tiles share, None where they have different ones."""
    row_dims = [(v, len(v.shape) - 2) for v in exchanged_tiles(sides)]
    if len({class_extent(place) for place in row_dims}) != 1 or not rows_match(sides):
        return None
    for place in row_dims:
        classes.unify(place, row_dims[0])
    return classes.root(row_dims[0])


def rows_match(sides: CorePartition) -> bool:
    """Whether only left operands go to the cube core: their rows are the rows of products."""
    right_operands = [op.operands[1] for op in sides.cube.walk() if op.name == "dot"]
    sources = [source_of(v, tuple(range(len(v.shape)))) for v in right_operands]
    return not any(source is not None and source.load in sides.transfer_of_op for source in sources)


@dataclass
class RowSplitRewriter(TileSplitting):
    """Copies ops for one half of the rows; slots are addressed from the first row of that half."""

    transfer_of_op: dict[Op, Transfer] = field(default_factory=dict)  # transfers of the old ops
    new_transfer_of_op: dict[Op, Transfer] = field(default_factory=dict)  # transfers of the new ops

    def copy_op(self, op: Op) -> tuple[Value, ...]:
        """Copy an op; an exchanged tile begins at this core's rows."""
        if op not in self.transfer_of_op:
            return super().copy_op(op)
        access = Access.of(op)
        tile = op.result if op.results else access.value
        assert tile is not None
        dim = self.classes.root((tile, len(tile.shape) - 2))
        start, half = self.starts[dim], self.split_sizes[dim]
        base, *operands_ = (self.mapping[v] for v in op.operands)
        rank = len(access.shape)
        skipped = self.builder.emit("mul", start, self.mapping[access.strides[rank - 2]])
        operands_[3 * rank - 2] = self.builder.constant(half, int64)
        attrs = {**op.attrs, "shape": (*access.shape[:-2], half, access.shape[-1])}
        operands = (self.builder.emit("addptr", base, skipped), *operands_)
        made = self.builder.create(op.name, operands, attrs, tuple(map(self.split_type, op.results)))
        self.new_transfer_of_op[made] = self.transfer_of_op[op]
        return made.results
