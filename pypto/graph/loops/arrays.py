"""Arrays of a loop: views of arguments, and expressions on arrays that are computed strip by strip.

An array has an extent for each axis, and gives the text of its element at some indices. At most one index is a strip,
which is a tile of consecutive indices; the others are scalars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pypto.graph.loops.numbers import Linear, NotCompiled, Number, cast, storage_type, type_name
from pypto.graph.loops.promotion import template
from pypto.graph.loops.writer import LANES, ONE, ZERO, Parameter, Writer


@dataclass(frozen=True, slots=True)
class Strip:
    """The index of an axis along which a tile is computed: its text, mask and lanes."""

    text: str
    mask: str
    lanes: int


Index = str | Strip
Lanes = Sequence[Index]


def text_of(index: Index) -> str:
    return index.text if isinstance(index, Strip) else index


def strip_in(lanes: Lanes) -> Strip | None:
    return next((x for x in lanes if isinstance(x, Strip)), None)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a view: the axis of its array, or None for a new one; step and extent."""

    base: int | None
    step: int
    extent: Number


@dataclass(frozen=True, slots=True)
class View:
    """A part of an argument: the first index along each axis of the argument, and the axes that remain."""

    base: Parameter
    starts: tuple[Number, ...]
    axes: tuple[Axis, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype

    @property
    def extents(self) -> tuple[Number, ...]:
        return tuple(axis.extent for axis in self.axes)

    def place(self, lanes: Lanes) -> str:
        """Return the pointer to the elements at some indices."""
        terms = [self.base.name]
        for base, start in enumerate(self.starts):
            parts = [] if start.value == 0 else [start.text]
            for axis, index in zip(self.axes, lanes, strict=True):
                if axis.base == base and (text := text_of(index)) != "0":
                    parts.append(text if axis.step == 1 else f"{text} * {axis.step}")
            if parts:
                stride = "" if self.base.role != "array" and base == len(self.starts) - 1 else f"strides[{base}]"
                position = " + ".join(parts)
                terms.append(f"({position}) * {self.base.name}.{stride}" if stride else f"({position})")
        return " + ".join(terms)

    def element(self, w: Writer, lanes: Lanes) -> str:
        place, strip = self.place(lanes), self.strip(lanes)
        return w.shared(f"pto.load({place}, mask={strip.mask})" if strip and strip.mask else f"pto.load({place})")

    def strip(self, lanes: Lanes) -> Strip | None:
        """Return the strip of this view's elements, or None if they are one element."""
        present = [x for axis, x in zip(self.axes, lanes, strict=True) if axis.base is not None]
        return strip_in(present)

    def leaves(self) -> list[tuple[View, bool]]:
        """Return the views that it reads, and whether each is read at the indices of the result alone."""
        return [(self, True)]


@dataclass(frozen=True, slots=True)
class Filled:
    """An array with one number in every element."""

    number: Number
    extents: tuple[Number, ...]
    dtype: np.dtype[Any]

    def element(self, w: Writer, lanes: Lanes) -> str:
        return cast(self.number, self.dtype)

    def leaves(self) -> list[tuple[View, bool]]:
        return []


@dataclass(frozen=True, slots=True)
class Counting:
    """An arithmetic progression of integers: `np.arange`."""

    start: Number
    step: Number
    extents: tuple[Number, ...]
    dtype: np.dtype[Any]

    def element(self, w: Writer, lanes: Lanes) -> str:
        text = f"({self.start.text} + {text_of(lanes[0])} * {self.step.text})"
        return w.shared(f"pto.cast({text}, {type_name(self.dtype)})")

    def leaves(self) -> list[tuple[View, bool]]:
        return []


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An operation on arrays and numbers, element by element."""

    name: str
    kinds: tuple[Any, ...]
    operands: tuple[Any, ...]
    extents: tuple[Number, ...]
    dtype: np.dtype[Any]

    def element(self, w: Writer, lanes: Lanes) -> str:
        texts = [operand_text(w, x, kind, lanes) for x, kind in zip(self.operands, self.kinds, strict=True)]
        if self.name == "where":
            return w.shared(f"pto.where({', '.join(texts)})")
        if self.name == "cast":
            source = storage_type(self.operands[0].dtype)
            text = texts[0] if source == self.dtype else f"pto.cast({texts[0]}, {type_name(self.dtype)})"
            return w.shared(text)
        return w.shared(template(self.name, self.kinds, False).format(*texts))

    def leaves(self) -> list[tuple[View, bool]]:
        views: list[tuple[View, bool]] = []
        for x in self.operands:
            if not isinstance(x, Number):
                same = len(x.extents) == len(self.extents) and all(
                    is_same(a, b) for a, b in zip(x.extents, self.extents, strict=True)
                )
                views += [(view, direct and same) for view, direct in x.leaves()]
        return views


@dataclass(frozen=True, slots=True)
class Permuted:
    """An array with its axes in another order, some reversed: `order` has the source's axis of each."""

    source: Any
    order: tuple[int, ...]
    reversed: tuple[bool, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype  # type: ignore[no-any-return]

    @property
    def extents(self) -> tuple[Number, ...]:
        return tuple(self.source.extents[n] for n in self.order)

    def element(self, w: Writer, lanes: Lanes) -> str:
        below: list[Index] = ["0"] * len(self.order)
        for axis, index, is_reversed in zip(self.order, lanes, self.reversed, strict=True):
            text = f"({self.source.extents[axis].text} - 1 - {text_of(index)})"
            mirrored = replace(index, text=text) if isinstance(index, Strip) else text
            below[axis] = mirrored if is_reversed else index
        return self.source.element(w, below)  # type: ignore[no-any-return]

    def leaves(self) -> list[tuple[View, bool]]:
        return [(view, False) for view, _ in self.source.leaves()]


@dataclass(frozen=True, slots=True)
class Picked:
    """Elements of a view along its first axis, by an array of indices."""

    source: View
    index: Any

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def extents(self) -> tuple[Number, ...]:
        return (*self.index.extents, *self.source.extents[1:])

    def element(self, w: Writer, lanes: Lanes) -> str:
        rank = len(self.index.extents)
        at = w.shared(f"pto.cast({self.index.element(w, lanes[:rank])}, pto.int64)")
        size = self.source.extents[0].text
        at = w.shared(f"pto.where({at} < 0, {at} + {size}, {at})")
        strip = strip_in(lanes[:rank])
        safe = f"({at} >= 0) & ({at} < {size})"
        if strip is None:
            first: Index = w.shared(f"pto.where({safe}, {at}, 0)")
        else:
            first = Strip(at, w.shared(f"{strip.mask} & {safe}" if strip.mask else safe), strip.lanes)
        return self.source.element(w, (first, *lanes[rank:]))

    def leaves(self) -> list[tuple[View, bool]]:
        return [(view, False) for view, _ in (*self.source.leaves(), *self.index.leaves())]


@dataclass(frozen=True, slots=True)
class Reduced:
    """A reduction of an array along some axes: `sum`, `prod`, `max` or `min`."""

    name: str
    source: Any
    axes: tuple[int, ...]
    dtype: np.dtype[Any]
    keeps: bool = False

    @property
    def extents(self) -> tuple[Number, ...]:
        rows = enumerate(self.source.extents)
        return tuple(ONE if n in self.axes else x for n, x in rows if self.keeps or n not in self.axes)

    def element(self, w: Writer, lanes: Lanes) -> str:
        """Write the loops over the reduced axes; the last one is in strips if the result is a single element."""
        given = [x for n, x in enumerate(lanes) if not (self.keeps and n in self.axes)]
        outer = strip_in(given)
        lanes_of = LANES if outer is None else outer.lanes
        first = reduction_start(self.name, self.dtype)
        start = f"pto.full(({lanes_of},), {first}, {type_name(self.dtype)})"
        total = w.variable("acc", start)
        positions = iter(given)
        below: list[Index] = ["" if n in self.axes else next(positions) for n in range(len(self.source.extents))]
        self.loops(w, below, list(self.axes), total, outer)
        if outer is not None:
            return total
        text = w.variable("r", f"pto.cast(pto.{self.name}({total}), {type_name(self.dtype)})")
        if self.name in ("max", "min") and self.dtype.kind == "f":
            has_nan = f"pto.max(pto.cast({total} != {total}, pto.int32)) > 0"
            nan = f'pto.full((), float("nan"), {type_name(self.dtype)})'
            return w.variable("r", f"pto.where({has_nan}, {nan}, {text})")
        return text

    def loops(self, w: Writer, below: list[Index], axes: list[int], total: str, outer: Strip | None) -> None:
        axis = axes.pop(0)
        extent = self.source.extents[axis]
        if not axes and outer is None:
            with strips(w, extent) as strip:
                below[axis] = strip
                self.accumulate(w, below, total, strip)
            return
        index = w.new("k")
        with w.block(f"for {index} in range(0, {extent.text}):"):
            below[axis] = index
            if axes:
                self.loops(w, below, axes, total, outer)
            else:
                self.accumulate(w, below, total, None)  # each lane is a result of its own, stored under the mask

    def accumulate(self, w: Writer, below: Lanes, total: str, strip: Strip | None) -> None:
        value = operand_text(w, self.source, self.dtype, below)
        if strip is not None and strip.mask:
            neutral = reduction_start(self.name, self.dtype)
            value = f"pto.where({strip.mask}, {value}, pto.full(({strip.lanes},), {neutral}, {type_name(self.dtype)}))"
        how = {"sum": "{0} + {1}", "prod": "{0} * {1}"}.get(self.name)
        how = how or f"pto.{self.name}imum({{0}}, {{1}}, propagate_nan=True)"
        w.line(f"{total} = {how.format(total, value)}")

    def leaves(self) -> list[tuple[View, bool]]:
        return [(view, False) for view, _ in self.source.leaves()]


def reduction_start(name: str, dtype: np.dtype[Any]) -> str:
    if name in ("sum", "prod"):
        number = dtype.type(name == "prod").item()
        return repr(number)
    if dtype.kind == "f":
        return 'float("-inf")' if name == "max" else 'float("inf")'
    info = np.iinfo(dtype)
    return f"({info.min if name == 'max' else info.max})"


@contextmanager
def strips(w: Writer, extent: Number) -> Iterator[Strip]:
    """Write a loop over the strips of an axis."""
    start = w.new("k")
    with w.block(f"for {start} in range(0, {extent.text}, {LANES}):"):
        text = w.variable("o", f"{start} + pto.arange(0, {LANES})")
        is_full = extent.value is not None and extent.value % LANES == 0
        yield Strip(text, "" if is_full else w.variable("m", f"{text} < {extent.text}"), LANES)


def operand_text(w: Writer, x: Any, kind: Any, lanes: Lanes) -> str:
    """Return the text of an operand's element, in the type of the operation."""
    if isinstance(x, Number):
        return cast(x, kind)
    text = x.element(w, lanes_of(x, lanes))
    return text if storage_type(x.dtype) == storage_type(kind) else w.shared(f"pto.cast({text}, {type_name(kind)})")


def lanes_of(x: Any, lanes: Lanes) -> Lanes:
    """Return the indices of a broadcast operand."""
    last = lanes[len(lanes) - len(x.extents) :]
    return [("0" if extent.value == 1 else index) for extent, index in zip(x.extents, last, strict=True)]


def is_same(a: Number, b: Number) -> bool:
    """Whether two extents are equal for certain."""
    if a.linear is None or b.linear is None:
        return a.text == b.text and a.text.isidentifier()
    return a.linear.minus(b.linear) == Linear()


def broadcast(arrays: Sequence[Any]) -> tuple[Number, ...]:
    """Return the extents of an elementwise result.

    Raises
    ------
    NotCompiled
        When it is not certain that the extents fit.
    """
    extents: list[Number] = []
    for n in range(1, 1 + max(len(x.extents) for x in arrays)):
        sizes = [x.extents[-n] for x in arrays if len(x.extents) >= n]
        full = [x for x in sizes if x.value != 1]
        if full and not all(is_same(full[0], x) for x in full[1:]):
            raise NotCompiled("two lengths that may differ")
        extents.append(full[0] if full else ONE)
    return tuple(reversed(extents))


def full_view(base: Parameter) -> View:
    """Return the view of all elements of an argument."""
    sizes = [Number(str(n), int, Linear({}, n), n) for n in base.shape]
    return View(base, (ZERO,) * len(sizes), tuple(Axis(n, 1, size) for n, size in enumerate(sizes)))


@dataclass(slots=True)
class Overlap:
    """Whether a statement that stores into a view may read elements after it wrote them."""

    w: Writer
    target: View
    seen: list[View] = field(default_factory=list)

    def is_safe(self, view: View, direct: bool) -> bool:
        target = self.target
        if view.base.memory != target.base.memory or (view.base is target.base and self.is_disjoint(view)):
            return True
        if view.base is not target.base or not direct or len(view.axes) != len(target.axes):
            return False
        for a, b in zip(view.axes, target.axes, strict=True):
            if (a.base, a.step) != (b.base, b.step) or a.step != 1:
                return view == target
        for start, other in zip(view.starts, target.starts, strict=True):
            if start.linear is None or other.linear is None:
                return False
            low, high = start.linear.minus(other.linear).bounds(self.w.bounds)
            if low > 0:
                return [x.base for x in target.axes] == sorted(x.base or 0 for x in target.axes)
            if (low, high) != (0, 0):
                return False
        return True

    def is_disjoint(self, view: View) -> bool:
        """Whether no element is in both views, for certain."""
        for base in range(len(view.starts)):
            a, b = span(view, base), span(self.target, base)
            if a is None or b is None:
                continue
            if a[1].minus(b[0]).bounds(self.w.bounds)[1] < 0 or b[1].minus(a[0]).bounds(self.w.bounds)[1] < 0:
                return True
        return False


def span(view: View, base: int) -> tuple[Linear, Linear] | None:
    """Return the first and last index of a view along an axis of its array."""
    start = view.starts[base].linear
    if start is None:
        return None
    axis = next((x for x in view.axes if x.base == base), None)
    if axis is None:
        return start, start
    if axis.extent.linear is None:
        return None
    last = start.plus(axis.extent.linear.minus(Linear({}, 1)), axis.step)
    return (start, last) if axis.step > 0 else (last, start)
