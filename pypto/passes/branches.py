"""Rules of `canonicalize` for control flow whose course, or one of whose results, is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Op, Value
from pypto.ir.rewrite import Rewriter, Rule
from pypto.ops.build import OpBuilder
from pypto.passes.carried import LAYOUTS, carried, initial, inline, narrow, yields
from pypto.passes.pattern import constant_of, constant_range


def simplify_if(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    """A known condition leaves one region, a choice between scalars is `where`, what both regions yield is known."""
    condition = rewriter.value(op.operands[0])
    known = constant_of(condition)
    if known is not None:
        return inline(rewriter, op.regions[0 if known else 1], ())
    outcomes = list(zip(*yields(op), strict=True))
    if all(len(r.ops) == 1 for r in op.regions) and not any(v.shape for v in op.results):
        return [rewriter.builder.emit("where", condition, rewriter.value(x), rewriter.value(y)) for x, y in outcomes]
    return _settle(rewriter, op, [rewriter.value(x) if x is y else None for x, y in outcomes])


def simplify_for(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    """A loop that runs not at all leaves its initial values, one that runs once its body."""
    steps, (start, *_) = constant_range(map(rewriter.value, op.operands[:3])), rewriter.operands(op)
    if steps is None or len(steps) > 1:
        return simplify_loop(rewriter, op)
    first = [rewriter.value(v) for v in initial(op)]
    return inline(rewriter, op.regions[0], [start, *first]) if steps else first


def simplify_loop(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    """A carried value that each turn hands on as it is, or sets to its initial value, is the initial value."""
    (last,) = yields(op)
    body = op.regions[LAYOUTS[op.name].yielding[0]]
    rows = zip(initial(op), carried(op, body), last, strict=True)
    known = [rewriter.value(first) if end in (first, arg) else None for first, arg, end in rows]
    for region in op.regions:
        rewriter.mapping.update({arg: v for arg, v in zip(carried(op, region), known, strict=True) if v is not None})
    return _settle(rewriter, op, known)


def _settle(rewriter: Rewriter[OpBuilder], op: Op, known: list[Value | None]) -> Sequence[Value] | None:
    """Copy control flow without the results that are known."""
    if not any(known):
        return None
    results = narrow(rewriter, op, [v is None for v in known])
    return [result if v is None else v for v, result in zip(known, results, strict=True)]


BRANCH_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {"if": simplify_if, "for": simplify_for, "while": simplify_loop}
)
