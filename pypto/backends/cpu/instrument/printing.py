"""Prints of compiled kernels: each becomes stores into a buffer that the launch reads when all programs are done.

Every program that may print has a slice of the buffer to itself, so that output does not depend on the order of
threads. The buffer begins with the number of prints for which there was no room, the number of programs with a slice,
and the bytes of a slice. A slice begins with the bytes in use; then come records: the number of the print, and its
values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pypto.backends.base import PRINTS_HEAD, Print, value_bytes
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import DType, PtrType, float32, int64, scalar
from pypto.ops.build import OpBuilder

BUFFER: Final = "print buffer"  # the argument's name, which none in Python can have


def lower_prints(function: Function) -> tuple[Function, tuple[Print, ...]]:
    """The function with stores in place of its prints, and what each of them prints."""
    if not any(op.name == "print_" for op in function.walk()):
        return function, ()
    printer = _Printer(OpBuilder(Region()), _rule)
    new = printer.function(function)
    new.attrs["prints"] = True
    return new, tuple(printer.prints)


@dataclass
class _Printer(Rewriter[OpBuilder]):
    """Rewrites prints to stores."""

    prints: list[Print] = field(default_factory=list)
    buffer: Value = field(default_factory=lambda: Value(scalar(int64), BUFFER))
    address: Value = field(init=False)  # of the program's slice
    enabled: Value = field(init=False)  # whether it has one
    capacity: Value = field(init=False)  # bytes for its records

    def function(self, old: Function) -> Function:
        body = Region([*(Value(a.type, a.hint) for a in old.args), self.buffer])
        self.mapping.update(zip(old.args, body.args[:-1], strict=True))
        with self.builder.inside(body):
            self.builder.loc = old.loc
            self.find_slice()
            for op in old.body.ops:
                self.visit(op)
        return replace(old, body=body, attrs=dict(old.attrs))

    def find_slice(self) -> None:
        """Compute the program's slice."""
        number = self.linear_program_id()
        count, size = (self.load(self.add_offset(self.buffer, at)) for at in (8, 16))
        slices = self.add_offset(self.buffer, PRINTS_HEAD)
        self.address = self.builder.emit("add", slices, self.builder.emit("mul", number, size))
        self.enabled = self.builder.emit("lt", number, count)
        self.capacity = self.add_offset(size, -8)

    def linear_program_id(self) -> Value:
        """The program's number in the order of the grid."""
        b = self.builder
        numbers = []
        for name in ("program_id", "num_programs"):
            numbers.append([b.cast(b.emit(name, axis=axis), int64) for axis in range(3)])
        (x, y, z), (columns, rows, _) = numbers
        row = b.emit("add", y, b.emit("mul", z, rows))
        return b.emit("add", x, b.emit("mul", row, columns))

    def add_offset(self, x: Value, number: int) -> Value:
        """An address, or a number, plus a constant."""
        return self.builder.emit("add", x, self.builder.constant(number, int64))

    def pointer(self, address: Value, dtype: DType = int64) -> Value:
        """A pointer to an address."""
        return self.builder.emit("ptr_cast", address, dtype=PtrType(dtype))

    def load(self, address: Value) -> Value:
        """A scalar at an address."""
        return self.builder.emit("load", self.pointer(address))

    def lower_print(self, op: Op) -> None:
        """Store the record of a print where there is room for it; else count it."""
        b = self.builder
        values = [as_storable(b, v) for v in self.operands(op)]
        site = Print(str(op.attrs["prefix"]), bool(op.attrs["hex"]), tuple((v.dtype.mnemonic, v.shape) for v in values))
        number = len(self.prints)
        size = site.bytes
        self.prints.append(site)
        used = b.emit(
            "load", self.pointer(self.address), self.enabled, self.capacity
        )  # a program without a slice has a full one
        fits = b.emit("le", self.add_offset(used, size), self.capacity)
        regions = Region(), Region()
        with b.inside(regions[0]):
            self.emit_record(values, number, self.add_offset(b.emit("add", self.address, used), 8))
            b.op("store", self.pointer(self.address), self.add_offset(used, size))
            b.op("yield")
        with b.inside(regions[1]):
            one = b.constant(1, int64)
            b.op("atomic_add", self.pointer(self.buffer), one, kind="add", sem="relaxed", scope="gpu")
            b.op("yield")
        b.create("if", (fits,), {}, (), regions)

    def emit_record(self, values: Sequence[Value], number: int, address: Value) -> None:
        """Store the number of a print, and its values."""
        b = self.builder
        b.op("store", self.pointer(address), b.constant(number, int64))
        at = 8
        for v in values:
            base = self.pointer(self.add_offset(address, at), v.dtype)
            if v.shape:
                strides = [math.prod(v.shape[d + 1 :]) for d in range(len(v.shape))]
                numbers = [b.constant(n, int64) for n in (*[0] * len(v.shape), *strides, *v.shape)]
                b.op("tile_store", base, *numbers, v, shape=v.shape, masked=False)
            else:
                b.op("store", base, v)
            at += value_bytes(v.dtype.mnemonic, v.shape)


def _rule(printer: _Printer, op: Op) -> Sequence[Value] | None:
    if op.name != "print_":
        return None
    printer.lower_print(op)
    return ()


def as_storable(b: OpBuilder, v: Value) -> Value:
    """A value in a type that numpy has: pointers as addresses, 16-bit and 8-bit floats as float32."""
    if v.tile.is_ptr:
        return b.cast(v, int64)
    return b.cast(v, float32) if v.dtype.kind == "bits" else v
