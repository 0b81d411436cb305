"""Which dimensions of a kernel's tiles are one and the same, and which of them may be gone through in parts.

Every op ties dimensions of its results to dimensions of its operands. What is tied together is a family; one whose
elements never meet (no reduction, no product, no sort runs along it) may be computed a stretch at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pypto.ir.core import Function, Op, Value
from pypto.ir.types import TileType
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.carried import LAYOUTS, carried, initial, yields

Place = tuple[Value, int]


@dataclass
class DimensionClasses:
    """A forest over dimensions of values; `pinned` are roots of families that stay whole."""

    parent: dict[Place, Place] = field(default_factory=dict)
    pinned: set[Place] = field(default_factory=set)

    def root(self, place: Place) -> Place:
        while (above := self.parent.setdefault(place, place)) != place:
            self.parent[place] = place = self.parent[above]
        return place

    def unify(self, a: Place, b: Place) -> None:
        x, y = self.root(a), self.root(b)
        self.parent[x] = y
        if x in self.pinned:
            self.pinned.add(y)

    def pin(self, v: Value, dim: int) -> None:
        self.pinned.add(self.root((v, dim)))

    def pin_all(self, v: Value) -> None:
        for d in range(rank(v)):
            self.pin(v, d)

    def unify_all(self, a: Value, b: Value) -> None:
        """Two values whose dimensions are the same, but for those of size 1."""
        for d in range(rank(a)):
            if rank(b) == rank(a) and a.tile.shape[d] == b.tile.shape[d]:
                self.unify((a, d), (b, d))

    def dims_of(self, v: Value, family: Place) -> list[int]:
        return [d for d in range(rank(v)) if v.tile.shape[d] != 1 and self.root((v, d)) == family]


def rank(v: Value) -> int:
    return len(v.tile.shape) if isinstance(v.type, TileType) else 0


def dimension_classes(function: Function) -> DimensionClasses:
    found = DimensionClasses()
    for op in function.walk():
        unify_op(found, op)
    return found


def unify_op(f: DimensionClasses, op: Op) -> None:
    row = TABLE[op.name]
    if op.name in LAYOUTS:
        through_control(f, op)
    elif op.name in ("tile_load", "tile_store"):
        through_access(f, op)
    elif (
        row.elementwise or row.effect in (Effect.READ, Effect.WRITE, Effect.ATOMIC) or op.name in ("addptr", "ptr_cast")
    ):
        values = (*op.operands, *op.results)
        widest = max(values, key=rank)
        for v in values:
            f.unify_all(v, widest)
    elif op.name in RULES:
        RULES[op.name](f, op)
    elif "reduction" in row.traits or op.name in ("argmax", "argmin"):
        through_reduction(f, op)
    elif "scan" in row.traits:
        f.unify_all(op.operands[0], op.result)
        f.pin(op.result, op.attrs["axis"])
    elif op.name not in ("constant", "undef", "arange", "yield"):
        for v in (*op.operands, *op.results):
            f.pin_all(v)


def through_control(f: DimensionClasses, op: Op) -> None:
    for ends in (initial(op), *yields(op)):
        for a, b in zip(op.results, ends, strict=False):
            f.unify_all(a, b)
    for region in op.regions:
        for a, b in zip(carried(op, region), op.results, strict=False):
            f.unify_all(a, b)


def through_access(f: DimensionClasses, op: Op) -> None:
    access = Access.of(op)
    whole = op.results[0] if op.results else access.value
    assert whole is not None
    for v in (access.base, access.mask, access.other):
        if v is not None:
            f.unify_all(v, whole)


def through_broadcast(f: DimensionClasses, op: Op) -> None:
    f.unify_all(op.operands[0], op.result)


def through_permute(f: DimensionClasses, op: Op) -> None:
    for d, source in enumerate(op.attrs["dims"]):
        f.unify((op.operands[0], source), (op.result, d))


def through_reduction(f: DimensionClasses, op: Op) -> None:
    source, axes = op.operands[0], op.attrs["axes"]
    kept = [d for d in range(rank(source)) if d not in axes]
    for axis in axes:
        f.pin(source, axis)
    for d, s in zip(kept if op.attrs["keep_dims"] else range(len(kept)), kept, strict=True):
        f.unify((source, s), (op.result, d))


def through_reshape(f: DimensionClasses, op: Op) -> None:
    """Dimensions that have a counterpart of their own stay what they are; those that are merged or parted are fixed."""
    source, result = op.operands[0], op.result
    for left, right in matching_runs(source.tile.shape, result.tile.shape):
        if len(left) == len(right) == 1:
            f.unify((source, left[0]), (result, right[0]))
            continue
        for v, dims in ((source, left), (result, right)):
            for d in dims:
                f.pin(v, d)


def matching_runs(a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[tuple[list[int], list[int]]]:
    """Runs of dimensions with as many elements on both sides, without those of size 1."""
    left, right = ([d for d, n in enumerate(shape) if n != 1] for shape in (a, b))
    while left or right:
        x, y = [left.pop(0)], [right.pop(0)]
        m, n = a[x[0]], b[y[0]]
        while m != n:
            if m < n:
                x.append(left.pop(0))
                m *= a[x[-1]]
            else:
                y.append(right.pop(0))
                n *= b[y[-1]]
        yield x, y


def through_dot(f: DimensionClasses, op: Op) -> None:
    a, b, result = *op.operands[:2], op.result
    last = rank(result) - 1
    for d in range(last - 1):
        f.unify((a, d), (result, d))
        f.unify((b, d), (result, d))
    f.unify((a, last - 1), (result, last - 1))
    f.unify((b, last), (result, last))
    f.pin(a, last)
    f.pin(b, last - 1)
    for acc in op.operands[2:]:
        f.unify_all(acc, result)


def through_slice(f: DimensionClasses, op: Op) -> None:
    source, result, attrs = op.operands[0], op.result, op.attrs
    for d in range(rank(source)):
        if source.tile.shape[d] == result.tile.shape[d] and attrs["steps"][d] == 1:
            f.unify((source, d), (result, d))
        else:
            f.pin(source, d)
            f.pin(result, d)


def through_gather(f: DimensionClasses, op: Op) -> None:
    source, index, result = *op.operands, op.result
    f.unify_all(index, result)
    for d in range(rank(source)):
        if d != op.attrs["axis"] and source.tile.shape[d] == result.tile.shape[d]:
            f.unify((source, d), (result, d))
        else:
            f.pin(source, d)
            if d != op.attrs["axis"]:
                f.pin(result, d)


def through_sort(f: DimensionClasses, op: Op) -> None:
    f.unify_all(op.operands[0], op.result)
    f.pin(op.result, rank(op.result) - 1)


RULES: Any = {
    "broadcast_to": through_broadcast, "permute": through_permute, "reshape": through_reshape, "dot": through_dot,
    "slice": through_slice, "gather": through_gather, "sort_keys": through_sort,
}  # fmt: skip
