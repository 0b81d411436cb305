"""Common subexpression elimination: a pure op with the operands and attributes of an earlier one is not computed again.

Legality: the earlier op dominates the later one: what a region has computed is forgotten at its end. Loads are not
pure, since a store may lie between them.

    %a = add %x, %y;  %b = add %x, %y;  %c = mul %a, %b      ->      %a = add %x, %y;  %c = mul %a, %a
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.printer import attrs_text
from pypto.ir.rewrite import Rewriter
from pypto.ops.build import OpBuilder
from pypto.ops.row import Effect
from pypto.ops.table import TABLE


def cse(function: Function) -> Function:
    """Eliminate common pure subexpressions."""
    return _Cse(OpBuilder(Region()), _rule).function(function)


@dataclass
class _Cse(Rewriter[OpBuilder]):
    """Value numbering: results by op name, operands and attributes, scoped by region."""

    known: dict[Hashable, tuple[Value, ...]] = field(default_factory=dict)

    def fill(self, new: Region, old: Region) -> None:
        before = len(self.known)
        super().fill(new, old)
        while len(self.known) > before:
            self.known.popitem()  # the newest: a dict keeps the order of insertion


def _rule(rewriter: _Cse, op: Op) -> Sequence[Value] | None:
    """Replace one pure op by an earlier equal one."""
    row = TABLE[op.name]
    if row.effect is not Effect.PURE or op.regions or "terminator" in row.traits:
        return None
    operands = rewriter.operands(op)
    same = frozenset(operands) if "commutative" in row.traits else operands
    # Text tells 1, 1.0 and True apart, and 0.0 from -0.0, which are equal as Python objects.
    key = (op.name, same, attrs_text(op.attrs) if op.attrs else "", None if operands else op.result.type)
    if key not in rewriter.known:
        rewriter.known[key] = rewriter.copy(op).results
    return rewriter.known[key]
