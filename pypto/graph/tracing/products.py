"""Matrix products on traced arrays: `@`, `np.dot`, `np.einsum` and others become `dot` nodes on stacks of matrices."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import WrongShapes
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import checked, here
from pypto.graph.ir.type_rules import product_shape
from pypto.graph.ir.types import accumulator
from pypto.graph.tracing.movement import diagonal, reshape, squeeze, transpose
from pypto.graph.tracing.reductions import plus_zero, reduce
from pypto.graph.tracing.tensor import Tensor, TensorGraph, place_of, untraced
from pypto.graph.tracing.ufuncs import call, cast, lift

_LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {"vecdot": "...i,...i->...", "matvec": "...ij,...j->...i", "vecmat": "...i,...ij->...j"}
)


def of_ufunc(graph: TensorGraph, name: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Trace ``np.matmul``, ``np.vecdot``, ``np.matvec`` and ``np.vecmat``."""
    x, y = (lift(graph, value) for value in inputs)
    dtype, axis = kwargs.get("dtype"), kwargs.get("axis", -1)
    if kwargs.get("keepdims") or (axis != -1 and name != "vecdot"):
        raise untraced(name, "`axis` and `keepdims` have no meaning here", "move the axis last, and add it by `None`")
    if dtype is not None:
        x, y = cast(x, dtype), cast(y, dtype)
    if name == "matmul":
        return matmul(x, y)
    if name == "vecdot" and axis != -1:
        x, y = (swapped_last(value, axis) for value in (x, y))
    return einsum(_LABELS[name], x, y)


def swapped_last(x: Tensor, axis: int) -> Tensor:
    """Move one axis of an array to the end."""
    at = place_of(axis, max(1, x.ndim))
    return transpose(x, (*(d for d in range(x.ndim) if d != at), at))


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Trace ``x @ y`` with numpy's rule for vectors, in numpy's result type."""
    if not x.ndim or not y.ndim:
        raise WrongShapes(here().loc(), what="`@`", problem="an operand has no dimensions")
    dtype = x.dtype if x.dtype == y.dtype else common_dtype(x, y)
    left = x if x.ndim > 1 else reshape(x, (1, *x.shape))
    right = y if y.ndim > 1 else reshape(y, (*y.shape, 1))
    node = cast(product(cast(left, dtype), cast(right, dtype)), dtype)
    gone = [-2] * (x.ndim == 1) + [-1] * (y.ndim == 1)
    result = Tensor.fresh(x.graph, node.node)
    return squeeze(result, tuple(gone)) if gone else result


def common_dtype(x: Tensor, y: Tensor) -> np.dtype[Any]:
    """Return the type of a product; bfloat16 and 16-bit integers have none but that of numpy's ufuncs, float32."""
    try:
        return np.result_type(x.dtype, y.dtype)
    except np.exceptions.DTypePromotionError:
        return np.add.resolve_dtypes((x.dtype, y.dtype, None))[2]


def product(x: Tensor, y: Tensor) -> Tensor:
    """Multiply two stacks of matrices of one type, with the result in the accumulator's type.

    A cast of the result to a type of as few bits as the operands gives what numpy gives: sums of integers wrap around
    in any number of bits alike, and whether any product of two bools is true is whether their number is not 0.
    """
    rows, depth, columns = x.node.shape[-2], x.node.shape[-1], y.node.shape[-1]
    if x.dtype == np.bool_:
        x, y = cast(x, np.int8), cast(y, np.int8)
        if rows == 1 or columns == 1:
            x, y = cast(x, np.int32), cast(y, np.int32)
    widened = accumulator(x.dtype)
    left, right = cast(x, widened), cast(y, widened)
    if depth == 1 and y.node.shape[-2] == 1:  # an outer product: there is nothing to add up
        return plus_zero(call(x.graph, np.multiply, (left, right)))
    if columns == 1 and y.ndim == 2 and depth == y.node.shape[0]:  # by a vector: a sum of each row
        row = reshape(right, (y.shape[0],))
        return reduce(call(x.graph, np.multiply, (left, row)), "sum", x.ndim - 1, True, widened)
    if rows == 1 and x.ndim == y.ndim == 2 and depth == y.node.shape[0]:
        column = reshape(left, (x.shape[-1], 1))
        return reduce(call(x.graph, np.multiply, (column, right)), "sum", 0, True, widened)
    if widened.kind in "iu" and widened.itemsize > 4:
        return of_long_integers(left, right)
    node = checked("`@`", lambda: x.graph.add("dot", x.node, y.node, place=here()))
    return Tensor.fresh(x.graph, node)


def of_long_integers(x: Tensor, y: Tensor) -> Tensor:
    """Multiply 64-bit integers elementwise and sum, because `dot` accumulates integers in 32 bits."""
    checked("`@`", lambda: product_shape(x.node.shape, y.node.shape))
    left, right = reshape(x, (*x.node.shape, 1)), reshape(y, (*y.node.shape[:-2], 1, *y.node.shape[-2:]))
    return reduce(call(x.graph, np.multiply, (left, right)), "sum", -2, False, x.dtype)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Trace ``np.dot``, which multiplies scalars, and contracts the second last axis of its second operand."""
    if not x.ndim or not y.ndim:
        return call(x.graph, np.multiply, (x, y))
    if max(x.ndim, y.ndim) <= 2 and is_single(x, y):
        return of_single(x, y, x.ndim + y.ndim - 2)
    return tensordot(x, y, [-1], [-2]) if y.ndim > 2 else matmul(x, y)


def inner(x: Tensor, y: Tensor) -> Tensor:
    """Trace ``np.inner``, which contracts the last axes of both operands."""
    if not x.ndim or not y.ndim:
        return call(x.graph, np.multiply, (x, y))
    if max(x.ndim, y.ndim) <= 2 and is_single(x, y):
        return of_single(x, y, x.ndim + y.ndim - 2)
    return tensordot(x, y, [-1], [-1])


def is_single(x: Tensor, y: Tensor) -> bool:
    """Whether both operands have one element, and `np.dot` multiplies them without a sum, so that -0.0 stays."""
    sizes = (*x.node.shape, *y.node.shape)
    return np.result_type(x.dtype, y.dtype) in (np.float32, np.float64) and all(is_fixed(n) and n == 1 for n in sizes)


def of_single(x: Tensor, y: Tensor, rank: int) -> Tensor:
    """Multiply two arrays of one element each; the result has `rank` dimensions."""
    return reshape(call(x.graph, np.multiply, (reshape(x, (1,)), reshape(y, (1,)))), (1,) * rank)


def tensordot(x: Tensor, y: Tensor, left: Sequence[int], right: Sequence[int]) -> Tensor:
    """Trace ``np.tensordot``, which contracts axes of both operands; the result has the others in order."""
    names = [chr(97 + d) for d in range(x.ndim)]
    others = [chr(97 + x.ndim + d) for d in range(y.ndim)]
    for i, j in zip(left, right, strict=True):
        others[j] = names[i]
    result = [c for c in names + others if (c in names) != (c in others)]
    return einsum(f"{''.join(names)},{''.join(others)}->{''.join(result)}", x, y)


def outer(x: Tensor, y: Tensor) -> Tensor:
    return call(x.graph, np.multiply, (reshape(x, (-1, 1)), reshape(y, (1, -1))))


def einsum(spec: str, *operands: Tensor) -> Tensor:
    """Trace ``np.einsum`` from left to right: each step is a product, or a multiplication and a sum.

    Sums have the common type of all operands, as in numpy; narrow types are rounded once, at the end.
    """
    left, result, _ = labels(spec, operands)
    dtype = np.result_type(*(x.dtype for x in operands))
    current_tensor, current = diagonal_of(cast(operands[0], dtype), left[0])
    for y, other, later in zip(operands[1:], left[1:], later_labels(left), strict=True):
        more, names = diagonal_of(cast(y, dtype), other)
        current_tensor, current = contract(
            current_tensor, current, cast(more, current_tensor.dtype), names, set(result) | set(later)
        )
    gone = tuple(n for n, name in enumerate(current) if name not in result)
    if len(operands) > 1 and set("".join(left)) == set(result):
        current_tensor = plus_zero(current_tensor)
    if gone:
        current_tensor, current = total(current_tensor, gone), "".join(c for c in current if c in result)
    if current == result:
        current_tensor = cast(current_tensor, dtype)
        return current_tensor if len(operands) > 1 or gone else Tensor.fresh(current_tensor.graph, current_tensor.node)
    return transpose(cast(current_tensor, dtype), tuple(current.index(c) for c in result))


def total(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Sum along axes in the accumulator's type; a sum of bools is `any`."""
    if x.dtype == np.bool_:
        return reduce(x, "any", axes)
    widened = accumulator(x.dtype)
    return reduce(cast(x, widened), "sum", axes, False, widened)


def later_labels(left: list[str]) -> list[str]:
    """Return for each step the labels of later operands."""
    return ["".join(left[n + 1 :]) for n in range(1, len(left))]


def labels(spec: str, operands: tuple[Tensor, ...]) -> tuple[list[str], str, str]:
    """Return a letter for each dimension of operands and result; an ellipsis gets unused letters."""
    text = spec.replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise WrongShapes(here().loc(), what="`np.einsum`", problem=f"{spec!r} is for {len(terms)} operands")
    free = [c for c in string.ascii_letters if c not in text]
    ranks = [x.ndim - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True) if "..." in t]
    dots = "".join(free[: max(ranks, default=0)])
    named = []
    for t, x in zip(terms, operands, strict=True):
        count = x.ndim - len(t.replace("...", ""))
        named.append(t.replace("...", dots[len(dots) - count :] if count else ""))
        if len(named[-1]) != x.ndim:
            raise WrongShapes(here().loc(), what="`np.einsum`", problem=f"{t!r} does not name {x.ndim} dimensions")
    if not arrow:
        letters = "".join(named)
        result = ("..." if dots else "") + "".join(sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1))
    return named, result.replace("...", dots), dots


def diagonal_of(x: Tensor, names: str) -> tuple[Tensor, str]:
    """Take the diagonal of each label that an operand has twice."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first, second = names.index(name), names.rindex(name)
            if x.shape[first] != x.shape[second]:
                problem = f"{name!r} has sizes {x.shape[first]} and {x.shape[second]}"
                raise WrongShapes(here().loc(), what="`np.einsum`", problem=problem)
            x = diagonal(x, 0, first, second)
            names = names[:first] + names[first + 1 : second] + names[second + 1 :] + name
    return x, names


def contract(x: Tensor, a: str, y: Tensor, b: str, shared: set[str]) -> tuple[Tensor, str]:
    """Contract two operands: sum over shared labels that no one needs later, and broadcast sizes of 1."""
    x, y = repeated(x, a, y, b), repeated(y, b, x, a)
    summed = [c for c in a if c in b and c not in shared]
    batch = [c for c in a if c in b and c in shared]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    if summed and rows and columns:
        left = merge(x, a, batch, rows, summed)
        right = merge(y, b, batch, summed, columns)
        product_node = product(left, right)
        if product_node.dtype.kind in "iu" and x.dtype == np.bool_:
            product_node = cast(product_node, np.bool_)
        sizes = {**dict(zip(a, x.shape, strict=True)), **dict(zip(b, y.shape, strict=True))}
        names = "".join((*batch, *rows, *columns))
        return reshape(product_node, tuple(sizes[c] for c in names)), names
    names = "".join(dict.fromkeys(a + b))
    widened = accumulator(x.dtype)
    result = call(x.graph, np.multiply, (cast(spread(x, a, names), widened), cast(spread(y, b, names), widened)))
    gone = tuple(n for n, c in enumerate(names) if c not in shared)
    if gone:
        result = total(result, gone)
    return result, "".join(c for c in names if c in shared)


def repeated(x: Tensor, a: str, y: Tensor, b: str) -> Tensor:
    """Broadcast an operand's dimensions of size 1 to another operand's sizes."""
    sizes = dict(zip(b, y.node.shape, strict=True))
    shape = tuple(sizes.get(c, n) if is_fixed(n) and n == 1 else n for c, n in zip(a, x.node.shape, strict=True))
    return x if shape == x.node.shape else x.moved("broadcast_to", shape=shape)


def merge(x: Tensor, names: str, *groups: list[str]) -> Tensor:
    """Permute dimensions, and merge each group except the first."""
    sizes = dict(zip(names, x.shape, strict=True))
    order = [c for group in groups for c in group]
    transposed = transpose(x, tuple(names.index(c) for c in order))
    shape = [sizes[c] for c in groups[0]]
    for group in groups[1:]:
        size = 1
        for c in group:
            size *= sizes[c]
        shape.append(size)
    return reshape(transposed, tuple(shape))


def spread(x: Tensor, names: str, wanted: str) -> Tensor:
    """Permute dimensions to the order of a list of labels, with size 1 for missing ones."""
    present = [c for c in wanted if c in names]
    sizes = dict(zip(names, x.shape, strict=True))
    transposed = transpose(x, tuple(names.index(c) for c in present))
    return reshape(transposed, tuple(sizes.get(c, 1) for c in wanted))
