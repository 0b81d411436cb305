"""What a checked kernel asserts, as conditions that are one number: its author's assertions, and indices in 32 bits.

An address is computed in 64 bits where sums and products lead to it (see `widen`). An int32 that reaches one by another
way, such as ``pid * n // 2`` or a loop's own counter, may have wrapped around before: then the element is none that
anybody meant. For a tile with an affine form, that is asked of the range of its elements.
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
from pypto.passes.affine import Affine, Forms
from pypto.passes.canonicalize import Simplifier
from pypto.passes.carried import flow_sources
from pypto.passes.pattern import constant_of

_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "neg"})
_ON_THE_WAY: Final = _ARITHMETIC | {"cast", "broadcast_to", "reshape", "permute", "floordiv", "rem", "div", "minimum",
    "maximum", "where", "slice"}  # fmt: skip


def guard(function: Function) -> Function:
    """Make every assertion one about a number, and assert that indices do not wrap around."""
    b = Simplifier(Region())
    return _Guarder(b, _rule, forms=Forms(b), behind=behind_addresses(function)).function(function)


@dataclass
class _Guarder(Rewriter[OpBuilder]):
    forms: Forms = field(kw_only=True)
    behind: set[Op] = field(kw_only=True)

    def region(self, old: Region) -> Region:
        outer = self.forms
        self.forms = outer.inside()
        new = super().region(old)
        self.forms = outer
        return new


def behind_addresses(function: Function) -> set[Op]:
    """Arithmetic of signed integers of fewer than 64 bits that addresses are made of."""
    sources = flow_sources(function)
    work = [v for op in function.walk() for v in offsets(op)]
    found, seen = set[Op](), set[Value]()
    while work:
        v = work.pop()
        if v in seen or v.tile.is_ptr or v.dtype.kind != "int":
            continue
        seen.add(v)
        work += sources.get(v, ())
        if v.op is None or v.op.name not in _ON_THE_WAY:
            continue
        if v.op.name in _ARITHMETIC and v.dtype.bits < 64:
            found.add(v.op)
        work += v.op.operands
    return found


def offsets(op: Op) -> Sequence[Value]:
    """What an op adds to an address."""
    if op.name == "addptr":
        return op.operands[1:]
    return Access.of(op).offsets if op.name in ("tile_load", "tile_store") else ()


def _rule(rewriter: _Guarder, op: Op) -> Sequence[Value] | None:
    b = rewriter.builder
    if op.name == "assert_" and op.operands[0].shape:
        b.op("assert_", everywhere(b, rewriter.operands(op)[0]), **op.attrs)
        return ()
    if op not in rewriter.behind:
        return None
    made = rewriter.copy(op).result
    fits = stays(rewriter, made)
    if constant_of(fits) is not True:
        b.op("assert_", fits, message="", wraps=made.dtype.public)
    return [made]


def everywhere(b: OpBuilder, condition: Value) -> Value:
    """Whether a condition holds in every element."""
    axes = tuple(range(len(condition.shape)))
    least = b.emit("min", b.cast(condition, int32), axes=axes, keep_dims=False)
    return b.emit("ne", least, b.constant(0, int32))


def stays(rewriter: _Guarder, v: Value) -> Value:
    """Whether the elements of a sum or product are what they were in 64 bits."""
    b, op = rewriter.builder, v.op
    assert op is not None
    if v.shape and (form := rewriter.forms.of(v)).rest is None:
        return within(b, form, v.dtype.integer_range)
    wide = b.emit(op.name, *(b.cast(x, int64) for x in op.operands), **op.attrs)
    same = b.emit("eq", wide, b.cast(v, int64))
    return everywhere(b, same) if v.shape else same


def within(b: OpBuilder, form: Affine, limits: tuple[int, int]) -> Value:
    """Whether an affine form stays between two limits."""
    zero: Any = b.constant(0, int64)
    low = high = form.start
    for size, stride in zip(form.shape, form.strides, strict=True):
        span = b.emit("mul", stride, b.constant(size - 1, int64))
        low = b.emit("add", low, b.emit("minimum", span, zero, propagate_nan=False))
        high = b.emit("add", high, b.emit("maximum", span, zero, propagate_nan=False))
    first, last = (b.constant(n, int64) for n in limits)
    return b.emit("and_", b.emit("ge", low, first), b.emit("le", high, last))
