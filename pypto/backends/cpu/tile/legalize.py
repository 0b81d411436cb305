"""Legalization: rewrites ops of Tile IR into the forms that the rest of the backend lowers.

It always runs. Scans of 16-bit floats become scans of float32, rounded at the end; products of float8 and of integers
become products of a type that the machine multiplies; terms of bfloat16 are dropped where they are switched off.

    %c = dot %a, %b : i8            %x = cast %a : i32    %y = cast %b : i32    %c = dot %x, %y
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.techniques import is_enabled
from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import FLOAT8, bfloat16, float32
from pypto.ops.build import OpBuilder
from pypto.ops.table import SCANS
from pypto.passes.analysis.carried import LAYOUTS
from pypto.passes.analysis.dimensions import is_unit_reshape
from pypto.passes.analysis.dot_facts import dot_dtype, packing_factor


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


def copy_reshaped_products(function: Function, target: CpuTarget) -> Function:
    """A copy of a product before a reshape that regroups its dimensions.

    A product writes whole registers, so that its rows have padding; a reshape shows the memory of its operand under
    another shape, which has none. The reshape therefore shows the copy, where there would be padding.

        %r = reshape %product        %c = broadcast_to %product    %r = reshape %c
    """
    users: dict[Value, list[Op]] = defaultdict(list)
    for op in function.walk():
        for v in op.operands:
            users[v].append(op)

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op.name != "reshape" or is_unit_reshape(op) or not may_hold_product(op.operands[0], users, target):
            return None
        v, shape = rewriter.operands(op)[0], op.operands[0].shape
        copy = rewriter.builder.emit("broadcast_to", v, shape=shape)
        return (rewriter.builder.emit("reshape", copy, shape=op.attrs["shape"]),)

    return rewrite(function, rule, OpBuilder)


def may_hold_product(v: Value, users: Mapping[Value, list[Op]], target: CpuTarget) -> bool:
    """Whether a value may share its memory with a product whose rows have padding: a result, an accumulator, or what
    loops and branches hand on."""
    lanes = target.vector_bytes // 4
    is_padded = any(n % lanes for n in v.shape[-2:])
    handed_on = v.op is None or v.op.name in ("dot", *LAYOUTS)
    shares = any(x.name in ("yield", *LAYOUTS) or (x.name == "dot" and v in x.operands[2:]) for x in users[v])
    return is_padded and (handed_on or shares)


def widen_narrow_scans(function: Function, target: CpuTarget) -> Function:
    """Scans of 16-bit floats in float32, rounded at the end."""

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op.name not in SCANS or not op.operands[0].dtype.is_narrow:
            return None
        builder = rewriter.builder
        source = builder.cast(rewriter.operands(op)[0], float32)
        return (builder.cast(builder.emit(op.name, source, **op.attrs), op.results[0].dtype),)

    return rewrite(function, rule, OpBuilder)
