"""Pattern matching for rewrite rules: both sides of a rule are terms, as in `Rule(X + 0, X, INTS)`.

Rules as data can be read, listed and tested one by one. `match` compares a term with the ops behind a value and binds
its variables; `build` emits the other term with these values.

    Rule((X + Y) - X, Y, INTS)        %s = sub (add %a, %b), %a      ->      %b
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pypto.ir.core import Op, Value
from pypto.ir.types import PtrType
from pypto.ops.build import Number, OpBuilder

Env = dict[str, Value]


def _operator(op: str) -> Callable[..., Apply]:
    return lambda *terms: Apply(op, terms)


class Pattern:
    """A term over the ops of the table. Python's operators make terms; a number in a term is a constant."""

    __add__, __sub__, __mul__ = map(_operator, ("add", "sub", "mul"))
    __and__, __or__, __xor__ = map(_operator, ("and_", "or_", "xor"))
    __neg__, __invert__ = map(_operator, ("neg", "not_"))


@dataclass(frozen=True, slots=True)
class Variable(Pattern):
    """Stands for any value, any constant, or values of some kinds; twice in a term it stands for the same value."""

    name: str
    constant: bool = False
    kinds: frozenset[str] | None = None

    def fits(self, v: Value) -> bool:
        """Whether the variable may stand for a value."""
        return (not self.constant or constant_of(v) is not None) and (self.kinds is None or kind(v) in self.kinds)


@dataclass(frozen=True, slots=True)
class Apply(Pattern):
    """A term: an op of the table, applied to terms."""

    op: str
    args: tuple[Term, ...]


Term = Variable | Apply | Number


def apply(op: str, *args: Term) -> Apply:
    """A term whose op has no operator in Python."""
    return Apply(op, args)


@dataclass(frozen=True, slots=True)
class Rule:
    """Where the last operand's kind is in `kinds`, `old` may become `new`. A comment gives the algebra that a rule is
    not itself.
    """

    old: Apply
    new: Term
    kinds: frozenset[str]

    def rewrite(self, b: OpBuilder, op: Op) -> Value | None:
        """The value that stands for `op`, built through `b`; None when the rule does not fit."""
        env: Env = {}
        if kind(op.operands[-1]) not in self.kinds or not match_all(self.old.args, op.operands, env):
            return None
        return build(self.new, env, b, op.result)


def kind(v: Value) -> str:
    """The kind of a value's elements, as rules name it: ``ptr``, or that of the dtype."""
    return "ptr" if isinstance(v.tile.elem, PtrType) else v.tile.elem.kind


def constant_of(v: Value) -> Number | None:
    """The number in every element of `v`, where it is known."""
    if v.op is None or v.op.name != "constant":
        return None
    number: Number = v.op.attrs["value"]
    return number


def constant_range(bounds: Iterable[Value]) -> range | None:
    """What a loop with this start, stop and step counts through, where it is known."""
    numbers = [constant_of(v) for v in bounds]
    return None if None in numbers or 0 in numbers[2:] else range(*(int(n or 0) for n in numbers))


def match_all(terms: Iterable[Term], values: Iterable[Value], env: Env) -> bool:
    """Whether every value has the form of its term."""
    return all(match(t, v, env) for t, v in zip(terms, values, strict=True))


def match(term: Term, v: Value, env: Env) -> bool:
    """Whether `v` has the form of the term; the values of its variables go into `env`."""
    if isinstance(term, Variable):
        return env.setdefault(term.name, v) is v and term.fits(v)
    if isinstance(term, Apply):
        return v.op is not None and v.op.name == term.op and match_all(term.args, v.op.operands, env)
    number = constant_of(v)
    return number is not None and number == term and math.copysign(1, number) == math.copysign(1, term)


def build(term: Term, env: Env, b: OpBuilder, like: Value) -> Value:
    """The value of a term. Its numbers get the type of the value that it replaces."""
    if isinstance(term, Variable):
        return env[term.name]
    if isinstance(term, Apply):
        return b.emit(term.op, *(build(t, env, b, like) for t in term.args))
    return b.constant(term, like.dtype, like.shape)


X: Final = Variable("x")
Y: Final = Variable("y")
Z: Final = Variable("z")
C: Final = Variable("c", constant=True)
D: Final = Variable("d", constant=True)
