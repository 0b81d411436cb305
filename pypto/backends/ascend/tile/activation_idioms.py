"""Idiom recognition of activations in float16: SiLU, GELU and products with a sigmoid in forms of fewer instructions.

The vector unit has the exponential and the quotient as instructions. A product with a sigmoid becomes a quotient, and
one by 1 + tanh is a product with a sigmoid. GELU by the error function takes one exponential of a polynomial for both
signs of x.

Legal where the result is rounded to float16 and all factors come from float16: where the exponential overflows, the
result is 0 in float16. GELU has no other factor, as its polynomial is right to a unit of float16; of -inf it gives its
limit, 0. It does not apply where exact rules are asked for (`disable="unit_functions"`).

    %s = sigmoid %v                                    %e = add (exp (neg %v)), 1
    %p = mul %x, %s                            ->      %q = div %x, %e
    %y = cast %p {dtype = f16}                         %y = cast %q {dtype = f16}

The polynomial of GELU stands for log(erfc(x / √2)) = x · (s (y (y + m) + n x + l)) with y = x (x + k), minimax for x
from 0 to 5.8: right to 0.4 units in the last place of float16. The form is Knuth's ("Evaluation of polynomials by
computer", Communications of the ACM, 1962).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pypto.backends.ascend.techniques import is_enabled
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import TileType, float16, float32
from pypto.ops.build import OpBuilder
from pypto.ops.table import MOVEMENT_OPS
from pypto.passes.dce import dce
from pypto.passes.pattern import constant_of

_GELU: Final = (-2.33275964e-04, -8.90748309157132, 65.88503518847439, 1962.783400831283, 3416.7720854429735)
_LARGEST: Final = 16.0  # beyond it, GELU is x or 0 in float16
_ROOT_HALF: Final = math.sqrt(0.5)
_TOLERANCE: Final = 1e-6  # of constants


@dataclass(frozen=True)
class Activation:
    """A product that is rounded to float16: its `gate`, and all other factors.

    The gate is 1 / (1 + exp(-`scale` · `argument`)), or with `is_normal` the probability that a normal number is below
    `argument`.
    """

    factors: tuple[Value, ...]
    argument: Value
    scale: float
    is_normal: bool


def recognize_activations(function: Function) -> Function:
    """The function with activations in their forms for float16, where it has any."""
    if not is_enabled(function, "unit_functions"):
        return function
    uses = Counter(v for op in function.walk() for v in op.operands)
    found = {op: x for op in function.walk() if (x := activation_of(op, uses)) is not None}
    if not found:
        return function

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        return [rewritten(rewriter, found[op])] if op in found else None

    return dce(Rewriter(OpBuilder(Region()), rule).function(function))


# --- reading ----------------------------------------------------------------------------------------------------------


def activation_of(op: Op, uses: Mapping[Value, int]) -> Activation | None:
    """The activation that a conversion to float16 rounds."""
    if op.name != "cast" or op.result.dtype != float16 or not op.result.shape:
        return None
    v = op.operands[0]
    if not isinstance(v.type, TileType) or v.dtype != float32 or uses[v] != 1:
        return None
    factors = factors_of(v, uses)
    gates = [f for f in factors if gate_of(f) is not None]
    others = [f for f in factors if f not in gates]
    if len(gates) != 1 or not others or not all(is_from_float16(f) or constant_of(f) is not None for f in others):
        return None
    argument, scale, is_normal, is_doubled = gate_of(gates[0]) or (v, 0.0, False, False)
    if is_doubled:  # 1 + tanh or 1 + erf, which is twice the gate
        half = next((f for f in others if is_number(constant_of(f), 0.5)), None)
        if half is None:
            return None
        others.remove(half)
    if is_normal and others != [argument]:  # its polynomial is right to a unit of float16, which another factor moves
        return None
    return Activation(tuple(others), argument, scale, is_normal)


def factors_of(v: Value, uses: Mapping[Value, int]) -> list[Value]:
    """The factors of a product. Products that something else uses are factors themselves."""
    if v.op is None or v.op.name != "mul":
        return [v]
    return [f for x in v.op.operands for f in (factors_of(x, uses) if uses[x] == 1 else [x])]


def gate_of(v: Value) -> tuple[Value, float, bool, bool] | None:
    """The argument of a gate, its factor, whether the gate is the normal one, and whether it stands there twice."""
    op = v.op
    if op is None:
        return None
    if op.name == "sigmoid":
        return op.operands[0], 1.0, False, False
    if op.name == "erfc":
        x, number = scaled(op.operands[0])
        return (x, 1.0, True, True) if is_number(number, -_ROOT_HALF) else None
    if op.name != "add" or not is_number(constant_of(op.operands[1]), 1.0) or op.operands[0].op is None:
        return None
    inner = op.operands[0].op
    if inner.name == "tanh":
        return inner.operands[0], 2.0, False, True
    if inner.name == "erf":
        x, number = scaled(inner.operands[0])
        return (x, 1.0, True, True) if is_number(number, _ROOT_HALF) else None
    return None


def scaled(v: Value) -> tuple[Value, float]:
    """A value as another one times a number."""
    op = v.op
    number = constant_of(op.operands[1]) if op is not None and op.name == "mul" else None
    if op is None or number is None:
        return v, 1.0
    return op.operands[0], float(number)


def is_number(number: float | None, wanted: float) -> bool:
    return number is not None and math.isclose(number, wanted, rel_tol=_TOLERANCE)


def is_from_float16(v: Value) -> bool:
    """Whether a value is converted from float16."""
    while v.op is not None and v.op.name in MOVEMENT_OPS:
        v = v.op.operands[0]
    return v.op is not None and v.op.name == "cast" and v.op.operands[0].type == TileType(v.shape, float16)


# --- writing ----------------------------------------------------------------------------------------------------------


def rewritten(rewriter: Rewriter[OpBuilder], x: Activation) -> Value:
    """An activation in its form for float16."""
    b = rewriter.builder
    if x.is_normal:
        return gelu(b, in_float16(rewriter, x.argument))
    product = product_of(b, [rewriter.value(f) for f in x.factors])
    e = b.emit("exp", negative_argument(rewriter, x))
    return b.cast(b.emit("div", product, b.emit("add", e, number(b, 1.0, e))), float16)


def negative_argument(rewriter: Rewriter[OpBuilder], x: Activation) -> Value:
    """-`argument` times `scale`; an odd cubic polynomial by Horner's rule, with its number last."""
    b = rewriter.builder
    v, factor = scaled(x.argument)
    factor *= -x.scale
    cubic = cubic_of(v)
    if cubic is None:
        v = rewriter.value(v)
    else:
        y = rewriter.value(cubic[0])
        v = b.emit("mul", b.emit("add", b.emit("mul", y, y), number(b, 1 / cubic[1], y)), y)
        factor *= cubic[1]
    return b.emit("neg", v) if factor == -1.0 else b.emit("mul", v, number(b, factor, v))


def cubic_of(v: Value) -> tuple[Value, float] | None:
    """The x and the c of x + c x³."""
    op = v.op
    if op is None or op.name != "add":
        return None
    for x, term in (op.operands, op.operands[::-1]):
        factors = factors_of(term, Counter(dict.fromkeys(all_operands(term), 1)))
        numbers = [n for f in factors if (n := constant_of(f)) is not None]
        if len(factors) == 4 and factors.count(x) == 3 and len(numbers) == 1 and numbers[0]:
            return x, float(numbers[0])
    return None


def all_operands(v: Value) -> list[Value]:
    """The values that a product is made of."""
    if v.op is None or v.op.name != "mul":
        return [v]
    return [v, *(y for x in v.op.operands for y in all_operands(x))]


def gelu(b: OpBuilder, x: Value) -> Value:
    """max(x, 0) - |x| / 2 · erfc(|x| / √2)."""
    size = b.emit("minimum", b.emit("abs", x), number(b, _LARGEST, x), propagate_nan=True)
    a = b.cast(size, float32)
    scale, k, m, n, last = _GELU
    y = b.emit("mul", b.emit("add", a, number(b, k, a)), a)
    square = b.emit("mul", b.emit("add", y, number(b, m, y)), y)
    total = b.emit("add", b.emit("add", square, b.emit("mul", a, number(b, n, a))), number(b, last, a))
    exponent = b.emit("mul", b.emit("mul", total, a), number(b, scale, a))
    tail = b.cast(b.emit("mul", b.emit("exp", exponent), a), float16)
    positive = b.emit("maximum", x, number(b, 0.0, x), propagate_nan=True)
    return b.emit("sub", positive, b.emit("mul", tail, number(b, 0.5, tail)))


def in_float16(rewriter: Rewriter[OpBuilder], v: Value) -> Value:
    """A value in float16, from which it was converted."""
    if v.op is not None and v.op.name == "cast":
        return rewriter.value(v.op.operands[0])
    return rewriter.builder.cast(rewriter.value(v), float16)


def product_of(b: OpBuilder, factors: Sequence[Value]) -> Value:
    product = factors[0]
    for v in factors[1:]:
        product = b.emit("mul", product, v)
    return product


def number(b: OpBuilder, x: float, like: Value) -> Value:
    return b.constant(x, like.dtype, like.shape)
