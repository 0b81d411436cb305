"""Kernels whose tiles are too large for a core: the same work, a stretch of some dimension at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import TileType, int64
from pypto.ops.build import OpBuilder
from pypto.ops.dims import Dim, rank
from pypto.ops.memory import Access
from pypto.passes.cse import cse
from pypto.passes.dce import dce
from pypto.passes.dimensions import DimensionClasses, dimension_classes
from pypto.passes.licm import licm
from pypto.passes.memory_effects import is_load, is_same_access, may_alias, writes_memory

SplitSizes = dict[Dim, int]  # the size of a part, of each family that is gone through in parts


def split_candidates(function: Function) -> Iterator[Function]:
    """The kernel, then with the largest of its tiles in smaller and smaller parts."""
    yield function
    function = duplicate_ranges(function)
    found, cuts = dimension_classes(function), SplitSizes()
    usable = [p for p in bytes_by_class(function, found) if p not in found.pinned and is_splittable(function, found, p)]
    while usable and (family := choose_class(function, found, usable, cuts)) is not None:
        cuts[family] = largest_divisor(cuts.get(family, class_extent(family)))
        yield cse(licm(split_tiles(function, found, cuts)))


def duplicate_ranges(function: Function) -> Function:
    """Each user of a range or constant with one of its own: shared ones would tie what has nothing in common."""

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
        for v in op.operands:
            if rank(v) and v.op is not None and v.op.name in ("arange", "constant"):
                rewriter.mapping[v] = rewriter.copy(v.op).result
        return rewriter.copy(op).results

    return dce(rewrite(function, rule, OpBuilder))


def choose_class(function: Function, found: DimensionClasses, usable: list[Dim], cuts: SplitSizes) -> Dim | None:
    """The family to take apart next: one of rows, where that helps nearly as much as one along the rows."""
    weights = bytes_by_class(function, found, cuts)
    left = {p: weights[p] for p in usable if cuts.get(p, class_extent(p)) > 1}
    if not left:
        return None
    most = max(left.values())
    rows = {p: n for p, n in left.items() if 2 * n >= most and not is_row_dimension(function, found, p)}
    return max(rows or left, key=left.__getitem__)


def tiles_of(function: Function) -> Iterator[Value]:
    for op in function.walk():
        for v in (*op.results, *(a for region in op.regions for a in region.args)):
            if rank(v):
                yield v


def bytes_by_class(function: Function, found: DimensionClasses, cuts: SplitSizes | None = None) -> dict[Dim, int]:
    """Bytes of all tiles that have a dimension of a family."""
    weight: dict[Dim, int] = {}
    for v in tiles_of(function):
        roots = [found.root((v, d)) for d, n in enumerate(v.tile.shape) if n != 1]
        shape = [(cuts or {}).get(p, class_extent(p)) for p in roots]
        for p in set(roots):
            weight[p] = weight.get(p, 0) + math.prod(shape) * (8 if v.tile.is_ptr else v.tile.dtype.itemsize)
    return weight


def is_row_dimension(function: Function, found: DimensionClasses, family: Dim) -> bool:
    """Whether it runs along the rows of some tile that has other dimensions, too."""
    return any(found.dims_of(v, family) == [inner_dim(v)] and rank(v) > 1 for v in tiles_of(function))


def inner_dim(v: Value) -> int:
    """The last dimension that is not of size 1."""
    return max((d for d, n in enumerate(v.tile.shape) if n != 1), default=0)


def class_extent(family: Dim) -> int:
    v, d = family
    return v.tile.shape[d]


def largest_divisor(n: int) -> int:
    """The largest proper divisor."""
    return next(n // f for f in range(2, n + 1) if n % f == 0)


def is_splittable(function: Function, found: DimensionClasses, family: Dim) -> bool:
    """Whether stretches of a dimension do not meet: all that is written has it; none reads what another one wrote."""
    ops = list(function.walk())
    writes = [op for op in ops if writes_memory(op)]
    written = [op.operands[1] if op.name != "tile_store" else Access.of(op).value for op in writes]
    if not writes or any(v is None or len(found.dims_of(v, family)) != 1 for v in written):
        return False
    if any(len(found.dims_of(v, family)) > 1 for op in ops for v in op.results if rank(v)):
        return False
    reads = [op for op in ops if is_load(op)]
    return not any(may_alias(function, r, w) and not is_same_access(r, w) for r in reads for w in writes)


def split_tiles(function: Function, found: DimensionClasses, cuts: SplitSizes) -> Function:
    """All ops inside of loops over parts."""
    outer = Region([Value(a.type, a.hint) for a in function.args])
    b = OpBuilder(outer, function.loc)
    copy = TileSplitting(b, found, dict(cuts), {}, dict(zip(function.args, outer.args, strict=True)))
    copy.loops(list(cuts), function.body.body)
    b.create("yield")
    return Function(function.name, outer, dict(function.attrs), function.loc)


@dataclass
class TileSplitting:
    """Copies ops with some dimensions cut to parts, which begin at `starts`."""

    b: OpBuilder
    classes: DimensionClasses
    split_sizes: SplitSizes
    starts: dict[Dim, Value]
    mapping: dict[Value, Value]

    def loops(self, over: list[Dim], ops: list[Op]) -> None:
        if not over:
            for op in ops:
                self.op(op)
            return
        bounds = [self.b.constant(n, int64) for n in (0, class_extent(over[0]), self.split_sizes[over[0]])]
        inside = Region([Value(TileType((), int64), "part")])
        self.starts[over[0]] = inside.args[0]
        with self.b.inside(inside):
            self.loops(over[1:], ops)
            self.b.create("yield")
        self.b.create("for", tuple(bounds), {}, (), (inside,))

    def split_class(self, v: Value, d: int) -> Dim | None:
        """The family that a dimension is cut as."""
        root = self.classes.root((v, d))
        return root if v.tile.shape[d] != 1 and root in self.split_sizes else None

    def type(self, v: Value) -> Any:
        if not rank(v):
            return v.type
        cuts = [self.split_class(v, d) for d in range(rank(v))]
        return v.tile.with_shape(
            tuple(self.split_sizes[p] if p else n for p, n in zip(cuts, v.tile.shape, strict=True))
        )

    def region(self, old: Region) -> Region:
        new = Region([Value(self.type(a), a.hint) for a in old.args])
        self.mapping.update(zip(old.args, new.args, strict=True))
        with self.b.inside(new):
            for op in old.ops:
                self.op(op)
        return new

    def op(self, op: Op) -> None:
        with self.b.at(op.loc):
            results = (
                self.arange(op) if op.name == "arange" and self.type(op.result) != op.result.type else self.plain(op)
            )
        for old, new in zip(op.results, results, strict=True):
            self.mapping[old] = new
            new.hint = new.hint or old.hint

    def plain(self, op: Op) -> tuple[Value, ...]:
        operands = [self.mapping[v] for v in op.operands]
        attrs = dict(op.attrs)
        if op.name in ("tile_load", "tile_store"):
            whole = op.results[0] if op.results else Access.of(op).value
            assert whole is not None
            for d in range(rank(whole)):
                if family := self.split_class(whole, d):
                    operands[1 + d] = self.b.emit("add", operands[1 + d], self.starts[family])
            attrs["shape"] = self.type(whole).shape
        elif "shape" in attrs:
            attrs["shape"] = self.type(op.result).shape
        regions = tuple(self.region(r) for r in op.regions)
        return self.b.create(op.name, tuple(operands), attrs, tuple(map(self.type, op.results)), regions).results

    def arange(self, op: Op) -> tuple[Value, ...]:
        """The numbers of a part: those of the first one, and where it starts."""
        family = self.split_class(op.result, 0)
        assert family is not None
        first, part = op.attrs["start"], self.split_sizes[family]
        (numbers,) = self.b.create("arange", (), {"start": first, "end": first + part}, (self.type(op.result),)).results
        start = self.b.cast(self.starts[family], op.result.dtype)
        return (self.b.emit("add", numbers, self.b.emit("broadcast_to", start, shape=(part,))),)
