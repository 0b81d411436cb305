"""Guards of checked kernels: assertions are reduced to one element, and int32 index arithmetic gets overflow checks.

Sums and products of offsets are computed in 64 bits (see `widen`). An int32 that reaches an address by another way,
such as ``pid * n // 2`` or the index of a loop, may have overflowed before. Then the address is wrong, and a checked
kernel reports it. For a tile with an affine form, only the ends of its range are tested.

Legality: an assertion is added and none is removed; values and addresses stay the same.

    %1 = mul %n, %m : i32               %1 = mul %n, %m : i32
    %2 = floordiv %1, %m                %6 = mul cast(%n), cast(%m) : i64
    %q = addptr %p, %2          ->      assert_ eq(%6, cast(%1)) {wraps = "int32"}
                                        %2 = floordiv %1, %m
                                        %q = addptr %p, %2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import int32, int64
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.ops.table import MOVEMENT_OPS, OVERFLOWING_OPS
from pypto.passes.analysis.affine import Affine, Forms
from pypto.passes.analysis.carried import flow_sources
from pypto.passes.canonicalize import Simplifier
from pypto.passes.pattern import constant_of

_FOLLOWED: Final = frozenset({
    *OVERFLOWING_OPS, *MOVEMENT_OPS, "cast", "floordiv", "rem", "div", "minimum", "maximum", "where", "slice",
})  # fmt: skip


def guard(function: Function) -> Function:
    """Reduce every assertion to one element, and assert that index arithmetic does not overflow."""
    b = Simplifier(Region())
    return _Guarder(b, _rule, forms=Forms(b), behind=behind_addresses(function)).function(function)


@dataclass
class _Guarder(Rewriter[OpBuilder]):
    """Adds the assertions; each region has affine forms of its own."""

    forms: Forms = field(kw_only=True)
    behind: set[Op] = field(kw_only=True)

    def region(self, old: Region) -> Region:
        outer = self.forms
        self.forms = outer.inside()
        new = super().region(old)
        self.forms = outer
        return new


def behind_addresses(function: Function) -> set[Op]:
    """Backward slice from addresses: signed integer arithmetic below 64 bits."""
    sources = flow_sources(function)
    work = [v for op in function.walk() for v in offsets(op)]
    arithmetic = set[Op]()
    seen = set[Value]()
    while work:
        v = work.pop()
        if v in seen or v.tile.is_ptr or v.dtype.kind != "int":
            continue
        seen.add(v)
        work += sources.get(v, ())
        if v.op is None or v.op.name not in _FOLLOWED:
            continue
        if v.op.name in OVERFLOWING_OPS and v.dtype.bits < 64:
            arithmetic.add(v.op)
        work += v.op.operands
    return arithmetic


def offsets(op: Op) -> Sequence[Value]:
    """The integers that an op adds to an address."""
    if op.name == "addptr":
        return op.operands[1:]
    return Access.of(op).offsets if op.name in ("tile_load", "tile_store") else ()


def _rule(rewriter: _Guarder, op: Op) -> Sequence[Value] | None:
    """Guard one op."""
    b = rewriter.builder
    if op.name == "assert_" and op.operands[0].shape:
        b.op("assert_", everywhere(b, rewriter.operands(op)[0]), **op.attrs)
        return ()
    if op not in rewriter.behind:
        return None
    result = rewriter.copy(op).result
    is_exact = fits_dtype(rewriter, result)
    if constant_of(is_exact) is not True:
        b.op("assert_", is_exact, message="", wraps=result.dtype.public)
    return [result]


def everywhere(b: OpBuilder, condition: Value) -> Value:
    """Whether a condition holds in every element, as a scalar."""
    axes = tuple(range(len(condition.shape)))
    least = b.emit("min", b.cast(condition, int32), axes=axes, keep_dims=False)
    return b.emit("ne", least, b.constant(0, int32))


def fits_dtype(rewriter: _Guarder, v: Value) -> Value:
    """Whether a sum or product does not overflow: it equals the result in 64 bits."""
    b = rewriter.builder
    op = v.op
    assert op is not None
    form = rewriter.forms.of(v) if v.shape else None
    if form is not None and form.residual is None:
        return within(b, form, v.dtype.integer_range)
    exact = b.emit(op.name, *(b.cast(x, int64) for x in op.operands), **op.attrs)
    is_equal = b.emit("eq", exact, b.cast(v, int64))
    return everywhere(b, is_equal) if v.shape else is_equal


def within(b: OpBuilder, form: Affine, limits: tuple[int, int]) -> Value:
    """Whether the range of an affine form lies between two limits."""
    zero: Any = b.constant(0, int64)
    low = high = form.start
    for size, stride in zip(form.shape, form.strides, strict=True):
        span = b.emit("mul", stride, b.constant(size - 1, int64))
        low = b.emit("add", low, b.emit("minimum", span, zero, propagate_nan=False))
        high = b.emit("add", high, b.emit("maximum", span, zero, propagate_nan=False))
    first, last = (b.constant(n, int64) for n in limits)
    return b.emit("and_", b.emit("ge", low, first), b.emit("le", high, last))
