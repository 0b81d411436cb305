"""The reference semantics of a graph: numpy evaluates it node by node, and kernels are compared with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pypto.graph.ir.movements import MOVEMENTS
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.node_table import NODES
from pypto.graph.ir.types import TensorType
from pypto.ir.core import make_op
from pypto.ir.types import TileType
from pypto.ops.table import TABLE

Array = np.ndarray[Any, Any]


def apply(op: str, arrays: Sequence[Array], attrs: Mapping[str, Any], type: TensorType) -> Array:
    """Evaluate one op on arrays, in the type of its result."""
    if op in MOVEMENTS:
        return MOVEMENTS[op].reference(arrays[0], attrs)
    if op in NODES:
        reference = NODES[op].reference
        assert reference is not None, f"{op} has no meaning of its own"
        return np.asarray(reference(attrs, *arrays)).astype(type.dtype.numpy, copy=False)
    row = TABLE[op]
    assert row.reference is not None, f"{op} is not lifted"
    if row.elementwise and len(arrays) > 1:
        arrays = np.broadcast_arrays(*arrays)
    operation = make_op(op, (), dict(attrs), (TileType(type.shape, type.dtype),))
    with np.errstate(all="ignore"):
        result = np.asarray(row.reference(operation, *arrays))
        if "reduction" in row.traits and attrs.get("propagate_nan"):
            (x,) = arrays
            has_nan = np.any(x != x, axis=attrs["axes"], keepdims=attrs["keep_dims"])  # noqa: PLR0124  # NaN
            result = np.where(has_nan, np.asarray(np.nan, result.dtype), result)
        return result.astype(type.dtype.numpy, copy=False).reshape(type.shape)


def evaluate(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Evaluate the outputs of a graph, node by node.

    Parameters
    ----------
    graph : Graph
    arrays : sequence of ndarray
        One for each input.

    Examples
    --------
    >>> import numpy as np
    >>> from pypto.graph import trace
    >>> traced = trace(lambda x: np.exp(x) + 1, np.zeros(2, np.float32))
    >>> evaluate(traced.graph, traced.arrays)
    [array([2., 2.], dtype=float32)]
    """
    values = values_of(graph, arrays)
    return [values[node] for node in graph.outputs]


def values_of(graph: Graph, arrays: Sequence[Array]) -> dict[Node, Array]:
    """Evaluate every node."""
    values = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph.live():
        if node.is_call:
            values[node] = np.asarray(node.attr("function")(*(values[x] for x in node.inputs))[node.attr("result")])
        elif node not in values:
            values[node] = apply(node.op, [values[x] for x in node.inputs], dict(node.attrs), node.type)
    return values
