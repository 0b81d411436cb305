"""Rewrites Tile IR into the forms that the rest of the backend lowers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pypto.backends.cpu.operands import dot_dtype, words_of
from pypto.backends.cpu.plan import SCANS
from pypto.backends.cpu.restep import restep
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import float32
from pypto.ops.build import OpBuilder
from pypto.passes import dce


def legalize(function: Function, target: CpuTarget) -> Function:
    """Integer dots multiply in int32; a scan of 16-bit floats is one of float32, rounded at the end.

    A sum with a dot that nothing else reads is the dot's accumulator: `acc += dot(a, b)` is `acc = dot(a, b, acc)`.
    Loops that add up such products get steps that suit the machine.
    """

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op.name == "dot":
            return None if words_of(op, target) else widened(rewriter, op)
        return exact_scan(rewriter, op) if op.name in SCANS else None

    return rewrite(restep(accumulated(function), target), rule, OpBuilder)


def accumulated(function: Function) -> Function:
    uses = Counter(v for op in function.walk() for v in op.operands)
    products = set(lone_products(function.body, uses))

    def sums(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
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


def widened(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    builder, wide = rewriter.builder, dot_dtype(op.operands[0].dtype)
    if op.operands[0].dtype.is_float or op.operands[0].dtype == wide:
        return None
    a, b, *acc = rewriter.operands(op)
    return (builder.emit("dot", builder.cast(a, wide), builder.cast(b, wide), *acc),)


def exact_scan(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    builder = rewriter.builder
    if not op.operands[0].dtype.is_narrow:
        return None
    source = builder.cast(rewriter.operands(op)[0], float32)
    return (builder.cast(builder.emit(op.name, source, **op.attrs), op.results[0].dtype),)
