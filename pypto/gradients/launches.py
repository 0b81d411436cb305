"""Launches of derived kernels: memory for partial gradients and saved values, and the sum of partial gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pypto import language as pto
from pypto.errors.gradients import NoGradient, WrongGradient
from pypto.gradients.launch_cache import PreparedLaunch
from pypto.gradients.versions import Step
from pypto.ir.core import Function
from pypto.ir.types import ArrayType
from pypto.jit import jit
from pypto.passes.adjoint.bounded_while import UNFINISHED
from pypto.passes.adjoint.derive import Workspace
from pypto.passes.adjoint.footprint import LaunchNumbers
from pypto.passes.adjoint.trips import TripCounts

Array = np.ndarray[Any, Any]
_BLOCKS: Final = 64  # blocks of programs; a constant, so that sums do not depend on the machine
_MOST_ELEMENTS: Final = 1 << 27  # of partial gradients
_SUM_BLOCK: Final = 1024


def run_launch(
    prepared: PreparedLaunch, grid: Any, arguments: Mapping[str, Any], gradients: Mapping[str, Any], wrt: Sequence[str]
) -> None:  # fmt: skip
    """Run the backward pass by hand, or the derived kernels one after the other."""
    numbers = prepared.numbers
    if not math.prod(numbers.grid):
        for n in wrt:
            zero(gradients[f"d_{n}"])
        return
    everything = {**arguments, **gradients}
    if prepared.backward is not None:
        prepared.backward.run(grid, everything)
        return
    saved = [saved_arrays(step, prepared.version.function, numbers) for step in prepared.steps]
    for step, arrays in zip(prepared.steps, saved, strict=True):
        launch_step(step, numbers, everything | arrays)


def launch_step(step: Step, numbers: LaunchNumbers, given: Mapping[str, Any]) -> None:
    """Run one derived kernel, and add up its partial gradients. `given` are its arrays, and what is saved."""
    grid = grid_of(step, numbers)
    names = {arg.hint: arg for arg in step.derived.function.args}
    values = dict(given) | {f"programs_{a}": n for a, n in enumerate(numbers.grid)}
    sums: list[Callable[[], None]] = []
    for target in step.derived.targets:
        gradient = given[f"d_{target.name}"]
        if target.workspace is Workspace.NONE:
            is_written = f"d_{target.name}" in names  # not if no gradient reaches it
            if not (target.ownership.covers and is_written):
                zero(gradient)
            continue
        kind = names.get(f"partial_{target.name}")
        if kind is None:  # no gradient reaches it
            zero(gradient)
            continue
        assert isinstance(kind.type, ArrayType)
        rows = math.prod(grid) if target.workspace is Workspace.BLOCKS else 1
        partial = np.zeros((rows, *numbers.shapes[target.name]), kind.type.elem.numpy)
        values[f"partial_{target.name}"] = partial
        sums.append(functools.partial(add_rows, partial, gradient))
    unfinished = values[UNFINISHED] = np.zeros(1, np.int32)
    step.kernel[grid](**{name: values[name] for name in names})
    if unfinished[0]:
        problem = "a while loop ran more often than `max_trips`, and the gradients are not right"
        raise WrongGradient(kernel=step.derived.function.name, problem=problem, way="pass a larger `max_trips`")
    for add in sums:
        add()


def grid_of(step: Step, numbers: LaunchNumbers) -> tuple[int, int, int]:
    """The programs of a derived kernel: along its axes, or as many blocks as partial gradients allow."""
    axes = step.derived.axes
    if axes is not None:
        x, y, z = (n if a in axes else 1 for a, n in enumerate(numbers.grid))
        return x, y, z
    sizes = [math.prod(numbers.shapes[t.name]) for t in step.derived.targets if t.workspace is Workspace.BLOCKS]
    most = _MOST_ELEMENTS // max(1, *sizes, 1)
    return max(1, min(_BLOCKS, most, math.prod(numbers.grid))), 1, 1


def saved_arrays(step: Step, forward: Function, numbers: LaunchNumbers) -> dict[str, Array]:
    """Memory for what loops carry: one row for each program, in it one for each trip.

    Raises
    ------
    NoGradient
        When the bounds of a loop are no numbers of the launch.
    """
    if not step.derived.saved:
        return {}
    rows = math.prod(grid_of(step, numbers))
    counts = TripCounts(forward, numbers)
    arrays: dict[str, Array] = {}
    for saved in step.derived.saved:
        trips = counts.most(saved.loop)
        if trips is None:
            problem = "how often this loop runs at most is not known before the launch"
            way = "give it bounds made of sizes and program ids"
            raise NoGradient(saved.loop.loc, kernel=forward.name, problem=problem, way=way)
        arrays[saved.name] = np.empty((rows, max(1, trips), saved.size), saved.dtype.numpy)
    return arrays


def zero(x: Any) -> None:
    """Set an array or tensor to zero."""
    if hasattr(x, "zero_"):
        x.zero_()
    else:
        x.fill(0)


@jit
def sum_of_rows(partial, total, BLOCK: pto.constexpr):  # type: ignore[no-untyped-def]
    """The sum of the rows of a matrix, row after row."""
    j = pto.program_id(0) * BLOCK  # type: ignore[attr-defined]
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
    sum_of_rows[(-(-size // _SUM_BLOCK),)](matrix, target, BLOCK=_SUM_BLOCK)
    if not contiguous:
        gradient[...] = target.reshape(partial.shape[1:])
