"""How each op passes on a shift: rules of translation and scaling, by which a maximum is seen to cancel.

A value answers a shift δ of another one by moving along, ``v + c · δ``, by being scaled, ``v · exp(c · δ)``, or not at
all. What answers in another way has no response, and the analysis gives up.

    t - m            moves by -δ                exp(t - m)            is scaled by exp(-δ)
    sum(exp(t - m))  is scaled by exp(-δ)       log(sum(…)) + m       does not answer
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Op, Value
from pypto.ops.table import TABLE
from pypto.passes.analysis.dimensions import is_movement, relation_of

_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Response:
    """``v + shift · δ``, or ``v · exp(scale · δ)``; at most one of both is not 0.

    `dims` are the dimensions of the value along which δ differs, in the order of those of the shifted value.
    """

    shift: float = 0.0
    scale: float = 0.0
    dims: tuple[int, ...] = ()

    @property
    def is_none(self) -> bool:
        return not self.shift and not self.scale

    def equals(self, other: Response) -> bool:
        both = ((self.shift, other.shift), (self.scale, other.scale))
        return all(abs(a - b) <= _TOLERANCE * max(abs(a), abs(b), 1) for a, b in both)


NO_RESPONSE: Final = Response()
Rule = Callable[[Op, Sequence[Response]], Response]


class NoRule(Exception):
    """Raised where a value answers a shift in a way that has no rule."""


def response_of(op: Op, responses: Sequence[Response]) -> Response:
    """How the result of a pure op answers, given how its operands do.

    Raises
    ------
    NoRule
        When no rule says how.
    """
    if all(r.is_none for r in responses):
        return NO_RESPONSE
    dims = {dims_of(op, v, r) for v, r in zip(op.operands, responses, strict=True) if not r.is_none}
    rule = RULES.get(op.name, moved if is_movement(op) else compared if has_truth(op) else None)
    if rule is None or len(dims) != 1:
        raise NoRule(op.name)
    response = rule(op, responses)
    return NO_RESPONSE if response.equals(NO_RESPONSE) else replace(response, dims=dims.pop())


def dims_of(op: Op, v: Value, response: Response) -> tuple[int, ...]:
    """The dimensions of the result along which δ differs; none of them may meet another."""
    relation = relation_of(op)
    places = []
    for d in response.dims:
        partners = [at for x, at in relation.partners((v, d)) if x is op.result]
        if len(partners) != 1 or (v, d) in relation.meeting:
            raise NoRule(op.name)
        places.append(partners[0])
    return tuple(places)


# --- rules ------------------------------------------------------------------------------------------------------------


def joined(a: Response, b: Response, x: Value, y: Value) -> Response:
    """What both answer, where one of them may be a constant that answers anything: infinity, or 0 if it is scaled."""
    if a.equals(b):
        return a
    for mine, other, v in ((a, b, y), (b, a, x)):
        constant = constant_of(v)
        if other.is_none and constant is not None and (math.isinf(constant) or (constant == 0 and mine.scale)):
            return mine
    raise NoRule("join")


def added(a: Response, b: Response, x: Value, y: Value) -> Response:
    if not a.scale and not b.scale:
        return Response(a.shift + b.shift)
    return joined(a, b, x, y)


def multiplied(a: Response, b: Response, x: Value, y: Value) -> Response:
    if not a.shift and not b.shift:
        return Response(0.0, a.scale + b.scale)
    factor = constant_of(y) if b.is_none else constant_of(x) if a.is_none else None
    if factor is None:
        raise NoRule("mul")
    return Response((a.shift or b.shift) * factor)


def opposite(a: Response) -> Response:
    return replace(a, shift=-a.shift)


def add(op: Op, r: Sequence[Response]) -> Response:
    return added(r[0], r[1], *op.operands[:2])


def sub(op: Op, r: Sequence[Response]) -> Response:
    return added(r[0], opposite(r[1]), *op.operands[:2])


def mul(op: Op, r: Sequence[Response]) -> Response:
    return multiplied(r[0], r[1], *op.operands[:2])


def div(op: Op, r: Sequence[Response]) -> Response:
    a, b = r
    if not a.shift and not b.shift:
        return Response(0.0, a.scale - b.scale)
    divisor = constant_of(op.operands[1])
    if not divisor or not b.is_none:
        raise NoRule("div")
    return Response(a.shift / divisor)


def fma(op: Op, r: Sequence[Response]) -> Response:
    product = multiplied(r[0], r[1], *op.operands[:2])
    return added(product, r[2], op.result, op.operands[2])


def neg(op: Op, r: Sequence[Response]) -> Response:
    return opposite(r[0])


def exponential(base: float) -> Rule:
    def rule(op: Op, r: Sequence[Response]) -> Response:
        if r[0].scale:
            raise NoRule(op.name)
        return Response(0.0, r[0].shift * math.log(base))

    return rule


def logarithm(base: float) -> Rule:
    def rule(op: Op, r: Sequence[Response]) -> Response:
        if r[0].shift:
            raise NoRule(op.name)
        return Response(r[0].scale / math.log(base))

    return rule


def power(exponent: float) -> Rule:
    def rule(op: Op, r: Sequence[Response]) -> Response:
        if r[0].shift:
            raise NoRule(op.name)
        return Response(0.0, r[0].scale * exponent)

    return rule


def moved(op: Op, r: Sequence[Response]) -> Response:
    """An op that moves elements, or keeps one of them: all that come together answer alike."""
    first = r[0]
    if not all(x.equals(first) for x in r[1:] if not x.is_none) or first.is_none:
        raise NoRule(op.name)
    return first


def cast(op: Op, r: Sequence[Response]) -> Response:
    if not op.result.dtype.is_float:
        raise NoRule(op.name)
    return r[0]


def extremum(op: Op, r: Sequence[Response]) -> Response:
    return joined(r[0], r[1], *op.operands[:2])


def where(op: Op, r: Sequence[Response]) -> Response:
    if not r[0].is_none:
        raise NoRule(op.name)
    return joined(r[1], r[2], *op.operands[1:3])


def compared(op: Op, r: Sequence[Response]) -> Response:
    """A comparison: nothing changes if both sides move alike, or are scaled alike."""
    if len(r) != 2:
        raise NoRule(op.name)
    joined(r[0], r[1], *op.operands[:2])
    return NO_RESPONSE


def summed(op: Op, r: Sequence[Response]) -> Response:
    before, after = math.prod(op.operands[0].shape), math.prod(op.result.shape)
    return replace(r[0], shift=r[0].shift * (before // max(after, 1)))


def dot(op: Op, r: Sequence[Response]) -> Response:
    if r[0].shift or r[1].shift:
        raise NoRule(op.name)
    product = Response(0.0, r[0].scale + r[1].scale)
    return added(product, r[2], op.result, op.operands[2]) if len(r) == 3 else product


RULES: Final[Mapping[str, Rule]] = MappingProxyType({
    "add": add, "sub": sub, "mul": mul, "div": div, "fma": fma, "neg": neg, "abs": power(1.0), "cast": cast,
    "exp": exponential(math.e), "exp2": exponential(2), "log": logarithm(math.e), "log2": logarithm(2),
    "sqrt": power(0.5), "rsqrt": power(-0.5), "maximum": extremum, "minimum": extremum, "where": where,
    "max": moved, "min": moved, "sum": summed, "dot": dot,
})  # fmt: skip


def has_truth(op: Op) -> bool:
    """Whether an op makes truth values of two operands, element by element."""
    return bool(TABLE[op.name].elementwise and len(op.operands) == 2 and op.result.dtype.is_bool)


def constant_of(v: Value) -> float | None:
    """The number that all elements of a value are, if it is known."""
    while v.op is not None and is_movement(v.op):
        v = v.op.operands[0]
    number = v.op.attrs["value"] if v.op is not None and v.op.name == "constant" else None
    return float(number) if isinstance(number, (int, float)) else None
