"""The type rules of the op table, lifted to whole arrays: shapes by the kind of op, dtypes by the row's own rule.

Facts about reductions and elementwise ops are read from the lane rules and references of their rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.ir.movements import MOVEMENTS
from pypto.graph.ir.node_table import NODES, Attrs, declared
from pypto.graph.ir.types import PARTS, Shape, TensorType, broadcast, part_type
from pypto.ir.core import Op
from pypto.ir.types import DType, TileType
from pypto.ops.row import OpRow, Reduction, Search
from pypto.ops.rules import reduced_shape
from pypto.ops.table import TABLE


def better(row: OpRow) -> str | None:
    """Return the comparison by which a maximum, minimum, argmax or argmin prefers an element, or None."""
    return row.lane_rule.better if isinstance(row.lane_rule, Reduction | Search) else None


def is_in_pieces(op: str) -> bool:
    """Whether an op is a reduction whose partial results can be combined."""
    return op in TABLE and "reduction" in TABLE[op].traits and isinstance(TABLE[op].lane_rule, Reduction)


def may_propagate_nan(op: str) -> bool:
    """Whether a reduction may have the attribute `propagate_nan`, as numpy's maximum and minimum do."""
    return is_in_pieces(op) and better(TABLE[op]) is not None


def neutral(row: OpRow, dtype: DType) -> float | int | bool:
    """Return the neutral element of a reduction, which fills masked lanes.

    Raises
    ------
    LookupError
        With the reason, when the row has no neutral element.
    """
    order = better(row)
    if order is not None:
        least, greatest = (-math.inf, math.inf) if dtype.is_float else dtype.integer_range
        return least if order == "gt" else greatest
    if not isinstance(row.lane_rule, Reduction):
        raise LookupError(f"the row of {row.name} tells no neutral element")
    identity = row.lane_rule.identity(dtype)
    return bool(identity) if dtype.is_bool else identity


@lru_cache(maxsize=1024)
def is_strict(op: str) -> bool:
    """Whether an elementwise op without attributes is NaN if an operand is, according to its reference."""
    row = TABLE.get(op)
    if row is None or not row.elementwise or row.attributes or row.reference is None or row.dtypes in ("int", "bool"):
        return False
    operands, reference = [p for p in row.params if p.is_operand], row.reference
    others = np.array([0.0, 1.0, -1.0, math.inf])
    arrays = ([np.full(4, math.nan) if p is at else others for p in operands] for at in operands)
    return all(np.isnan(np.asarray(reference(Op(op, (), {}, ()), *x), np.float64)).all() for x in arrays)


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
    dtype = part_type(types[0].dtype) if op in PARTS else types[0].dtype
    return TensorType(MOVEMENTS[op].shape(types[0].shape, attrs), dtype)


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
        **dict.fromkeys(NODES, of_node),
        **dict.fromkeys(MOVEMENTS, of_movement),
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
