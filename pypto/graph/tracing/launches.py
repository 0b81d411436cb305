"""Launches of kernels in a traced function, which become steps of its plan.

A launch is a node for each array that the kernel writes. The node has the type of the whole array in memory, of which
the kernel may be given a view. So the plan can let the kernel write into an array of the arena, or into an argument
that the function updates, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.errors.graph import NotTraced, SharedMemory
from pypto.graph.capture.guards import is_array
from pypto.graph.capture.scalars import plain
from pypto.graph.ir.dims import hint, is_fixed, unasked
from pypto.graph.ir.movements import MOVEMENTS
from pypto.graph.ir.node import Node, here
from pypto.graph.ir.types import TensorType
from pypto.graph.tracing.numpy_steps import results_of
from pypto.graph.tracing.tensor import Steps, Tensor
from pypto.graph.tracing.ufuncs import captured
from pypto.graph.tracing.values.storage import Storage
from pypto.runtime.mode import MODE

Array = np.ndarray[Any, Any]


def watched(kernel: Any, grid: Any, values: tuple[Any, ...], interpret: bool) -> None:
    """Handle a launch during a trace: record it if an argument is traced, otherwise run it."""
    values = tuple(map(plain, values))
    if any(isinstance(x, Tensor) for x in values):
        launched(kernel, unasked(grid), tuple(x if isinstance(x, Tensor) else unasked(x) for x in values))
    elif interpret:
        kernel.interpret(grid, values)
    else:
        MODE.get().launch(kernel, grid, values)


@dataclass(frozen=True, slots=True)
class Operand:
    """An array that a launch is given.

    Parameters
    ----------
    source : int or None
        The input of the node that it is, if the kernel writes no array in its memory.
    result : int or None
        Otherwise, the result whose memory it lies in.
    steps : tuple
        The movements from that memory to the view that the kernel is given.
    """

    source: int | None = None
    result: int | None = None
    steps: Steps = ()


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """An array that a launch writes: its type, and the input that it holds at first, or None if that is arbitrary."""

    type: TensorType
    source: int | None


@dataclass(frozen=True, slots=True)
class Fault:
    """The array in which a kernel tells the host what it refuses: the number of an error from 1, and two integers.

    Parameters
    ----------
    result : int
        The array that it is, among those that the kernel writes.
    errors : tuple of callable
        Each returns an error for the two integers.
    """

    result: int
    errors: tuple[Callable[[int, int], Exception], ...]

    def check(self, array: Array) -> None:
        """Raise the error of a launch, if there is one."""
        number, *details = array.tolist()
        if number:
            raise self.errors[number - 1](*details)


class Launch:
    """A launch of a kernel as a function from arrays to the arrays that the kernel writes.

    Attributes
    ----------
    kernel : Kernel
    grid : tuple of int
    values : tuple
        What the kernel is given, by parameter: an `Operand` for each array.
    written : tuple of Written
    fault : Fault or None
        What the kernel tells the host to refuse.
    """

    def __init__(
        self, kernel: Any, grid: Any, values: tuple[Any, ...], written: tuple[Written, ...], fault: Fault | None = None
    ) -> None:
        self.fault = fault
        self.kernel = kernel
        self.grid = grid
        self.values = values
        self.written = written
        self.__qualname__ = kernel.__name__

    def __call__(self, *arrays: Array) -> Sequence[Array]:
        """Launch the kernel on copies of what it writes."""
        memory = [
            np.empty(x.type.shape, x.type.dtype.numpy) if x.source is None else arrays[x.source].copy()
            for x in self.written
        ]

        def given(x: Operand) -> Array:
            array = arrays[x.source] if x.result is None and x.source is not None else memory[x.result or 0]
            for op, attrs in x.steps:
                array = MOVEMENTS[op].reference(array, dict(attrs))
            return array

        self.kernel[self.grid](*(given(x) if isinstance(x, Operand) else x for x in self.values))
        if self.fault is not None:
            self.fault.check(memory[self.fault.result])
        return memory

    @property
    def may_raise(self) -> bool:
        """Whether a launch may end with an error, so that it writes to copies of arguments."""
        return self.fault is not None


def launch_of(node: Node) -> Launch | None:
    """Return the launch that a node is a result of, if it is one."""
    function = node.attr("function") if node.is_call else None
    return function if isinstance(function, Launch) else None


def launched(
    kernel: Any, grid: Any, values: tuple[Any, ...], fault: Tensor | None = None, errors: Sequence[Any] = ()
) -> None:
    """Record a launch of a kernel on traced arrays, which updates the arrays that the kernel writes.

    `fault` is the array in which the kernel tells which of some errors ended it, see `Fault`.
    """
    names = kernel.signature.names
    version = kernel.compile(*map(stand_in, values))
    graph = next(x.graph for x in values if isinstance(x, Tensor))
    storages: dict[Storage, int] = {}  # of the arrays that it writes
    for name, x in zip(names, values, strict=True):
        if name in version.program.written:
            check_target(kernel, x)
            storages.setdefault(x.storage, len(storages))
    inputs = [storage.node for storage in storages if storage.node is not storage.blank]
    written = [Written(s.node.type, None if s.node is s.blank else inputs.index(s.node)) for s in storages]

    def operand(x: Any) -> Any:
        x = captured(graph, x) if is_array(x) and not isinstance(x, Tensor) else x
        if not isinstance(x, Tensor):
            return x
        if x.storage in storages:
            return Operand(result=storages[x.storage], steps=x.steps)
        inputs.append(x.node)
        return Operand(source=len(inputs) - 1)

    refusals = None if fault is None else Fault(storages[fault.storage], tuple(errors))
    function = Launch(kernel, grid, tuple(map(operand, values)), tuple(written), refusals)
    results = results_of(graph, function, inputs, [x.type for x in written])
    for storage, result in zip(storages, results, strict=True):
        storage.replace(result.node)


def stand_in(x: Any) -> Any:
    """Return an array of the type of a traced one, of its hinted sizes, and the hint of a size."""
    if isinstance(x, Tensor):
        return np.empty(tuple(map(hint, x.node.shape)), x.dtype)
    return x if is_fixed(x) else hint(x)


def check_target(kernel: Any, x: Any) -> None:
    """Refuse an array that a kernel is to write, and whose memory the trace does not follow.

    Raises
    ------
    NotTraced, SharedMemory
        At the line of the launch.
    """
    if not isinstance(x, Tensor):
        raise NotTraced(
            here().loc(), what=f"a launch of `{kernel.__name__}`", problem="it writes to an array from outside",
            way="pass the array as an argument, or make it by `np.empty_like(x, shape=…)` from an argument",
        )  # fmt: skip
    if x.storage.shared:
        raise SharedMemory(here().loc(), what="a reshape")
    if any(MOVEMENTS[op].inverse is None for op, _ in x.steps):
        raise NotTraced(
            here().loc(), what=f"a launch of `{kernel.__name__}`", problem="it writes to a broadcast array",
            way="write to a copy",
        )  # fmt: skip
