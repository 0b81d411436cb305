"""Launches of derived kernels: memory for partial gradients and saved values, and the sum of partial gradients.

What a launch brings beside the caller's arrays is known when it is prepared, and remembered with it. Memory comes from
a pool of the thread, since fresh pages cost as much as a tenth of a row kernel.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from pypto import language as pto
from pypto.errors.gradients import NoGradient, WrongGradient
from pypto.gradients.versions import Request, Step
from pypto.ir.core import Function
from pypto.ir.types import ArrayType, DType
from pypto.jit import jit
from pypto.passes.adjoint.bounded_loops import UNFINISHED
from pypto.passes.adjoint.derive import Target, Workspace
from pypto.passes.adjoint.footprint import LaunchNumbers
from pypto.passes.adjoint.launch_values import LaunchValues

Array = np.ndarray[Any, Any]
_BLOCKS: Final = 64  # blocks of programs; a constant, so that sums do not depend on the machine
_MOST_ELEMENTS: Final = 1 << 27  # of partial gradients
_POOL_BYTES: Final = 1 << 25  # of memory that a thread holds for its next launch
SUM_BLOCK: Final = 1024


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that a derived kernel needs under the name of one of its arguments."""

    name: str
    shape: tuple[int, ...]
    dtype: DType

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * int(np.dtype(self.dtype.numpy).itemsize)


@dataclass(frozen=True, slots=True)
class StepLaunch:
    """A launch of one derived kernel: what it takes in which order, and what it brings itself.

    `partials` are sums of blocks of programs, with the gradient that their own sum is written to. `zeroed` are
    gradients with elements that no program writes.
    """

    kernel: Any
    grid: tuple[int, int, int]
    arguments: tuple[str, ...]
    numbers: Mapping[str, int]
    zeroed: tuple[str, ...]
    partials: tuple[tuple[Buffer, str], ...]
    saved: tuple[Buffer, ...]


def step_launch(step: Step, forward: Function, numbers: LaunchNumbers, request: Request) -> StepLaunch:
    """What a launch of a derived kernel brings, from the numbers of the forward launch.

    The budget are the bytes that saved values may take: blocks of programs are made fewer until they fit.

    Raises
    ------
    NoGradient
        When they do not fit, or the bounds of a loop are no numbers of the launch.
    """
    rows, budget = saved_rows(step, forward, numbers, request.max_trips), request.budget
    row_bytes = sum(buffer.nbytes for buffer in rows)
    grid = grid_of(step, numbers, budget // row_bytes if row_bytes else _BLOCKS)
    programs = grid[0] * grid[1] * grid[2]
    if programs * row_bytes > budget:
        raise over_budget(step, forward, programs * row_bytes, budget)
    kinds = {arg.hint: arg.type for arg in step.derived.function.args}
    zeroed: list[str] = []
    partials: list[tuple[Buffer, str]] = []
    for target in step.derived.targets:
        gradient = f"d_{target.name}"
        kind = kinds.get(f"partial_{target.name}")
        if target.workspace is Workspace.NONE:
            if not (target.ownership.covers and gradient in kinds):
                zeroed.append(gradient)
        elif kind is None:  # no gradient reaches it
            zeroed.append(gradient)
        else:
            assert isinstance(kind, ArrayType)
            blocks = programs if target.workspace is Workspace.BLOCKS else 1
            shape = (blocks, *numbers.shapes[target.name])
            partials.append((Buffer(f"partial_{target.name}", shape, kind.elem), gradient))
    counts = {f"programs_{a}": n for a, n in enumerate(numbers.grid)}
    saved = tuple(replace(row, shape=(programs, *row.shape[1:])) for row in rows)
    return StepLaunch(step.kernel, grid, tuple(kinds), counts, tuple(zeroed), tuple(partials), saved)


def grid_of(step: Step, numbers: LaunchNumbers, most_saved: int) -> tuple[int, int, int]:
    """The programs of a derived kernel: along its axes, or as many blocks as its memory allows.

    `most_saved` programs have room for what they save.
    """
    axes = step.derived.axes
    if axes is not None:
        x, y, z = (n if a in axes else 1 for a, n in enumerate(numbers.grid))
        return x, y, z
    blocked: list[Target] = [t for t in step.derived.targets if t.workspace is Workspace.BLOCKS]
    most = _MOST_ELEMENTS // max([1, *(math.prod(numbers.shapes[t.name]) for t in blocked)])
    return max(1, min(_BLOCKS, most, most_saved, math.prod(numbers.grid))), 1, 1


def saved_rows(step: Step, forward: Function, numbers: LaunchNumbers, max_trips: int | None) -> tuple[Buffer, ...]:
    """Memory for what the loops of one program carry: in it one row for each trip.

    A loop whose bounds are no numbers of the launch makes `max_trips` at most.

    Raises
    ------
    NoGradient
        When there is no bound for a loop.
    """
    if not step.derived.saved:
        return ()
    values = LaunchValues(forward, numbers)
    buffers: list[Buffer] = []
    for saved in step.derived.saved:
        trips = values.most(saved.loop)
        trips = max_trips if trips is None else trips
        if trips is None:
            problem = "how often this loop runs at most is not known before the launch"
            way = "pass `max_trips`, or give it bounds made of sizes and program ids"
            raise NoGradient(saved.loop.loc, kernel=forward.name, problem=problem, way=way)
        buffers.append(Buffer(saved.name, (1, max(1, trips), saved.size), saved.dtype))
    return tuple(buffers)


def over_budget(step: Step, forward: Function, wanted: int, budget: int) -> NoGradient:
    """That the values which loops carry take more memory than they may."""
    largest = max(step.derived.saved, key=lambda saved: saved.size)
    names = ", ".join(f"`{saved.variable}`" for saved in step.derived.saved)
    problem = f"to save {names} for each trip takes {wanted:,} bytes, and the budget is {budget:,}"
    way = f"pass `budget={wanted}` to `pto.adjoint`, or let the loop make fewer trips"
    return NoGradient(largest.loop.loc, kernel=forward.name, problem=problem, way=way)


class BufferPool(threading.local):
    """Buffers that the launches of one thread use again."""

    def __init__(self) -> None:
        self.free: dict[tuple[Any, ...], list[Array]] = {}
        self.size = 0

    def take(self, buffer: Buffer) -> Array:
        """A buffer that no other launch uses, with any content."""
        dtype = np.dtype(buffer.dtype.numpy)
        free = self.free.get((buffer.shape, dtype))
        if not free:
            return np.empty(buffer.shape, dtype)
        array = free.pop()
        self.size -= array.nbytes
        return array

    def give_back(self, array: Array) -> None:
        if self.size + array.nbytes <= _POOL_BYTES:
            self.size += array.nbytes
            self.free.setdefault((array.shape, array.dtype), []).append(array)


_POOL: Final = BufferPool()


def run_steps(
    steps: Sequence[StepLaunch], given: Mapping[str, Any], in_place: Mapping[str, str], wrt: Sequence[str]
) -> None:
    """Run derived kernels one after the other. `given` are the caller's arguments and gradients.

    The gradient of what is written in place, `in_place`, is copied where another one takes its place. What a kernel
    leaves in the copy belongs to elements that were not written: their gradient goes on to what was found.
    """
    gradients = {f"d_{after}": given[f"d_{name}"] for after, name in in_place.items()}
    replaced = {f"d_{after}": f"d_{name}" for after, name in in_place.items() if name in wrt}
    before = {after: copied(gradients[after]) for after in replaced}
    for step in steps:
        gradients.update((after, copied(x)) for after, x in before.items())
        run_step(step, {**given, **gradients})
    for after, name in replaced.items():
        target = given[name]
        target += gradients[after]


def run_step(step: StepLaunch, given: Mapping[str, Any]) -> None:
    """Run one derived kernel, and add up its partial gradients."""
    for name in step.zeroed:
        zero(given[name])
    values = {**given, **step.numbers}
    buffers = [(buffer, _POOL.take(buffer)) for buffer in step.saved]
    for buffer, _ in step.partials:
        partial = _POOL.take(buffer)
        partial.fill(0)
        buffers.append((buffer, partial))
    values.update((buffer.name, array) for buffer, array in buffers)
    unfinished = None
    if UNFINISHED in step.arguments:
        unfinished = values[UNFINISHED] = np.zeros(1, np.int32)
    step.kernel[step.grid](*[values[name] for name in step.arguments])
    if unfinished is not None and unfinished[0]:
        problem = "a loop ran more often than `max_trips`, and the gradients are not right"
        raise WrongGradient(kernel=step.kernel.signature.kernel, problem=problem, way="pass a larger `max_trips`")
    for buffer, gradient in step.partials:
        add_rows(values[buffer.name], given[gradient])
    for _, array in buffers:
        _POOL.give_back(array)


def copied(x: Any) -> Any:
    """A copy of an array or tensor."""
    return x.clone() if hasattr(x, "clone") else x.copy()


def zero(x: Any) -> None:
    """Set an array or tensor to zero."""
    if hasattr(x, "zero_"):
        x.zero_()
    else:
        x.fill(0)


@jit
def sum_of_rows(partial, total, BLOCK: pto.constexpr):  # type: ignore[no-untyped-def]
    """The sum of the rows of a matrix, row after row."""
    j = pto.program_id(0) * BLOCK
    result = pto.zeros((BLOCK,), partial.dtype)
    for row in range(partial.shape[0]):
        result += partial[row, j : j + BLOCK]
    total[j : j + BLOCK] = result


def add_rows(partial: Array, gradient: Any) -> None:
    """Write the sum over blocks to a gradient."""
    size = math.prod(partial.shape[1:])
    if not size:
        return
    matrix = partial.reshape(partial.shape[0], size)
    contiguous = gradient.is_contiguous() if hasattr(gradient, "is_contiguous") else gradient.flags.c_contiguous
    target = gradient.reshape(-1) if contiguous else np.empty(size, partial.dtype)
    sum_of_rows[(-(-size // SUM_BLOCK),)](matrix, target, BLOCK=SUM_BLOCK)
    if not contiguous:
        gradient[...] = target.reshape(partial.shape[1:])
