"""Accumulation: a sum with a product, `acc + dot(a, b)`, becomes the product with an accumulator, `dot(a, b, acc)`.

The macro-kernel adds to the accumulator in registers. Legality: nothing else reads the product, and the sum is in the
same region and type.

    %d = dot %a, %b;  %s = add %acc, %d      ->      %s = dot %a, %b, %acc
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ops.build import OpBuilder
from pypto.passes.dce import dce


def accumulated(function: Function) -> Function:
    """The function with sums of products as products with accumulators."""
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
    """Products without an accumulator that only a sum in the same region reads."""
    inside = set(region.ops)
    for op in region.ops:
        for inner in op.regions:
            yield from lone_products(inner, uses)
        for v in op.operands if op.name == "add" else ():
            if v.op in inside and v.op is not None and v.op.name == "dot" and len(v.op.operands) == 2 and uses[v] == 1:
                yield v
