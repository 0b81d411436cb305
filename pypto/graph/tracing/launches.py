"""Launches of the user's kernels in a traced function, which become steps of its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors.graph import NotTraced
from pypto.graph.capture.kinds import is_array
from pypto.graph.capture.scalars import plain
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.location import here
from pypto.graph.ir.node import Node
from pypto.graph.ir.types import TensorType
from pypto.graph.tracing.pytree import Slot
from pypto.graph.tracing.tensor import Tensor, TensorGraph
from pypto.runtime.mode import MODE

Array = np.ndarray[Any, Any]


def results_of(
    graph: TensorGraph, function: Callable[..., Sequence[Array]], inputs: list[Node], types: list[TensorType]
) -> list[Tensor]:
    """Add the nodes for the results of a function that runs between kernels."""
    place = here()
    nodes = [
        graph.add("call", *inputs, place=place, type=type, function=function, result=number)
        for number, type in enumerate(types)
    ]
    return [Tensor.fresh(graph, node) for node in nodes]


def watched(kernel: Any, grid: Any, values: tuple[Any, ...], interpret: bool) -> None:
    """Handle a launch during a trace: record it if an argument is traced, otherwise run it."""
    values = tuple(map(plain, values))
    if any(isinstance(x, Tensor) for x in values):
        launched(kernel, grid, values)
    elif interpret:
        kernel.interpret(grid, values)
    else:
        MODE.get().launch(kernel, grid, values)


class Launch:
    """A step that launches a user's kernel on copies, and returns the arrays that the kernel writes."""

    def __init__(self, kernel: Any, grid: Any, values: tuple[Any, ...], written: tuple[int, ...]) -> None:
        self.kernel = kernel
        self.grid = grid
        self.values = values  # with slots for arrays
        self.written = written
        self.__qualname__ = kernel.__name__

    def __call__(self, *arrays: Array) -> Sequence[Array]:
        copies = [a.copy() if number in self.written else a for number, a in enumerate(arrays)]
        self.kernel[self.grid](*(copies[x.number] if isinstance(x, Slot) else x for x in self.values))
        return [copies[number] for number in self.written]


def launched(kernel: Any, grid: Any, values: tuple[Any, ...]) -> None:
    """Record a launch of a kernel on traced arrays, which updates the arrays that the kernel writes."""
    tensors: list[Tensor] = []

    def slot(x: Any) -> Any:
        if isinstance(x, Tensor):
            tensors.append(x)
            return Slot(len(tensors) - 1)
        return x

    slots = tuple(map(slot, values))
    if any(map(is_array, values)) or not all(is_fixed(n) for t in tensors for n in t.node.shape):
        raise NotTraced(
            here().loc(), what=f"a launch of `{kernel.__name__}`",
            problem="it takes an array from outside, or one with dimensions by name",
            way="pass the array as an argument of the traced function, with its shape as it is",
        )  # fmt: skip
    stand_ins = [np.empty(t.node.shape, t.dtype) for t in tensors]
    version = kernel.compile(*(stand_ins[x.number] if isinstance(x, Slot) else x for x in slots))
    names = dict(zip(kernel.signature.names, slots, strict=True))
    written = tuple(x.number for name, x in names.items() if isinstance(x, Slot) and name in version.program.written)
    function = Launch(kernel, grid, slots, written)
    types = [tensors[number].type for number in written]
    results = results_of(tensors[0].graph, function, [t.node for t in tensors], types)
    for number, result in zip(written, results, strict=True):
        tensors[number].write(result.node)
