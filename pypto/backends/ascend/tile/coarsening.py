"""Kernels whose programs work on few elements each: a core does several of them at once.

A program that takes a row, or a short run of elements, makes copies that are too small for the engines, and vector
instructions that wait for each other. So neighbouring programs become one, whose tiles have a dimension more: the
program's number in its group. What is the same for all of them stays as it is. How many there are in a group, the
kernel decides when it runs: as many as tiles are made for, fewer where cores would have no work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pypto.backends.ascend.tile.ub_layout import Grain, grain_of
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import TileType, int32, int64
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.cse import cse
from pypto.passes.dce import dce
from pypto.passes.pattern import constant_of

COARSENED_BYTES: Final = 16 << 10  # of a copy, from which on the engines are at their best
MAX_FACTOR: Final = 64
_AFFINE_OPS: Final = frozenset(("cast", "add", "sub", "mul", "addptr"))
_LIFTABLE_OPS: Final = frozenset(("constant", "undef", "arange", "array_ptr", "array_shape", "array_stride", "addptr",
                            "program_id", "broadcast_to", "reshape", "permute", "tile_load", "tile_store"))  # fmt: skip


class NotCoarsenable(Exception):
    """Programs that cannot become one."""


@dataclass(frozen=True, slots=True)
class Affine:
    """A number or address that grows by `step` from a program to the next; `first` is that of the group's first one.

    `passes.scalar_evolution` analyses a function that stays as it is, and gives a step as a sum of products. Here the
    parts are ops of the function that is being built, in the width of the number, since they become its offsets.
    """

    first: Value
    step: int | Value


def coarsen(function: Function) -> Function | None:
    """The kernel for groups of programs; None where that is not possible, or of no use.

    In it, `program_id` is the group's first program, and with an `end`, the one behind its last.
    """
    count = coarsening_factor(function)
    if count < 2:
        return None
    outer = Region([Value(a.type, a.hint) for a in function.args])
    b = OpBuilder(outer, function.loc)
    work = Coarsening(b, count, grain_of(function), dict(zip(function.args, outer.args, strict=True)))
    try:
        for op in function.body.body:
            with b.at(op.loc):
                work.op(op)
    except NotCoarsenable:
        return None
    b.create("yield")
    return cse(
        dce(
            replace(function, body=outer, attrs=dict(function.attrs), programs=replace(function.programs, factor=count))
        )
    )


def coarsening_factor(function: Function) -> int:
    """How many programs would fill a copy; 1 where there is something that groups do not know."""
    ops = function.body.body
    rows = [TABLE[op.name] for op in ops]
    known = all(r.elementwise or r.traits & {"reduction", "scan"} or r.name in _LIFTABLE_OPS for r in rows)
    axes = {op.attrs["axis"] for op in ops if op.name == "program_id"}
    moved = [op for op in ops if TABLE[op.name].effect in (Effect.READ, Effect.WRITE)]
    if not known or axes != {0} or not moved or any(op.attrs["masked"] or "atomic" in op.attrs for op in moved):
        return 1
    largest = max((Access.of(op).value or op.results[0]).tile.size * element_bytes(op) for op in moved)
    most = min(MAX_FACTOR, max(1, COARSENED_BYTES // largest))
    return 1 << (most.bit_length() - 1)


def element_bytes(op: Op) -> int:
    return (Access.of(op).value or op.results[0]).dtype.itemsize


@dataclass
class Coarsening:
    """Copies ops. `uniform` are values that all programs share, `affine_values` numbers.

    `lifted_values` tiles with a dimension more.
    """

    b: OpBuilder
    factor: int
    grain: Grain
    uniform: dict[Value, Value]
    affine_values: dict[Value, Affine] = field(default_factory=dict)
    lifted_values: dict[Value, Value] = field(default_factory=dict)
    in_grid: Value | None = None  # programs of the group that there are

    def op(self, op: Op) -> None:
        if op.name == "program_id":
            self.affine_values[op.result] = Affine(self.program(op.result.hint), 1)
        elif all(v in self.uniform for v in op.operands):
            made = self.b.create(op.name, tuple(map(self.uniform.__getitem__, op.operands)), dict(op.attrs),
                                 tuple(v.type for v in op.results))  # fmt: skip
            self.uniform.update(zip(op.results, made.results, strict=True))
            self.hint(op, *made.results)
        elif op.name in ("tile_load", "tile_store"):
            self.access(op)
        elif op.name in _AFFINE_OPS and not op.result.shape and (found := self.affine_op(op)) is not None:
            self.affine_values[op.result] = found
            self.hint(op, found.first)
        else:
            self.lifted_values[op.result] = self.lift_op(op)
            self.hint(op, self.lifted_values[op.result])

    def hint(self, op: Op, *made: Value) -> None:
        for old, new in zip(op.results, made, strict=True):
            new.hint = new.hint or old.hint

    def program(self, hint: str) -> Value:
        """The group's first program."""
        first, end = (self.b.create("program_id", (), {"axis": 0, **more}, (TileType((), int32),)).result
                      for more in ({}, {"end": True}))  # fmt: skip
        self.in_grid = self.b.cast(self.b.emit("sub", end, first), int64)
        first.hint = end.hint = hint or "first"
        self.in_grid.hint = "present"
        return first

    # --- numbers ------------------------------------------------------------------------------------------------

    def affine_op(self, op: Op) -> Affine | None:
        """A sum or product of what moves, as such."""
        x = self.affine_values.get(op.operands[0])
        y = self.affine_values.get(op.operands[1]) if len(op.operands) > 1 else None
        if any(v in self.lifted_values for v in op.operands) or (op.name != "addptr" and not op.result.dtype.is_int):
            return None
        if op.name == "cast":
            assert x is not None
            step = x.step if isinstance(x.step, int) else self.b.cast(x.step, op.result.dtype)
            return Affine(self.b.cast(x.first, op.result.dtype), step)
        if op.name == "mul":
            if x is not None and y is not None:
                return None
            return self.scale(x or y, self.uniform[op.operands[1 if x else 0]])
        if op.name == "sub" and y is not None:
            return None
        pairs = zip((x, y), op.operands, strict=True)
        first = self.b.emit(op.name, *(m.first if m else self.uniform[v] for m, v in pairs))
        if x is not None and y is not None:
            total = x.step + y.step if isinstance(x.step, int) and isinstance(y.step, int) else None
            return None if total is None else Affine(first, total)
        moving = x or y
        assert moving is not None
        return Affine(first, moving.step)

    def scale(self, moving: Affine | None, by: Value) -> Affine:
        assert moving is not None
        first, known = self.b.emit("mul", moving.first, by), constant_of(by)
        if isinstance(moving.step, int):
            step: int | Value = moving.step * int(known) if known is not None else by
            if known is None and moving.step != 1:
                step = self.b.emit("mul", by, self.b.constant(moving.step, by.dtype))
            return Affine(first, step)
        return Affine(first, self.b.emit("mul", moving.step, by))

    def expand(self, moving: Affine) -> Value:
        """What moves, of each program."""
        dtype, shape = moving.first.dtype, (self.factor,)
        number = self.b.cast(self.b.emit("arange", start=0, end=self.factor), dtype)
        step = self.b.constant(moving.step, dtype) if isinstance(moving.step, int) else moving.step
        return self.b.emit("add", self.b.broadcast(moving.first, shape),
                           self.b.emit("mul", number, self.b.broadcast(step, shape)))  # fmt: skip

    # --- tiles --------------------------------------------------------------------------------------------------

    def lift(self, v: Value) -> Value:
        """A value of each program."""
        if v in self.lifted_values:
            return self.lifted_values[v]
        if isinstance(v.type, TileType) and v.type.is_ptr:
            raise NotCoarsenable
        if v in self.affine_values:
            return self.expand(self.affine_values[v])
        return self.b.broadcast(self.uniform[v], (self.factor, *v.shape))

    def lift_op(self, op: Op) -> Value:
        """An op on tiles with a dimension more."""
        row, shape = TABLE[op.name], op.result.shape
        attrs: dict[str, Any] = dict(op.attrs)
        operands = tuple(map(self.lift, op.operands))
        if row.elementwise:
            if any(v.shape != shape for v in op.operands):
                raise NotCoarsenable
        elif op.name in ("broadcast_to", "reshape"):
            attrs["shape"] = (self.factor, *shape)
            missing = len(shape) - len(op.operands[0].shape)
            if op.name == "broadcast_to" and missing:
                wide = (self.factor, *(1,) * missing, *op.operands[0].shape)
                operands = (self.b.emit("reshape", operands[0], shape=wide),)
        elif op.name == "permute":
            attrs["dims"] = (0, *(d + 1 for d in attrs["dims"]))
        elif "reduction" in row.traits and op.operands[0].shape:
            attrs["axes"] = tuple(axis + 1 for axis in attrs["axes"])
        elif "scan" in row.traits:
            attrs["axis"] += 1
        else:
            raise NotCoarsenable
        return self.b.create(op.name, operands, attrs, (op.result.tile.with_shape((self.factor, *shape)),)).result

    # --- memory -------------------------------------------------------------------------------------------------

    def access(self, op: Op) -> None:
        access = Access.of(op)
        base, shape, offsets, strides, extents = self.place(access)
        operands = (base, *offsets, *strides, *extents)
        if access.value is not None:
            self.b.create("tile_store", (*operands, self.b.emit("reshape", self.lift(access.value), shape=shape)),
                          {**op.attrs, "shape": shape}, ())  # fmt: skip
            return
        other = (self.b.emit("reshape", self.lift(access.other), shape=shape),) if access.other else ()
        kind = op.result.tile.with_shape(shape)
        found = self.b.create("tile_load", (*operands, *other), {**op.attrs, "shape": shape}, (kind,)).result
        found.hint = op.result.hint
        self.lifted_values[op.result] = self.b.emit("reshape", found, shape=(self.factor, *access.shape))
        self.hint(op, self.lifted_values[op.result])

    def place(self, access: Access) -> tuple[Value, tuple[int, ...], list[Value], list[Value], list[Value]]:
        """Where all programs' elements lie: rows that begin at the programs' numbers, or at equal distances."""
        assert self.in_grid is not None
        if any(v not in self.uniform for v in (*access.strides, *access.extents)):
            raise NotCoarsenable
        strides, extents = ([self.uniform[v] for v in values] for values in (access.strides, access.extents))
        moving = [d for d, v in enumerate(access.offsets) if v in self.affine_values]
        if access.base in self.affine_values and not moving:
            base = self.affine_values[access.base]
            step = self.b.constant(base.step, int64) if isinstance(base.step, int) else self.b.cast(base.step, int64)
            offsets = [self.b.constant(0, int64), *(self.uniform[v] for v in access.offsets)]
            return base.first, (self.factor, *access.shape), offsets, [step, *strides], [self.in_grid, *extents]
        if access.base not in self.uniform or len(moving) != 1 or any(v in self.lifted_values for v in access.offsets):
            raise NotCoarsenable
        (d,) = moving
        size, one = access.shape[d], self.affine_values[access.offsets[d]]
        before, behind = access.shape[:d], access.shape[d + 1 :]
        if one.step != size or math.prod(before) != 1:
            raise NotCoarsenable
        if size != 1 and math.prod(behind) == 1 and size % self.grain.row:  # one run that would have to be taken apart
            raise NotCoarsenable
        end = self.b.emit("mul", self.in_grid, self.b.constant(size, int64)) if size != 1 else self.in_grid
        extents[d] = self.b.emit("minimum", extents[d], self.b.emit("add", one.first, end), propagate_nan=False)
        offsets = [one.first if e == d else self.uniform[v] for e, v in enumerate(access.offsets)]
        return self.uniform[access.base], (*before, self.factor * size, *behind), offsets, strides, extents
