"""Canonicalization: every op is rebuilt through exact rewrite rules, operands before their users.

Later passes then match one form of each expression, and constants reach the sizes of tiles. For one op, in this order:
constant folding, a constant operand to the right, the rules of `algebra`, the rules of `shapes`. The ops that a rule
builds go through the rules too. Control flow with a known condition or trip count is inlined, and its results that are
known are dropped.

Legality: a rule gives the same bits for all operands. Integers wrap around, and floats keep NaN, infinities and the
sign of zero. No rule adds work.

    %c = constant {value = 64}                 %c = constant {value = 64}
    %e = add %c, %n                   ->       %e = add %n, %c
    %s = sub %e, %n                            %t = mul %m, %c
    %t = mul %m, %s

`%e` is dead now; `dce` removes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Attr, Function, Op, Value, make_op
from pypto.ir.rewrite import Rewriter, Rule, rewrite
from pypto.ops.build import Number, OpBuilder, computed
from pypto.ops.table import TABLE
from pypto.passes.analysis.carried import LAYOUTS, carried, initial, inline, narrow, yields
from pypto.passes.analysis.memory_effects import is_pure
from pypto.passes.pattern import constant_of, constant_range
from pypto.passes.rules.algebra import RULES_OF
from pypto.passes.rules.shapes import SHAPE_RULES, repeated


def canonicalize(function: Function) -> Function:
    """Simplify ops and control flow by exact rules; no rule adds work."""
    return rewrite(function, _rule, Simplifier)


class Simplifier(OpBuilder):
    """A builder whose `emit` gives the simplest value with the meaning of the op."""

    def emit(self, name: str, *operands: Value, **attrs: Attr) -> Value:
        types = TABLE[name].infer([v.type for v in operands], attrs)
        return self.place(make_op(name, operands, dict(attrs), types, (), self.loc))

    def place(self, op: Op) -> Value:
        value = self.simplified(op)
        if value is None:
            self.region.ops.append(op)
            return op.result
        return value

    def simplified(self, op: Op) -> Value | None:
        """The value that folding or a rule gives for an op; None where none applies."""
        row = TABLE[op.name]
        number = folded(op)
        if number is not None:
            return self.constant(number, op.result.dtype, op.result.shape)
        if "commutative" in row.traits and [constant_of(v) is None for v in op.operands] == [False, True]:
            return self.emit(op.name, op.operands[1], op.operands[0], **op.attrs)
        for rule in RULES_OF.get(op.name, ()):
            if (value := rule.rewrite(self, op)) is not None:
                return value
        for simplify in SHAPE_RULES.get(op.name, ()) + ((repeated,) if row.elementwise else ()):
            if (value := simplify(self, op)) is not None:
                return value
        return None


def folded(op: Op) -> Number | None:
    """The value of the result, where all operands are constant."""
    return computed(op, constant_of) if op.operands else None


def _rule(rewriter: Rewriter[Simplifier], op: Op) -> Sequence[Value] | None:
    """Canonicalize control flow; `Simplifier.emit` does the same for all other ops."""
    if op.name in BRANCH_RULES:
        return BRANCH_RULES[op.name](rewriter, op)
    if not is_pure(op) or len(op.results) != 1:
        return None
    new = make_op(op.name, rewriter.operands(op), op.attrs, (op.result.type,), (), op.loc)
    return [rewriter.builder.place(new)]


# --- control flow -----------------------------------------------------------------------------------------------------


def simplify_if(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    """A known condition leaves one region; a choice between scalars is a `where`; equal yields are the result."""
    condition = rewriter.value(op.operands[0])
    known = constant_of(condition)
    if known is not None:
        return inline(rewriter, op.regions[0 if known else 1], ())
    outcomes = list(zip(*yields(op), strict=True))
    if all(len(r.ops) == 1 for r in op.regions) and not any(v.shape for v in op.results):
        return [rewriter.builder.emit("where", condition, rewriter.value(x), rewriter.value(y)) for x, y in outcomes]
    return _settle(rewriter, op, [rewriter.value(x) if x is y else None for x, y in outcomes])


def simplify_for(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    """A loop without iterations gives its initial values; one of a single iteration is inlined."""
    steps, (start, *_) = constant_range(map(rewriter.value, op.operands[:3])), rewriter.operands(op)
    if steps is None or len(steps) > 1:
        return simplify_loop(rewriter, op)
    first = [rewriter.value(v) for v in initial(op)]
    return inline(rewriter, op.regions[0], [start, *first]) if steps else first


def simplify_loop(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    """A carried value that every iteration yields unchanged, or as its initial value, is the initial value."""
    (last,) = yields(op)
    body = op.regions[LAYOUTS[op.name].yielding[0]]
    rows = zip(initial(op), carried(op, body), last, strict=True)
    known = [rewriter.value(first) if end in (first, arg) else None for first, arg, end in rows]
    for region in op.regions:
        rewriter.mapping.update({arg: v for arg, v in zip(carried(op, region), known, strict=True) if v is not None})
    return _settle(rewriter, op, known)


def _settle(rewriter: Rewriter[OpBuilder], op: Op, known: list[Value | None]) -> Sequence[Value] | None:
    """Copy control flow without the results whose values are known."""
    if not any(known):
        return None
    results = narrow(rewriter, op, [v is None for v in known])
    return [result if v is None else v for v, result in zip(known, results, strict=True)]


BRANCH_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {"if": simplify_if, "for": simplify_for, "while": simplify_loop}
)
