"""Folding of comparisons that the ranges of their operands decide.

A mask such as ``j + arange(0, 256) < n`` holds for all elements where loop bounds and sizes are constants. Then it
becomes a constant, and what it guards needs no mask.

Legality: interval arithmetic over all values that the operands can have gives one outcome.

    %o = add %j, %r      0 … 4095                  %m = constant {value = true}
    %m = lt %o, %4096                      ->
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ops.build import OpBuilder
from pypto.passes.analysis.ranges import Range, Ranges
from pypto.passes.canonicalize import canonicalize
from pypto.passes.dce import dce

_COMPARISONS: Final[Mapping[str, Callable[[Range, Range], tuple[bool, bool]]]] = MappingProxyType({
    # whether it always holds, and whether it never does
    "lt": lambda a, b: (a[1] < b[0], a[0] >= b[1]), "le": lambda a, b: (a[1] <= b[0], a[0] > b[1]),
    "gt": lambda a, b: (a[0] > b[1], a[1] <= b[0]), "ge": lambda a, b: (a[0] >= b[1], a[1] < b[0]),
})  # fmt: skip


def fold_comparisons(function: Function) -> Function:
    """The function with decided comparisons as constants, and with what follows from them folded."""
    ranges = Ranges(function)
    compared = (op for op in function.walk() if op.name in _COMPARISONS)
    outcomes = {op: holds for op in compared if (holds := outcome(op, ranges)) is not None}
    if not outcomes:
        return function

    def rule(r: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        return [r.builder.constant(outcomes[op], op.result.dtype, op.result.shape)] if op in outcomes else None

    return dce(canonicalize(rewrite(function, rule, OpBuilder)))


def outcome(op: Op, ranges: Ranges) -> bool | None:
    """The constant result of a comparison; None where the ranges do not decide it."""
    a, b = map(ranges.range_of, op.operands)
    if a is None or b is None:
        return None
    always, never = _COMPARISONS[op.name](a, b)
    return True if always else False if never else None
