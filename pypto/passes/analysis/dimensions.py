"""Dimension analysis: which dimensions of a kernel's tiles are one and the same.

The rows of the op table relate the dimensions of each op's results to those of its operands (`pypto.ops.dims`).
`relation_of` gives the relation of one op, `source_dims` follows a dimension of a result back to the operands, and
`dimension_classes` joins the relations of all ops, and of loops and branches, to equivalence classes. A class along
which no elements are combined (no reduction, product or sort) may be tiled.

    %v = tile_load … {shape = [64, 32]}          classes   {v.0, c.0, y.0}    splittable
    %c = cast %v                                           {v.1, c.1}         pinned: it is reduced
    %y = sum %c {axes = [1], keep_dims = false}
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto.ir.core import Function, Op, Value
from pypto.ops.dims import Dim, DimRelation, Role, rank, same_dims
from pypto.ops.table import MOVEMENT_OPS, TABLE
from pypto.passes.analysis.carried import LAYOUTS, carried, initial, yields


def relation_of(op: Op) -> DimRelation:
    """How the dimensions of an op's results come from those of its operands. Loops and branches have none."""
    return TABLE[op.name].dim_relation(op)


def source_dims(v: Value, d: int) -> list[Dim]:
    """The dimensions of operands that a dimension of an op's result is parallel to."""
    if v.op is None:
        return []
    return [dim for dim in relation_of(v.op).partners((v, d)) if dim[0] in v.op.operands]


def source_dim(v: Value, d: int) -> int | None:
    """The dimension of a movement op's operand that a dimension of its result is.

    None for one that is of size 1 and new, that is repeated, or that a reshape merges or splits.
    """
    dims = source_dims(v, d)
    return dims[0][1] if dims else None


def result_dims(op: Op, v: Value, d: int) -> list[Dim] | None:
    """The dimensions of an op's results that a dimension of an operand becomes; None if its elements meet."""
    relation = relation_of(op)
    if relation.role((v, d)) is not Role.PARALLEL:
        return None
    return [dim for dim in relation.partners((v, d)) if dim[0] in op.results]


def is_unit_reshape(op: Op) -> bool:
    """Whether only dimensions of size 1 come or go."""
    return [n for n in op.operands[0].shape if n > 1] == [n for n in op.results[0].shape if n > 1]


def matching_dim(shape: tuple[int, ...], other: tuple[int, ...], d: int | None) -> int | None:
    """The dimension of `shape` that is dimension `d` of `other`, where only dimensions of size 1 come or go."""
    if d is None or other[d] == 1:
        return None
    return [i for i, n in enumerate(shape) if n > 1][[i for i, n in enumerate(other) if n > 1].index(d)]


def is_movement(op: Op) -> bool:
    """Whether an op moves or repeats elements, and each dimension of its result is one of its operand, or new."""
    return op.name in MOVEMENT_OPS and (op.name != "reshape" or is_unit_reshape(op))


@dataclass
class DimensionClasses:
    """Equivalence classes of dimensions, as a union-find forest. `pinned` are roots of classes that are not tiled."""

    parent: dict[Dim, Dim] = field(default_factory=dict)
    pinned: set[Dim] = field(default_factory=set)

    def root(self, dim: Dim) -> Dim:
        while (above := self.parent.setdefault(dim, dim)) != dim:
            self.parent[dim] = dim = self.parent[above]
        return dim

    def unify(self, a: Dim, b: Dim) -> None:
        x, y = self.root(a), self.root(b)
        self.parent[x] = y
        if x in self.pinned:
            self.pinned.add(y)

    def unify_all(self, a: Value, b: Value) -> None:
        """Unify the dimensions of two values, where they have the same size."""
        for x, y in same_dims(a, b):
            self.unify(x, y)

    def pin(self, dim: Dim) -> None:
        self.pinned.add(self.root(dim))

    def dims_of(self, v: Value, root: Dim) -> list[int]:
        """The dimensions of a value that are in a class."""
        return [d for d in range(rank(v)) if v.tile.shape[d] != 1 and self.root((v, d)) == root]


def dimension_classes(function: Function) -> DimensionClasses:
    """The classes of all dimensions of a function."""
    classes = DimensionClasses()
    for op in function.walk():
        if op.name in LAYOUTS:
            unify_carried(classes, op)
        else:
            unify_op(classes, op)
    return classes


def unify_op(classes: DimensionClasses, op: Op) -> None:
    relation = relation_of(op)
    for a, b in relation.parallel:
        classes.unify(a, b)
    for dim in relation.meeting:
        classes.pin(dim)


def unify_carried(classes: DimensionClasses, op: Op) -> None:
    """Unify what a loop carries from iteration to iteration, and what both sides of a branch yield."""
    for ends in (initial(op), *yields(op)):
        for a, b in zip(op.results, ends, strict=False):
            classes.unify_all(a, b)
    for region in op.regions:
        for a, b in zip(carried(op, region), op.results, strict=False):
            classes.unify_all(a, b)
