"""Affine expressions of Block IR: sums of names times constants, for offsets and stages, and bounds of them.

`passes.scalar_evolution` has such forms of Tile IR, whose atoms are SSA values, equal where they are one object. Atoms
of Block IR are names and expressions, equal where their text is equal, so the terms are sorted. A number that is no
sum is an atom, such as a stage ``i % 2``.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.ascend.blockir.effects import names_in
from pypto.backends.ascend.blockir.ir import Expr, Scalar

Atom = str | Expr
_WIDENS = ("int64", "int32", "i64", "i32", "uint32", "u32", "uint64", "u64")


@dataclass(frozen=True, slots=True)
class AffineExpr:
    """``constant + Σ n · atom``, with terms in a fixed order and no coefficient of 0."""

    constant: int = 0
    terms: tuple[tuple[Atom, int], ...] = ()

    def plus(self, other: AffineExpr, times: int = 1) -> AffineExpr:
        terms = dict(self.terms)
        for atom, n in other.terms:
            terms[atom] = terms.get(atom, 0) + n * times
        kept = sorted(((a, n) for a, n in terms.items() if n), key=repr)
        return AffineExpr(self.constant + other.constant * times, tuple(kept))

    def times(self, n: int) -> AffineExpr:
        return AffineExpr().plus(self, n)

    def of(self, atom: Atom) -> int:
        """The coefficient of an atom."""
        return dict(self.terms).get(atom, 0)

    def names(self) -> frozenset[str]:
        return frozenset(name for atom, _ in self.terms for name in names_in(atom))


def affine_of(value: Scalar) -> AffineExpr | None:
    """The affine expression of a number; None where it depends on memory or is no integer."""
    if isinstance(value, int):
        return AffineExpr(int(value))
    if isinstance(value, str):
        return AffineExpr(0, ((value, 1),))
    if not isinstance(value, Expr):
        return None
    if value.op in _WIDENS:
        return affine_of(value.args[0])
    parts = [affine_of(x) for x in value.args]
    known = [x for x in parts if x is not None]
    if len(known) != len(parts):
        return None
    if value.op in ("+", "-"):
        return known[0].plus(known[1], 1 if value.op == "+" else -1)
    if value.op == "*":
        for a, b in (known, known[::-1]):
            if not b.terms:
                return a.times(b.constant)
    return AffineExpr(0, ((value, 1),))


def upper_bound(value: Scalar) -> int | None:
    """The upper bound of a number; None where it is not known."""
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, Expr):
        return None
    bounds = [upper_bound(x) for x in value.args]
    known = [x for x in bounds if x is not None]
    if value.op == "min":
        return min(known, default=None)
    if value.op == "%":
        return None if bounds[1] is None else bounds[1] - 1
    if value.op == "-" and bounds[0] is not None:
        return bounds[0] - lower_bound(value.args[1]) if is_natural(value.args[1]) else None
    if len(known) < len(bounds):
        return None
    if value.op in ("*", "//"):
        return _scaled(value, known)
    sums = {"+": sum(known), "max": max(known)}
    return known[0] if value.op in _WIDENS else sums.get(value.op)


def _scaled(value: Expr, bounds: list[int]) -> int | None:
    """The upper bound of a product or quotient of numbers that are not negative."""
    if not all(is_natural(x) for x in value.args):
        return None
    return bounds[0] * bounds[1] if value.op == "*" else bounds[0] // max(1, lower_bound(value.args[1]))


def lower_bound(value: Scalar) -> int:
    """A lower bound of a number that is not negative."""
    return int(value) if isinstance(value, int) else 0


def is_natural(value: Scalar) -> bool:
    """Whether a number is known to be 0 or more."""
    if isinstance(value, int):
        return value >= 0
    if not isinstance(value, Expr):
        return False
    if value.op == "max":
        return any(is_natural(x) for x in value.args)
    return value.op in (*_WIDENS, "+", "*", "//", "%", "min") and all(is_natural(x) for x in value.args)
