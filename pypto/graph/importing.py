"""Import of another front end's graph, such as torch's: its ops run on tensors, which record the Tensor graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pypto.graph.capture.reads import Reads, reading
from pypto.graph.ir.dims import Dim, is_fixed
from pypto.graph.tracing.arguments import mapped
from pypto.graph.tracing.tensor import Tensor
from pypto.graph.tracing.trace import Traced, TracedGraph, arranged, leave

Array = np.ndarray[Any, Any]


def imported(
    name: str,
    arrays: Mapping[str, Array],
    run: Callable[[TracedGraph, list[Tensor]], Any],
    shapes: Sequence[tuple[Any, ...]] = (),
    dims: tuple[Dim, ...] = (),
) -> Traced:
    """Import a program: `run` computes with the tensors of some arrays, and the graph has what it did.

    Parameters
    ----------
    name : str
        The name of the graph.
    arrays : mapping from str to ndarray
        Arrays of the shapes, types and layouts of a call, by the names of the inputs.
    run : callable
        Takes the graph and a tensor for each array, and returns a tree of tensors, sizes and constants.
    shapes : sequence of tuple
        The shapes with named dimensions, where there are some.
    dims : tuple of Dim

    Returns
    -------
    Traced

    Examples
    --------
    >>> import numpy as np
    >>> print(imported("double", {"x": np.ones(3, np.float32)}, lambda graph, given: [given[0] * 2]).graph, end="")
    graph @double(%0: f32[3]) {
      %1: f32[] = constant {value = 2.0}
      %2: f32[3] = mul %0, %1
      return %2
    }
    """
    graph = TracedGraph(name, dims)
    reads = graph.reads = Reads(graph)
    given = list(arrays.values())
    with reading(reads):
        tensors = [
            reads.argument(text, array, None if not dims or all(map(is_fixed, shapes[number])) else shapes[number])
            for number, (text, array) in enumerate(arrays.items())
        ]
        tree = run(graph, tensors)
        result = mapped(tree, lambda path, leaf: leave(graph, path, leaf))
    return arranged(graph, reads, given, result)
