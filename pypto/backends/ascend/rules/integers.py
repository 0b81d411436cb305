"""Integer and bool arithmetic on the vector unit, which has + * << of int32, and of comparisons only that for equality.

Narrow integers are computed in 32 bits and wrapped, unsigned ones by their bits. An order is decided through the
greater or lesser operand: legal since that is one of them.

    a < b   ->   not (max(a, b) == a)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.backends.ascend.blockir.ir import Expr, Instr, Scalar, View, Word
from pypto.backends.ascend.rules import bits
from pypto.backends.ascend.rules.operand import Lanes, NoInstruction, as_dtype, as_int32, lanes_of
from pypto.ir.types import DType, float32, int32, uint32
from pypto.ops.math.term import Term

if TYPE_CHECKING:
    from pypto.backends.ascend.rules.emitter import VectorEmitter

_LEAST = -(1 << 31)


def wrapped(e: VectorEmitter, a: Lanes, dtype: DType | None = None) -> Lanes:
    """Wrap int32 to the range of a narrower integer: a mask, or a shift to the left and back."""
    dtype = dtype or a.dtype
    if not dtype.is_int:
        return Lanes(dtype, a.at)
    if not isinstance(a.at, View):
        return Lanes(dtype, cut(a.at, int32 if dtype == uint32 else dtype))
    if dtype.bits == 32:
        return Lanes(dtype, a.at)
    unused = 32 - dtype.bits
    if dtype.kind == "uint":
        return Lanes(dtype, e.and_(a, Lanes(a.dtype, (1 << dtype.bits) - 1)).at)
    left = shifted_by(e, "ShiftLeft", Lanes(int32, a.at), unused)
    return Lanes(dtype, shifted_by(e, "ShiftRight", left, unused).at)


def cut(number: Scalar, dtype: DType) -> Scalar:
    """Wrap a number to the range of a dtype."""
    if not isinstance(number, int):
        return Expr(dtype.mnemonic, (number,))
    low, high = dtype.integer_range
    return (number - low) % (high - low + 1) + low


def shifted_by(e: VectorEmitter, name: str, a: Lanes, amount: Scalar) -> Lanes:
    """Shift all lanes by one number, by one instruction; to the right with the sign if the dtype has one."""
    unit = uint32 if a.dtype.kind == "uint" else int32
    target = e.sink.temporary(int32)
    args = as_dtype(target, unit), as_dtype(e.view(a), unit), amount, e.sink.count
    e.sink.emit(Instr(name, args, e.sink.line))
    return Lanes(a.dtype, target)


def shifted(e: VectorEmitter, name: str, a: Lanes, b: Lanes) -> Lanes:
    """Shift by less than the width: one instruction for one number, else one step for each bit of the amounts."""
    if not isinstance(b.at, View):
        made = shifted_by(e, name, a, b.at)
        return made if name == "ShiftRight" else wrapped(e, made)
    for bit in range(a.dtype.bits.bit_length() - 1):
        has_bit = e.cmp("ne", e.and_(b, e.const(1 << bit, b.dtype)), e.const(0, b.dtype))
        a = e.select(has_bit, shifted_by(e, name, a, 1 << bit), a)
    return wrapped(e, a)


def xor(e: VectorEmitter, a: Lanes, b: Lanes) -> Lanes:
    """Exclusive or, as (a | b) - (a & b); with all bits set it is `Not`."""
    if b.is_scalar and b.at == (1 if a.dtype.is_bool else -1):
        return e.not_(a)
    if a.dtype.is_bool:
        return e.and_(e.or_(a, b), e.not_(e.and_(a, b)))
    return e.run("Sub", a.dtype, e.view(e.or_(a, b)), e.view(e.and_(a, b)))


def cmp_bools(e: VectorEmitter, predicate: str, a: Lanes, b: Lanes) -> Lanes:
    """Compare bools by logic, where false is less than true."""
    match predicate:
        case "ne":
            return e.xor(a, b)
        case "eq":
            return e.not_(e.xor(a, b))
        case "lt":
            return e.and_(e.not_(a), b)
        case "le":
            return e.or_(e.not_(a), b)
        case "gt":
            return e.and_(a, e.not_(b))
    return e.or_(a, e.not_(b))


def cmp(e: VectorEmitter, predicate: str, a: Lanes, b: Lanes) -> Lanes:
    """Compare integers through the greater or lesser of both, which is one of them."""
    if a.dtype == uint32:
        a, b = (with_sign(e, v) for v in (a, b))
    match predicate:
        case "eq":
            return equal(e, a, b)
        case "ne":
            return e.not_(equal(e, a, b))
        case "ge":
            return equal(e, e.arithmetic("Max", a, b), a)
        case "le":
            return equal(e, e.arithmetic("Min", a, b), a)
        case "lt":
            return e.not_(equal(e, e.arithmetic("Max", a, b), a))
    return e.not_(equal(e, e.arithmetic("Min", a, b), a))


def equal(e: VectorEmitter, a: Lanes, b: Lanes) -> Lanes:
    """Compare for equality, by the instruction."""
    return e.compare("eq", a, b)


def with_sign(e: VectorEmitter, a: Lanes) -> Lanes:
    """Map uint32 to int32 in the same order, by subtracting 2**31."""
    if isinstance(a.at, int):
        return Lanes(int32, as_int32(a.at + _LEAST))
    return e.arithmetic("Add", Lanes(int32, a.at), Lanes(int32, _LEAST))


def divided(e: VectorEmitter, a: Lanes, b: Lanes) -> Lanes:
    """Divide, truncating; by zero it gives 0. A power of two is a shift."""
    if isinstance(b.at, int) and b.at > 0 and b.at & (b.at - 1) == 0 and isinstance(a.at, View):
        return divided_by_power(e, a, b.at.bit_length() - 1)
    if a.dtype == uint32:
        raise NoInstruction("there is no division of uint32")
    if a.dtype.bits < 32:
        x, y = (e.run("Cast", float32, e.view(v), Word("CAST_RINT")) for v in (a, b))
        quotient = e.run("Cast", int32, e.view(e.div(x, y)), Word("CAST_TRUNC"))
    else:
        quotient = e.formula(quotient_of, a, b)
    by_zero = e.cmp("eq", b, e.const(0, b.dtype))
    return wrapped(e, e.select(by_zero, e.const(0, int32), Lanes(int32, quotient.at)), a.dtype)


def divided_by_power(e: VectorEmitter, a: Lanes, exponent: int) -> Lanes:
    """Divide by 2**exponent: a shift, before which negative numbers get 2**exponent - 1, as quotients are truncated."""
    if a.dtype.kind != "uint":
        negative = shifted_by(e, "ShiftRight", Lanes(int32, a.at), 31)
        upward = e.and_(Lanes(int32, e.view(negative)), Lanes(int32, (1 << exponent) - 1))
        a = Lanes(a.dtype, e.arithmetic("Add", Lanes(int32, a.at), upward).at)
    return Lanes(a.dtype, shifted_by(e, "ShiftRight", a, exponent).at)


def quotient_of(a: Term, b: Term) -> Term:
    """Of int32: by float32, and what that leaves by float32 again, which is then one off at most.

    The sizes are numbers without sign, so that the least integer has one, too.
    """
    dividend, divisor = abs(a), abs(b)
    size = abs(divisor.to(float32))
    first = (abs(dividend.to(float32)) / size).to(int32)
    rest = dividend - first * divisor
    second = (rest.to(float32) / size).round("trunc").to(int32)
    rest = rest - second * divisor
    below = rest >> 31
    rest = rest + (divisor & below)
    quotient = first + second + below + 1 + (rest - divisor >> 31)
    sign = (a ^ b) >> 31
    return (quotient ^ sign) - sign


def popcount(e: VectorEmitter, a: Lanes) -> Lanes:
    """Count the bits that are set."""
    return Lanes(a.dtype, lanes_of(bits.popcount(without_sign(e, a), a.dtype.bits)).at)


def reverse_bits(e: VectorEmitter, a: Lanes) -> Lanes:
    """Reverse the bits within the dtype's width."""
    return wrapped(e, Lanes(a.dtype, lanes_of(bits.reversed_bits(without_sign(e, a), a.dtype.bits)).at))


def without_sign(e: VectorEmitter, a: Lanes) -> Term:
    """Return the bits of an integer as uint32, with zeros above them."""
    narrow = a.dtype.bits < 32 and a.dtype.kind == "int"
    plain = e.and_(a, Lanes(a.dtype, (1 << a.dtype.bits) - 1)) if narrow else a
    return e.term(Lanes(uint32, e.view(plain)))
