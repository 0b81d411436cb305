"""Tiles as affine forms of their index: ``start + Σ strides[d] · i[d]``, and what of them is not affine.

Pointers, offsets and masks of Triton-style kernels are such forms; access analysis makes structured accesses of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Op, Value
from pypto.ir.types import PtrType, int64
from pypto.ops.build import OpBuilder
from pypto.passes.pattern import constant_of


@dataclass(frozen=True, slots=True)
class Affine:
    """``pointer + start + Σ strides[d] · i[d] + rest``.

    `start` and `strides` are int64 scalars; `rest` is an int64 tile whose sizes are those of `shape`, or 1 where the
    value does not change. Only pointers have a `pointer`, a scalar.
    """

    shape: tuple[int, ...]
    start: Value
    strides: tuple[Value, ...]
    rest: Value | None = None
    pointer: Value | None = None

    @property
    def uniform(self) -> bool:
        """Whether every element is `start`."""
        return self.rest is None and all(constant_of(s) == 0 for s in self.strides)

    @property
    def moving(self) -> list[int]:
        """Dimensions along which the affine part changes."""
        return [d for d, s in enumerate(self.strides) if self.shape[d] > 1 and constant_of(s) != 0]


@dataclass
class Forms:
    """Affine forms of values; scalars that they need are built where the builder stands."""

    b: OpBuilder
    known: dict[Value, Affine | None] = field(default_factory=dict)

    def number(self, n: int) -> Value:
        return self.b.constant(n, int64)

    def of(self, v: Value) -> Affine | None:
        """The form of an int64 tile or of pointers; None for pointers that no scalar pointer leads to."""
        if v not in self.known:
            rule = _RULES.get(v.op.name) if v.op is not None and v.shape else None
            form = rule(self, v.op) if rule is not None and v.op is not None else None
            self.known[v] = form or self.leaf(v)
        return self.known[v]

    def leaf(self, v: Value) -> Affine | None:
        shape, zeros = v.shape, (self.number(0),) * len(v.shape)
        if isinstance(v.tile.elem, PtrType):
            return None if v.shape else Affine((), self.number(0), (), pointer=v)
        if v.tile.size == 1:
            v = self.b.emit("reshape", v, shape=()) if v.shape else v
            return Affine(shape, self.b.cast(v, int64), zeros)
        return Affine(shape, self.number(0), zeros, self.b.cast(v, int64))

    def sum(self, a: Affine, b: Affine) -> Affine:
        start = self.b.emit("add", a.start, b.start)
        strides = tuple(self.b.emit("add", x, y) for x, y in zip(a.strides, b.strides, strict=True))
        rests = [r for r in (a.rest, b.rest) if r is not None]
        rest = self.b.emit("add", *self.b.align(rests)) if len(rests) == 2 else rests[0] if rests else None
        return Affine(a.shape, start, strides, rest, a.pointer)

    def product(self, a: Affine, factor: Value) -> Affine:
        rest = a.rest
        if rest is not None:
            rest = self.b.emit("mul", rest, self.b.broadcast(factor, rest.shape))
        scaled = tuple(self.b.emit("mul", s, factor) for s in a.strides)
        return Affine(a.shape, self.b.emit("mul", a.start, factor), scaled, rest)

    def moved(self, a: Affine, op: Op) -> Affine | None:
        """The form behind a broadcast, reshape or permute; None where a reshape changes the order of dimensions."""
        return _MOVES[op.name](self, a, op)

    def spread(self, a: Affine, op: Op) -> Affine:
        shape = op.result.shape
        zero = self.number(0)
        strides = tuple(s if n > 1 else zero for s, n in zip(a.strides, a.shape, strict=True)) or (zero,) * len(shape)
        return replace(a, shape=shape, strides=strides)

    def reshaped(self, a: Affine, op: Op) -> Affine | None:
        shape = op.result.shape
        old = [d for d, n in enumerate(a.shape) if n > 1]
        new = [d for d, n in enumerate(shape) if n > 1]
        if [a.shape[d] for d in old] != [shape[d] for d in new]:
            return None
        source = dict(zip(new, old, strict=True))
        strides = tuple(a.strides[source[d]] if d in source else self.number(0) for d in range(len(shape)))
        rest = a.rest
        if rest is not None:
            sizes = tuple(rest.shape[source[d]] if d in source else 1 for d in range(len(shape)))
            rest = self.b.emit("reshape", rest, shape=sizes)
        return replace(a, shape=shape, strides=strides, rest=rest)

    def permuted(self, a: Affine, op: Op) -> Affine:
        dims = op.attrs["dims"]
        rest = None if a.rest is None else self.b.emit("permute", a.rest, dims=dims)
        return replace(a, shape=op.result.shape, strides=tuple(a.strides[d] for d in dims), rest=rest)


def _sum(forms: Forms, op: Op) -> Affine | None:
    a, b = (forms.of(v) for v in op.operands)
    return forms.sum(a, b) if a is not None and b is not None else None


def _difference(forms: Forms, op: Op) -> Affine | None:
    a, b = (forms.of(v) for v in op.operands)
    return forms.sum(a, forms.product(b, forms.number(-1))) if a is not None and b is not None else None


def _negative(forms: Forms, op: Op) -> Affine | None:
    a = forms.of(op.operands[0])
    return forms.product(a, forms.number(-1)) if a is not None else None


def _product(forms: Forms, op: Op) -> Affine | None:
    for factor, other in (op.operands, op.operands[::-1]):
        a, b = forms.of(factor), forms.of(other)
        if a is not None and b is not None and a.uniform:
            return forms.product(b, a.start)
    return None


def _moved(forms: Forms, op: Op) -> Affine | None:
    a = forms.of(op.operands[0])
    return forms.moved(a, op) if a is not None else None


def _arange(forms: Forms, op: Op) -> Affine | None:
    return Affine(op.result.shape, forms.number(op.attrs["start"]), (forms.number(1),))


def _cast(forms: Forms, op: Op) -> Affine | None:
    """The pass `widen` has brought the casts down to where an index begins."""
    source = op.operands[0].op
    return _arange(forms, source) if source is not None and source.name == "arange" and op.result.shape else None


def _constant(forms: Forms, op: Op) -> Affine | None:
    return Affine(op.result.shape, forms.number(op.attrs["value"]), (forms.number(0),) * len(op.result.shape))


_MOVES: Final[MappingProxyType[str, Callable[[Forms, Affine, Op], Affine | None]]] = MappingProxyType(
    {"broadcast_to": Forms.spread, "reshape": Forms.reshaped, "permute": Forms.permuted}
)
_RULES: Final[MappingProxyType[str, Callable[[Forms, Op], Affine | None]]] = MappingProxyType(
    {"add": _sum, "sub": _difference, "neg": _negative, "mul": _product, "addptr": _sum, "arange": _arange,
     "cast": _cast, "constant": _constant, **dict.fromkeys(_MOVES, _moved)}
)  # fmt: skip


def all_of(b: OpBuilder, conditions: Sequence[Value]) -> Value | None:
    """The conjunction of conditions of one shape; None where there is none."""
    result: Value | None = None
    for c in conditions:
        result = c if result is None else b.emit("and_", result, c)
    return result
