"""Tile IR to Block IR, for vector cores: what one core does for its share of the programs.

Buffers have no addresses yet, and nothing waits for anything: `plan` and `sync` see to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import BlockKernel, Expr, Item, Loop, Param, Scalar, fold
from pypto.backends.ascend.rules.lane_rules import refused
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.grid_invariants import grid_invariant_ops
from pypto.backends.ascend.tile.ub_layout import grain_of
from pypto.backends.ascend.vector import argreduce, atomics, control, dma, dot, gather_slice, reduce, scan, shape, sort
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.elementwise import lower_elementwise
from pypto.backends.ascend.vector.naming import name_hint
from pypto.backends.ascend.vector.pointer_select import dispatch_each, pointer_select, selected_pointer
from pypto.ir.core import Function, Op
from pypto.ir.types import TileType, int32, int64
from pypto.ops.row import Effect, Unsupported
from pypto.ops.table import ARG_REDUCTIONS, ROWS, TABLE
from pypto.passes.memory_effects import is_noalias

_AXES: Final = ("grid_x", "grid_y", "grid_z")


def lower(function: Function, target: AscendTarget) -> BlockKernel:
    """A kernel for vector cores, which do all programs of the grid between them.

    Raises
    ------
    NoForm
        When the kernel needs what the chip has not.
    """
    low = Lowering(function, target, grain_of(function), dispatch=lower_op)
    return kernel_of(low, "vector", programs(low, grid_invariant_ops(function)))


def programs(low: Lowering, first: frozenset[Op] = frozenset()) -> Loop:
    """All that a core does, written by the lowering's `dispatch`; what comes `first` is written before the loop."""
    for arg in low.function.args:
        if low.uses[arg] and isinstance(arg.type, TileType):
            low.env[arg] = low.param("scalar", arg, 0, arg.dtype).name
    for op in low.function.body.body:
        if op in first:
            low.dispatch(low, op)
    groups = groups_of(low)
    with low.block() as items:
        for op in low.function.body.body:
            if op not in first:
                low.dispatch(low, op)
    return over_programs(tuple(items), groups, atomics.needs_one_core(low.function))


def groups_of(low: Lowering) -> Scalar:
    """Groups of programs along the first axis, of the size that `low.group` is a name for."""
    most = low.function.attrs.get("group", 1)
    if most == 1:
        return Expr("i64", ("grid_x",))
    assert isinstance(most, int)
    each = Expr("//", (fold("-", Expr("+", (Expr("i64", ("grid_x",)), "blocks")), 1), "blocks"))
    low.group = low.let("group", int64, Expr("max", (Expr("min", (each, most)), 1)))
    return low.let("groups", int64, Expr("//", (fold("-", Expr("+", ("grid_x", low.group)), 1), low.group)))


def kernel_of(low: Lowering, kind: str, body: Loop) -> BlockKernel:
    slots = tuple(sorted(low.params, key=lambda slot: slot.kind != "ptr"))
    params = (*(low.params[slot] for slot in slots), *(Param(name, int32, False) for name in _AXES))
    noalias = is_noalias(low.function)
    return BlockKernel(low.function.name, kind, params, tuple(low.buffers), (*low.front, *low.items, body), slots=slots,
        file=low.function.loc.user.file, noalias=noalias, one_core=atomics.needs_one_core(low.function))  # fmt: skip


def over_programs(items: tuple[Item, ...], along_x: Scalar, alone: bool = False) -> Loop:
    """The loop of a core over its programs or groups of them: over all, in their order, where it is `alone`."""
    y, z = (Expr("i64", (name,)) for name in _AXES[1:])
    start, step = (0, 1) if alone else ("block", "blocks")
    return Loop("program", start, fold("*", fold("*", along_x, y), z), step, items)


def lower_op(low: Lowering, op: Op) -> None:
    low.loc, low.hint = op.loc, name_hint(op, low.users)
    if (either := selected_pointer(low, op)) is not None:
        dispatch_each(low, op, either, lower_op)
        return
    if op.name == "where" and op.result.tile.is_ptr and not op.result.shape:
        pointer_select(low, op)
        return
    if TABLE[op.name].elementwise:
        lower_elementwise(low, op)
        return
    cell = TABLE[op.name].ascend
    if isinstance(cell, Unsupported):
        raise refused(op, cell.reason)
    HANDLERS[op.name](low, op)


def program_id(low: Lowering, op: Op) -> None:
    """Programs are numbered along the first axis, then the second, then the third."""
    axis: int = op.attrs["axis"]
    if low.group != 1:
        group_edge(low, op)
        return
    number: Scalar = "program"
    for name in _AXES[:axis]:
        number = Expr("//", (number, name))
    number = Expr("%", (number, _AXES[axis])) if axis < 2 else number
    low.env[op.result] = low.let(op.result.hint or f"pid_{'xyz'[axis]}", int32, Expr("i32", (number,)))


def group_edge(low: Lowering, op: Op) -> None:
    """The first program of a group, and the one behind its last."""
    groups = low.let("groups", int64, Expr("//", (fold("-", Expr("+", ("grid_x", low.group)), 1), low.group)))
    start = Expr("*", (Expr("%", ("program", groups)), low.group))
    first = low.let(op.result.hint, int32, Expr("i32", (start,)))
    end = Expr("i32", (Expr("min", (Expr("+", (first, low.group)), "grid_x")),))
    low.env[op.result] = low.let("end", int32, end) if "end" in op.attrs else first


def num_programs(low: Lowering, op: Op) -> None:
    low.env[op.result] = _AXES[op.attrs["axis"]]


def nothing(low: Lowering, op: Op) -> None:
    """Asserts, prints and breakpoints are the interpreter's."""


HANDLERS: Final[Mapping[str, Callable[[Lowering, Op], None]]] = MappingProxyType({
    "program_id": program_id, "num_programs": num_programs,
    "assert_": nothing, "print_": nothing, "breakpoint_": nothing,
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
