"""Dimension rules: for each dimension of what an op makes, the dimensions of its operands that it comes from.

A rule gives the `DimRelation` of one op. Rows of the op table name their rule in the column `dims`.

    %c = dot %a, %b                (m, k) (k, n) -> (m, n)
      parallel                     c.0 ~ a.0, c.1 ~ b.1
      contracted                   a.1, b.0
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pypto.ir.core import Op, Value
from pypto.ir.types import TileType

Dim = tuple[Value, int]  # a dimension of a value


class Role(enum.Enum):
    """How the elements along a dimension of an operand or result take part in an op."""

    PARALLEL = "parallel"  # element i of the result comes from element i of the operand, and of no other one
    REDUCED = "reduced"  # all elements are folded to one
    CONTRACTED = "contracted"  # elements of two operands are multiplied and added up
    MIXED = "mixed"  # an element of the result may come from any of them: a scan, a sort, a reshape that merges
    FREE = "free"  # it comes from no operand: an arange, a repeated scalar


@dataclass(frozen=True, slots=True)
class DimRelation:
    """The dimensions of an op's operands and results. Those that are in no field are free."""

    parallel: tuple[tuple[Dim, Dim], ...] = ()
    reduced: tuple[Dim, ...] = ()
    contracted: tuple[Dim, ...] = ()
    mixed: tuple[Dim, ...] = ()

    def role(self, dim: Dim) -> Role:
        for role, dims in ((Role.REDUCED, self.reduced), (Role.CONTRACTED, self.contracted), (Role.MIXED, self.mixed)):
            if dim in dims:
                return role
        return Role.PARALLEL if any(dim in pair for pair in self.parallel) else Role.FREE

    def partners(self, dim: Dim) -> list[Dim]:
        """The dimensions that are parallel to one, each once."""
        pairs = (pair for pair in self.parallel if dim in pair)
        return list(dict.fromkeys(a if b == dim else b for a, b in pairs))

    @property
    def meeting(self) -> Iterator[Dim]:
        """The dimensions along which elements meet, so that they cannot be computed apart."""
        yield from self.reduced
        yield from self.contracted
        yield from self.mixed


DimRule = Callable[[Op], DimRelation]


def rank(v: Value) -> int:
    return len(v.tile.shape) if isinstance(v.type, TileType) else 0


def same_dims(a: Value, b: Value) -> Iterator[tuple[Dim, Dim]]:
    """The dimensions of two values, where they have the same size. A dimension of size 1 may be repeated in the other."""
    if rank(a) == rank(b):
        yield from (((a, d), (b, d)) for d in range(rank(a)) if a.tile.shape[d] == b.tile.shape[d])


def all_dims(*values: Value) -> tuple[Dim, ...]:
    return tuple((v, d) for v in values for d in range(rank(v)))


def unknown(op: Op) -> DimRelation:
    """Nothing is known: each element may come from all elements."""
    return DimRelation(mixed=all_dims(*op.operands, *op.results))


def free(op: Op) -> DimRelation:
    """An op without operands, or whose operands are scalars."""
    return DimRelation()


def elementwise(op: Op) -> DimRelation:
    """Element i of the result comes from element i of each operand."""
    values = (*op.results, *op.operands)
    widest = max(values, key=rank)  # the result, if there is one: an element that is stored may be a scalar's
    return DimRelation(tuple(pair for v in values for pair in same_dims(v, widest) if v is not widest))


def broadcast(op: Op) -> DimRelation:
    """A dimension of size 1 that is repeated gives a free one."""
    return DimRelation(tuple(same_dims(op.operands[0], op.result)))


def permute(op: Op) -> DimRelation:
    source, result = op.operands[0], op.result
    return DimRelation(tuple(((source, s), (result, d)) for d, s in enumerate(op.attrs["dims"])))


def reshape(op: Op) -> DimRelation:
    """Dimensions that have a counterpart are parallel to it; those that are merged or split are mixed."""
    source, result = op.operands[0], op.result
    parallel: list[tuple[Dim, Dim]] = []
    mixed: list[Dim] = []
    for left, right in matching_runs(source.tile.shape, result.tile.shape):
        if len(left) == len(right) == 1:
            parallel.append(((source, left[0]), (result, right[0])))
        else:
            mixed += [*((source, d) for d in left), *((result, d) for d in right)]
    return DimRelation(tuple(parallel), mixed=tuple(mixed))


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


def reduction(op: Op) -> DimRelation:
    source, axes = op.operands[0], op.attrs["axes"]
    free_dims = [d for d in range(rank(source)) if d not in axes]
    targets = free_dims if op.attrs["keep_dims"] else range(len(free_dims))
    pairs = (((source, s), (op.result, d)) for d, s in zip(targets, free_dims, strict=True))
    return DimRelation(tuple(pairs), reduced=tuple((source, axis) for axis in axes))


def scan(op: Op) -> DimRelation:
    return DimRelation(tuple(same_dims(op.operands[0], op.result)), mixed=((op.result, op.attrs["axis"]),))


def dot(op: Op) -> DimRelation:
    """(…, M, K) times (…, K, N), added to (…, M, N)."""
    a, b = op.operands[:2]
    result, n = op.result, rank(op.result) - 1
    stacked = [pair for d in range(n - 1) for pair in (((a, d), (result, d)), ((b, d), (result, d)))]
    sides = [((a, n - 1), (result, n - 1)), ((b, n), (result, n))]
    added = [pair for acc in op.operands[2:] for pair in same_dims(acc, result)]
    return DimRelation((*stacked, *sides, *added), contracted=((a, n), (b, n - 1)))


def slice_(op: Op) -> DimRelation:
    """Dimensions that are taken whole are parallel."""
    source, result = op.operands[0], op.result
    full_dims = [
        d for d, step in enumerate(op.attrs["steps"]) if source.tile.shape[d] == result.tile.shape[d] and step == 1
    ]
    cut = [d for d in range(rank(source)) if d not in full_dims]
    return DimRelation(
        tuple(((source, d), (result, d)) for d in full_dims), mixed=tuple((v, d) for d in cut for v in (source, result))
    )


def gather(op: Op) -> DimRelation:
    """Along the axis any element may be taken; the index has the dimensions of the result."""
    source, index = op.operands
    result, axis = op.result, op.attrs["axis"]
    others = [d for d in range(rank(source)) if d != axis]
    same = [d for d in others if source.tile.shape[d] == result.tile.shape[d]]
    pairs = (*same_dims(index, result), *(((source, d), (result, d)) for d in same))
    cut = [d for d in others if d not in same]
    return DimRelation(pairs, mixed=((source, axis), *((v, d) for d in cut for v in (source, result))))


def sort(op: Op) -> DimRelation:
    """Rows are sorted along the last dimension."""
    return DimRelation(tuple(same_dims(op.operands[0], op.result)), mixed=((op.result, rank(op.result) - 1),))
