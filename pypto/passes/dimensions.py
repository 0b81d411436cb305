"""Dimension analysis: which dimensions of a kernel's tiles are one and the same.

The rows of the op table relate the dimensions of each op's results to those of its operands (`pypto.ops.dims`).
`relation_of` gives the relation of one op, `source_dims` follows a dimension of a result back to the operands, and
`dimension_classes` joins the relations of all ops, and of loops and branches, to equivalence classes. A class along
which no elements meet (no reduction, product or sort) may be computed in stretches.

    %v = tile_load … {shape = [64, 32]}          classes   {v.0, c.0, y.0}    splittable
    %c = cast %v                                           {v.1, c.1}         pinned: it is reduced
    %y = sum %c {axes = [1], keep_dims = false}
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto.ir.core import Function, Op, Value
from pypto.ops.dims import Dim, DimRelation, rank, same_dims
from pypto.ops.table import TABLE
from pypto.passes.carried import LAYOUTS, carried, initial, yields


def relation_of(op: Op) -> DimRelation:
    """How the dimensions of an op's results come from those of its operands. Loops and branches have none."""
    return TABLE[op.name].dim_relation(op)


def source_dims(v: Value, d: int) -> list[Dim]:
    """The dimensions of operands that a dimension of an op's result is parallel to."""
    if v.op is None:
        return []
    return [dim for dim in relation_of(v.op).partners((v, d)) if dim[0] in v.op.operands]


@dataclass
class DimensionClasses:
    """Equivalence classes of dimensions, as a union-find forest. `pinned` are roots of classes that stay whole."""

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
    """What a loop carries has the same dimensions in every turn; so have the ends of a branch."""
    for ends in (initial(op), *yields(op)):
        for a, b in zip(op.results, ends, strict=False):
            classes.unify_all(a, b)
    for region in op.regions:
        for a, b in zip(carried(op, region), op.results, strict=False):
            classes.unify_all(a, b)
