"""Algebraic simplification: the rewrite rules of `canonicalize` for arithmetic, comparisons and bits.

Index arithmetic repeats itself, as in ``(i + B) - i``; the rules make constants of it. Legality: a rule is exact.
Integers wrap, floats keep every bit. It never makes more work. A constant operand of a commutative op stands on the
right before the rules are tried.

    Rule((X + Y) - X, Y, INTS)

    %e = add %n, %c;  %s = sub %e, %n;  %t = mul %m, %s      ->      %e = add %n, %c;  %t = mul %m, %c
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pypto.passes.pattern import C, D, Rule, Variable, X, Y, Z, apply

BOOLS: Final = frozenset({"bool"})
SIGNED: Final = frozenset({"int"})
INTS: Final = frozenset({"int", "uint"})
FLOATS: Final = frozenset({"float"})
NUMBERS: Final = INTS | FLOATS
BITS: Final = INTS | BOOLS
ALL: Final = NUMBERS | BOOLS | {"ptr"}

_FLIPPED = (("eq", "eq"), ("ne", "ne"), ("lt", "gt"), ("le", "ge"), ("gt", "lt"), ("ge", "le"))
_NEGATED = (("lt", "ge"), ("le", "gt"), ("gt", "le"), ("ge", "lt"))
_I: Final = Variable("i", kinds=INTS)
_J: Final = Variable("j", kinds=INTS)


RULES: Final = (
    # 0 is neutral; for floats that is -0.0, because -0.0 + 0.0 is 0.0.
    Rule(X + 0, X, INTS),
    Rule(X + -0.0, X, FLOATS),
    Rule(X - 0, X, NUMBERS),
    Rule(apply("addptr", X, 0), X, INTS),
    # Addition modulo 2**n is a commutative group.
    Rule((X + C) + D, X + (C + D), INTS),
    Rule(X - C, X + -C, SIGNED),
    Rule(X - X, 0, INTS),
    Rule((X + Y) - X, Y, INTS),
    Rule((X + Y) - Y, X, INTS),
    Rule((X - Y) + Y, X, INTS),
    Rule(Y + (X - Y), X, INTS),
    Rule(X - (X - Y), Y, INTS),
    Rule(X - (X + Y), -Y, INTS),
    Rule((X - Y) - X, -Y, INTS),
    Rule((X + C) - (X + D), C - D, INTS),
    Rule((X + C) - (Y + C), X - Y, INTS),
    # A sign is exact in floats too.
    Rule(apply("neg", -X), X, NUMBERS),
    Rule(X + -Y, X - Y, NUMBERS),
    Rule(X - -Y, X + Y, NUMBERS),
    # -(x - y) = y - x; in floats the sign of a zero would differ.
    Rule(-(X - Y), Y - X, INTS),
    # 1 is neutral; x * 0 is 0 for integers alone (NaN, infinity and -0.0 keep theirs).
    Rule(X * 1, X, NUMBERS),
    Rule(X * 0, 0, INTS),
    Rule(X * -1, -X, SIGNED),
    Rule((X * C) * D, X * (C * D), INTS),
    Rule(-(X * C), X * -C, SIGNED),
    Rule(apply("div", X, 1), X, FLOATS),
    Rule(apply("floordiv", X, 1), X, INTS),
    Rule(apply("rem", X, 1), 0, INTS),
    # Boolean algebra, on every bit of an integer.
    Rule(X & X, X, BITS),
    Rule(X & 0, 0, BITS),
    Rule(X & 1, X, BOOLS),
    Rule(X & -1, X, SIGNED),
    Rule(X | X, X, BITS),
    Rule(X | 0, X, BITS),
    Rule(X | 1, 1, BOOLS),
    Rule(X ^ X, 0, BITS),
    Rule(X ^ 0, X, BITS),
    Rule(X ^ 1, ~X, BOOLS),
    Rule(~~X, X, BITS),
    Rule(apply("shl", X, 0), X, INTS),
    Rule(apply("shr", X, 0), X, INTS),
    # Order: reflexive for integers; nothing is less than itself, NaN neither.
    *(Rule(apply(name, X, X), 1, BITS) for name in ("eq", "le", "ge")),
    Rule(apply("ne", X, X), 0, BITS),
    *(Rule(apply(name, X, X), 0, BITS | FLOATS) for name in ("lt", "gt")),
    Rule(apply("maximum", X, X), X, NUMBERS),
    Rule(apply("minimum", X, X), X, NUMBERS),
    # c < x is x > c: the constant stands on the right, as in commutative ops.
    *(Rule(apply(name, C, X), apply(flipped, X, C), ALL) for name, flipped in _FLIPPED),
    # The order of integers is total; with NaN both x < y and x >= y are false.
    *(Rule(~apply(name, _I, _J), apply(negated, _I, _J), BOOLS) for name, negated in _NEGATED),
    *(Rule(~apply(name, X, Y), apply(negated, X, Y), BOOLS) for name, negated in (("eq", "ne"), ("ne", "eq"))),
    # b == true is b.
    Rule(apply("eq", X, 1), X, BOOLS),
    Rule(apply("eq", X, 0), ~X, BOOLS),
    Rule(apply("ne", X, 1), ~X, BOOLS),
    Rule(apply("ne", X, 0), X, BOOLS),
    # A choice that is none, or that a bool expression says as well.
    Rule(apply("where", 1, X, Y), X, ALL),
    Rule(apply("where", 0, X, Y), Y, ALL),
    Rule(apply("where", X, Y, Y), Y, ALL),
    Rule(apply("where", ~X, Y, Z), apply("where", X, Z, Y), ALL),
    Rule(apply("where", X, 1, 0), X, BOOLS),
    Rule(apply("where", X, 0, 1), ~X, BOOLS),
    Rule(apply("where", X, Y, 0), X & Y, BOOLS),
    Rule(apply("where", X, 1, Y), X | Y, BOOLS),
)


def _by_name() -> Mapping[str, tuple[Rule, ...]]:
    names = dict.fromkeys(rule.old.op for rule in RULES)
    return MappingProxyType({name: tuple(rule for rule in RULES if rule.old.op == name) for name in names})


RULES_OF: Final = _by_name()
