"""The emitter that lane rules are written against: lane-wise instructions as LLVM IR text, for any target of LLVM.

An instruction on scalar operands stays scalar, and is hoisted to the frame where its operands are known; it becomes a
vector where it meets one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, overload

from pypto.backends.llvm import conversions
from pypto.backends.llvm.value import VectorValue, intrinsic_suffix, llvm_type, number, vector
from pypto.backends.llvm.writer import Writer
from pypto.ir.types import DType, float64, int1
from pypto.ops.math import soft
from pypto.ops.math.term import Term

_ORDERED = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_ROUND = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "even": "roundeven"}


class LaneTarget(Protocol):
    """The facts about a target that choose between an instruction and a formula."""

    @property
    def contract(self) -> str: ...  # fast-math flags of sums and products; empty where they round twice
    @property
    def has_fma(self) -> bool: ...
    @property
    def has_round(self) -> bool: ...  # to an integral value
    @property
    def has_half(self) -> bool: ...  # conversions between float16 and float32


def lanewise(opcode: str) -> Callable[[LaneEmitter, VectorValue, VectorValue], VectorValue]:
    """A method for a binary instruction: the integer opcode, or its form for floats."""

    def operate(e: LaneEmitter, a: VectorValue, b: VectorValue) -> VectorValue:
        return e.binary(f"f{opcode}{e.target.contract}" if a.dtype.is_float else opcode, a, b)

    return operate


class LaneEmitter:
    """Implements `pypto.ops.emitter.Emitter` over a `Writer`, with instructions that every target of LLVM has.

    A backend overrides the methods for which its targets have better instructions.
    """

    paired = False

    def __init__(self, writer: Writer, target: LaneTarget, disabled: tuple[str, ...] = ()) -> None:
        self.w = writer
        self.target = target
        self.disabled = disabled  # techniques that the kernel switches off
        self.codes: dict[str, VectorValue] = {}  # codes of 8-bit floats, by the names of their values

    # --- values -------------------------------------------------------------------------------------------------

    def const(self, value: float | int | bool, dtype: DType) -> VectorValue:
        return VectorValue(number(value, dtype), dtype, 1, 0)

    def splat(self, a: VectorValue, width: int) -> VectorValue:
        """A scalar in every lane."""
        if a.width == width:
            return a
        if not a.text.startswith("%"):
            return VectorValue(f"splat ({a.typed})", a.dtype, width, 0)
        kind = llvm_type(a.dtype, width)
        first = self.w.raw(f"insertelement {kind} poison, {a.typed}, i32 0", a.hoist_depth)
        text = f"shufflevector {kind} {first}, {kind} poison, <{width} x i32> zeroinitializer"
        return self.w.instr(text, a.dtype, width, a.hoist_depth)

    def unify(self, *values: VectorValue) -> tuple[VectorValue, ...]:
        """Values of one width: scalars become splats."""
        width = max(v.width for v in values)
        return tuple(self.splat(v, width) for v in values)

    def instr(self, text: str, dtype: DType, *operands: VectorValue) -> VectorValue:
        """An instruction, hoisted as far as its operands allow."""
        return self.w.instr(text, dtype, operands[0].width, max(v.hoist_depth for v in operands))

    def binary(self, opcode: str, a: VectorValue, b: VectorValue) -> VectorValue:
        """An instruction on two operands of one type."""
        a, b = self.unify(a, b)
        return self.instr(f"{opcode} {a.typed}, {b.text}", a.dtype, a, b)

    def intrinsic(self, name: str, dtype: DType, *args: VectorValue) -> VectorValue:
        """A call of an LLVM intrinsic of one type."""
        args = self.unify(*args)
        full = f"llvm.{name}.{intrinsic_suffix(args[0].dtype, args[0].width)}"
        level = max(v.hoist_depth for v in args)
        return self.call(full, dtype, args[0].width, level, *((v.type, v.text) for v in args))

    def call(self, name: str, dtype: DType, width: int, level: int, *args: tuple[str, str]) -> VectorValue:
        """A call that gives lanes; `args` are pairs of type and text."""
        text = self.w.call(llvm_type(dtype, width), name, args, level)
        return VectorValue(text, dtype, width, max(level, self.w.hoist_floor))

    def change(self, opcode: str, a: VectorValue, dtype: DType) -> VectorValue:
        """An instruction whose result is of another type."""
        return self.instr(f"{opcode} {a.typed} to {llvm_type(dtype, a.width)}", dtype, a)

    def formula(self, fn: Callable[..., Term], *operands: VectorValue, **more: object) -> VectorValue:
        """A formula of the op table, on lanes."""
        e: Any = self  # an `Emitter` whose lanes are of one class
        return cast(VectorValue, fn(*(Term(e, a) for a in operands), **more).lanes)

    # --- arithmetic ---------------------------------------------------------------------------------------------

    add, sub, mul, and_, or_, xor, shl = map(lanewise, ("add", "sub", "mul", "and", "or", "xor", "shl"))

    def div(self, a: VectorValue, b: VectorValue) -> VectorValue:
        """The quotient."""
        return self.binary("fdiv", a, b) if a.dtype.is_float else conversions.int_div(self, a, b)

    def integer_quotient(self, a: VectorValue, b: VectorValue, overflows: VectorValue | None = None) -> VectorValue:
        """The quotient by what is not 0; where it `overflows` (by -1), it is undefined and does not trap."""
        if overflows is None:
            return self.binary("udiv", a, b)
        return self.binary("sdiv", a, self.select(overflows, self.const(1, a.dtype), b))

    def neg(self, a: VectorValue) -> VectorValue:
        return self.instr(f"fneg {a.typed}", a.dtype, a) if a.dtype.is_float else self.sub(self.const(0, a.dtype), a)

    def fmod(self, a: VectorValue, b: VectorValue) -> VectorValue:
        return self.formula(soft.fmod, a, b)

    def fma(self, a: VectorValue, b: VectorValue, c: VectorValue) -> VectorValue:
        return self.multiply_add(a, b, c) if self.target.has_fma else self.formula(soft.fma, a, b, c)

    def multiply_add(self, a: VectorValue, b: VectorValue, c: VectorValue) -> VectorValue:
        return self.intrinsic("fma", a.dtype, a, b, c) if self.target.has_fma else self.add(self.mul(a, b), c)

    def two_product(self, a: VectorValue, b: VectorValue) -> tuple[VectorValue, VectorValue]:
        """A product and its rounding error."""
        if not self.target.has_fma:
            return self.mul(a, b), self.formula(soft.product_error, a, b)
        product = self.binary("fmul", a, b)  # must not be contracted, or the error would be 0
        return product, self.fma(a, b, self.neg(product))

    def abs(self, a: VectorValue) -> VectorValue:
        if a.dtype.is_float:
            return self.intrinsic("fabs", a.dtype, a)
        return self.select(self.cmp("lt", a, self.const(0, a.dtype)), self.neg(a), a) if a.dtype.kind == "int" else a

    def sqrt(self, a: VectorValue) -> VectorValue:
        return self.intrinsic("sqrt", a.dtype, a)

    def round(self, a: VectorValue, mode: str) -> VectorValue:
        if self.target.has_round:
            return self.intrinsic(_ROUND[mode], a.dtype, a)
        return self.formula(soft.round_by_adding, a, mode=mode)

    # --- bits ---------------------------------------------------------------------------------------------------

    def shr(self, a: VectorValue, b: VectorValue) -> VectorValue:
        return self.binary("ashr" if a.dtype.kind == "int" else "lshr", a, b)

    def popcount(self, a: VectorValue) -> VectorValue:
        return self.intrinsic("ctpop", a.dtype, a)

    def reverse_bits(self, a: VectorValue) -> VectorValue:
        return self.intrinsic("bitreverse", a.dtype, a)

    # --- choice and conversion ----------------------------------------------------------------------------------

    def cmp(self, predicate: str, a: VectorValue, b: VectorValue) -> VectorValue:
        a, b = self.unify(a, b)
        if a.dtype.is_float:
            return self.instr(f"fcmp {_ORDERED[predicate]} {a.typed}, {b.text}", int1, a, b)
        sign = "" if predicate in ("eq", "ne") else "s" if a.dtype.kind == "int" else "u"
        return self.instr(f"icmp {sign}{predicate} {a.typed}, {b.text}", int1, a, b)

    def select(self, cond: VectorValue, a: VectorValue, b: VectorValue) -> VectorValue:
        a, b = self.unify(a, b)
        cond, a = (cond, a) if cond.width == 1 else self.unify(cond, a)
        b = self.splat(b, a.width)
        level = max(cond.hoist_depth, a.hoist_depth, b.hoist_depth)
        return self.w.instr(f"select {cond.typed}, {a.typed}, {b.typed}", a.dtype, a.width, level)

    def rarely(
        self, condition: VectorValue, usual: Sequence[VectorValue], rare: Callable[[], Sequence[VectorValue]]
    ) -> list[VectorValue]:
        width = condition.width

        def side(values: Callable[[], Sequence[VectorValue]]) -> list[VectorValue]:
            with self.w.isolated():
                return [self.splat(v, width) for v in values()]

        return self.w.branch(self.any(condition).text, [lambda: side(rare), lambda: side(lambda: usual)])

    def any(self, a: VectorValue) -> VectorValue:
        """Whether a condition holds in some lane."""
        if a.width == 1:
            return a
        return self.call(f"llvm.vector.reduce.or.v{a.width}i1", int1, 1, a.hoist_depth, (a.type, a.text))

    def lookup(self, name: str, table: Callable[[], Sequence[float]], index: VectorValue) -> VectorValue:
        if name not in self.w.declarations:
            entries = [f"double {number(x, float64)}" for x in table()]
            kind = f"[{len(entries)} x double]"
            self.w.declarations[name] = f"@{name} = private unnamed_addr constant {kind} [{', '.join(entries)}]"
        address = self.w.raw(f"getelementptr double, ptr @{name}, {index.typed}", index.hoist_depth)
        if index.width == 1:
            return self.w.instr(f"load double, ptr {address}", float64, 1, index.hoist_depth)
        mask = self.splat(self.const(True, int1), index.width)
        poison = VectorValue("poison", float64, index.width, 0)
        return self.gathered(address, float64, 8, mask, poison, index.hoist_depth)

    def gathered(
        self, pointers: str, dtype: DType, align: int, mask: VectorValue, other: VectorValue, level: int
    ) -> VectorValue:
        """Elements behind pointers, where the mask holds; `other` elsewhere."""
        width = mask.width
        name = f"llvm.masked.gather.{intrinsic_suffix(dtype, width)}.v{width}p0"
        args = (vector("ptr", width), pointers), ("i32", str(align)), (mask.type, mask.text), (other.type, other.text)
        return self.call(name, dtype, width, level, *args)

    def isnan(self, a: VectorValue) -> VectorValue:
        return self.instr(f"fcmp uno {a.typed}, {a.text}", int1, a)

    def minimum(self, a: VectorValue, b: VectorValue) -> VectorValue:
        """The lesser of two integers."""
        return self.select(self.cmp("lt", a, b), a, b)

    def maximum(self, a: VectorValue, b: VectorValue) -> VectorValue:
        """The greater of two integers."""
        return self.select(self.cmp("gt", a, b), a, b)

    def convert(self, a: VectorValue, dtype: DType) -> VectorValue:
        return conversions.convert(self, a, dtype)

    def round_to(self, a: VectorValue, dtype: DType) -> VectorValue:
        """A float32 rounded to a narrow float."""
        return conversions.round_to(self, a, dtype)

    def round_to_bfloat(self, a: VectorValue) -> VectorValue:
        """A float32 rounded to bfloat16, ties to even."""
        return conversions.round_to_bfloat(self, a)

    def bitcast(self, a: VectorValue, dtype: DType) -> VectorValue:
        bits = conversions.to_memory(self, a)
        return conversions.from_memory(self, bits, dtype)

    def saturates(self, a: VectorValue) -> bool:
        """Whether `ldexp` is one instruction, which rounds once and saturates."""
        return False

    def ldexp(self, a: VectorValue, n: VectorValue) -> VectorValue:
        a, n = self.unify(a, n)
        return self.formula(soft.scaled_twice, a, n)

    def split_integer(self, a: VectorValue) -> tuple[VectorValue, VectorValue]:
        """The nearest integers, and the fractions."""
        integer = self.round(a, "even")
        return integer, self.sub(a, integer)

    def shuffle(self, a: VectorValue, b: VectorValue, picks: list[int]) -> VectorValue:
        """Lanes of `a`, then of `b`, by number."""
        mask = ", ".join(f"i32 {p}" for p in picks)
        text = f"shufflevector {a.typed}, {b.typed}, <{len(picks)} x i32> <{mask}>"
        return self.w.instr(text, a.dtype, len(picks), max(a.hoist_depth, b.hoist_depth))

    @overload
    def part(self, a: VectorValue, start: int, width: int) -> VectorValue: ...
    @overload
    def part(self, a: None, start: int, width: int) -> None: ...
    def part(self, a: VectorValue | None, start: int, width: int) -> VectorValue | None:
        """Consecutive lanes of a value."""
        if a is None or a.width in (1, width):
            return a
        return self.shuffle(a, a, list(range(start, start + width)))

    def joined(self, parts: list[VectorValue]) -> VectorValue:
        """Concatenated lanes; the number of parts is a power of two."""
        while len(parts) > 1:
            lanes = list(range(parts[0].width * 2))
            parts = [self.shuffle(a, b, lanes) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def first(self, count: int, width: int) -> VectorValue:
        """The mask of the first lanes."""
        return self.mask([i < count for i in range(width)])

    def mask(self, picks: list[bool]) -> VectorValue:
        """A constant mask; of one lane, a scalar."""
        texts = ["true" if pick else "false" for pick in picks]
        text = f"<{', '.join(f'i1 {t}' for t in texts)}>" if len(texts) > 1 else texts[0]
        return VectorValue(text, int1, len(picks), 0)

    def iota(self, width: int, dtype: DType) -> VectorValue:
        """0, 1, 2, … in the lanes."""
        kind = llvm_type(dtype, 1)
        return VectorValue(f"<{', '.join(f'{kind} {i}' for i in range(width))}>", dtype, width, 0)
