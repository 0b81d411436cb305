"""The type rules of the op table, lifted to whole arrays: shapes by the kind of op, dtypes by the row's own rule.

Elementwise rows broadcast as numpy does. Reductions take axes. Products take stacks of matrices that broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from pypto.graph.ir.movements import MOVEMENTS
from pypto.graph.ir.node_table import NODES, Attrs, declared
from pypto.graph.ir.op_facts import better
from pypto.graph.ir.types import Shape, TensorType, broadcast
from pypto.ir.types import DType, TileType
from pypto.ops.rules import reduced_shape
from pypto.ops.table import TABLE

Rule = Callable[[str, Sequence[TensorType], Attrs], TensorType]


def infer(op: str, types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    """The type of an op's result.

    Raises
    ------
    TypeError
        With the reason, when the operands do not fit.
    """
    rule = rule_of(op)
    if rule is None:
        raise TypeError(f"{op} has no meaning on whole arrays")
    return rule(op, types, attrs)


def of_movement(op: str, types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    return TensorType(MOVEMENTS[op].shape(types[0].shape, attrs), types[0].dtype)


def of_node(op: str, types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    return NODES[op].infer(types, attrs)


def of_product(op: str, types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    return TensorType(product_shape(types[0].shape, types[1].shape), element(op, types, attrs, (1, 1)))


def of_elementwise(op: str, types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    return TensorType(broadcast(*(t.shape for t in types)), element(op, types, attrs, ()))


def of_range(op: str, types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    return TensorType((attrs["end"] - attrs["start"],), element(op, types, {"start": 0, "end": 1}, ()))


def of_scan(op: str, types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    (source,) = types
    return TensorType(source.shape, element(op, types, attrs, (1,) * len(source.shape)))  # checks the axis as well


def of_reduction(op: str, types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    dtype = of_scan(op, types, attrs).dtype
    shape = types[0].shape
    if any(shape[axis] == 0 for axis in attrs["axes"]) and better(TABLE[op]) is not None:
        raise TypeError(f"{op} of no elements has no value")
    return TensorType(reduced_shape(shape, attrs["axes"], attrs["keep_dims"]), dtype)


def element(op: str, types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> DType:
    """Infer the element type of a result by the row's rule for tiles of a shape."""
    return of_dtypes(op, tuple(t.dtype for t in types), tuple(attrs.items()), shape)


@lru_cache(maxsize=1024)
def of_dtypes(op: str, dtypes: tuple[DType, ...], attrs: tuple[tuple[str, Any], ...], shape: Shape) -> DType:
    (result,) = TABLE[op].infer([TileType(shape, dtype) for dtype in dtypes], dict(attrs))
    assert isinstance(result, TileType)
    return result.dtype


def product_shape(a: Shape, b: Shape) -> Shape:
    """Return the shape of ``a @ b`` for operands of at least two dimensions; stacks broadcast."""
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise TypeError(f"a product takes (…, M, K) and (…, K, N), not {a} and {b}")
    return (*broadcast(a[:-2], b[:-2]), a[-2], b[-1])


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(MOVEMENTS, of_movement),
        **dict.fromkeys(NODES, of_node),
        "dot": of_product,
        "arange": of_range,
        "constant": lambda op, types, attrs: declared(types, attrs),
    }
)
LIFTED: Final[Mapping[str, Rule]] = MappingProxyType(  # by trait of a row
    {"elementwise": of_elementwise, "reduction": of_reduction, "arg_reduction": of_reduction, "scan": of_scan}
)


@lru_cache(maxsize=1024)
def rule_of(op: str) -> Rule | None:
    """The type rule of an op on whole arrays, or None where it has no meaning on them."""
    traits = TABLE[op].traits if op in TABLE else ()
    return RULES.get(op) or next((LIFTED[trait] for trait in traits if trait in LIFTED), None)
