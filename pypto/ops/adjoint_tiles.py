"""Adjoint rules of ops on whole tiles: shapes, reductions, scans, selection, products.

Every rule takes the op, its operands, its result and the gradient of the result: see `pypto.ops.adjoint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pypto.ir.core import Op
from pypto.ir.types import int32
from pypto.ops.adjoint import Expression

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

E = Expression
Gradients = Sequence[Expression | None]


def positions(builder: OpBuilder, shape: tuple[int, ...], axis: int) -> E:
    """The index along an axis of each element of a tile."""
    line = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    return E(builder, builder.emit("arange", start=0, end=shape[axis])).reshape(line).broadcast_to(shape)


# --- shapes -----------------------------------------------------------------------------------------------------------


def broadcast_to(op: Op, x: E, result: E, g: E) -> Gradients:
    if not x.shape:
        return (g.sum(tuple(range(len(g.shape)))),)
    repeated = tuple(d for d, n in enumerate(x.shape) if n != g.shape[d])
    return (g.sum(repeated, keep_dims=True),)


def reshape(op: Op, x: E, result: E, g: E) -> Gradients:
    return (g.reshape(x.shape),)


def permute(op: Op, x: E, result: E, g: E) -> Gradients:
    dims: Any = op.attrs["dims"]
    return (g.permute(tuple(dims.index(d) for d in range(len(dims)))),)


def slice_(op: Op, x: E, result: E, g: E) -> Gradients:
    """Each dimension that was cut is gathered back; what was left out is 0."""
    starts: Any = op.attrs["starts"]
    steps: Any = op.attrs["steps"]
    for d, n in enumerate(x.shape):
        if (starts[d], steps[d], g.shape[d]) != (0, 1, n):
            g = unsliced(g, d, n, starts[d], steps[d])
    return (g,)


def unsliced(g: E, d: int, n: int, start: int, step: int) -> E:
    """A gradient whose dimension d has the n places before a slice was taken."""
    size, shape = g.shape[d], (*g.shape[:d], n, *g.shape[d + 1 :])
    places = positions(g.builder, shape, d) - start
    number = places.op("floordiv", step)
    inside = (number * step).equals(places)
    inside = inside.op("and_", number >= 0).op("and_", number < size)
    index = number.op("maximum", 0, propagate_nan=False).op("minimum", size - 1, propagate_nan=False)
    return g.op("gather", index, axis=d).where(inside)


def gather(op: Op, x: E, index: E, result: E, g: E) -> Gradients:
    """A sum over all indices that name an element: a comparison with each place of the source."""
    axis: Any = op.attrs["axis"]
    n, shape = x.shape[axis], g.shape
    paired = (*shape[: axis + 1], n, *shape[axis + 1 :])
    column = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    terms = g.reshape(column).broadcast_to(paired)
    wanted = index.cast(int32).reshape(column).broadcast_to(paired)
    gradient = terms.where(wanted.equals(positions(g.builder, paired, axis + 1))).sum((axis,))
    for d, size in enumerate(x.shape):
        if gradient.shape[d] != size:  # indices may cover a part of the other dimensions
            gradient = unsliced(gradient, d, size, 0, 1)
    return gradient, None


# --- reductions -------------------------------------------------------------------------------------------------------


def total(op: Op, x: E, result: E, g: E) -> Gradients:
    return (g.spread(x.shape, op.attrs["axes"]),)


def product(op: Op, x: E, result: E, g: E) -> Gradients:
    """The product of all other elements, also where some are 0: one axis after the other."""
    axes: Any = op.attrs["axes"]
    partial = [x]
    for axis in axes:
        partial.append(partial[-1].op("prod", axes=(axis,), keep_dims=True))
    g = g.reshape(partial[-1].shape)
    for axis, before in zip(reversed(axes), reversed(partial[:-1]), strict=True):
        g = g.broadcast_to(before.shape) * others(before, axis)
    return (g,)


def others(x: E, axis: int) -> E:
    """For each element the product of the others along an axis."""
    n = x.shape[axis]
    place = positions(x.builder, x.shape, axis)
    before = shifted(x.op("cumprod", axis=axis, reverse=False), place, axis, -1, n)
    after = shifted(x.op("cumprod", axis=axis, reverse=True), place, axis, 1, n)
    return before * after


def shifted(x: E, place: E, axis: int, by: int, n: int, end: float = 1.0) -> E:
    """The element `by` places further along an axis; `end` where there is none."""
    index = place + by
    inside = index >= 0 if by < 0 else index < n
    clamped = index.op("maximum", 0, propagate_nan=False).op("minimum", n - 1, propagate_nan=False)
    return x.op("gather", clamped, axis=axis).where(inside, end)


def extremum(name: str) -> Any:
    """The rule of `max` or `min`: the first index that has the result gets the gradient. `name` finds that index.

    An index, and no comparison with the result: what a loop computes again may be rounded in another way.
    """

    def rule(op: Op, x: E, result: E, g: E) -> Gradients:
        axes: Any = op.attrs["axes"]
        free_dims = tuple(d for d in range(len(x.shape)) if d not in axes)
        order = (*free_dims, *axes)
        rows = x.permute(order) if order != tuple(range(len(order))) else x
        moved = rows.shape
        count = x.value.tile.size
        for d in free_dims:
            count //= x.shape[d]
        flat = rows.reshape((*moved[: len(free_dims)], count))
        axis = len(free_dims)
        best = flat.op(name, axes=(axis,), keep_dims=True).broadcast_to(flat.shape)
        spread = g.reshape((*moved[: len(free_dims)], 1)).broadcast_to(flat.shape)
        gradient = spread.where(positions(x.builder, flat.shape, axis).equals(best)).reshape(moved)
        back = tuple(order.index(d) for d in range(len(order)))
        return (gradient.permute(back) if rows is not x else gradient,)

    return rule


# --- scans ------------------------------------------------------------------------------------------------------------


def cumsum(op: Op, x: E, result: E, g: E) -> Gradients:
    return (g.op("cumsum", axis=op.attrs["axis"], reverse=not op.attrs["reverse"]),)


def cumprod(op: Op, x: E, result: E, g: E) -> Gradients:
    """The sum, over what an element is a factor of, of gradient times result over the element.

    The first element of 0 has no quotient: there the products are made again with 1 in its place. Behind it all products
    are 0, whatever an element is.
    """
    axis, reverse = op.attrs["axis"], op.attrs["reverse"]
    is_zero = x.equals(0)
    zeros = is_zero.cast(int32).op("cumsum", axis=axis, reverse=reverse)
    is_first = is_zero.op("and_", zeros.equals(1))
    one = x.number(1)
    patched = one.where(is_first, x).op("cumprod", axis=axis, reverse=reverse)
    at_first = (g * patched).op("cumsum", axis=axis, reverse=not reverse)
    before = (g * result).op("cumsum", axis=axis, reverse=not reverse) / one.where(is_zero, x)
    return (at_first.where(is_first, before.where(zeros.equals(0))),)


def running_extremum(is_better: str) -> Any:
    """The rule of `cummax` or `cummin`: an element gets the gradients from itself on to where a better one follows.

    `is_better` compares an element with the result before it: "ge" or "le", so that of equals the last one counts.
    """

    def rule(op: Op, x: E, result: E, g: E) -> Gradients:
        axis, reverse = op.attrs["axis"], op.attrs["reverse"]
        n, place = x.shape[axis], positions(x.builder, x.shape, axis)
        one = -1 if reverse else 1
        first = place.equals(n - 1 if reverse else 0)
        earlier = shifted(result, place, axis, -one, n)
        is_record = x.op(is_better, earlier).op("or_", first)
        # The gradients behind each element add up from the far end; those behind the next record are taken away.
        behind = g.op("cumsum", axis=axis, reverse=not reverse)
        nowhere = -1 if reverse else n
        records = place.where(is_record, nowhere)
        nearest = records.op("cummax" if reverse else "cummin", axis=axis, reverse=not reverse)
        following = shifted(nearest, place, axis, one, n, nowhere)
        inside = following >= 0 if reverse else following < n
        index = following.op("maximum", 0, propagate_nan=False).op("minimum", n - 1, propagate_nan=False)
        beyond = behind.op("gather", index, axis=axis).where(inside)
        return ((behind - beyond).where(is_record),)

    return rule


# --- products ---------------------------------------------------------------------------------------------------------


def dot(op: Op, x: E, y: E, *values: E) -> Gradients:
    """Products with the other operand transposed; the accumulator gets the gradient itself.

    The gradient is rounded to the operands' format where that is narrow: as in the forward product, sums are float32.
    """
    g = values[-1]
    narrow = op.operands[0].dtype, op.operands[1].dtype
    by_x = g.cast(narrow[1]).op("dot", transposed(y.cast(narrow[1])))
    by_y = transposed(x.cast(narrow[0])).op("dot", g.cast(narrow[0]))
    accumulated = (g,) if len(values) == 3 else ()
    return by_x.cast(x.dtype), by_y.cast(y.dtype), *accumulated


def transposed(x: E) -> E:
    n = len(x.shape)
    return x.permute((*range(n - 2), n - 1, n - 2))
