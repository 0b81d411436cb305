"""Kernels whose tiles are too large for a core: the same work, a stretch of some dimension at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pypto.backends.ascend.lower.dims import Families, Place, families, rank
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import TileType, int64
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.cse import cse
from pypto.passes.dce import dce
from pypto.passes.licm import licm

_WRITES = (Effect.WRITE, Effect.ATOMIC)


Cuts = dict[Place, int]  # the size of a part, of each family that is gone through in parts


def all_sizes(function: Function) -> Iterator[Function]:
    """The kernel, then with the largest of its tiles in smaller and smaller parts."""
    yield function
    function = apart(function)
    found, cuts = families(function), Cuts()
    usable = [p for p in sizes(function, found) if p not in found.fixed and may_part(function, found, p)]
    while usable and (family := largest(function, found, usable, cuts)) is not None:
        cuts[family] = part_of(cuts.get(family, size_of(family)))
        yield cse(licm(parted(function, found, cuts)))


def apart(function: Function) -> Function:
    """Each user of a range or constant with one of its own: shared ones would tie what has nothing in common."""

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
        for v in op.operands:
            if rank(v) and v.op is not None and v.op.name in ("arange", "constant"):
                rewriter.mapping[v] = rewriter.copy(v.op).result
        return rewriter.copy(op).results

    return dce(rewrite(function, rule, OpBuilder))


def largest(function: Function, found: Families, usable: list[Place], cuts: Cuts) -> Place | None:
    """The family to take apart next: one of rows, where that helps nearly as much as one along the rows."""
    weights = sizes(function, found, cuts)
    left = {p: weights[p] for p in usable if cuts.get(p, size_of(p)) > 1}
    if not left:
        return None
    most = max(left.values())
    rows = {p: n for p, n in left.items() if 2 * n >= most and not is_inner(function, found, p)}
    return max(rows or left, key=left.__getitem__)


def tiles_of(function: Function) -> Iterator[Value]:
    for op in function.walk():
        for v in (*op.results, *(a for region in op.regions for a in region.args)):
            if rank(v):
                yield v


def sizes(function: Function, found: Families, cuts: Cuts | None = None) -> dict[Place, int]:
    """Bytes of all tiles that have a dimension of a family."""
    weight: dict[Place, int] = {}
    for v in tiles_of(function):
        roots = [found.root((v, d)) for d, n in enumerate(v.tile.shape) if n != 1]
        shape = [(cuts or {}).get(p, size_of(p)) for p in roots]
        for p in set(roots):
            weight[p] = weight.get(p, 0) + math.prod(shape) * (8 if v.tile.is_ptr else v.tile.dtype.itemsize)
    return weight


def is_inner(function: Function, found: Families, family: Place) -> bool:
    """Whether it runs along the rows of some tile that has other dimensions, too."""
    return any(found.dims_of(v, family) == [inner(v)] and rank(v) > 1 for v in tiles_of(function))


def inner(v: Value) -> int:
    """The last dimension that is not of size 1."""
    return max((d for d, n in enumerate(v.tile.shape) if n != 1), default=0)


def size_of(family: Place) -> int:
    v, d = family
    return v.tile.shape[d]


def part_of(n: int) -> int:
    """The largest proper divisor."""
    return next(n // f for f in range(2, n + 1) if n % f == 0)


def may_part(function: Function, found: Families, family: Place) -> bool:
    """Whether stretches of a dimension do not meet: all that is written has it; none reads what another one wrote."""
    ops = list(function.walk())
    writes = [op for op in ops if TABLE[op.name].effect in _WRITES]
    written = [op.operands[1] if op.name != "tile_store" else Access.of(op).value for op in writes]
    if not writes or any(v is None or len(found.dims_of(v, family)) != 1 for v in written):
        return False
    if any(len(found.dims_of(v, family)) > 1 for op in ops for v in op.results if rank(v)):
        return False
    reads = [op for op in ops if TABLE[op.name].effect is Effect.READ]
    return not any(meets(function, r, w) for r in reads for w in writes)


def meets(function: Function, read: Op, write: Op) -> bool:
    a, b = origin(read.operands[0]), origin(write.operands[0])
    if a is not None and b is not None and a is not b and function.attrs.get("noalias", False):
        return False
    if "shape" not in read.attrs or "shape" not in write.attrs:
        return True
    x, y = Access.of(read), Access.of(write)
    return (x.shape, x.base, x.offsets, x.strides) != (y.shape, y.base, y.offsets, y.strides)


def origin(v: Value) -> Value | None:
    """The array behind a pointer, where it can be told."""
    while v.op is not None and v.op.name in ("addptr", "broadcast_to", "reshape", "permute"):
        v = v.op.operands[0]
    return v.op.operands[0] if v.op is not None and v.op.name == "array_ptr" else None


def parted(function: Function, found: Families, cuts: Cuts) -> Function:
    """All ops inside of loops over parts."""
    outer = Region([Value(a.type, a.hint) for a in function.args])
    b = OpBuilder(outer, function.loc)
    copy = Parts(b, found, dict(cuts), {}, dict(zip(function.args, outer.args, strict=True)))
    copy.loops(list(cuts), function.body.body)
    b.create("yield")
    return Function(function.name, outer, dict(function.attrs), function.loc)


@dataclass
class Parts:
    """Copies ops with some dimensions cut to parts, which begin at `starts`."""

    b: OpBuilder
    found: Families
    cuts: Cuts
    starts: dict[Place, Value]
    mapping: dict[Value, Value]

    def loops(self, over: list[Place], ops: list[Op]) -> None:
        if not over:
            for op in ops:
                self.op(op)
            return
        bounds = [self.b.constant(n, int64) for n in (0, size_of(over[0]), self.cuts[over[0]])]
        inside = Region([Value(TileType((), int64), "part")])
        self.starts[over[0]] = inside.args[0]
        with self.b.inside(inside):
            self.loops(over[1:], ops)
            self.b.create("yield")
        self.b.create("for", tuple(bounds), {}, (), (inside,))

    def cut(self, v: Value, d: int) -> Place | None:
        """The family that a dimension is cut as."""
        root = self.found.root((v, d))
        return root if v.tile.shape[d] != 1 and root in self.cuts else None

    def type(self, v: Value) -> Any:
        if not rank(v):
            return v.type
        cuts = [self.cut(v, d) for d in range(rank(v))]
        return v.tile.with_shape(tuple(self.cuts[p] if p else n for p, n in zip(cuts, v.tile.shape, strict=True)))

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
                if family := self.cut(whole, d):
                    operands[1 + d] = self.b.emit("add", operands[1 + d], self.starts[family])
            attrs["shape"] = self.type(whole).shape
        elif "shape" in attrs:
            attrs["shape"] = self.type(op.result).shape
        regions = tuple(self.region(r) for r in op.regions)
        return self.b.create(op.name, tuple(operands), attrs, tuple(map(self.type, op.results)), regions).results

    def arange(self, op: Op) -> tuple[Value, ...]:
        """The numbers of a part: those of the first one, and where it starts."""
        family = self.cut(op.result, 0)
        assert family is not None
        first, part = op.attrs["start"], self.cuts[family]
        (numbers,) = self.b.create("arange", (), {"start": first, "end": first + part}, (self.type(op.result),)).results
        start = self.b.cast(self.starts[family], op.result.dtype)
        return (self.b.emit("add", numbers, self.b.emit("broadcast_to", start, shape=(part,))),)
