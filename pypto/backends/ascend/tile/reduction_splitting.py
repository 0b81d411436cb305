"""Reduction splitting: a dimension that is reduced is strip-mined, so that its tiles fit UB (multi-pass reduction).

Rows of a vocabulary or of a long sequence have more elements than a core has memory. Each loop over parts carries what
has been reduced so far, joined with the result of each part. A reduction that needs the result of another one takes a
pass of its own; `reduction_levels` says which pass does what, and when it is legal. All passes load their parts anew,
mostly from L2. The rest of a row that is no multiple of the part's size is peeled: the same ops on a smaller part.

The index of an extreme is carried with the extreme. A later part wins only if its extreme is better, so the lowest
index of equals is the result.

    t = tile_load(x, (0,), (50000,))             for part in range(0, 48000, 8000) carrying m = nan:
    m = max(t)                                       m = maximum(m, max(tile_load(x, (part,), (8000,))))
    tile_store(y, (0,), t - m)           ->      m = maximum(m, max(tile_load(x, (48000,), (2000,))))
                                                 for part in range(0, 48000, 8000):
                                                     tile_store(y, (part,), tile_load(x, (part,), (8000,)) - m)
                                                 tile_store(y, (48000,), tile_load(x, (48000,), (2000,)) - m)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Final

from pypto.backends.ascend.tile.reduction_levels import NotSplittable, PassLevels, ReducedDimension, is_reduction
from pypto.backends.ascend.tile.tile_splitting import (
    TileSplitting,
    bytes_by_class,
    class_extent,
    duplicate_ranges,
    inner_dim,
    is_splittable,
    split_candidates,
    split_tiles,
    tiles_of,
)
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import DType, TileType, float32, int64
from pypto.ops.build import OpBuilder
from pypto.ops.dims import Dim, rank
from pypto.ops.row import OpRow, Reduction, Search
from pypto.ops.table import TABLE
from pypto.passes.analysis.dimensions import DimensionClasses, dimension_classes, relation_of
from pypto.passes.analysis.memory_effects import is_same_access
from pypto.passes.cse import cse
from pypto.passes.licm import licm

ALIGNED: Final = 512  # elements that parts of a long row are multiples of: parts begin at whole lines of L2
ROUNDING: Final = ("add", "mul")  # that floats of 16 bits do in float32
MIN_ROW: Final = 64  # elements of a part of a row, below which all time goes into starting instructions


def reduction_candidates(function: Function, room: int) -> Iterator[Function]:
    """Yield the kernel with reduced dimensions in smaller and smaller parts, from where a tile fits in `room` bytes.

    Several are split in turn, in each order, and at last the dimensions that are independent.
    """
    yield from split_in_turn(duplicate_ranges(function), room)


def split_in_turn(function: Function, room: int) -> Iterator[Function]:
    """Yield the kernel with one reduced dimension in parts, then with further ones."""
    dimensions = choose_dimensions(function, room)
    for dimension in dimensions:
        smallest: Function | None = None
        with suppress(NotSplittable):
            for smaller in parts_of(function, dimension, room):
                smallest = smaller
                yield smaller
        if smallest is not None:
            yield from split_in_turn(smallest, room)
    if not dimensions:
        yield from islice(split_candidates(function), 1, None)


def refusal_of_rows(function: Function) -> NotSplittable | None:
    """Return why the dimension that takes most memory cannot be processed in parts; None where it can."""
    function = duplicate_ranges(function)
    classes = classes_of(function)
    weights = bytes_by_class(function, classes)
    for dimension in sorted(weights, key=weights.__getitem__, reverse=True):
        if dimension in classes.pinned:
            try:
                split_reductions(ReducedDimension(function, classes, dimension), class_extent(dimension))
            except NotSplittable as refusal:
                return refusal
    return None


def classes_of(function: Function) -> DimensionClasses:
    """Return the dimension classes, in which loads of the same elements share their dimensions."""
    classes = dimension_classes(function)
    loads = [op for op in function.walk() if op.name == "tile_load"]
    for a, b in combinations(loads, 2):
        if is_same_access(a, b):
            classes.unify_all(a.result, b.result)
    return classes


def choose_dimensions(function: Function, room: int) -> list[Dim]:
    """Return the reduced dimensions that may be split, in the order of preference.

    Dimensions across rows come first, since copies stay long, if what is carried for them leaves room for the tiles.
    """
    classes = classes_of(function)
    weights = bytes_by_class(function, classes)
    carried: dict[Dim, int] = {}
    for op in filter(is_reduction, function.walk()):
        for dim in relation_of(op).reduced:
            root = classes.root(dim)
            carried[root] = carried.get(root, 0) + op.result.tile.size * op.result.dtype.itemsize
    rows = row_dimensions(function, classes)
    eligible = [d for d in carried if class_extent(d) > (MIN_ROW if d in rows else 1)]
    return sorted(eligible, key=lambda d: (4 * carried[d] > room, d in rows, -weights[d]))


def row_dimensions(function: Function, classes: DimensionClasses) -> set[Dim]:
    """Return the dimensions along which rows run, in all tiles that have them."""
    dims = [(classes.root((v, d)), d == inner_dim(v)) for v in tiles_of(function) for d in range(rank(v))]
    return {dim for dim, _ in dims} - {dim for dim, is_inner in dims if not is_inner}


def parts_of(function: Function, dimension: Dim, room: int) -> Iterator[Function]:
    """Yield the kernel with one dimension in smaller and smaller parts, and independent dimensions across rows in ones.

    Raises
    ------
    NotSplittable
        When the dimension cannot be processed in parts.
    """
    classes = classes_of(function)
    reduced = ReducedDimension(function, classes, classes.root(dimension))
    rows = row_dimensions(function, classes)
    across = [d for d in bytes_by_class(function, classes) if d not in rows | classes.pinned]
    sizes = {d: 1 for d in across if class_extent(d) > 1 and is_splittable(function, classes, d)}
    if reduced.dimension in rows and sizes:
        reduced.check()
        yield cse(licm(split_tiles(function, classes, sizes)))
        return
    tiles = [v.tile for v in tiles_of(function) if reduced.has(v)]
    largest = max(t.size * (8 if t.is_ptr else t.dtype.itemsize) for t in tiles)
    extent = class_extent(reduced.dimension)
    for size in part_sizes(extent, MIN_ROW if reduced.dimension in rows else 1):
        if largest // extent * size <= room or size <= MIN_ROW:
            yield cse(licm(split_reductions(reduced, size)))


def part_sizes(extent: int, least: int) -> Iterator[int]:
    """Yield the sizes of halves, quarters and so on; those of long dimensions are aligned, and have a smaller rest."""
    size, parts = extent, 1
    while size > least:
        parts *= 2
        exact = -(-extent // parts)
        smaller = max(least, -(-exact // ALIGNED) * ALIGNED if exact > ALIGNED else exact)
        if smaller < size:
            yield smaller
        size = smaller


def split_reductions(reduced: ReducedDimension, size: int) -> Function:
    """Return the kernel with passes over parts of some size of a dimension.

    Raises
    ------
    NotSplittable
        When the dimension cannot be processed in parts.
    """
    reduced.check()
    function = reduced.function
    outer = Region([Value(a.type, a.hint) for a in function.args])
    b = OpBuilder(outer, function.loc)
    mapping = dict(zip(function.args, outer.args, strict=True))
    splitting = ReductionSplitting(b, reduced.classes, {reduced.dimension: size}, {}, mapping, reduced)
    splitting.emit_region(function.body)
    b.create("yield")
    return replace(function, body=outer, attrs=dict(function.attrs))


@dataclass
class ReductionSplitting(TileSplitting):
    """Copies a kernel with passes over the parts of a dimension."""

    reduced: ReducedDimension
    is_in_pass: bool = False  # whether ops are copied into a pass

    def copy_region(self, old: Region) -> Region:
        """Copy a region; one with passes of its own has them in place of its ops."""
        if self.is_in_pass:
            return super().copy_region(old)
        new = Region([Value(a.type, a.hint) for a in old.args])
        self.mapping.update(zip(old.args, new.args, strict=True))
        with self.builder.inside(new):
            self.emit_region(old)
            self.emit_op(old.terminator)
        return new

    def emit_region(self, region: Region) -> None:
        """Emit the ops of a region, level by level: ops that run once, then the pass."""
        levels = PassLevels(self.reduced, region)
        for level in range(levels.count):
            ops = [op for op in region.body if levels.level.get(op) == level]
            for op in ops:
                if not self.reduced.is_pass_work(op):
                    self.emit_op(op)
            if work := [op for op in ops if self.reduced.is_pass_work(op)]:
                with self.builder.at(work[0].loc):
                    self.emit_pass(work)

    def emit_pass(self, work: list[Op]) -> None:
        """Emit the loop over parts of one size, and the ops on the rest."""
        self.is_in_pass = True
        dimension, b = self.reduced.dimension, self.builder
        extent, size = class_extent(dimension), self.split_sizes[dimension]
        aligned = extent // size * size
        folds = {op: fold_of(op) for op in work if self.reduced.is_reduced_by(op)}
        initial = [v for fold in folds.values() for v in fold.initial(b)]
        body = Region([Value(TileType((), int64), "part"), *(Value(v.type) for v in initial)])
        bounds = tuple(b.constant(n, int64) for n in (0, aligned, size))
        with b.inside(body):
            self.starts[dimension] = body.args[0]
            b.create("yield", tuple(self.emit_part(work, folds, body.args[1:])))
        loop = b.create("for", (*bounds, *initial), {}, tuple(v.type for v in initial), (body,))
        carried: Sequence[Value] = loop.results
        if aligned != extent:
            self.split_sizes[dimension] = extent - aligned
            self.starts[dimension] = b.constant(aligned, int64)
            carried = self.emit_part(work, folds, carried)
            self.split_sizes[dimension] = size
        for op, fold in folds.items():
            values, carried = carried[: fold.count], carried[fold.count :]
            self.record(op.result, b.cast(values[-1], op.result.dtype))
        self.is_in_pass = False

    def emit_part(self, work: list[Op], folds: Mapping[Op, Fold], carried: Sequence[Value]) -> list[Value]:
        """Emit all that a pass does with a part; return what it carries on."""
        needed = {x for op in work for x in self.reduced.repeated_ops(op)} | set(work)
        results: list[Value] = []
        for op in sorted(needed, key=self.reduced.position.__getitem__):
            if op not in folds:
                self.emit_op(op)
                continue
            values, carried = carried[: folds[op].count], carried[folds[op].count :]
            with self.builder.at(op.loc):
                results += folds[op].join(self, values)
        return results


@dataclass(frozen=True)
class Fold:
    """A reduction in parts: the carried value is the result so far."""

    op: Op  # the reduction of the whole dimension
    count: int = 1  # number of carried values

    @property
    def rule(self) -> Reduction:
        """How partial results are joined."""
        rule = TABLE[self.op.name].lane_rule
        assert isinstance(rule, Reduction)
        return rule

    @property
    def dtype(self) -> DType:
        """Element type of the result so far: floats of 16 bits add up in float32, and are rounded at the end."""
        dtype = self.op.result.dtype
        is_rounding = dtype.is_float and dtype.bits < 32 and self.rule.tile_op in ROUNDING
        return float32 if is_rounding else dtype

    def initial(self, b: OpBuilder) -> list[Value]:
        """Return the values to begin with: the neutral element."""
        return [b.constant(self.rule.identity(self.dtype), self.dtype, self.op.result.shape)]

    def join(self, splitting: ReductionSplitting, carried: Sequence[Value]) -> list[Value]:
        """Join what is carried with the result of a part."""
        b = splitting.builder
        part = b.cast(splitting.mapping[self.op.operands[0]], self.dtype)
        return [combine(b, self.rule, carried[0], b.emit(self.op.name, part, **self.op.attrs))]


@dataclass(frozen=True)
class ArgFold(Fold):
    """The index of an extreme in parts: the extreme so far is carried, and its index."""

    count: int = 2

    @property
    def extreme(self) -> OpRow:
        """The reduction that gives the extreme itself."""
        rule = TABLE[self.op.name].lane_rule
        assert isinstance(rule, Search)
        return TABLE["max" if rule.better == "gt" else "min"]

    @property
    def rule(self) -> Reduction:
        """How extremes are joined."""
        rule = self.extreme.lane_rule
        assert isinstance(rule, Reduction)
        return rule

    def initial(self, b: OpBuilder) -> list[Value]:
        """Return the neutral element, and 0: the index where nothing is better."""
        dtype, shape = self.op.operands[0].dtype, self.op.result.shape
        return [b.constant(self.rule.identity(dtype), dtype, shape), b.constant(0, self.op.result.dtype, shape)]

    def join(self, splitting: ReductionSplitting, carried: Sequence[Value]) -> list[Value]:
        """Take the index of a part whose extreme is better than all before it, or is the first that is not NaN."""
        b = splitting.builder
        best, index = carried
        part = splitting.mapping[self.op.operands[0]]
        extreme = b.emit(self.extreme.name, part, **self.op.attrs)
        joined = combine(b, self.rule, best, extreme)
        is_better = b.emit("ne", joined, best)
        if best.dtype.is_float:  # NaN differs from itself: two of them are no better
            is_better = b.emit("and_", is_better, b.emit("eq", extreme, extreme))
        start = b.cast(splitting.starts[splitting.reduced.dimension], index.dtype)
        position = b.emit("add", b.emit(self.op.name, part, **self.op.attrs), b.broadcast(start, index.shape))
        return [joined, b.emit("where", is_better, position, index)]


def fold_of(op: Op) -> Fold:
    """Return how a reduction is done in parts."""
    return ArgFold(op) if isinstance(TABLE[op.name].lane_rule, Search) else Fold(op)


def combine(b: OpBuilder, rule: Reduction, x: Value, y: Value) -> Value:
    """Join two partial results."""
    defaults = {p.name: p.default for p in TABLE[rule.tile_op].params if p.kind != "tile"}
    return b.emit(rule.tile_op, x, y, **defaults)
