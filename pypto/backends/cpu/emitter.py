"""The emitter that CPU rules receive: lane-wise instructions as LLVM IR text.

An instruction on uniform operands stays scalar and goes to the frame where its operands are known; it becomes a vector
only where it meets one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from pypto.backends.cpu import convert, softfloat
from pypto.backends.cpu.lanes import Lanes, intrinsic_suffix, llvm_type, number, vector
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.writer import Writer
from pypto.ir.types import DType, float32, float64, int1, int32, int64

_ORDERED = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_ROUND = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "even": "roundeven"}


class LaneEmitter:
    """Implements `pypto.ops.emitter.Emitter` over a `Writer`."""

    def __init__(self, writer: Writer, target: CpuTarget) -> None:
        self.w = writer
        self.target = target
        self.codes: dict[str, Lanes] = {}  # of floats of 8 bits, by the registers that hold their values

    # --- values -------------------------------------------------------------------------------------------------

    def const(self, value: float | int | bool, dtype: DType) -> Lanes:
        return Lanes(number(value, dtype), dtype, 1, 0)

    def splat(self, a: Lanes, width: int) -> Lanes:
        """A scalar in every lane."""
        if a.width == width:
            return a
        if not a.text.startswith("%"):
            return Lanes(f"splat ({a.typed})", a.dtype, width, 0)
        level = max(a.level, self.w.base)
        memo = self.w.frames[level].memo
        key = ("splat", a.text, width)
        if key not in memo:
            kind = llvm_type(a.dtype, width)
            first = self.w.raw(f"insertelement {kind} poison, {a.typed}, i32 0", level)
            memo[key] = self.w.instr(f"shufflevector {kind} {first}, {kind} poison, <{width} x i32> zeroinitializer",
                a.dtype, width, level)
        return memo[key]

    def unify(self, *values: Lanes) -> tuple[Lanes, ...]:
        width = max(v.width for v in values)
        return tuple(self.splat(v, width) for v in values)

    def instr(self, text: str, dtype: DType, *operands: Lanes) -> Lanes:
        return self.w.instr(text, dtype, operands[0].width, max(v.level for v in operands))

    def binary(self, opcode: str, a: Lanes, b: Lanes) -> Lanes:
        a, b = self.unify(a, b)
        return self.instr(f"{opcode} {a.typed}, {b.text}", a.dtype, a, b)

    def intrinsic(self, name: str, dtype: DType, *args: Lanes) -> Lanes:
        args = self.unify(*args)
        level = max(v.level for v in args)
        full = f"llvm.{name}.{intrinsic_suffix(args[0].dtype, args[0].width)}"
        text = self.w.call(llvm_type(dtype, args[0].width), full, tuple((v.type, v.text) for v in args), level)
        return Lanes(text, dtype, args[0].width, max(level, self.w.base))

    # --- arithmetic ---------------------------------------------------------------------------------------------

    def add(self, a: Lanes, b: Lanes) -> Lanes:
        return self.binary(f"fadd{self.target.contract}" if a.dtype.is_float else "add", a, b)

    def sub(self, a: Lanes, b: Lanes) -> Lanes:
        return self.binary(f"fsub{self.target.contract}" if a.dtype.is_float else "sub", a, b)

    def mul(self, a: Lanes, b: Lanes) -> Lanes:
        return self.binary(f"fmul{self.target.contract}" if a.dtype.is_float else "mul", a, b)

    def div(self, a: Lanes, b: Lanes) -> Lanes:
        return self.binary("fdiv", a, b) if a.dtype.is_float else convert.int_div(self, a, b)

    def rem(self, a: Lanes, b: Lanes) -> Lanes:
        if a.dtype.is_float:
            return softfloat.fmod(self, a, b)
        rest = self.sub(a, self.mul(convert.int_div(self, a, b), b))
        if b.text.lstrip("-").isdigit() and b.text != "0":
            return rest
        zero = self.const(0, a.dtype)
        return self.select(self.cmp("eq", b, zero), zero, rest)

    def neg(self, a: Lanes) -> Lanes:
        return self.instr(f"fneg {a.typed}", a.dtype, a) if a.dtype.is_float else self.sub(self.const(0, a.dtype), a)

    def fma(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        return self.multiply_add(a, b, c) if self.target.has_fma else softfloat.fma(self, a, b, c)

    def multiply_add(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        return self.intrinsic("fma", a.dtype, a, b, c) if self.target.has_fma else self.add(self.mul(a, b), c)

    def two_product(self, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
        if not self.target.has_fma:
            return softfloat.two_product(self, a, b)
        product = self.binary("fmul", a, b)  # never contracted: its rounding error is what is asked for
        return product, self.fma(a, b, self.neg(product))

    def abs(self, a: Lanes) -> Lanes:
        if a.dtype.is_float:
            return self.intrinsic("fabs", a.dtype, a)
        return self.select(self.cmp("lt", a, self.const(0, a.dtype)), self.neg(a), a) if a.dtype.kind == "int" else a

    def sqrt(self, a: Lanes) -> Lanes:
        return self.intrinsic("sqrt", a.dtype, a)

    def round(self, a: Lanes, mode: str) -> Lanes:
        if self.target.has_round:
            return self.intrinsic(_ROUND[mode], a.dtype, a)
        return softfloat.round_by_adding(self, a, mode)

    # --- bits ---------------------------------------------------------------------------------------------------

    def and_(self, a: Lanes, b: Lanes) -> Lanes:
        return self.binary("and", a, b)

    def or_(self, a: Lanes, b: Lanes) -> Lanes:
        return self.binary("or", a, b)

    def xor(self, a: Lanes, b: Lanes) -> Lanes:
        return self.binary("xor", a, b)

    def shl(self, a: Lanes, b: Lanes) -> Lanes:
        return self.binary("shl", a, b)

    def shr(self, a: Lanes, b: Lanes) -> Lanes:
        return self.binary("ashr" if a.dtype.kind == "int" else "lshr", a, b)

    def popcount(self, a: Lanes) -> Lanes:
        return self.intrinsic("ctpop", a.dtype, a)

    def reverse_bits(self, a: Lanes) -> Lanes:
        return self.intrinsic("bitreverse", a.dtype, a)

    # --- choice and conversion ----------------------------------------------------------------------------------

    def cmp(self, predicate: str, a: Lanes, b: Lanes) -> Lanes:
        a, b = self.unify(a, b)
        if a.dtype.is_float:
            return self.instr(f"fcmp {_ORDERED[predicate]} {a.typed}, {b.text}", int1, a, b)
        sign = "" if predicate in ("eq", "ne") else "s" if a.dtype.kind == "int" else "u"
        return self.instr(f"icmp {sign}{predicate} {a.typed}, {b.text}", int1, a, b)

    def select(self, cond: Lanes, a: Lanes, b: Lanes) -> Lanes:
        a, b = self.unify(a, b)
        cond, a = (cond, a) if cond.width == 1 else self.unify(cond, a)
        b = self.splat(b, a.width)
        level = max(cond.level, a.level, b.level)
        return self.w.instr(f"select {cond.typed}, {a.typed}, {b.typed}", a.dtype, a.width, level)

    def rarely(self, condition: Lanes, usual: Sequence[Lanes], rare: Callable[[], Sequence[Lanes]]) -> list[Lanes]:
        width, some = condition.width, condition.text
        if width > 1:
            name, args = f"llvm.vector.reduce.or.v{width}i1", ((condition.type, condition.text),)
            some = self.w.call("i1", name, args, condition.level)

        def side(values: Callable[[], Sequence[Lanes]]) -> list[Lanes]:
            with self.w.based():
                return [self.splat(v, width) for v in values()]

        return self.w.branch(some, [lambda: side(rare), lambda: side(lambda: usual)])

    def lookup(self, name: str, table: Callable[[], Sequence[float]], index: Lanes) -> Lanes:
        if name not in self.w.declarations:
            entries = [f"double {number(x, float64)}" for x in table()]
            kind = f"[{len(entries)} x double]"
            self.w.declarations[name] = f"@{name} = private unnamed_addr constant {kind} [{', '.join(entries)}]"
        place = self.w.raw(f"getelementptr double, ptr @{name}, {index.typed}", index.level)
        if index.width == 1:
            return self.w.instr(f"load double, ptr {place}", float64, 1, index.level)
        full, kind = f"llvm.masked.gather.v{index.width}f64.v{index.width}p0", llvm_type(float64, index.width)
        on = self.splat(self.const(True, int1), index.width)
        args = ((vector("ptr", index.width), place), ("i32", "8"), (on.type, on.text), (kind, "poison"))
        return Lanes(self.w.call(kind, full, args, index.level), float64, index.width, max(index.level, self.w.base))

    def isnan(self, a: Lanes) -> Lanes:
        return self.instr(f"fcmp uno {a.typed}, {a.text}", int1, a)

    def minimum(self, a: Lanes, b: Lanes) -> Lanes:
        """The lesser of two integers."""
        return self.select(self.cmp("lt", a, b), a, b)

    def maximum(self, a: Lanes, b: Lanes) -> Lanes:
        return self.select(self.cmp("gt", a, b), a, b)

    def convert(self, a: Lanes, dtype: DType) -> Lanes:
        return convert.convert(self, a, dtype)

    def round_to(self, a: Lanes, dtype: DType) -> Lanes:
        """A float32 result rounded to the 16-bit float that it stands for."""
        return convert.round_to(self, a, dtype)

    def bitcast(self, a: Lanes, dtype: DType) -> Lanes:
        bits = convert.to_memory(self, a)
        return convert.from_memory(self, bits, dtype)

    def raw_bitcast(self, a: Lanes, dtype: DType) -> Lanes:
        """Between register types of one size."""
        return self.instr(f"bitcast {a.typed} to {llvm_type(dtype, a.width)}", dtype, a)

    def ldexp(self, a: Lanes, n: Lanes) -> Lanes:
        """Two steps of half the exponent each, so that both factors are normal and only the last one rounds.

        Adding 1.5 times the weight of the first fraction bit puts an integral `n` into the lowest bits.
        """
        ints, floats, bias, mantissa = (int64, float64, 1023, 52) if a.dtype == float64 else (int32, float32, 127, 23)
        shifter = self.const(1.5 * 2.0**mantissa, floats)
        whole = self.sub(self.raw_bitcast(self.add(n, shifter), ints), self.const(shifted_bits(mantissa, bias), ints))
        half = self.shr(whole, self.const(1, ints))
        for part in (half, self.sub(whole, half)):
            power = self.shl(self.add(part, self.const(bias, ints)), self.const(mantissa, ints))
            a = self.mul(a, self.raw_bitcast(power, floats))
        return a

    def shuffle(self, a: Lanes, b: Lanes, picks: list[int]) -> Lanes:
        """Lanes of `a`, then of `b`, by number."""
        mask = ", ".join(f"i32 {p}" for p in picks)
        text = f"shufflevector {a.typed}, {b.typed}, <{len(picks)} x i32> <{mask}>"
        return self.w.instr(text, a.dtype, len(picks), max(a.level, b.level))

    @overload
    def part(self, a: Lanes, start: int, width: int) -> Lanes: ...
    @overload
    def part(self, a: None, start: int, width: int) -> None: ...
    def part(self, a: Lanes | None, start: int, width: int) -> Lanes | None:
        """Some neighbouring lanes."""
        if a is None or a.width in (1, width):
            return a
        return self.shuffle(a, a, list(range(start, start + width)))

    def first(self, count: int, width: int) -> Lanes:
        """Mask of the first lanes."""
        return self.mask([i < count for i in range(width)])

    def mask(self, picks: list[bool]) -> Lanes:
        """A constant mask; of one lane, a scalar."""
        texts = ["true" if pick else "false" for pick in picks]
        return Lanes(f"<{', '.join(f'i1 {t}' for t in texts)}>" if len(texts) > 1 else texts[0], int1, len(picks), 0)

    def iota(self, width: int, dtype: DType) -> Lanes:
        """0, 1, 2, … in the lanes."""
        kind = llvm_type(dtype, 1)
        return Lanes(f"<{', '.join(f'{kind} {i}' for i in range(width))}>", dtype, width, 0)


def shifted_bits(mantissa: int, bias: int) -> int:
    """Bits of 1.5 · 2**mantissa."""
    return ((bias + mantissa) << mantissa) | (1 << (mantissa - 1))
