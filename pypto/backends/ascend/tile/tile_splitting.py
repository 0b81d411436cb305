"""Tile splitting (strip mining of tiles): tiles too large for a core are processed some part of a dimension at a time.

It makes a kernel fit UB, or leaves room for double buffers. A dimension can be split if all that is written has it
exactly once, and no part reads what another one wrote. Dimension classes tell which dimensions of which tiles are the
same one.

    t = tile_load(x, (0, 0), (64, 1024))         for part in range(0, 64, 16):
    tile_store(y, (0, 0), exp(t))          ->        t = tile_load(x, (part, 0), (16, 1024))
                                                     tile_store(y, (part, 0), exp(t))
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import TileType, int64
from pypto.ops.build import OpBuilder
from pypto.ops.dims import Dim, rank
from pypto.ops.memory import Access
from pypto.passes.analysis.dimensions import DimensionClasses, dimension_classes
from pypto.passes.analysis.memory_effects import is_load, is_same_access, may_alias, writes_memory
from pypto.passes.cse import cse
from pypto.passes.dce import dce
from pypto.passes.licm import licm

SplitSizes = dict[Dim, int]  # size of a part, for each split dimension


def split_candidates(function: Function) -> Iterator[Function]:
    """Yield the kernel, then with the dimension of the largest tiles in smaller and smaller parts."""
    yield function
    function = duplicate_ranges(function)
    classes = dimension_classes(function)
    split_sizes = SplitSizes()
    splittable = [
        p for p in bytes_by_class(function, classes) if p not in classes.pinned and is_splittable(function, classes, p)
    ]
    while splittable and (dimension := choose_class(function, classes, splittable, split_sizes)) is not None:
        split_sizes[dimension] = largest_divisor(split_sizes.get(dimension, class_extent(dimension)))
        yield cse(licm(split_tiles(function, classes, split_sizes)))


def duplicate_ranges(function: Function) -> Function:
    """Give each user of a range or constant its own copy: a shared one would tie unrelated dimensions."""

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
        for v in op.operands:
            if rank(v) and v.op is not None and v.op.name in ("arange", "constant"):
                rewriter.mapping[v] = rewriter.copy(v.op).result
        return rewriter.copy(op).results

    return dce(rewrite(function, rule, OpBuilder))


def choose_class(
    function: Function, classes: DimensionClasses, splittable: list[Dim], split_sizes: SplitSizes
) -> Dim | None:
    """Choose the dimension to split next: rows, if that saves nearly as much as splitting along rows."""
    weights = bytes_by_class(function, classes, split_sizes)
    candidates = {p: weights[p] for p in splittable if split_sizes.get(p, class_extent(p)) > 1}
    if not candidates:
        return None
    most = max(candidates.values())
    rows = {p: n for p, n in candidates.items() if 2 * n >= most and not is_row_dimension(function, classes, p)}
    return max(rows or candidates, key=candidates.__getitem__)


def tiles_of(function: Function) -> Iterator[Value]:
    """Yield all tiles of a kernel."""
    for op in function.walk():
        for v in (*op.results, *(a for region in op.regions for a in region.args)):
            if rank(v):
                yield v


def bytes_by_class(
    function: Function, classes: DimensionClasses, split_sizes: SplitSizes | None = None
) -> dict[Dim, int]:
    """Return the bytes of all tiles that have a dimension of each class."""
    weights: dict[Dim, int] = {}
    for v in tiles_of(function):
        roots = [classes.root((v, d)) for d, n in enumerate(v.tile.shape) if n != 1]
        shape = [(split_sizes or {}).get(p, class_extent(p)) for p in roots]
        for p in set(roots):
            weights[p] = weights.get(p, 0) + math.prod(shape) * (8 if v.tile.is_ptr else v.tile.dtype.itemsize)
    return weights


def is_row_dimension(function: Function, classes: DimensionClasses, dimension: Dim) -> bool:
    """Whether a dimension runs along the rows of some tile that has other dimensions, too."""
    return any(classes.dims_of(v, dimension) == [inner_dim(v)] and rank(v) > 1 for v in tiles_of(function))


def inner_dim(v: Value) -> int:
    """Return the last dimension that is not of size 1."""
    return max((d for d, n in enumerate(v.tile.shape) if n != 1), default=0)


def class_extent(dimension: Dim) -> int:
    """Return the size of a dimension."""
    v, d = dimension
    return v.tile.shape[d]


def largest_divisor(n: int) -> int:
    """Return the largest proper divisor."""
    return next(n // f for f in range(2, n + 1) if n % f == 0)


def is_splittable(function: Function, classes: DimensionClasses, dimension: Dim) -> bool:
    """Whether parts of a dimension are independent."""
    ops = list(function.walk())
    writes = [op for op in ops if writes_memory(op)]
    written = [op.operands[1] if op.name != "tile_store" else Access.of(op).value for op in writes]
    if not writes or any(v is None or len(classes.dims_of(v, dimension)) != 1 for v in written):
        return False
    if any(len(classes.dims_of(v, dimension)) > 1 for op in ops for v in op.results if rank(v)):
        return False
    reads = [op for op in ops if is_load(op)]
    return not any(may_alias(function, r, w) and not is_same_access(r, w) for r in reads for w in writes)


def split_tiles(function: Function, classes: DimensionClasses, split_sizes: SplitSizes) -> Function:
    """Return the kernel with all its ops inside of loops over parts."""
    outer = Region([Value(a.type, a.hint) for a in function.args])
    b = OpBuilder(outer, function.loc)
    splitting = TileSplitting(b, classes, dict(split_sizes), {}, dict(zip(function.args, outer.args, strict=True)))
    splitting.emit_loops(list(split_sizes), function.body.body)
    b.create("yield")
    return replace(function, body=outer, attrs=dict(function.attrs))


@dataclass
class TileSplitting:
    """Copies ops with some dimensions split."""

    builder: OpBuilder  # where ops are emitted
    classes: DimensionClasses  # dimension classes of the old kernel
    split_sizes: SplitSizes  # size of a part of each split dimension
    starts: dict[Dim, Value]  # first index of the present part
    mapping: dict[Value, Value]  # old values to new ones

    def emit_loops(self, dims: list[Dim], ops: list[Op]) -> None:
        """Emit the loops over parts, then the ops."""
        if not dims:
            for op in ops:
                self.emit_op(op)
            return
        bounds = [self.builder.constant(n, int64) for n in (0, class_extent(dims[0]), self.split_sizes[dims[0]])]
        body = Region([Value(TileType((), int64), "part")])
        self.starts[dims[0]] = body.args[0]
        with self.builder.inside(body):
            self.emit_loops(dims[1:], ops)
            self.builder.create("yield")
        self.builder.create("for", tuple(bounds), {}, (), (body,))

    def split_class(self, v: Value, d: int) -> Dim | None:
        """Return the class by which a dimension is split, if it is."""
        root = self.classes.root((v, d))
        return root if v.tile.shape[d] != 1 and root in self.split_sizes else None

    def split_type(self, v: Value) -> Any:
        """Return the type of a value with its dimensions split."""
        if not rank(v):
            return v.type
        split_dims = [self.split_class(v, d) for d in range(rank(v))]
        return v.tile.with_shape(
            tuple(self.split_sizes[p] if p else n for p, n in zip(split_dims, v.tile.shape, strict=True))
        )

    def copy_region(self, old: Region) -> Region:
        """Copy a region."""
        new = Region([Value(self.split_type(a), a.hint) for a in old.args])
        self.mapping.update(zip(old.args, new.args, strict=True))
        with self.builder.inside(new):
            for op in old.ops:
                self.emit_op(op)
        return new

    def emit_op(self, op: Op) -> None:
        """Copy an op with its results."""
        with self.builder.at(op.loc):
            results = (
                self.copy_range(op)
                if op.name == "arange" and self.split_type(op.result) != op.result.type
                else self.copy_op(op)
            )
        for old, new in zip(op.results, results, strict=True):
            self.record(old, new)

    def record(self, old: Value, new: Value) -> None:
        """Map an old value to a new one, which takes its name."""
        self.mapping[old] = new
        new.hint = new.hint or old.hint

    def copy_op(self, op: Op) -> tuple[Value, ...]:
        """Copy an op; accesses begin at the present part."""
        operands = [self.mapping[v] for v in op.operands]
        attrs = dict(op.attrs)
        if op.name in ("tile_load", "tile_store"):
            whole = op.results[0] if op.results else Access.of(op).value
            assert whole is not None
            for d in range(rank(whole)):
                if family := self.split_class(whole, d):
                    operands[1 + d] = self.builder.emit("add", operands[1 + d], self.starts[family])
            attrs["shape"] = self.split_type(whole).shape
        elif "shape" in attrs:
            attrs["shape"] = self.split_type(op.result).shape
        regions = tuple(self.copy_region(r) for r in op.regions)
        return self.builder.create(
            op.name, tuple(operands), attrs, tuple(map(self.split_type, op.results)), regions
        ).results

    def copy_range(self, op: Op) -> tuple[Value, ...]:
        """Return the numbers of a part: those of the first part plus its start."""
        family = self.split_class(op.result, 0)
        assert family is not None
        first = op.attrs["start"]
        part = self.split_sizes[family]
        (numbers,) = self.builder.create(
            "arange", (), {"start": first, "end": first + part}, (self.split_type(op.result),)
        ).results
        start = self.builder.cast(self.starts[family], op.result.dtype)
        return (self.builder.emit("add", numbers, self.builder.emit("broadcast_to", start, shape=(part,))),)
