"""The CPU's emitter: lane-wise instructions of LLVM, and x86's own where they are shorter."""

from __future__ import annotations

from pypto.backends.cpu.peepholes.bf16_rounding import can_round_registers, round_registers
from pypto.backends.cpu.peepholes.division import (
    can_use_reciprocal,
    divide_by_reciprocal,
    fits_float64,
    float64_quotient,
)
from pypto.backends.cpu.peepholes.exponent import has_scalef_form, scalef, split_integer
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.llvm import conversions
from pypto.backends.llvm.lane_emitter import LaneEmitter
from pypto.backends.llvm.value import VectorValue, number
from pypto.backends.llvm.writer import Writer
from pypto.ir.types import bfloat16, int64
from pypto.ops.math import formats, soft


class CpuLaneEmitter(LaneEmitter):
    """`LaneEmitter` with the peepholes of this folder, each of which a kernel may switch off."""

    def __init__(self, writer: Writer, target: CpuTarget, disabled: tuple[str, ...] = ()) -> None:
        super().__init__(writer, target, disabled)
        self.target: CpuTarget = target

    def hidden(self, a: VectorValue) -> VectorValue:
        """A constant that LLVM cannot fold: the end of a range of programs is never 0, which LLVM does not know."""
        is_true = self.cmp("ne", VectorValue("%last", int64, 1, 0), self.const(0, int64))
        other = 1 if a.text in ("0", number(0.0, a.dtype)) else 0
        return self.select(is_true, a, self.const(other, a.dtype))

    def end_kernel(self, name: str) -> None:
        """End a function with the signature of a kernel: a range of programs, a thread, and the arguments."""
        self.w.end_function(f"void @{name}(i64 %first, i64 %last, i64 %thread, ptr noalias %args) #0")

    def div(self, a: VectorValue, b: VectorValue) -> VectorValue:
        """The quotient; by reciprocal where that pays."""
        if can_use_reciprocal(self, a, b) and "reciprocal_division" not in self.disabled:
            return divide_by_reciprocal(self, a, b)
        return super().div(a, b)

    def integer_quotient(self, a: VectorValue, b: VectorValue, overflows: VectorValue | None = None) -> VectorValue:
        if fits_float64(a, b) and "reciprocal_division" not in self.disabled:
            return float64_quotient(self, a, b)
        return super().integer_quotient(a, b, overflows)

    def round_to_bfloat(self, a: VectorValue) -> VectorValue:
        if can_round_registers(self, a) and "bf16_rounding" not in self.disabled:
            return conversions.from_memory(self, round_registers(self, a, formats.bfloat_bits), bfloat16)
        return super().round_to_bfloat(a)

    def saturates(self, a: VectorValue) -> bool:
        return has_scalef_form(self, a) and "scaling_instructions" not in self.disabled

    def ldexp(self, a: VectorValue, n: VectorValue) -> VectorValue:
        a, n = self.unify(a, n)
        return scalef(self, a, n) if self.saturates(a) else self.formula(soft.scaled_twice, a, n)

    def split_integer(self, a: VectorValue) -> tuple[VectorValue, VectorValue]:
        return split_integer(self, a)
