"""Canonical form: every op is built anew through the rules, so that operands are in canonical form before their users.

Order of trial for one op: fold it, put a constant operand on the right, the rules of `algebra`, the rules of `shapes`.
What a rule builds goes through the rules too. Control flow whose course is known is taken away.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.ir.core import Attr, Function, Op, Value, make_op
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ops.build import OpBuilder
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.algebra import RULES_OF
from pypto.passes.branches import BRANCH_RULES
from pypto.passes.fold import folded
from pypto.passes.pattern import constant_of
from pypto.passes.shapes import SHAPE_RULES, repeated


def canonicalize(function: Function) -> Function:
    """Simplify ops and control flow by exact rules; no rule makes more work."""
    return rewrite(function, _rule, Simplifier)


class Simplifier(OpBuilder):
    """A builder whose `emit` gives the simplest value that has the meaning of the op."""

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


def _rule(rewriter: Rewriter[Simplifier], op: Op) -> Sequence[Value] | None:
    if op.name in BRANCH_RULES:
        return BRANCH_RULES[op.name](rewriter, op)
    if TABLE[op.name].effect is not Effect.PURE or len(op.results) != 1:
        return None
    new = make_op(op.name, rewriter.operands(op), op.attrs, (op.result.type,), (), op.loc)
    return [rewriter.builder.place(new)]
