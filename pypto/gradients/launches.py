"""Launches derived kernels, with memory for partial gradients and saved values, and sums of partial gradients.

A prepared launch knows the memory that it needs beside the caller's arrays. The memory comes from a pool of the thread,
because fresh pages cost as much as a tenth of a row kernel.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto import language as pto
from pypto.errors.gradients import NoGradient, WrongGradient
from pypto.gradients.versions import Request, Step
from pypto.ir.core import Function
from pypto.ir.types import int32
from pypto.jit import jit
from pypto.passes.adjoint.bounded_loops import UNFINISHED
from pypto.passes.adjoint.derive import Target, Workspace
from pypto.passes.adjoint.footprint import LaunchNumbers
from pypto.passes.adjoint.launch_values import LaunchValues
from pypto.runtime.arena import Arena, ArrayRef, Buffer, ScalarRef, Slot
from pypto.runtime.arrays import ArrayInfo
from pypto.runtime.launches import HOST, BoundLaunches, LaunchList, LaunchStep

if TYPE_CHECKING:
    from pypto.gradients.kernel import LaunchPlan

Array = np.ndarray[Any, Any]
_BLOCKS: Final = 64  # blocks of programs; a constant, so that sums do not depend on the machine
_MOST_ELEMENTS: Final = 1 << 27  # of partial gradients
_SMALL_BYTES: Final = 1 << 18  # of all arrays of launches that stay bound
_POOL_BYTES: Final = 1 << 25  # of memory that a thread holds for its next launch
SUM_BLOCK: Final = 1024


@dataclass(frozen=True, slots=True)
class StepLaunch:
    """The launches of one derived kernel: first of the kernel, then of the sums of its partial gradients.

    `saved` is the memory for what loops save. `summed` are the gradients that the sums write, as contiguous arrays.
    `idle` are bound lists that no launch uses, where the arrays have few bytes (`nbytes`); the arenas of others lie in
    the memory of a pool.
    """

    launches: LaunchList
    saved: tuple[Buffer, ...]
    summed: tuple[str, ...]
    nbytes: int
    idle: list[BoundLaunches] = field(default_factory=list, compare=False)


def step_launch(plan: LaunchPlan, step: Step, request: Request) -> StepLaunch:
    """Returns the launches of a derived kernel, for the arguments of a forward launch.

    The budget is the number of bytes that saved values may take. Where the kernel runs in blocks of programs, it has so
    few blocks that their saved values fit.

    Raises
    ------
    NoGradient
        When they do not fit, or the bounds of a loop are no numbers of the launch.
    """
    forward, numbers = plan.version.function, plan.numbers
    rows, budget = saved_rows(step, forward, numbers, request.max_trips), request.budget
    row_bytes = sum(buffer.nbytes for buffer in rows)
    grid = grid_of(step, numbers, budget // row_bytes if row_bytes else _BLOCKS)
    programs = grid[0] * grid[1] * grid[2]
    if programs * row_bytes > budget:
        raise over_budget(step, forward, programs * row_bytes, budget)
    saved = tuple(replace(row, shape=(programs, *row.shape[1:])) for row in rows)
    kinds = {arg.hint: arg.type for arg in step.derived.function.args}
    zeroed, partials = targets_of(step, kinds, numbers, programs)
    sums = [sum_launch(buffer, gradient) for buffer, gradient in partials if math.prod(buffer.shape[1:])]
    flags = (Buffer(UNFINISHED, (1,), int32),) if UNFINISHED in kinds else ()
    slots = [*(Slot(x, 0, 0) for x in saved), *(Slot(x, 0, len(sums), is_zeroed=True) for x, _ in partials)]
    arena = Arena.packed((*slots, *(Slot(x, 0, len(sums), is_zeroed=True) for x in flags)))
    keys = {slot.buffer.key for slot in arena.slots}
    counts = {f"programs_{a}": n for a, n in enumerate(numbers.grid)}
    callers = [n for n in kinds if n not in keys and n not in counts]
    refs = {**{n: ArrayRef(n) for n in keys}, **{n: given_ref(plan, n) for n in callers}}
    given: dict[str, Any] = {n: counts[n] if n in counts else refs[n] for n in kinds}
    names = [*callers, *zeroed, *(n for _, n in partials)]
    arrays = tuple(x for n in dict.fromkeys(names) if isinstance(x := given_buffer(plan, n), Buffer))
    scalars = tuple(x.key for x in given.values() if isinstance(x, ScalarRef))
    first = LaunchStep(step.kernel, grid, given)
    launches = LaunchList((first, *sums), arrays, arena=arena, zeroed=tuple(zeroed), scalars=scalars)
    nbytes = arena.nbytes + sum(buffer.nbytes for buffer in arrays)
    return StepLaunch(launches, saved, tuple(gradient for _, gradient in partials), nbytes)


def targets_of(
    step: Step, kinds: Mapping[str, Any], numbers: LaunchNumbers, programs: int
) -> tuple[list[str], list[tuple[Buffer, str]]]:
    """Returns gradients with unwritten elements, and partial gradients, each with the gradient to which it sums."""
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
            blocks = programs if target.workspace is Workspace.BLOCKS else 1
            shape = (blocks, *numbers.shapes[target.name])
            partials.append((Buffer(f"partial_{target.name}", shape, kind.elem), gradient))
    return zeroed, partials


def given_buffer(plan: LaunchPlan, name: str) -> Buffer | None:
    """Returns the buffer of a caller's argument or gradient; None if it is not an array."""
    array = name if name in plan.infos else name.removeprefix("d_")
    info = plan.infos[plan.version.in_place.get(array, array)]
    return Buffer(name, tuple(plan.numbers.shapes[array]), info.dtype) if isinstance(info, ArrayInfo) else None


def given_ref(plan: LaunchPlan, name: str) -> ArrayRef | ScalarRef:
    """Returns the reference by which a derived kernel gets an argument or gradient of the caller."""
    return ScalarRef(name) if given_buffer(plan, name) is None else ArrayRef(name)


def sum_launch(partial: Buffer, gradient: str) -> LaunchStep:
    """Returns the launch that sums the parts of a partial gradient."""
    size = math.prod(partial.shape[1:])
    matrix, total = ArrayRef(partial.key, (partial.shape[0], size)), ArrayRef(gradient, (size,))
    return LaunchStep(
        sum_of_rows, (-(-size // SUM_BLOCK), 1, 1), {"partial": matrix, "total": total, "BLOCK": SUM_BLOCK}
    )


def grid_of(step: Step, numbers: LaunchNumbers, most_saved: int) -> tuple[int, int, int]:
    """Returns the grid of a derived kernel: along its axes, or as many blocks as its memory allows.

    The saved values of `most_saved` programs fit in the budget.
    """
    axes = step.derived.axes
    if axes is not None:
        x, y, z = (n if a in axes else 1 for a, n in enumerate(numbers.grid))
        return x, y, z
    blocked: list[Target] = [t for t in step.derived.targets if t.workspace is Workspace.BLOCKS]
    most = _MOST_ELEMENTS // max([1, *(math.prod(numbers.shapes[t.name]) for t in blocked)])
    return max(1, min(_BLOCKS, most, most_saved, math.prod(numbers.grid))), 1, 1


def saved_rows(step: Step, forward: Function, numbers: LaunchNumbers, max_trips: int | None) -> tuple[Buffer, ...]:
    """Allocates memory for the values that loops of one program carry, with one row for each trip.

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
    """Builds the error that saved values of loops exceed the budget."""
    largest = max(step.derived.saved, key=lambda saved: saved.size)
    names = ", ".join(f"`{saved.variable}`" for saved in step.derived.saved)
    problem = f"to save {names} for each trip takes {wanted:,} bytes, and the budget is {budget:,}"
    way = f"pass `budget={wanted}` to `pto.adjoint`, or let the loop make fewer trips"
    return NoGradient(largest.loop.loc, kernel=forward.name, problem=problem, way=way)


class MemoryPool(threading.local):
    """A pool of arenas that the launches of one thread use again, because fresh pages are expensive."""

    def __init__(self) -> None:
        self.free: dict[int, list[Array]] = {}
        self.size = 0

    def take(self, arena: Arena) -> Array:
        """Returns memory that no other launch uses; its contents are arbitrary."""
        free = self.free.get(arena.nbytes)
        if not free:
            memory: Array = arena.memory(HOST)
            return memory
        array = free.pop()
        self.size -= array.nbytes
        return array

    def give_back(self, arena: Arena, array: Array) -> None:
        if self.size + array.nbytes <= _POOL_BYTES:
            self.size += array.nbytes
            self.free.setdefault(arena.nbytes, []).append(array)


_POOL: Final = MemoryPool()


def run_steps(
    steps: Sequence[StepLaunch], given: Mapping[str, Any], in_place: Mapping[str, str], wrt: Sequence[str]
) -> None:
    """Runs derived kernels one after the other on the caller's arguments and gradients, `given`.

    Where the gradient of a result in place, from `in_place`, gives way to that of the array, each kernel gets a copy of
    it. What the last kernel leaves in the copy belongs to elements that the forward kernel did not write, so it is
    added to the gradient of the array.
    """
    gradients = {f"d_{after}": given[f"d_{name}"] for after, name in in_place.items()}
    replaced = {f"d_{after}": f"d_{name}" for after, name in in_place.items() if name in wrt}
    before = {after: copied(gradients[after]) for after in replaced}
    for step in steps:
        if in_place:
            gradients.update((after, copied(x)) for after, x in before.items())
        run_step(step, {**given, **gradients} if in_place else given)
    for after, name in replaced.items():
        target = given[name]
        target += gradients[after]


def run_step(step: StepLaunch, given: Mapping[str, Any]) -> None:
    """Runs one derived kernel, and sums its partial gradients."""
    launches = step.launches
    separate = {name: contiguous(given[name]) for name in step.summed if not is_contiguous(given[name])}
    values = {**given, **separate} if separate else given
    memory = None if step.nbytes <= _SMALL_BYTES else _POOL.take(launches.arena)
    try:
        bound = step.idle.pop()
    except IndexError:
        bound = BoundLaunches(launches, memory)
    bound.run([values[key] for key in bound.inputs])
    if UNFINISHED in bound.arrays and bound.arrays[UNFINISHED][0]:
        kernel = launches.steps[0].kernel.signature.kernel
        problem = "a loop ran more often than `max_trips`, and the gradients are not right"
        raise WrongGradient(kernel=kernel, problem=problem, way="pass a larger `max_trips`")
    for name, array in separate.items():
        given[name][...] = array
    if memory is None:
        step.idle.append(bound)
    else:
        _POOL.give_back(launches.arena, memory)


def is_contiguous(x: Any) -> bool:
    """Says whether the elements of an array or tensor are contiguous."""
    return bool(x.is_contiguous() if hasattr(x, "is_contiguous") else x.flags.c_contiguous)


def contiguous(x: Any) -> Any:
    """Returns a contiguous array or tensor of the shape and dtype of another one."""
    return x.contiguous() if hasattr(x, "contiguous") else np.empty(x.shape, x.dtype)


def copied(x: Any) -> Any:
    """Returns a copy of an array or tensor."""
    return x.clone() if hasattr(x, "clone") else x.copy()


@jit
def sum_of_rows(partial, total, BLOCK: pto.constexpr):  # type: ignore[no-untyped-def]
    """Sums the rows of a matrix, in order."""
    j = pto.program_id(0) * BLOCK
    result = pto.zeros((BLOCK,), partial.dtype)
    for row in range(partial.shape[0]):
        result += partial[row, j : j + BLOCK]
    total[j : j + BLOCK] = result


def schedule(plan: LaunchPlan, request: Request) -> LaunchList:
    """Returns the launches of all derived kernels as one list, whose arrays are contiguous.

    From the second kernel on, the keys of its memory end with the number of the kernel.

    Raises
    ------
    NoGradient
        When the trips of a loop are not known before the launch.
    """
    if not math.prod(plan.numbers.grid):
        names = [f"d_{n}" for n in request.wrt]
        buffers = tuple(x for n in names if (x := given_buffer(plan, n)) is not None)
        return LaunchList((), buffers, zeroed=tuple(names))
    steps: list[LaunchStep] = []
    slots: list[Slot] = []
    lists = [step_launch(plan, step, request).launches for step in plan.steps]
    check_trips(plan, lists)
    for number, launches in enumerate(lists):
        behind = f"_{number}" if number else ""
        keys = {slot.buffer.key: f"{slot.buffer.key}{behind}" for slot in launches.arena.slots}
        for s in launches.arena.slots:
            buffer, start = replace(s.buffer, key=keys[s.buffer.key]), len(steps)
            slots.append(replace(s, buffer=buffer, first=start + s.first, last=start + s.last))
        steps += [replace(step, arguments=renamed(step, keys)) for step in launches.steps]
    inputs = dict.fromkeys(x for launches in lists for x in launches.inputs)
    zeroed = tuple(dict.fromkeys(key for launches in lists for key in launches.zeroed))
    scalars = tuple(dict.fromkeys(key for launches in lists for key in launches.scalars))
    return LaunchList(tuple(steps), tuple(inputs), arena=Arena.packed(slots), zeroed=zeroed, scalars=scalars)


def renamed(step: LaunchStep, keys: Mapping[Any, str]) -> dict[str, Any]:
    """Returns the arguments of a launch, with new keys for its memory."""
    given = step.arguments
    refs = {name: replace(x, key=keys[x.key]) for name, x in given.items() if isinstance(x, ArrayRef) and x.key in keys}
    return {**given, **refs}


def check_trips(plan: LaunchPlan, lists: Sequence[LaunchList]) -> None:
    """Refuses kernels that set a flag when a loop exceeds `max_trips`, since a list of launches does not read it."""
    for step, launches in zip(plan.steps, lists, strict=True):
        if UNFINISHED in launches.keys:
            problem = "how often a loop runs is not known before the launch"
            way = "give it bounds made of sizes and program ids"
            loc = step.derived.saved[0].loop.loc if step.derived.saved else None
            raise NoGradient(loc, kernel=plan.version.function.name, problem=problem, way=way)
