"""Lowering of Tile IR to Block IR for vector cores: one handler per op.

A core runs every `blocks`-th program of the grid, in one loop. Buffers have no addresses yet, and no instruction waits
for another one: `block.allocate` and `block.insert_sync` see to that.

    %t = tile_load %x, (%pid * 64)            for program in range(block, grid_x * ..., blocks):
    %u = add %t, 1.0                    ->        DataCopyPad(t[0], x[pid * 64], ...)
    tile_store %y, (%pid * 64), %u                Adds(u[0], t[0], 1.0, 64)
                                                  DataCopyPad(y[pid * 64], u[0], ...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import BlockKernel, Expr, Item, Loop, Param, Scalar, fold
from pypto.backends.ascend.rules.lane_rules import refused
from pypto.backends.ascend.rules.table import rule_for
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.techniques import is_enabled
from pypto.backends.ascend.tile.grid_invariants import grid_invariant_ops
from pypto.backends.ascend.tile.ub_layout import grain_of
from pypto.backends.ascend.vector import dma
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.handlers import (
    argreduce,
    atomics,
    control,
    dot,
    gather_slice,
    reduce,
    scan,
    shape,
    sort,
)
from pypto.backends.ascend.vector.handlers.elementwise import lower_elementwise
from pypto.backends.ascend.vector.naming import name_hint
from pypto.backends.ascend.vector.pointer_select import dispatch_each, pointer_select, selected_pointer
from pypto.ir.core import Function, Op
from pypto.ir.types import TileType, int32, int64
from pypto.ops.row import Effect, Unsupported
from pypto.ops.table import ARG_REDUCTIONS, ROWS, TABLE
from pypto.passes.analysis.memory_effects import is_noalias

_AXES: Final = ("grid_x", "grid_y", "grid_z")


def lower(function: Function, target: AscendTarget) -> BlockKernel:
    """Lower a kernel for vector cores, which share the programs of the grid.

    Raises
    ------
    NoForm
        When the kernel needs something that the chip lacks.
    """
    low = Lowering(function, target, grain_of(function), dispatch=lower_op)
    invariant = grid_invariant_ops(function) if is_enabled(function, "grid_invariants") else frozenset()
    return kernel_of(low, "vector", programs(low, invariant))


def programs(low: Lowering, invariant_ops: frozenset[Op] = frozenset()) -> Loop:
    """Lower all that a core runs; grid-invariant ops come before the loop over programs."""
    for arg in low.function.args:
        if low.use_counts[arg] and isinstance(arg.type, TileType):
            low.env[arg] = low.param("scalar", arg, 0, arg.dtype).name
    for op in low.function.body.body:
        if op in invariant_ops:
            low.dispatch(low, op)
    groups = group_count(low)
    with low.block() as items:
        for op in low.function.body.body:
            if op not in invariant_ops:
                low.dispatch(low, op)
    return program_loop(tuple(items), groups, atomics.needs_one_core(low.function))


def group_count(low: Lowering) -> Scalar:
    """Return the number of coarsened programs along the first axis, and define `low.group_size`."""
    max_group = low.function.programs.factor
    if max_group == 1:
        return Expr("i64", ("grid_x",))
    programs_per_block = Expr("//", (fold("-", Expr("+", (Expr("i64", ("grid_x",)), "blocks")), 1), "blocks"))
    low.group_size = low.let("group", int64, Expr("max", (Expr("min", (programs_per_block, max_group)), 1)))
    return low.let("groups", int64, Expr("//", (fold("-", Expr("+", ("grid_x", low.group_size)), 1), low.group_size)))


def kernel_of(low: Lowering, kind: str, body: Loop) -> BlockKernel:
    """Build the kernel of a lowering."""
    slots = tuple(sorted(low.params, key=lambda slot: slot.kind != "ptr"))
    params = (*(low.params[slot] for slot in slots), *(Param(name, int32, False) for name in grid_names(low)))
    noalias = is_noalias(low.function)
    return BlockKernel(
        low.function.name,
        kind,
        params,
        tuple(low.buffers),
        (*low.preamble, *low.items, body),
        slots=slots,
        file=low.function.loc.user.file,
        noalias=noalias,
        one_core=atomics.needs_one_core(low.function),
    )


def grid_names(low: Lowering) -> tuple[str, ...]:
    """Names of the grid's sizes in the order of the launch; `grid_x` is the axis that runs fastest."""
    return tuple(_AXES[low.function.programs.order.index(axis)] for axis in range(len(_AXES)))


def program_loop(items: tuple[Item, ...], count_x: Scalar, is_single_core: bool = False) -> Loop:
    """Build a core's loop over its programs: all programs in their order, if a single core runs them."""
    y, z = (Expr("i64", (name,)) for name in _AXES[1:])
    start, step = (0, 1) if is_single_core else ("block", "blocks")
    return Loop("program", start, fold("*", fold("*", count_x, y), z), step, items)


def lower_op(low: Lowering, op: Op) -> None:
    """Lower one op."""
    low.loc = op.loc
    low.hint = name_hint(op, low.users)
    selected = selected_pointer(low, op)
    if selected is not None:
        dispatch_each(low, op, selected, lower_op)
        return
    if op.name == "where" and op.result.tile.is_ptr and not op.result.shape:
        pointer_select(low, op)
        return
    if TABLE[op.name].elementwise:
        lower_elementwise(low, op)
        return
    form = rule_for(TABLE[op.name])
    if isinstance(form, Unsupported):
        raise refused(op, form.reason)
    HANDLERS[op.name](low, op)


def program_id(low: Lowering, op: Op) -> None:
    """Lower `program_id`: programs are numbered along the first axis, then the second, then the third."""
    axis: int = op.attrs["axis"]
    if low.group_size != 1:
        group_bound(low, op)
        return
    number: Scalar = "program"
    for name in _AXES[:axis]:
        number = Expr("//", (number, name))
    number = Expr("%", (number, _AXES[axis])) if axis < 2 else number
    low.env[op.result] = low.let(op.result.hint or f"pid_{'xyz'[axis]}", int32, Expr("i32", (number,)))


def group_bound(low: Lowering, op: Op) -> None:
    """Lower the first program of a coarsened one, or the end behind its last."""
    groups = low.let("groups", int64, Expr("//", (fold("-", Expr("+", ("grid_x", low.group_size)), 1), low.group_size)))
    start = Expr("*", (Expr("%", ("program", groups)), low.group_size))
    first = low.let(op.result.hint, int32, Expr("i32", (start,)))
    end = Expr("i32", (Expr("min", (Expr("+", (first, low.group_size)), "grid_x")),))
    low.env[op.result] = low.let("end", int32, end) if "end" in op.attrs else first


def num_programs(low: Lowering, op: Op) -> None:
    """Lower `num_programs`."""
    low.env[op.result] = _AXES[op.attrs["axis"]]


def lower_nothing(low: Lowering, op: Op) -> None:
    """Drop asserts, prints and breakpoints, which only the interpreter has."""


HANDLERS: Final[Mapping[str, Callable[[Lowering, Op], None]]] = MappingProxyType({
    "program_id": program_id, "num_programs": num_programs,
    "assert_": lower_nothing, "print_": lower_nothing, "breakpoint_": lower_nothing,
    "constant": shape.constant, "undef": shape.undef, "arange": shape.arange, "broadcast_to": shape.broadcast,
    "reshape": shape.reshape, "permute": shape.permute,
    "array_ptr": dma.array_ptr, "array_shape": dma.array_fact, "array_stride": dma.array_fact,
    "addptr": dma.addptr, "load": dma.load, "store": dma.store,
    "tile_load": dma.tile_load, "tile_store": dma.tile_store,
    **dict.fromkeys((row.name for row in ROWS if "reduction" in row.traits), reduce.reduction),
    **dict.fromkeys(ARG_REDUCTIONS, argreduce.arg_reduction),
    **dict.fromkeys((row.name for row in ROWS if "scan" in row.traits), scan.scan),
    **dict.fromkeys((row.name for row in ROWS if row.effect is Effect.ATOMIC), atomics.atomic),
    "slice": gather_slice.lower_slice, "gather": gather_slice.gather, "histogram": gather_slice.histogram,
    "sort_keys": sort.sort_keys, "dot": dot.dot,
    "for": control.lower_for, "while": control.lower_while, "if": control.lower_if,
})  # fmt: skip
