"""Rewrites Tile IR into the forms that the rest of the backend lowers."""

from __future__ import annotations

from collections.abc import Sequence

from pypto.backends.cpu.library.registry import used_library_ops
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import float32
from pypto.ops.build import OpBuilder
from pypto.ops.table import SCANS


def before_coarsening(function: Function) -> Function:
    """The function as it is before neighbouring programs become one."""
    for cell in used_library_ops(function).values():
        function = cell.prepare(function)
    return function


def legalize(function: Function, target: CpuTarget) -> Function:
    """What cells ask for; a scan of 16-bit floats is one of float32, rounded at the end."""
    for cell in used_library_ops(function).values():
        function = cell.legalize(function, target)
    return rewrite(function, widen_narrow_scan, OpBuilder)


def widen_narrow_scan(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    if op.name not in SCANS or not op.operands[0].dtype.is_narrow:
        return None
    builder, source = rewriter.builder, rewriter.builder.cast(rewriter.operands(op)[0], float32)
    return (builder.cast(builder.emit(op.name, source, **op.attrs), op.results[0].dtype),)
