"""The two vector cores of a block take half of the rows each, where no row needs another one."""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto.backends.ascend.tile.core_partition import CorePartition, Transfer
from pypto.backends.ascend.tile.cube_regions import source_of
from pypto.backends.ascend.tile.pipeline_partition import PipelinePartition, can_rematerialize_prologue, partition_loop
from pypto.backends.ascend.tile.tile_splitting import TileSplitting, class_extent, is_splittable
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import TileType, int64
from pypto.ops.build import OpBuilder
from pypto.ops.dims import Dim
from pypto.ops.memory import Access
from pypto.passes.dimensions import DimensionClasses, dimension_classes

SUB_BLOCK = "sub_block"  # the argument that is a vector core's number in its block


@dataclass(frozen=True)
class RowChunk:
    """A part of a core's rows: `part` is the first one of `size`, of `rows` in all."""

    part: Value
    size: int
    rows: int


@dataclass(frozen=True)
class RowSplit:
    """The vector cores' side for one of two cores. With a `chunk`, all of it is in a loop over parts of its rows."""

    function: Function
    chunk: RowChunk | None
    steps: PipelinePartition | None


def split_rows_in_two(sides: CorePartition, parts: int = 1) -> RowSplit | None:
    """The vector cores' side for one of two cores, in so many parts; None where its rows are not its own."""
    function, found = sides.vector, dimension_classes(sides.vector)
    rows = row_class(sides, found)
    if (
        rows is None
        or rows in found.pinned
        or class_extent(rows) % (2 * parts)
        or not is_splittable(function, found, rows)
    ):
        return None
    steps = partition_loop(function.body.body, sides)
    if parts > 1 and not is_single_transfer(sides) and (steps is None or not can_rematerialize_prologue(steps)):
        return None
    in_parts = parts > 1 or steps is not None
    outer = Region([Value(a.type, a.hint) for a in function.args])
    core, part = Value(TileType((), int64), SUB_BLOCK), Value(TileType((), int64), "part")
    outer.args.append(core)
    b = OpBuilder(outer, function.loc)
    half, size = class_extent(rows) // 2, class_extent(rows) // 2 // parts
    mapping = dict(zip(function.args, outer.args[:-1], strict=True))
    start = b.emit("mul", core, b.constant(half, int64))
    inside = Region([part]) if in_parts else outer
    bounds = tuple(b.constant(n, int64) for n in (0, half, size))
    with b.inside(inside):
        start = b.emit("add", start, part) if in_parts else start
        copy = RowSplitRewriter(b, found, {rows: size}, {rows: start}, mapping, sides.marks)
        for op in function.body.body:
            copy.op(op)
        b.create("yield")
    if in_parts:
        b.create("for", bounds, {}, (), (inside,))
        b.create("yield")
    sides.marks.update(copy.marked)
    made = Function(function.name, outer, dict(function.attrs), function.loc)
    again = None if steps is None else partition_loop(inside.body, sides)
    return RowSplit(made, RowChunk(part, size, half) if in_parts else None, again)


def is_single_transfer(sides: CorePartition) -> bool:
    """Whether tiles only come from the cube core, once in a program each."""
    marked = [op for op in sides.vector.walk() if op in sides.marks]
    return all(op.name == "tile_load" and any(op is x for x in sides.vector.body.ops) for op in marked)


def row_class(sides: CorePartition, found: DimensionClasses) -> Dim | None:
    """The rows of all tiles that go over, where they are as many: products tie them to each other."""
    marked = [op for op in sides.vector.walk() if op in sides.marks]
    tiles = [op.result if op.results else Access.of(op).value for op in marked]
    places = [(v, len(v.shape) - 2) for v in tiles if v is not None]
    if len({class_extent(place) for place in places}) != 1 or not rows_match(sides):
        return None
    for place in places:
        found.unify(place, places[0])
    return found.root(places[0])


def rows_match(sides: CorePartition) -> bool:
    """Whether what goes to the cube core are left operands alone: their rows are those of the products."""
    rights = [op.operands[1] for op in sides.cube.walk() if op.name == "dot"]
    found = [source_of(v, tuple(range(len(v.shape)))) for v in rights]
    return not any(source is not None and source.load in sides.marks for source in found)


@dataclass
class RowSplitRewriter(TileSplitting):
    """Copies ops for one half of the rows. What goes over is addressed from where that half begins."""

    marks: dict[Op, Transfer] = field(default_factory=dict)
    marked: dict[Op, Transfer] = field(default_factory=dict)

    def plain(self, op: Op) -> tuple[Value, ...]:
        if op not in self.marks:
            return super().plain(op)
        access, (start,), (half,) = Access.of(op), self.starts.values(), self.split_sizes.values()
        base, *rest = (self.mapping[v] for v in op.operands)
        rank = len(access.shape)
        skipped = self.b.emit("mul", start, self.mapping[access.strides[rank - 2]])
        rest[3 * rank - 2] = self.b.constant(half, int64)
        attrs = {**op.attrs, "shape": (*access.shape[:-2], half, access.shape[-1])}
        operands = (self.b.emit("addptr", base, skipped), *rest)
        made = self.b.create(op.name, operands, attrs, tuple(map(self.type, op.results)))
        self.marked[made] = self.marks[op]
        return made.results
