"""Reassociation: sums and products of floats in another order, where that takes fewer operations on tiles.

A tree of additions and multiplications is read as a polynomial. Terms with the same factors are merged, common factors
are taken out of sums, a factor and its reciprocal are left out, and factors are multiplied from the smallest to the
largest. Factors that are the same along the reduced dimensions are taken out of reductions by `sum`. A reduction of a
sum becomes a sum of reductions where fewer reductions then wait for one another, so that one pass over a row serves
more of them.

Legality: results differ by rounding, and where infinities meet zeros, so that only derived kernels are rewritten, whose
rounding is not promised. A tree stays as it is unless the other form has fewer operations, or fewer passes.

    %s = mul (broadcast %k), %x                         %a = sum %y
    %t = sum (add %y, (add %s, %s))        ->           %b = sum %x
                                                        %t = add %a, (mul (mul %k, 2), %b)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ops.build import OpBuilder
from pypto.passes.adjoint.activity import is_real
from pypto.passes.adjoint.polynomial_trees import (
    MOST_TERMS,
    RING,
    ValueFacts,
    common_shape,
    cost,
    shape_of_factor,
    size_of,
    tree_of,
    tree_of_sum,
)
from pypto.passes.adjoint.polynomials import Factor, Monomial, factored


def reassociate(function: Function) -> Function:
    """Rewrite the sums and products of a derived kernel."""
    return Reassociation(OpBuilder(Region()), rewritten, facts=ValueFacts.of(function)).function(function)


@dataclass
class Reassociation(Rewriter[OpBuilder]):
    """Rewrites one function; `facts` are about the values that it has before."""

    facts: ValueFacts = field(kw_only=True)

    def sum_of(self, terms: Sequence[Monomial], like: Value) -> Value:
        """Build a sum: what is small is added up before it meets what is larger."""
        sizes = sorted({size_of(t) for t in terms})
        total, sign = self.signed_sum([t for t in terms if size_of(t) == sizes[0]], like)
        for size in sizes[1:]:
            larger, larger_sign = self.signed_sum([t for t in terms if size_of(t) == size], like)
            total = self.aligned("add" if sign == larger_sign else "sub", larger, total)
            sign = larger_sign
        return total if sign > 0 else self.builder.emit("neg", total)

    def signed_sum(self, terms: Sequence[Monomial], like: Value) -> tuple[Value, int]:
        """A sum of terms of one size, or what it is negated, with the sign -1, where all terms are negative."""
        sign = 1 if any(t.coefficient > 0 for t in terms) else -1
        total: Value | None = None
        for t in sorted(terms, key=lambda t: t.coefficient * sign < 0):
            v = self.product_of(Monomial(abs(t.coefficient), t.factors), like)
            total = v if total is None else self.aligned("add" if t.coefficient * sign > 0 else "sub", total, v)
        assert total is not None
        return total, sign

    def product_of(self, t: Monomial, like: Value) -> Value:
        """Build a product: the number and the small factors first."""
        result: Value | None = None
        number = t.coefficient
        for place, factor in enumerate(t.factors):
            v = self.value(factor) if isinstance(factor, Value) else self.sum_of(factor.terms, like)
            result = v if result is None else self.aligned("mul", result, v)
            following = t.factors[place + 1 : place + 2]
            if number != 1.0 and [self.facts.order(f)[0] for f in following] != [math.prod(result.shape)]:
                result = self.scaled(result, number)
                number = 1.0
        return self.builder.constant(number, like.dtype) if result is None else result

    def scaled(self, v: Value, number: float) -> Value:
        if number == -1.0:
            return self.builder.emit("neg", v)
        return self.builder.emit("mul", v, self.builder.constant(number, v.dtype, v.shape))

    def aligned(self, name: str, a: Value, b: Value) -> Value:
        """An op on values in their common shape."""
        shape = common_shape([a.shape, b.shape])
        return self.builder.emit(name, self.builder.broadcast(a, shape), self.builder.broadcast(b, shape))


def rewritten(x: Reassociation, op: Op) -> Sequence[Value] | None:
    """The value of a root in another form, where that is better."""
    if len(op.results) != 1 or not is_real(op.result):
        return None
    if op.name == "sum":
        return rewritten_reduction(x, op)
    if op.name not in RING or not x.facts.is_root(op):
        return None
    tree = tree_of(op, x.facts)
    if len(tree.ops) < 2 or len(tree.terms) > MOST_TERMS:
        return None
    size = size_of(Monomial(1.0, (op.result,)))
    forms = [candidate(x, op, factored(tree.terms, x.facts.order, least)) for least in (0, size)]
    best = min(forms, key=lambda region: cost(region.ops, op.result))
    if cost(best.ops, op.result) >= cost(tree.ops, op.result):
        return None
    x.builder.region.ops.extend(best.ops)
    return [best.args[0]]


def candidate(x: Reassociation, op: Op, terms: Sequence[Monomial]) -> Region:
    """A region with the ops of a form; its argument stands for the value of the form."""
    region = Region()
    with x.builder.inside(region):
        v = x.builder.broadcast(x.sum_of(terms, op.result), op.result.shape)
    region.args.append(v)
    return region


def rewritten_reduction(x: Reassociation, op: Op) -> Sequence[Value] | None:
    """A reduction without the factors that do not change along it, or the sum of several reductions."""
    v = op.operands[0]
    if not x.facts.are_together(v, op):
        return None
    tree = tree_of_sum(op, x.facts)
    parts = [split(t, op) for t in tree.terms]
    if len(parts) > MOST_TERMS or not all(variant.factors for _, variant in parts):
        return None
    depths = [max(x.facts.depth(variant) + 1, x.facts.depth(invariant)) for invariant, variant in parts]
    fewer_passes = x.facts.depths[op.result] - max(depths)
    region = Region()
    with x.builder.inside(region):
        reduced = [reduced_part(x, op, *part) for part in parts]
        total = reduced[0]
        for term in reduced[1:]:
            total = x.builder.emit("add", total, term)
    saved = cost(tree.ops, v) - cost(region.ops, v)
    if min(saved, fewer_passes) < 0 or max(saved, fewer_passes) <= 0 or (len(parts) > 1 and fewer_passes == 0):
        return None
    x.builder.region.ops.extend(region.ops)
    return [total]


def reduced_part(x: Reassociation, op: Op, invariant: Monomial, variant: Monomial) -> Value:
    """One reduction, times what does not change along it."""
    b, v = x.builder, op.operands[0]
    total = b.emit("sum", b.broadcast(x.product_of(variant, v), v.shape), **op.attrs)
    if not invariant.factors and invariant.coefficient == 1.0:
        return total
    scale = x.product_of(invariant, v)
    if scale.shape and len(scale.shape) != len(total.shape):
        axes = op.attrs["axes"]
        scale = b.emit("reshape", scale, shape=tuple(n for d, n in enumerate(scale.shape) if d not in axes))
    return b.emit("mul", total, b.broadcast(scale, total.shape))


def split(t: Monomial, op: Op) -> tuple[Monomial, Monomial]:
    """A term as the factors that do not change along a reduction, with the number, and those that do."""
    invariant = tuple(f for f in t.factors if is_invariant(f, op))
    variant = tuple(f for f in t.factors if not is_invariant(f, op))
    return Monomial(t.coefficient, invariant), Monomial(1.0, variant)


def is_invariant(f: Factor, op: Op) -> bool:
    shape = shape_of_factor(f)
    return not shape or (bool(op.result.shape) and all(shape[a] == 1 for a in op.attrs["axes"]))
