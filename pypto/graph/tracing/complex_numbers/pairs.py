"""Parts of complex arrays: a complex array of a trace is a pair of real nodes wherever a kernel computes it.

The node `complex` joins two real arrays. The parts of such a node are its operands, so a chain of operations on complex
arrays is a chain on real ones, and only what is stored is joined: in memory the two parts of an element are neighbours,
as numpy has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.graph.capture.guards import is_scalar
from pypto.graph.ir.node import Node, here
from pypto.graph.ir.types import broadcast
from pypto.graph.tracing.tensor import Tensor, TensorGraph, tensor_type

Pair = tuple[Node, Node]


def is_complex(value: Any) -> bool:
    """Whether an operand, or something that it contains, is complex."""
    kind = type(value)
    if kind in (list, tuple):
        return any(map(is_complex, value))
    if kind is dict:
        return is_complex(list(value.values()))
    if is_scalar(value):
        return is_complex(value.value)
    if isinstance(value, type):
        return issubclass(value, complex | np.complexfloating)
    dtype = value if isinstance(value, np.dtype) else getattr(value, "dtype", None)
    return kind is complex or (isinstance(dtype, np.dtype) and dtype.kind == "c")


def part_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of the parts of a complex dtype.

    Examples
    --------
    >>> part_dtype(np.complex64)
    dtype('float32')
    """
    return np.empty(0, dtype).real.dtype


def parts_of(x: Tensor, dtype: Any = None) -> tuple[Tensor, Tensor]:
    """Return new arrays that hold the two parts of an array, in the precision of a complex dtype if one is given."""
    graph, node = x.graph, x.node
    if x.dtype.kind == "c":
        nodes = [graph.add(name, node, place=here()) for name in ("real", "imag")]
    else:
        nodes = [node, graph.constant(0, tensor_type((), x.dtype if dtype is None else part_dtype(dtype)), here())]
    element = None if dtype is None else tensor_type((), part_dtype(dtype)).dtype
    real, imag = (
        Tensor.fresh(graph, n if element is None or n.type.dtype == element else cast_to(graph, n, element))
        for n in nodes
    )
    return real, imag


def cast_to(graph: TensorGraph, node: Node, element: Any) -> Node:
    return graph.add("cast", node, place=here(), dtype=element)


def joined(real: Tensor, imag: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
    """Return the complex array of two parts, which broadcast to a shape."""
    graph = real.graph
    node = graph.add("complex", real.node, imag.node, place=here())
    wanted = broadcast(real.node.shape, imag.node.shape) if shape is None else shape
    if node.shape != wanted:
        node = graph.add("broadcast_to", node, place=here(), shape=wanted)
    return Tensor.fresh(graph, node)


def by_parts(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return a function that acts on both parts of its first operand alike."""

    def both(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        real, imag = parts_of(x)
        return joined(function(real, *args, **kwargs), function(imag, *args, **kwargs))

    return both
