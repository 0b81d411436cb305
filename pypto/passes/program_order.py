"""Program order: the axis of the grid that runs fastest, chosen for what programs share of one array.

Programs that follow one another run on one core, or at the same time on cores with a common cache. With the option
`affinity`, they are those that read the same blocks of the array that it names: its blocks are then loaded once from
memory and found in a cache by the others. Axes along which the address of no access to the array changes run fastest;
then those along which it changes in another way than step by step, as by a quotient or a loaded index; then the rest.

Legality: programs of a grid are independent. The IR sees the axes in their new order, so that all passes behind it know
axis 0 as the fastest one. Only what reads the sizes of the grid maps an axis back, by `ProgramMap.order`.

    %i = program_id {axis = 0}                     %i = program_id {axis = 1}
    %j = program_id {axis = 1}                 ->  %j = program_id {axis = 0}      with order = (1, 0, 2)
    %a = tile_load %pa[%i, %k], affinity a         %a = tile_load %pa[%i, %k]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.passes.analysis.memory_effects import accesses_memory, pointer_roots
from pypto.passes.analysis.scalar_evolution import GRID_AXES, INVARIANT, ScalarEvolution

AFFINITY: Final = "affinity"  # the attribute of a function that names the array


def order_programs(function: Function) -> Function:
    """The function with the axes of its grid in the order for the array that `affinity` names."""
    order = program_order(function)
    if order == GRID_AXES:
        return function

    def renamed(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op.name not in ("program_id", "num_programs"):
            return None
        return (rewriter.builder.emit(op.name, axis=order.index(op.attrs["axis"])),)

    reordered = rewrite(function, renamed, OpBuilder)
    return replace(reordered, programs=replace(function.programs, order=order))


def program_order(function: Function) -> tuple[int, ...]:
    """The axes of the grid, the one that is to run fastest first."""
    if AFFINITY not in function.attrs:
        return GRID_AXES
    changes = axis_changes(function, str(function.attrs[AFFINITY]))
    return tuple(sorted(GRID_AXES, key=changes.__getitem__))


def axis_changes(function: Function, array: str) -> dict[int, int]:
    """How accesses to an array change along each axis: 0 not at all, 1 not step by step, 2 step by step.

    An axis of which the kernel does not ask its place is 3: it comes last.
    """
    roots = pointer_roots(function)
    addresses = [v for op in function.walk() if accesses_memory(op) and array in roots.get(op.operands[0], ())
                 for v in address_of(op)]  # fmt: skip
    used = {op.attrs["axis"] for op in function.walk() if op.name == "program_id"}
    evolution = ScalarEvolution.of(function)
    return {axis: change(evolution, addresses, axis) if axis in used else 3 for axis in GRID_AXES}


def change(evolution: ScalarEvolution, addresses: Sequence[Value], axis: int) -> int:
    steps = [evolution.step(v, axis) for v in addresses]
    if all(step == INVARIANT for step in steps):
        return 0
    return 1 if None in steps else 2


def address_of(op: Op) -> Sequence[Value]:
    """The values that say where an access lies."""
    if op.name not in ("tile_load", "tile_store"):
        return op.operands[:1]
    access = Access.of(op)
    return (access.base, *access.offsets)


def order_text(function: Function) -> str:
    """What was decided, for explanations; empty without the option."""
    if AFFINITY not in function.attrs:
        return ""
    array, order = str(function.attrs[AFFINITY]), program_order(function)
    changes = axis_changes(function, array)
    parts = [
        f"programs along axis {' and '.join(str(axis) for axis in order if changes[axis] == kind)} {what}"
        for kind, what in enumerate(("read the same of it", "may read the same of it"))
        if kind in changes.values()
    ]
    text = ", ".join(parts) or "along no axis of the grid do programs read the same of it"
    after = (
        "the order is that of the grid" if order == GRID_AXES else f"the order of axes is {', '.join(map(str, order))}"
    )
    return f"affinity to `{array}`: {text}; {after}"
