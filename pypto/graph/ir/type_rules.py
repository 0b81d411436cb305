"""The type rules of the op table, lifted to whole arrays: shapes by the kind of op, dtypes by the row's own rule.

Elementwise rows broadcast as numpy does. Reductions take axes. Products take stacks of matrices that broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pypto.graph.ir.node_table import NODES
from pypto.graph.ir.types import TensorType
from pypto.ir.types import DType, TileType
from pypto.ops.rules import reduced_shape
from pypto.ops.table import MOVEMENT_OPS, TABLE

Shape = tuple[int, ...]
LIFTED_TRAITS = frozenset({"elementwise", "reduction", "arg_reduction", "scan", "movement"})
MOVEMENT = frozenset({*MOVEMENT_OPS, "slice"})  # what moves or repeats elements and computes nothing


@lru_cache(maxsize=1024)
def is_lifted(op: str) -> bool:
    """Whether a row of the op table has a meaning on whole arrays."""
    row = TABLE.get(op)
    return row is not None and (bool(row.traits & LIFTED_TRAITS) or op in ("dot", "slice", "constant", "arange"))


def infer(op: str, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> TensorType:
    """The type of an op's result.

    Raises
    ------
    TypeError
        With a sentence, when the operands do not fit.
    """
    if op in MOVEMENT:
        return TensorType(moved(op, types[0].shape, attrs), types[0].dtype)
    if op in NODES:
        return NODES[op].infer(types, attrs)
    if not is_lifted(op):
        raise TypeError(f"{op} has no meaning on whole arrays")
    row = TABLE[op]
    if op == "dot":
        return TensorType(product_shape(types[0].shape, types[1].shape), element(op, types, attrs, (1, 1)))
    if row.elementwise:
        return TensorType(broadcast(*(t.shape for t in types)), element(op, types, attrs, ()))
    if op == "arange":
        return TensorType((attrs["end"] - attrs["start"],), element(op, types, {"start": 0, "end": 1}, ()))
    source = types[0]
    ones = (1,) * len(source.shape)
    dtype = element(op, types, attrs, ones)  # checks the axes as well
    if "scan" in row.traits:
        return TensorType(source.shape, dtype)
    if any(source.shape[axis] == 0 for axis in attrs["axes"]) and op not in ("sum", "prod"):
        raise TypeError(f"{op} of no elements has no value")
    return TensorType(reduced_shape(source.shape, attrs["axes"], attrs["keep_dims"]), dtype)


def element(op: str, types: Sequence[TensorType], attrs: Mapping[str, Any], shape: Shape) -> DType:
    """The element type of a result, as the row has it for tiles of a shape."""
    return of_dtypes(op, tuple(t.dtype for t in types), tuple(attrs.items()), shape)


@lru_cache(maxsize=1024)
def of_dtypes(op: str, dtypes: tuple[DType, ...], attrs: tuple[tuple[str, Any], ...], shape: Shape) -> DType:
    (result,) = TABLE[op].infer([TileType(shape, dtype) for dtype in dtypes], dict(attrs))
    assert isinstance(result, TileType)
    return result.dtype


@lru_cache(maxsize=4096)
def broadcast(*shapes: Shape) -> Shape:
    """The shape that arrays of some shapes broadcast to, as numpy has it."""
    rank = max(map(len, shapes), default=0)
    aligned = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*aligned, strict=True):
        others = {n for n in sizes if n != 1}
        if len(others) > 1:
            raise TypeError(f"the shapes {' and '.join(map(str, shapes))} do not broadcast together")
        result.append(others.pop() if others else 1)
    return tuple(result)


def product_shape(a: Shape, b: Shape) -> Shape:
    """The shape of ``a @ b`` for operands of two dimensions or more; stacks broadcast."""
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise TypeError(f"a product takes (…, M, K) and (…, K, N), not {a} and {b}")
    return (*broadcast(a[:-2], b[:-2]), a[-2], b[-1])


def moved(op: str, shape: Shape, attrs: Mapping[str, Any]) -> Shape:
    """The shape of an op that moves elements."""
    if op == "reshape":
        if math.prod(attrs["shape"]) != math.prod(shape):
            raise TypeError(f"an array of shape {shape} cannot be reshaped to {attrs['shape']}")
        return tuple(attrs["shape"])
    if op == "permute":
        if sorted(attrs["dims"]) != list(range(len(shape))):
            raise TypeError(f"{attrs['dims']} is no permutation of {len(shape)} dimensions")
        return tuple(shape[d] for d in attrs["dims"])
    if op == "broadcast_to":
        if broadcast(shape, attrs["shape"]) != tuple(attrs["shape"]):
            raise TypeError(f"an array of shape {shape} does not broadcast to {attrs['shape']}")
        return tuple(attrs["shape"])
    spans = zip(shape, attrs["starts"], attrs["shape"], attrs["steps"], strict=True)
    if any(not inside(n, start, count, step) for n, start, count, step in spans):
        raise TypeError(f"the slice {dict(attrs)} reaches out of an array of shape {shape}")
    return tuple(attrs["shape"])


def inside(size: int, start: int, count: int, step: int) -> bool:
    """Whether all elements of a slice exist."""
    return count == 0 or (0 <= start < size and 0 <= start + (count - 1) * step < size)
