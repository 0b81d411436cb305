"""Operands of float8 where a chip has no instruction for them: they are converted to a wider type by their values.

All numbers of each type of float8 are numbers of float16, so products and comparisons stay the same. It is for ops that
read their operands as they lie in memory, where float8 are bytes: products whose type the cube unit lacks, and searches.

    %d = dot %a, %b      ->      %x = cast %a : f16;  %y = cast %b : f16;  %d = dot %x, %y
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import FLOAT8, DType, float16, float32
from pypto.ops.build import OpBuilder

# What float8 operands of an op become, and how many of its operands they may be.
WIDER: Final = MappingProxyType({"dot": (float16, 2), "argmax": (float32, 1), "argmin": (float32, 1)})


def widen_float8(function: Function, native: tuple[DType, ...]) -> Function:
    """Return the kernel with wider operands; products of a `native` dtype stay."""
    wide = {op for op in function.walk() if op.name in WIDER and op.operands[0].dtype in FLOAT8}
    wide = {op for op in wide if op.name != "dot" or op.operands[0].dtype not in native}
    return rewrite(function, lambda r, op: widened(r, op) if op in wide else None, OpBuilder) if wide else function


def widened(r: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
    """Rewrite an op with operands that are wider."""
    dtype, count = WIDER[op.name]
    operands = r.operands(op)
    wide = tuple(r.builder.cast(v, dtype) for v in operands[:count])
    types = tuple(v.type for v in op.results)
    return r.builder.create(op.name, (*wide, *operands[count:]), dict(op.attrs), types).results
