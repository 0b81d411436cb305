"""Access analysis: loads and stores through tiles of pointers become structured accesses (see `Access`).

The pointers are brought into affine form. Dimensions along which they move by a stride get that stride; along others
the access keeps a tile of base pointers, of size 1 in the affine dimensions: a gather of rows. Where an index is kept
inside of an array (``% M``), elements below M are a structured load, whose `other` is the gather for elements behind M.

A mask is split at its `and`s. Bounds of one index become the extent of its dimension; conditions that are uniform close
an extent; other conditions remain a mask.

Legality: an access reads or writes the same elements as before. A part of a pointer that is not affine stays a tile.

    %m = lt %i, %n;  %x = load (addptr %p, %i), %m      ->      %x = tile_load %p[0] up to %n, strides [1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from pypto.ir.builder import temporarily
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import int64
from pypto.ops.build import OpBuilder
from pypto.ops.memory import UNBOUNDED, Access
from pypto.ops.table import MOVEMENT_OPS
from pypto.passes.analysis.affine import Affine, Forms, all_of, lesser
from pypto.passes.canonicalize import Simplifier
from pypto.passes.pattern import constant_of

_COMPARES: Final = {"lt": (0, 1, 0), "le": (0, 1, 1), "gt": (1, 0, 0), "ge": (1, 0, 1)}  # less, greater, slack


def raise_accesses(function: Function) -> Function:
    """Make loads and stores of affine pointers structured."""
    b = Simplifier(Region())
    return _Raiser(b, _rule, forms=Forms(b), limited=Forms(b, limited=True)).function(function)


@dataclass
class _Raiser(Rewriter[OpBuilder]):
    """Rewrites the ops; each region has affine forms of its own."""

    forms: Forms = field(kw_only=True)
    limited: Forms = field(kw_only=True)

    def fill(self, new: Region, old: Region) -> None:
        with temporarily(self, forms=self.forms.inside(), limited=self.limited.inside()):
            super().fill(new, old)


def _rule(rewriter: _Raiser, op: Op) -> Sequence[Value] | None:
    """Access analysis of one load or store through a tile of pointers."""
    if op.name not in ("load", "store") or not op.operands[0].shape:
        return None
    b, forms = rewriter.builder, rewriter.forms
    pointers, *optional = rewriter.operands(op)
    form = forms.of(pointers)
    bounds = Bounds(forms, pointers.shape)
    value = optional.pop(0) if op.name == "store" else None
    for condition in conditions(forms, optional.pop(0)) if optional else ():
        bounds.take(condition)
    other = optional[0] if optional and not is_zero(optional[0]) else None
    limited = rewriter.limited.of(pointers) if op.name == "load" and form.gathered else form
    if len(limited.gathered) < len(form.gathered):
        other = built(b, op.name, bounds.beyond(limited.limits).access(form, value, other)).result
        bounds = bounds.below(limited.limits)
        form = limited
    return built(b, op.name, bounds.access(form, value, other)).results


def built(b: OpBuilder, name: str, access: Access) -> Op:
    """A structured access with its row's types."""
    return b.op(f"tile_{name}", *access.operands, shape=access.shape, masked=access.mask is not None)


def is_zero(v: Value) -> bool:
    """Whether a tile is 0, as elements out of bounds are."""
    number = constant_of(v)
    return number is not None and number == 0 and not str(number).startswith("-")


@dataclass(frozen=True, slots=True)
class Condition:
    """A conjunct of a mask: `tile` holds; with a known `form`, that is ``form < 0``."""

    tile: Value
    form: Affine | None = None


def conditions(forms: Forms, mask: Value) -> list[Condition]:
    """The conjuncts of a mask."""
    work = [mask]
    result = list[Condition]()
    while work:
        v = work.pop()
        if v.op is not None and v.op.name == "and_" and v.shape:
            work += reversed(v.op.operands)
        else:
            result += parts(forms, v)
    return result


def parts(forms: Forms, mask: Value) -> list[Condition]:
    """The conditions of one comparison, or of another mask that is no conjunction."""
    op = mask.op
    if op is None or not mask.shape:
        return [Condition(mask)]
    if op.name in MOVEMENT_OPS:
        inner = [moved(forms, c, op) for c in conditions(forms, op.operands[0])]
        known = [c for c in inner if c is not None]
        return known if len(known) == len(inner) else [Condition(mask)]
    if op.name in _COMPARES and op.operands[0].tile.elem == int64:
        less, greater, slack = _COMPARES[op.name]
        a, b = forms.of(op.operands[less]), forms.of(op.operands[greater])
        form = forms.sum(a, forms.product(b, forms.number(-1)))
        return [Condition(mask, replace(form, start=forms.b.emit("sub", form.start, forms.number(slack))))]
    return [Condition(mask)] if constant_of(mask) is not True else []


def moved(forms: Forms, condition: Condition, op: Op) -> Condition | None:
    """A condition through a broadcast, reshape or permute."""
    form = forms.moved(condition.form, op) if condition.form is not None else None
    if condition.form is not None and form is None:
        return None
    if op.name == "broadcast_to":  # the sizes of 1 stay: they show what the condition does not depend on
        return Condition(condition.tile, form)
    if op.name == "reshape" and condition.tile.shape != op.operands[0].shape:
        return None
    return Condition(forms.b.emit(op.name, condition.tile, **op.attrs), form)


@dataclass
class Bounds:
    """The bounds of every dimension, from a mask."""

    forms: Forms
    shape: tuple[int, ...]
    upper: dict[int, Value] = field(default_factory=dict)
    lower: dict[int, Value] = field(default_factory=dict)
    guards: list[Value] = field(default_factory=list)
    masks: list[Value] = field(default_factory=list)

    def take(self, condition: Condition) -> None:
        """Add a condition of the mask."""
        form = condition.form
        b = self.forms.b
        if form is None or form.residual is not None:
            self.keep(condition.tile)
        elif not form.moving:
            self.guards.append(b.emit("lt", form.start, self.forms.number(0)))
        elif len(form.moving) == 1 and constant_of(form.strides[form.moving[0]]) in (1, -1):
            self.bound(form, form.moving[0])
        else:
            self.keep(condition.tile)

    def keep(self, tile: Value) -> None:
        """Add a condition that remains a mask."""
        b = self.forms.b
        if tile.tile.size == 1:
            self.guards.append(b.emit("reshape", tile, shape=()) if tile.shape else tile)
        else:
            self.masks.append(b.broadcast(tile, self.shape))

    def bound(self, form: Affine, d: int) -> None:
        """Add a bound: ``i + start < 0`` is an upper one of the index, ``start - i < 0`` a lower one."""
        b = self.forms.b
        if constant_of(form.strides[d]) == 1:
            limit = b.emit("neg", form.start)
            self.upper[d] = lesser(b, self.upper[d], limit) if d in self.upper else limit
        else:
            limit = b.emit("add", form.start, self.forms.number(1))
            self.lower[d] = b.emit("maximum", self.lower[d], limit, propagate_nan=False) if d in self.lower else limit

    def below(self, limits: Sequence[Value | None]) -> Bounds:
        """The bounds with further upper limits of the index."""
        known = {d: n for d, n in enumerate(limits) if n is not None}
        tighter = {d: lesser(self.forms.b, n, self.upper[d]) if d in self.upper else n for d, n in known.items()}
        return replace(self, upper=self.upper | tighter)

    def beyond(self, limits: Sequence[Value | None]) -> Bounds:
        """The bounds, closed unless the tile reaches beyond one of the limits."""
        b = self.forms.b
        sizes = [b.emit("lt", n, self.forms.number(self.shape[d])) for d, n in enumerate(limits) if n is not None]
        return replace(self, guards=[*self.guards, reduce(lambda x, y: b.emit("or_", x, y), sizes)])

    def access(self, form: Affine, value: Value | None, other: Value | None) -> Access:
        """The access through affine pointers; along gathered dimensions its base is a tile."""
        strides = tuple(self.forms.number(0) if d in form.gathered else s for d, s in enumerate(form.strides))
        base = self.base(form)
        mask = all_of(self.forms.b, self.masks)
        return Access(self.shape, base, self.offsets(), strides, self.extents(), value, mask, other)

    def offsets(self) -> tuple[Value, ...]:
        """The offsets of the access."""
        b = self.forms.b
        none = self.forms.number(0)
        return tuple(b.emit("neg", self.lower[d]) if d in self.lower else none for d in range(len(self.shape)))

    def extents(self) -> tuple[Value, ...]:
        """The extents of the access."""
        b = self.forms.b
        uppers = [self.upper.get(d, self.forms.number(UNBOUNDED)) for d in range(len(self.shape))]
        first, *more = (b.emit("sub", u, self.lower[d]) if {d} <= self.lower.keys() & self.upper.keys() else u
                        for d, u in enumerate(uppers))  # fmt: skip
        guard = all_of(b, self.guards)
        return (first if guard is None else b.emit("where", guard, first, self.forms.number(0)), *more)

    def base(self, form: Affine) -> Value:
        """The pointer of the element with index -offset; a tile of pointers along gathered dimensions."""
        b = self.forms.b
        start = form.start
        gathered = form.gathered
        for d, offset in enumerate(self.offsets()):
            if d not in gathered:
                start = b.emit("sub", start, b.emit("mul", offset, form.strides[d]))
        assert form.pointer is not None
        pointer = b.emit("addptr", form.pointer, b.broadcast(start, form.pointer.shape))
        if not gathered:
            return b.emit("reshape", pointer, shape=()) if pointer.shape else pointer
        sizes = tuple(n if d in gathered else 1 for d, n in enumerate(self.shape))
        index = b.broadcast(form.residual or self.forms.number(0), sizes)
        for d in gathered:
            steps = b.emit("mul", self.line(d, sizes), b.broadcast(form.strides[d], sizes))
            index = b.emit("add", index, steps)
        return b.emit("addptr", b.broadcast(pointer, sizes), index)

    def line(self, d: int, sizes: tuple[int, ...]) -> Value:
        """The index along a dimension, as a tile that broadcasts to the access."""
        b = self.forms.b
        line = b.cast(b.emit("arange", start=0, end=sizes[d]), int64)
        shape = tuple(n if k == d else 1 for k, n in enumerate(sizes))
        return b.broadcast(b.emit("reshape", line, shape=shape), sizes)
