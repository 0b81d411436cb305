"""The backward of a launch as data: memory, and launches of derived kernels, for those who launch them without Python.

`launches.run_steps` runs the same: both go by `launches.step_launch`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pypto.gradients.launches import SUM_BLOCK, Buffer, StepLaunch, step_launch, sum_of_rows
from pypto.runtime.arrays import ArrayInfo

if TYPE_CHECKING:
    from pypto.gradients.kernel import LaunchPlan
    from pypto.gradients.versions import Request
    from pypto.jit import Kernel


@dataclass(frozen=True)
class ArrayRef:
    """An array of a schedule by its name, seen as contiguous and of a shape."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ScheduledLaunch:
    """A launch of a kernel: its grid, and its arguments by name, which are arrays, forward arguments, or numbers.

    An argument that is a string is the forward argument of that name.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    arguments: Mapping[str, ArrayRef | str | int]


@dataclass(frozen=True)
class BackwardSchedule:
    """What the backward of one launch runs.

    Attributes
    ----------
    stored : tuple of str
        Arrays whose gradients are read, as ``d_NAME``.
    zeroed : frozenset of str
        Gradients that begin as zeros; the others are written as a whole.
    memory : dict
        Arrays that the launches need beside arguments and gradients. They begin as zeros.
    launches : tuple of ScheduledLaunch
        One after the other.
    """

    stored: tuple[str, ...]
    zeroed: frozenset[str]
    memory: Mapping[str, Buffer]
    launches: tuple[ScheduledLaunch, ...]


def schedule(plan: LaunchPlan, request: Request) -> BackwardSchedule:
    """The schedule of a plan of derived kernels. Arrays are contiguous.

    Raises
    ------
    NoGradient
        When the trips of a loop are not known before the launch.
    """
    stored = plan.version.stored
    if not math.prod(plan.numbers.grid):
        return BackwardSchedule(stored, frozenset(f"d_{n}" for n in request.wrt), {}, ())
    memory: dict[str, Buffer] = {}
    launches: list[ScheduledLaunch] = []
    zeroed: set[str] = set()
    for number, step in enumerate(plan.steps):
        launch = step_launch(step, plan.version.function, plan.numbers, request)
        zeroed.update(launch.zeroed)
        buffers = {buffer.name: buffer for buffer in (*launch.saved, *(buffer for buffer, _ in launch.partials))}
        names = {name: f"{name}_{number}" if number else name for name in buffers}
        memory |= {names[name]: buffer for name, buffer in buffers.items()}
        launches.append(launch_of(launch, plan, buffers, names))
        launches += sums_of(launch, names)
    return BackwardSchedule(stored, frozenset(zeroed), memory, tuple(launches))


def launch_of(
    launch: StepLaunch, plan: LaunchPlan, buffers: Mapping[str, Buffer], names: Mapping[str, str]
) -> ScheduledLaunch:
    """The launch of a derived kernel."""
    given: dict[str, ArrayRef | str | int] = {}
    for name in launch.arguments:
        if name in buffers:
            given[name] = ArrayRef(names[name], buffers[name].shape)
        elif name in launch.numbers:
            given[name] = launch.numbers[name]
        elif name in plan.infos and not isinstance(plan.infos[name], ArrayInfo):
            given[name] = name
        else:
            array = name if name in plan.infos else name.removeprefix("d_")
            given[name] = ArrayRef(name, tuple(plan.numbers.shapes[array]))
    return ScheduledLaunch(launch.kernel, launch.grid, given)


def sums_of(launch: StepLaunch, names: Mapping[str, str]) -> Iterator[ScheduledLaunch]:
    """Launches that add up partial gradients."""
    for buffer, gradient in launch.partials:
        size = math.prod(buffer.shape[1:])
        if size:
            partial = ArrayRef(names[buffer.name], (buffer.shape[0], size))
            given: dict[str, Any] = {"partial": partial, "total": ArrayRef(gradient, (size,)), "BLOCK": SUM_BLOCK}
            yield ScheduledLaunch(sum_of_rows, (-(-size // SUM_BLOCK), 1, 1), given)
