"""Operands of float8 where a chip has no instruction for them: they are converted to a wider type by their values.

All numbers of each type of float8 are numbers of float16, so products and comparisons stay the same. This is for ops
that read their operands as they lie in memory, where float8 are bytes: products whose type the cube unit lacks, and
searches.

    %d = dot %a, %b      ->      %x = cast %a : f16;  %y = cast %b : f16;  %d = dot %x, %y
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import FLOAT8, DType, float16, float32
from pypto.ops.build import OpBuilder
from pypto.ops.row import Search
from pypto.ops.table import TABLE


def widen_float8(function: Function, native: tuple[DType, ...]) -> Function:
    """Return the kernel with wider operands; products of a `native` dtype stay."""
    wide = {op for op in function.walk() if is_product(op, native) or is_search(op)}
    return rewrite(function, lambda r, op: widened(r, op) if op in wide else None, OpBuilder) if wide else function


def is_product(op: Op, native: tuple[DType, ...]) -> bool:
    """Whether an op is a product of float8 that is not native."""
    return op.name == "dot" and op.operands[0].dtype in FLOAT8 and op.operands[0].dtype not in native


def is_search(op: Op) -> bool:
    """Whether an op looks for the place of a float8."""
    return isinstance(TABLE[op.name].lane_rule, Search) and op.operands[0].dtype in FLOAT8


def widened(r: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
    """Rewrite an op with operands that are wider."""
    dtype, count = (float16, 2) if op.name == "dot" else (float32, 1)
    operands = r.operands(op)
    wide = tuple(r.builder.cast(v, dtype) for v in operands[:count])
    types = tuple(v.type for v in op.results)
    return r.builder.create(op.name, (*wide, *operands[count:]), dict(op.attrs), types).results
