"""Trees of additions and multiplications, read as polynomials: which ops belong to one tree, and what it computes.

A tree goes from its root to operands within one region. It goes through values that nothing else uses, through values
that only the tree uses, and through small values behind a broadcast, which cost next to nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import TileType
from pypto.passes.adjoint.activity import is_real
from pypto.passes.adjoint.polynomials import Factor, Monomial, Polynomial, factored, merged, product, scaled
from pypto.passes.pattern import constant_of

RING: Final = frozenset({"add", "sub", "mul", "neg"})
MOST_TERMS: Final = 16


@dataclass(frozen=True)
class ValueFacts:
    """What is known of the values of a function.

    `uses` counts them, `users` are the last of them; `places` is the order of definition, `regions` are those of ops.
    `depths` count the reductions that wait for one another before a value is known.
    """

    uses: Counter[Value] = field(default_factory=Counter)
    users: dict[Value, Op] = field(default_factory=dict)
    places: dict[Value, int] = field(default_factory=dict)
    regions: dict[Op, Region] = field(default_factory=dict)
    depths: dict[Value, int] = field(default_factory=dict)

    @staticmethod
    def of(function: Function) -> ValueFacts:
        facts = ValueFacts()
        facts.read(function.body)
        return facts

    def read(self, region: Region) -> None:
        for v in region.args:
            self.places[v] = len(self.places)
        for op in region.ops:
            self.regions[op] = region
            self.uses.update(op.operands)
            self.users.update((v, op) for v in op.operands)
            for inner in op.regions:
                self.read(inner)
            depth = max((self.depths.get(v, 0) for v in op.operands), default=0) + (op.name == "sum")
            for v in op.results:
                self.places[v] = len(self.places)
                self.depths[v] = depth

    def order(self, factor: Factor) -> tuple[int, int]:
        """Small factors before large ones, and those of a size as they are defined; a polynomial after its values."""
        if isinstance(factor, Value):
            return math.prod(factor.shape), self.places[factor]
        places = [self.order(f)[1] for t in factor.terms for f in t.factors]
        return max(size_of(t) for t in factor.terms), max(places, default=0)

    def depth(self, t: Monomial) -> int:
        """The reductions that wait for one another before a product is known."""
        depths = [self.depths.get(f, 0) if isinstance(f, Value) else max(map(self.depth, f.terms)) for f in t.factors]
        return max(depths, default=0)

    def are_together(self, v: Value, root: Op) -> bool:
        """Whether an op of a tree computes a value, in the region of a root."""
        return v.op is not None and v.op.name in RING and self.regions[v.op] is self.regions[root] and is_real(v)

    def is_root(self, op: Op) -> bool:
        """Whether an op is not part of a larger tree."""
        user = self.users.get(op.result)
        return (
            self.uses[op.result] != 1 or user is None or user.name not in RING or not self.are_together(op.result, user)
        )


@dataclass
class Tree:
    """The polynomial of one value, and the ops that it stands for."""

    root: Op
    terms: list[Monomial] = field(default_factory=list)
    ops: dict[Op, None] = field(default_factory=dict)
    factors: Counter[Value] = field(default_factory=Counter)  # how often a value is met as a factor


def tree_of(op: Op, facts: ValueFacts) -> Tree:
    """The tree of a root. Values that nothing else uses are read through, also where it uses them several times."""
    inside: set[Value] = set()
    while True:
        tree = Reader(facts, inside, op).tree()
        more = {v for v, n in tree.factors.items() if n == facts.uses[v] and facts.are_together(v, op)} - inside
        if not more or len(tree.terms) > MOST_TERMS:
            return tree
        inside |= more


def tree_of_sum(op: Op, facts: ValueFacts) -> Tree:
    """The tree of the operand of a reduction, which is linear in it: sums and scaled values are read through."""
    v = op.operands[0]
    inside: set[Value] = set()
    pending = [v]
    while pending:
        x = pending.pop()
        if x in inside or not facts.are_together(x, op):
            continue
        assert x.op is not None
        if x.op.name != "mul" or any(math.prod(unbroadcast(y).shape) < math.prod(x.shape) for y in x.op.operands):
            inside.add(x)
            pending.extend(x.op.operands)
        elif x is v:
            pending.extend(x.op.operands)
    assert v.op is not None
    return Reader(facts, inside, v.op).tree()


@dataclass
class Reader:
    """Reads the tree of a root; `inside` are values that are read through though they have several uses."""

    facts: ValueFacts
    inside: Collection[Value]
    root: Op

    def tree(self) -> Tree:
        tree = Tree(self.root)
        tree.terms = merged(self.terms(self.root.result, tree))
        return tree

    def terms(self, v: Value, tree: Tree) -> list[Monomial]:
        """The terms of a value."""
        source = unbroadcast(v)
        number = constant_of(source)
        if number is not None:
            return [Monomial(float(number))]
        if not self.is_read_through(v) and (source is v or not self.is_small_product(source)):
            tree.factors[v] += 1
            return [Monomial(1.0, (source,))]
        op = source.op
        assert op is not None
        tree.ops[op] = None
        parts = [self.terms(x, tree) for x in op.operands]
        if op.name == "neg":
            return scaled(parts[0], -1.0)
        if op.name == "mul":
            (term,) = product(self.one_term(parts[0]), self.one_term(parts[1]), self.facts.order)
            return [without_reciprocals(term)]
        return [*parts[0], *(scaled(parts[1], -1.0) if op.name == "sub" else parts[1])]

    def is_read_through(self, v: Value) -> bool:
        if v is self.root.result:
            return True
        return self.facts.are_together(v, self.root) and (v in self.inside or self.facts.uses[v] == 1)

    def is_small_product(self, v: Value) -> bool:
        """Whether a value behind a broadcast is a product."""
        return self.facts.are_together(v, self.root) and v.op is not None and v.op.name in ("mul", "neg")

    def one_term(self, terms: list[Monomial]) -> list[Monomial]:
        """A polynomial as one term: its common factors times a polynomial."""
        terms = factored(terms, self.facts.order)
        return terms if len(terms) == 1 else [Monomial(1.0, (Polynomial(tuple(terms)),))]


def without_reciprocals(t: Monomial) -> Monomial:
    """A term, where factors and their reciprocals are left out."""
    factors = list(t.factors)
    for f in t.factors:
        below = reciprocal_of(f)
        if below is not None and below in factors:
            factors.remove(f)
            factors.remove(below)
    return Monomial(t.coefficient, tuple(factors))


def reciprocal_of(f: Factor) -> Value | None:
    """The value that a factor is one over."""
    if not isinstance(f, Value) or f.op is None or f.op.name != "div":
        return None
    above, below = map(unbroadcast, f.op.operands)
    return below if constant_of(above) == 1 else None


def unbroadcast(v: Value) -> Value:
    """What is broadcast to a value with the same number of dimensions, or from a scalar; else the value."""
    while v.op is not None and v.op.name == "broadcast_to":
        source = v.op.operands[0]
        if not isinstance(source.type, TileType) or len(source.shape) not in (0, len(v.shape)):
            break
        v = source
    return v


def shape_of(t: Monomial) -> tuple[int, ...]:
    """The shape to which the factors of a term are broadcast."""
    return common_shape([shape_of_factor(f) for f in t.factors])


def shape_of_factor(f: Factor) -> tuple[int, ...]:
    return f.shape if isinstance(f, Value) else common_shape([shape_of(t) for t in f.terms])


def common_shape(shapes: Collection[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which shapes are broadcast, which have the same number of dimensions, or none."""
    full = [s for s in shapes if s]
    return tuple(map(max, zip(*full, strict=True))) if full else ()


def size_of(t: Monomial) -> int:
    return math.prod(shape_of(t))


def cost(ops: Collection[Op] | Mapping[Op, None], root: Value) -> float:
    """How many operations on tiles of the root's size some ops are."""
    size = math.prod(root.shape) or 1
    return sum(math.prod(op.result.shape) / size for op in ops if op.name in RING)
