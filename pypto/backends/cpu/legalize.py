"""Rewrites Tile IR into the forms that the rest of the backend lowers."""

from __future__ import annotations

from collections.abc import Sequence

from pypto.backends.cpu.storage import dot_dtype
from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import float32
from pypto.ops.build import OpBuilder


def legalize(function: Function) -> Function:
    """Integer dots multiply in int32; a running sum of 16-bit floats is one of float32, rounded at the end."""
    return rewrite(function, rule, OpBuilder)


def rule(rewriter: Rewriter, op: Op) -> Sequence[Value] | None:
    builder = rewriter.builder
    assert isinstance(builder, OpBuilder)
    if op.name == "dot" and op.operands[0].dtype.is_int and op.operands[0].dtype != dot_dtype(op.operands[0].dtype):
        a, b, *acc = rewriter.operands(op)
        wide = dot_dtype(a.dtype)
        return (builder.emit("dot", builder.cast(a, wide), builder.cast(b, wide), *acc),)
    if op.name == "cumsum" and op.operands[0].dtype.is_float and op.operands[0].dtype.bits == 16:
        source = builder.cast(rewriter.operands(op)[0], float32)
        return (builder.cast(builder.emit("cumsum", source, **op.attrs), op.results[0].dtype),)
    return None
