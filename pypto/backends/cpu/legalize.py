"""Rewrites Tile IR into the forms that the rest of the backend lowers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pypto.backends.cpu.plan import SCANS
from pypto.backends.cpu.storage import dot_dtype
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import float32
from pypto.ops.build import OpBuilder
from pypto.passes import dce


def legalize(function: Function) -> Function:
    """Integer dots multiply in int32; a scan of 16-bit floats is one of float32, rounded at the end.

    A sum with a dot that nothing else reads is the dot's accumulator: `acc += dot(a, b)` is `acc = dot(a, b, acc)`.
    """
    return rewrite(accumulated(function), rule, OpBuilder)


def accumulated(function: Function) -> Function:
    uses = Counter(v for op in function.walk() for v in op.operands)
    products = set(lone_products(function.body, uses))

    def sums(rewriter: Rewriter, op: Op) -> Sequence[Value] | None:
        product = next((v for v in op.operands if v in products), None) if op.name == "add" else None
        if product is None or product.op is None:
            return None
        (other,) = (rewriter.value(v) for v in op.operands if v is not product)
        factors = rewriter.operands(product.op)
        return rewriter.builder.create("dot", (*factors, other), dict(product.op.attrs), (product.type,)).results

    return dce(rewrite(function, sums, OpBuilder)) if products else function


def lone_products(region: Region, uses: Counter[Value]) -> Iterator[Value]:
    """Dots without an accumulator that only a sum in the same region reads."""
    inside = set(region.ops)
    for op in region.ops:
        for inner in op.regions:
            yield from lone_products(inner, uses)
        for v in op.operands if op.name == "add" else ():
            if v.op in inside and v.op is not None and v.op.name == "dot" and len(v.op.operands) == 2 and uses[v] == 1:
                yield v


def rule(rewriter: Rewriter, op: Op) -> Sequence[Value] | None:
    builder = rewriter.builder
    assert isinstance(builder, OpBuilder)
    if op.name == "dot" and op.operands[0].dtype.is_int and op.operands[0].dtype != dot_dtype(op.operands[0].dtype):
        a, b, *acc = rewriter.operands(op)
        wide = dot_dtype(a.dtype)
        return (builder.emit("dot", builder.cast(a, wide), builder.cast(b, wide), *acc),)
    if op.name in SCANS and op.operands[0].dtype.is_narrow:
        source = builder.cast(rewriter.operands(op)[0], float32)
        return (builder.cast(builder.emit(op.name, source, **op.attrs), op.results[0].dtype),)
    return None
