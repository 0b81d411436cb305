"""Affine forms of tiles in their index: ``start + Σ strides[d] · i[d]``, plus a residual that is not affine.

Pointers, offsets and masks of Triton-style kernels are such forms; access analysis makes structured accesses of them.
An index that is kept inside of an array (``i % M``, ``minimum(i, M - 1)``, ``where(i < M, i, 0)``) has a second form: i
itself, below the limit M. ``i // M`` and ``i % M`` are a row and its columns, as long as i stays in the row.

    %r = arange {end = 8, start = 0}          start 0, strides [1]
    %o = add (mul %r, %c4), %n                start n, strides [4]
    %q = addptr %p, %o                        pointer p, start n, strides [4]
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

from pypto.ir.core import Op, Value
from pypto.ir.types import PtrType, int64
from pypto.ops.build import OpBuilder
from pypto.passes.pattern import constant_of


@dataclass(frozen=True, slots=True)
class Affine:
    """``pointer + start + Σ strides[d] · i[d] + residual``.

    With `limits`, the form holds where the index along every dimension is below that dimension's limit, if it has one.
    """

    shape: tuple[int, ...]
    start: Value  # int64 scalar, as are strides
    strides: tuple[Value, ...]
    residual: Value | None = None  # int64 tile of these sizes, or of size 1 along dimensions in which it is constant
    pointer: Value | None = None  # of pointers: a scalar, or such a tile for pointers from memory
    limits: tuple[Value | None, ...] = ()

    @property
    def uniform(self) -> bool:
        """Whether every element is `start`, without a limit."""
        return self.residual is None and not self.limits and all(constant_of(s) == 0 for s in self.strides)

    @property
    def gathered(self) -> list[int]:
        """Dimensions along which the residual or the pointer changes."""
        loose = [v.shape for v in (self.residual, self.pointer) if v is not None and v.shape]
        return [d for d in range(len(self.shape)) if any(sizes[d] > 1 for sizes in loose)]

    @property
    def moving(self) -> list[int]:
        """Dimensions along which the affine part changes."""
        return [d for d, s in enumerate(self.strides) if self.shape[d] > 1 and constant_of(s) != 0]


FormRule = Callable[["Forms", Op], Affine | None]  # None where the form is not affine


@dataclass
class Forms:
    """Affine analysis of values. The scalars of the forms are emitted at the builder's position."""

    b: OpBuilder
    limited: bool = False  # whether forms with limits are wanted
    known: ChainMap[Value, Affine] = field(default_factory=ChainMap)  # by value, in this region and inside of it
    numbers: ChainMap[int, Value] = field(default_factory=ChainMap)

    def inside(self) -> Forms:
        """The analysis for a nested region, which sees all forms of the outer one."""
        return replace(self, known=self.known.new_child(), numbers=self.numbers.new_child())

    def number(self, n: int) -> Value:
        """A constant of 64 bits."""
        if n not in self.numbers:
            self.numbers[n] = self.b.constant(n, int64)
        return self.numbers[n]

    def of(self, v: Value) -> Affine:
        """The form of an integer tile, in 64 bits, or of pointers."""
        work = [v]
        while work:
            last = work.pop()
            operands = last.op.operands if last.op is not None and self.rule(last) else ()
            unknown = [o for o in operands if o not in self.known and self.rule(o)]
            if unknown:
                work += [last, *unknown]
            elif last not in self.known:
                self.known[last] = self.form(last)
        return self.known[v]

    def rule(self, v: Value) -> FormRule | None:
        """The rule for the op of a value."""
        if v.op is None or not v.shape or not (v.tile.is_ptr or v.dtype.is_int):
            return None
        return RULES.get(v.op.name) or (_LIMITED_RULES.get(v.op.name) if self.limited else None)

    def form(self, v: Value) -> Affine:
        """The form of a value whose operands have theirs."""
        rule = self.rule(v)
        return (rule(self, v.op) if rule is not None and v.op is not None else None) or self.leaf(v)

    def leaf(self, v: Value) -> Affine:
        """The form of a value without a rule: a scalar is the start, a tile the residual."""
        shape = v.shape
        zeros = (self.number(0),) * len(shape)
        if isinstance(v.tile.elem, PtrType):
            return Affine(shape, self.number(0), zeros, pointer=v)
        if v.tile.size == 1:
            v = self.b.emit("reshape", v, shape=()) if v.shape else v
            return Affine(shape, self.b.cast(v, int64), zeros)
        return Affine(shape, self.number(0), zeros, self.b.cast(v, int64))

    def sum(self, a: Affine, b: Affine) -> Affine:
        """The form of a sum."""
        start = self.b.emit("add", a.start, b.start)
        strides = tuple(self.b.emit("add", x, y) for x, y in zip(a.strides, b.strides, strict=True))
        rests = [r for r in (a.residual, b.residual) if r is not None]
        residual = self.b.emit("add", *self.b.align(rests)) if len(rests) == 2 else rests[0] if rests else None
        return Affine(a.shape, start, strides, residual, a.pointer, self.lower_limits(a.limits, b.limits))

    def product(self, a: Affine, factor: Value) -> Affine:
        """The form of a product with a scalar."""
        residual = a.residual
        if residual is not None:
            residual = self.b.emit("mul", residual, self.b.broadcast(factor, residual.shape))
        scaled = tuple(self.b.emit("mul", s, factor) for s in a.strides)
        return Affine(a.shape, self.b.emit("mul", a.start, factor), scaled, residual, None, a.limits)

    def lower_limits(self, a: tuple[Value | None, ...], b: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
        """The lower one of two limits, for every dimension."""
        if not (a and b):
            return a or b
        return tuple((x and y and lesser(self.b, x, y)) or x or y for x, y in zip(a, b, strict=True))

    def within(self, a: Affine, stop: Value, first: Value | None = None) -> Affine | None:
        """The form of an index between `first`, or 0, and `stop`; it has to move by 1. Between these it does not
        overflow.
        """
        if a.pointer is not None or a.residual is not None or [constant_of(a.strides[d]) for d in a.moving] != [1]:
            return None
        b = self.b
        none = self.number(0)
        least = none if first is None else b.emit("maximum", first, none, propagate_nan=False)
        count = b.emit("where", b.emit("ge", a.start, least), b.emit("sub", stop, a.start), none)
        limits = tuple(count if d in a.moving else None for d in range(len(a.shape)))
        return replace(a, limits=self.lower_limits(a.limits, limits))

    def block(self, a: Affine, size: Affine, most: int) -> Affine | None:
        """The form of an index within the block of `size` elements in which it begins."""
        if not size.uniform:
            return None
        end = self.b.emit("add", self.b.emit("floordiv", a.start, size.start), self.number(1))
        stop = lesser(self.b, self.b.emit("mul", end, size.start), self.number(most))
        return self.within(a, stop)

    def moved(self, a: Affine, op: Op) -> Affine | None:
        """The form of a broadcast, reshape or permute; None where a reshape splits or merges dimensions."""
        return _MOVES[op.name](self, a, op)

    def spread(self, a: Affine, op: Op) -> Affine:
        """The form of a broadcast: stride 0 along new and repeated dimensions."""
        shape = op.result.shape
        zero = self.number(0)
        strides = tuple(s if n > 1 else zero for s, n in zip(a.strides, a.shape, strict=True)) or (zero,) * len(shape)
        return replace(a, shape=shape, strides=strides)

    def reshaped(self, a: Affine, op: Op) -> Affine | None:
        """The form of a reshape that adds or drops dimensions of size 1."""
        shape = op.result.shape
        old, new = ([d for d, n in enumerate(sizes) if n > 1] for sizes in (a.shape, shape))
        if [a.shape[d] for d in old] != [shape[d] for d in new]:
            return None
        source = dict(zip(new, old, strict=True))

        def permuted_dims(values: Sequence[Any], other: Any) -> tuple[Any, ...]:
            return tuple(values[source[d]] if d in source else other for d in range(len(shape)))

        limits = permuted_dims(a.limits, None) if a.limits else ()
        moved = replace(a, shape=shape, strides=permuted_dims(a.strides, self.number(0)), limits=limits)
        return loose(moved, lambda v: self.b.emit("reshape", v, shape=permuted_dims(v.shape, 1)))

    def permuted(self, a: Affine, op: Op) -> Affine:
        """The form of a permute."""
        dims = op.attrs["dims"]
        strides, limits = (tuple(values[d] for d in dims) if values else () for values in (a.strides, a.limits))
        permuted = replace(a, shape=op.result.shape, strides=strides, limits=limits)
        return loose(permuted, lambda v: self.b.emit("permute", v, dims=dims))


def loose(a: Affine, change: Callable[[Value], Value]) -> Affine:
    """The form with its residual and pointer mapped by a function."""
    residual, pointer = (change(v) if v is not None and v.shape else v for v in (a.residual, a.pointer))
    return replace(a, residual=residual, pointer=pointer)


def _sum(forms: Forms, op: Op) -> Affine:
    """Affine form of ``x + y``."""
    return forms.sum(*map(forms.of, op.operands))


def _difference(forms: Forms, op: Op) -> Affine:
    """Affine form of ``x - y``."""
    a, b = map(forms.of, op.operands)
    return forms.sum(a, forms.product(b, forms.number(-1)))


def _negative(forms: Forms, op: Op) -> Affine:
    """Affine form of ``-x``."""
    return forms.product(forms.of(op.operands[0]), forms.number(-1))


def _product(forms: Forms, op: Op) -> Affine | None:
    """Affine form of ``x * y``, where one of both is uniform."""
    for factor, other in (op.operands, op.operands[::-1]):
        a, b = forms.of(factor), forms.of(other)
        if a.uniform:
            return forms.product(b, a.start)
    return None


def _moved(forms: Forms, op: Op) -> Affine | None:
    """Affine form of a movement op."""
    return forms.moved(forms.of(op.operands[0]), op)


def _arange(forms: Forms, op: Op) -> Affine:
    """Affine form of ``arange``: stride 1."""
    return Affine(op.result.shape, forms.number(op.attrs["start"]), (forms.number(1),))


def _cast(forms: Forms, op: Op) -> Affine | None:
    """The form of a cast of an index; `widen` has moved casts down to where an index begins."""
    source = op.operands[0].op
    if source is None or not op.result.shape or not op.operands[0].dtype.is_int:
        return None
    if source.name == "arange":
        return _arange(forms, source)
    return forms.of(op.operands[0]) if forms.limited and source.name in _LIMITED_RULES else None


def _constant(forms: Forms, op: Op) -> Affine:
    """Affine form of a constant: strides 0."""
    return Affine(op.result.shape, forms.number(op.attrs["value"]), (forms.number(0),) * len(op.result.shape))


def _remainder(forms: Forms, op: Op) -> Affine | None:
    """Limited form of ``x % m``: within a block of m elements it moves with x."""
    x, m = map(forms.of, op.operands)
    a = forms.block(x, m, op.result.dtype.integer_range[1])
    return a and replace(a, start=forms.b.emit("rem", a.start, m.start))


def _quotient(forms: Forms, op: Op) -> Affine | None:
    """Limited form of ``x // m``: within a block of m elements it is constant."""
    x, m = map(forms.of, op.operands)
    a = forms.block(x, m, op.result.dtype.integer_range[1])
    zeros = (forms.number(0),) * len(x.shape)
    return a and replace(a, start=forms.b.emit("floordiv", a.start, m.start), strides=zeros)


def _clamped(forms: Forms, op: Op) -> Affine | None:
    """Limited form of a clamp: ``minimum(x, y)`` is x up to y, ``maximum(x, y)`` is x from y on."""
    for x, y in (op.operands, op.operands[::-1]):
        a, bound = forms.of(x), forms.of(y)
        if bound.uniform:
            return _compared(forms, a, "le" if op.name == "minimum" else "ge", bound)
    return None


def _chosen(forms: Forms, op: Op) -> Affine | None:
    """Limited form of a select: ``where(x < y, x, z)`` is x below y."""
    test, x, _ = op.operands
    if test.op is None or test.op.name not in ("lt", "le", "gt", "ge") or test.op.operands[0] is not x:
        return None
    bound = forms.of(test.op.operands[1])
    return _compared(forms, forms.of(x), test.op.name, bound) if bound.uniform else None


def _compared(forms: Forms, a: Affine, name: str, bound: Affine) -> Affine | None:
    """The form with an upper limit, or with a lower one; then the index must fit into 31 bits."""
    edge = bound.start if name in ("lt", "ge") else forms.b.emit("add", bound.start, forms.number(1))
    return forms.within(a, edge) if name in ("lt", "le") else forms.within(a, forms.number(2**31), edge)


_MOVES: Final[MappingProxyType[str, Callable[[Forms, Affine, Op], Affine | None]]] = MappingProxyType(
    {"broadcast_to": Forms.spread, "reshape": Forms.reshaped, "permute": Forms.permuted}
)
RULES: Final[MappingProxyType[str, FormRule]] = MappingProxyType(
    {"add": _sum, "sub": _difference, "neg": _negative, "mul": _product, "addptr": _sum, "arange": _arange,
     "cast": _cast, "constant": _constant, **dict.fromkeys(_MOVES, _moved)}
)  # fmt: skip


_LIMITED_RULES: Final[MappingProxyType[str, FormRule]] = MappingProxyType(
    {"rem": _remainder, "floordiv": _quotient, "minimum": _clamped, "maximum": _clamped, "where": _chosen}
)


def lesser(b: OpBuilder, x: Value, y: Value) -> Value:
    """The lesser of two scalars."""
    return b.emit("minimum", x, y, propagate_nan=False)


def all_of(b: OpBuilder, conditions: Sequence[Value]) -> Value | None:
    """The conjunction of conditions of one shape; None where there is none."""
    return reduce(lambda x, y: b.emit("and_", x, y), conditions) if conditions else None
