"""The dimensions of a node's result and operands that belong together, by number: the rule of its row tells them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pypto.graph.ir.node import Attrs, Node
from pypto.graph.ir.node_table import NODES
from pypto.graph.ir.types import Shape
from pypto.ir.core import Value, make_op
from pypto.ir.types import TileType, int32
from pypto.ops.table import TABLE

RESULT: Final = -1
Place = tuple[int, int]  # an operand by its number, or `RESULT`, and a dimension of it


@dataclass(frozen=True, slots=True)
class NodeDims:
    """A `DimRelation` of a node.

    Parameters
    ----------
    parallel : tuple of tuple of Place
        For each dimension of the result the dimensions of operands that are parallel to it, in order.
    reduced, contracted, mixed : tuple of Place
    """

    parallel: tuple[tuple[Place, ...], ...]
    reduced: tuple[Place, ...]
    contracted: tuple[Place, ...]
    mixed: tuple[Place, ...]


def dims_of(node: Node) -> NodeDims | None:
    """Return the relation of a node's dimensions, or None where no rule tells one."""
    attrs: Attrs = () if node.is_elementwise else node.attrs
    broadcasts = node.has("elementwise", "movement") or node.is_product
    return relation_of(node.op, tuple(x.shape for x in node.inputs), node.shape, attrs, broadcasts)


@lru_cache(maxsize=4096)
def relation_of(
    op: str, shapes: tuple[Shape, ...], shape: Shape, attrs: tuple[tuple[str, Any], ...], broadcasts: bool
) -> NodeDims | None:
    """Return what the rule of an op says of operands of some shapes; those that broadcast have equal rank for it."""
    rule = TABLE[op].dim_relation if op in TABLE else NODES[op].dims
    if rule is None:
        return None
    added = [max(0, len(shape) - len(s)) if broadcasts else 0 for s in shapes]
    operands = tuple(Value(TileType((1,) * n + s, int32)) for n, s in zip(added, shapes, strict=True))
    operation = make_op(op, operands, dict(attrs), (TileType(shape, int32),))
    relation = rule(operation)
    numbers = {**{v: n for n, v in enumerate(operands)}, operation.result: RESULT}

    def placed(dims: Iterable[tuple[Value, int]]) -> tuple[Place, ...]:
        pairs = [(numbers[v], d - (added[numbers[v]] if v is not operation.result else 0)) for v, d in dims]
        return tuple(pair for pair in pairs if pair[1] >= 0)

    result = [relation.partners((operation.result, d)) for d in range(len(shape))]
    return NodeDims(
        tuple(map(placed, result)), placed(relation.reduced), placed(relation.contracted), placed(relation.mixed)
    )
