"""Rewriting: a function is copied op by op, and a rule may put something else in the place of an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pypto.ir.builder import Builder
from pypto.ir.core import Function, Op, Region, Value, make_op
from pypto.ir.types import Type

B = TypeVar("B", bound=Builder)
# Takes the rewriter at hand and an old op. Gives the values that stand for the op's results, or None to keep the op.
# It may build new ops first.
Rule = Callable[[Any, Op], Sequence[Value] | None]


@dataclass
class Rewriter(Generic[B]):
    """The state of one copy: where new ops go, and what became of old values.

    A rule sees the old op; `rewriter.operands(op)` are the new values of its operands. `types` are new types of old
    values that are only copied.
    """

    builder: B
    rule: Rule
    mapping: dict[Value, Value] = field(default_factory=dict)
    types: Mapping[Value, Type] = field(default_factory=dict)

    def value(self, old: Value) -> Value:
        return self.mapping.get(old, old)

    def operands(self, op: Op) -> tuple[Value, ...]:
        return tuple([self.mapping.get(v, v) for v in op.operands])

    def function(self, old: Function) -> Function:
        return replace(old, body=self.region(old.body), attrs=dict(old.attrs))

    def region(self, old: Region) -> Region:
        """A copy of a region, with fresh arguments."""
        new = Region([Value(self.types.get(a, a.type), a.hint) for a in old.args])
        self.fill(new, old)
        return new

    def fill(self, new: Region, old: Region) -> None:
        """Copy the ops of a region into one whose arguments stand for those of the old."""
        self.mapping.update(zip(old.args, new.args, strict=True))
        with self.builder.inside(new):
            for op in old.ops:
                self.visit(op)

    def visit(self, op: Op) -> None:
        outer, self.builder.loc = self.builder.loc, op.loc
        values = self.rule(self, op)
        if values is None:
            values = self.copy(op).results
        self.builder.loc = outer
        for old, new in zip(op.results, values, strict=True):
            self.mapping[old] = new
            new.hint = new.hint or old.hint

    def copy(self, op: Op) -> Op:
        """Copy an op onto its new operands."""
        operands = self.operands(op)  # before the regions, whose ops may map the same values to their own
        types = tuple([self.types.get(r, r.type) for r in op.results])
        new = make_op(op.name, operands, op.attrs, types, tuple([self.region(r) for r in op.regions]), op.loc)
        self.builder.region.ops.append(new)
        return new


def rewrite(function: Function, rule: Rule, builder: type[B], types: Mapping[Value, Type] | None = None) -> Function:
    """A copy of `function` in which `rule` decided about every op, operands before users."""
    return Rewriter(builder(Region()), rule, types=types or {}).function(function)
