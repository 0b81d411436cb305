"""Dead code elimination: ops, and single results of control flow, that reach no effect are removed.

The rules of other passes leave unused ops behind; without them lowering emits no code for nothing. Demand runs
backwards from the ops with an effect. The k-th result of control flow demands its k-th yields and, in a loop, its
initial value; so a carried value that only feeds itself is never demanded.

Legality: a removed op writes nothing, and no op that remains reads its results. Loads may go.

    %r, %s = for %lo, %hi, %n, %n, %m { (%i, %a, %d)         %r = for %lo, %hi, %n, %n { (%i, %a)
      %e = add %a, %i                                          %e = add %a, %i
      %g = mul %d, %d                                ->        yield %e
      yield %e, %g                                           }
    }                                                        print_ %r
    print_ %r
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ops.build import OpBuilder
from pypto.ops.table import TABLE
from pypto.passes.analysis.carried import LAYOUTS, initial, narrow, yields
from pypto.passes.analysis.memory_effects import has_side_effects


def dce(function: Function) -> Function:
    """Remove ops, and results of control flow, that nothing needs."""
    demand = _Demand()
    demand.enter(function.body, None)
    demand.run()

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if "terminator" in TABLE[op.name].traits:
            return None
        if op not in demand.needed:
            return op.results
        return narrow(rewriter, op, [v in demand.live for v in op.results]) if op.regions else None

    return rewrite(function, rule, OpBuilder)


@dataclass
class _Demand:
    """The backward liveness analysis: live values and needed ops."""

    needed: set[Op] = field(default_factory=set)
    live: set[Value] = field(default_factory=set)
    parent: dict[Op, Op | None] = field(default_factory=dict)
    owner: dict[Value, tuple[Op, int]] = field(default_factory=dict)  # of region arguments and results of control flow
    work: list[Value] = field(default_factory=list)
    roots: list[Op] = field(default_factory=list)

    def enter(self, region: Region, parent: Op | None) -> None:
        """Record the owners of values, and the ops with an effect."""
        for op in region.ops:
            self.parent[op] = parent
            if has_side_effects(op):
                self.roots.append(op)
            for inner in op.regions:
                self.record_owner(op, inner.args, -LAYOUTS[op.name].args)
                self.enter(inner, op)
            if op.regions:
                self.record_owner(op, op.results, 0)

    def record_owner(self, op: Op, values: Sequence[Value], start: int) -> None:
        """Record the slots of the region arguments or results of control flow."""
        self.owner.update((v, (op, start + n)) for n, v in enumerate(values))

    def run(self) -> None:
        """Propagate demand from the effects to a fixed point."""
        for op in self.roots:
            self.need(op)
        while self.work:
            v = self.work.pop()
            if v in self.owner:
                self.need_slot(*self.owner[v])
            elif v.op is not None:
                self.need(v.op)

    def demand(self, values: Sequence[Value]) -> None:
        """Mark values as live."""
        new = [v for v in values if v not in self.live]
        self.live.update(new)
        self.work.extend(new)

    def need(self, op: Op) -> None:
        """Mark an op as needed, with the control flow around it and the operands of both."""
        inside: Op | None = op
        while inside is not None and inside not in self.needed:
            self.needed.add(inside)
            self.demand(inside.operands[: LAYOUTS[inside.name].operands] if inside.regions else inside.operands)
            if inside.name == "while":
                self.demand(inside.regions[0].terminator.operands)
            inside = self.parent[inside]

    def need_slot(self, op: Op, slot: int) -> None:
        """Mark a result of control flow as live, with its yields and initial value; slot -1 is the index of a loop."""
        self.need(op)
        if slot < 0:
            return
        self.demand([op.results[slot], *(values[slot] for values in yields(op)), *initial(op)[slot : slot + 1]])
