"""Legalization: rewrites ops of Tile IR into the forms that the rest of the backend lowers.

It always runs. Scans of 16-bit floats become scans of float32, rounded at the end; products of float8 and of integers
become products of a type that the machine multiplies; terms of bfloat16 are dropped where they are switched off.

    %c = dot %a, %b : i8            %x = cast %a : i32    %y = cast %b : i32    %c = dot %x, %y
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.techniques import is_enabled
from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import FLOAT8, bfloat16, float32
from pypto.ops.build import OpBuilder
from pypto.ops.table import SCANS
from pypto.passes.dot_facts import dot_dtype, packing_factor


def drop_disabled_terms(function: Function, target: CpuTarget) -> Function:
    """float32 products without terms of bfloat16, where a kernel switches `bf16_split` off."""

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op.name != "dot" or "parts" not in op.attrs:
            return None
        return (rewriter.builder.emit("dot", *rewriter.operands(op)),)

    return function if is_enabled(function, "bf16_split") else rewrite(function, rule, OpBuilder)


def float8_as_bfloat16(function: Function, target: CpuTarget) -> Function:
    """Operands of float8 products as bfloat16, which represents all their values, where the target has AMX."""

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op.name != "dot" or not all(v.dtype in FLOAT8 for v in op.operands[:2]):
            return None
        a, b, *acc = rewriter.operands(op)
        return (rewriter.builder.emit("dot", *(rewriter.builder.cast(v, bfloat16) for v in (a, b)), *acc),)

    return rewrite(function, rule, OpBuilder) if target.has_amx else function


def widen_integer_dots(function: Function, target: CpuTarget) -> Function:
    """Integer products in int32, where no instruction multiplies them as they are."""

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op.name != "dot" or packing_factor(op, target):
            return None
        builder = rewriter.builder
        dtype = dot_dtype(op.operands[0].dtype)
        if op.operands[0].dtype.is_float or op.operands[0].dtype == dtype:
            return None
        a, b, *acc = rewriter.operands(op)
        return (builder.emit("dot", builder.cast(a, dtype), builder.cast(b, dtype), *acc),)

    return rewrite(function, rule, OpBuilder)


def widen_narrow_scans(function: Function, target: CpuTarget) -> Function:
    """Scans of 16-bit floats in float32, rounded at the end."""

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op.name not in SCANS or not op.operands[0].dtype.is_narrow:
            return None
        builder = rewriter.builder
        source = builder.cast(rewriter.operands(op)[0], float32)
        return (builder.cast(builder.emit(op.name, source, **op.attrs), op.results[0].dtype),)

    return rewrite(function, rule, OpBuilder)
