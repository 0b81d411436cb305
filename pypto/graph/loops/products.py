"""Products of vectors and matrices in a loop's kernel, in an order that reads matrices along their rows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.graph.loops.arrays import Axis, Filled, Reduced, View, is_same, operand_text, strips
from pypto.graph.loops.expressions import Expressions
from pypto.graph.loops.indexing import indexed
from pypto.graph.loops.numbers import NotCompiled, Number, known
from pypto.graph.loops.store import copied, materialized
from pypto.graph.loops.writer import ONE, Writer

_MOST_PRODUCT: Final = 1 << 21  # multiplications of a product of matrices that strips compute
_ROWS: Final = 8  # of a matrix that are added to a result at once


def matmul(e: Expressions, a: Any, b: Any) -> Any:
    """Return a product of vectors and matrices."""
    if isinstance(a, Number) or isinstance(b, Number):
        return e.apply("multiply", a, b)
    ranks = len(a.extents), len(b.extents)
    if not (1 <= ranks[0] <= 2 and 1 <= ranks[1] <= 2):
        raise NotCompiled("a product of arrays of more than two dimensions")
    inner = a.extents[-1], b.extents[-2 if ranks[1] == 2 else -1]
    if not is_same(*inner):
        raise NotCompiled("two lengths that may differ")
    if ranks == (2, 2):
        sizes = [e.w.range_of(x)[1] for x in (*a.extents, b.extents[1])]
        if sizes[0] * sizes[1] * sizes[2] > _MOST_PRODUCT:
            raise NotCompiled("a product of large matrices, which is faster outside of a kernel of one program")
    a, b = (materialized(e.w, x) for x in (a, b))
    if ranks == (1, 2) and is_row(b, 1) and b.dtype == a.dtype and a.dtype.kind == "f":
        return by_rows(e.w, a, b)
    if ranks == (2, 1) and is_row(a, 1) and b.dtype == a.dtype and a.dtype.kind == "f":
        return by_dots(e, a, b)
    # result axes, then the summed one: a as (i, 1, k), b as (1, j, k)
    left = View(a.base, a.starts, (*a.axes[:-1], *((Axis(None, 1, ONE),) if ranks[1] == 2 else ()), a.axes[-1]))
    columns = (b.axes[1], b.axes[0]) if ranks[1] == 2 else b.axes
    right = View(b.base, b.starts, columns)
    product = e.apply("multiply", left, right)
    if product.dtype == np.bool_:
        raise NotCompiled("a product of bools")
    return e.loaded(Reduced("sum", product, (len(product.extents) - 1,), product.dtype))


def dot(e: Expressions, a: Any, b: Any) -> Any:
    return matmul(e, a, b)


def is_row(matrix: View, axis: int) -> bool:
    """Whether the elements along an axis lie next to each other in memory, and those along the other one do not."""
    return matrix.axes[axis].base == len(matrix.starts) - 1 and matrix.axes[axis].step == 1


def by_rows(w: Writer, a: View, b: View) -> View:
    """Return a vector times a matrix: a few rows of the matrix are added to the result at a time."""
    result = copied(w, Filled(known(0.0), (b.extents[1],), b.dtype))
    size = a.extents[0].text
    for first, last, count in (("0", f"{size} // {_ROWS} * {_ROWS}", _ROWS), (f"{size} // {_ROWS} * {_ROWS}", size, 1)):
        row = w.new("k")
        with w.block(f"for {row} in range({first}, {last}, {count}):"):
            places = [f"({row} + {n})" for n in range(count)]
            factors = [w.variable("c", operand_text(w, a, a.dtype, [place])) for place in places]
            with strips(w, b.extents[1]) as strip:
                total = w.variable("a", result.element(w, [strip]))
                for factor, place in zip(factors, places, strict=True):
                    w.line(f"{total} = {total} + {factor} * {b.element(w, [place, strip])}")
                mask = f", mask={strip.mask}" if strip.mask else ""
                w.line(f"pto.store({result.place([strip])}, {total}{mask})")
    return result


def by_dots(e: Expressions, a: View, b: View) -> View:
    """Return a matrix times a vector: one row of the matrix after the other."""
    w = e.w
    result = copied(w, Filled(known(0.0), (a.extents[0],), a.dtype))
    row = w.new("n")
    with w.block(f"for {row} in range(0, {a.extents[0].text}):"):
        index = w.index(f"pto.cast({row}, pto.int64)", (0, w.range_of(a.extents[0])[1] - 1))
        text = Reduced("sum", e.apply("multiply", indexed(w, a, [index]), b), (0,), a.dtype).element(w, ())
        w.line(f"pto.store({result.place([row])}, {text})")
    return result
