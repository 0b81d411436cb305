"""Matrix products: `@`, `np.dot`, `np.einsum` and their like as `dot` nodes on stacks of matrices."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from pypto.errors.graph import NotTraced, WrongShapes
from pypto.graph.movement import reshape, squeeze, transpose
from pypto.graph.node import Graph
from pypto.graph.places import checked, here
from pypto.graph.reductions import reduce
from pypto.graph.tensor import Tensor
from pypto.graph.ufuncs import call, cast, lift


def of_ufunc(graph: Graph, name: str, a: Any, b: Any) -> Tensor:
    x, y = lift(graph, a), lift(graph, b)
    if name == "vecdot":
        return einsum("...i,...i->...", x, y)
    if name == "matvec":
        return einsum("...ij,...j->...i", x, y)
    return einsum("...i,...ij->...j", x, y) if name == "vecmat" else matmul(x, y)


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """``x @ y`` with numpy's rule for vectors, in the type that numpy computes in."""
    if not x.ndim or not y.ndim:
        raise WrongShapes(here().loc(), what="`@`", problem="an operand has no dimensions")
    dtype = np.result_type(x.dtype, y.dtype)
    left = x if x.ndim > 1 else reshape(x, (1, *x.shape))
    right = y if y.ndim > 1 else reshape(y, (*y.shape, 1))
    node = product(cast(left, dtype), cast(right, dtype))
    gone = [-2] * (x.ndim == 1) + [-1] * (y.ndim == 1)
    found = Tensor.fresh(x.graph, node.node)
    return squeeze(found, tuple(gone)) if gone else found


def product(x: Tensor, y: Tensor) -> Tensor:
    """Two stacks of matrices of one type; what floats of 16 bits add up to is rounded once."""
    if x.dtype.kind not in "f" and x.dtype != np.int8:
        if x.dtype.kind == "b":
            raise NotTraced(here().loc(), what="`@`", problem="both operands are bool", way="cast them to float32")
        # Products of integers have no micro-kernel of their own: numbers below 2**53 are exact in float64.
        raise NotTraced(
            here().loc(), what="`@`", problem=f"both operands are {x.dtype}", way="cast them to float32 or float64"
        )
    make = x.graph.add
    rows, depth, columns = x.node.shape[-2], x.node.shape[-1], y.node.shape[-1]
    if depth == 1 and y.node.shape[-2] == 1:  # an outer product: there is nothing to add up
        return call(x.graph, np.multiply, (x, y))
    if columns == 1 and y.ndim == 2 and depth == y.node.shape[0]:  # by a vector: a sum of each row
        row = reshape(y, (y.shape[0],))
        return reduce(call(x.graph, np.multiply, (x, row)), "sum", x.ndim - 1, True)
    if rows == 1 and x.ndim == y.ndim == 2 and depth == y.node.shape[0]:
        column = reshape(x, (x.shape[-1], 1))
        return reduce(call(x.graph, np.multiply, (column, y)), "sum", 0, True)
    node = checked("`@`", lambda: make("dot", x.node, y.node, place=here()))
    return cast(Tensor.fresh(x.graph, node), x.dtype)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """``np.dot``: of matrices their product, of scalars a multiplication."""
    if not x.ndim or not y.ndim:
        return call(x.graph, np.multiply, (x, y))
    if y.ndim > 2 and x.ndim > 1:
        raise NotTraced(here().loc(), what="`np.dot`", problem="its second operand is a stack", way="use `@` or einsum")
    return matmul(x, y)


def outer(x: Tensor, y: Tensor) -> Tensor:
    return call(x.graph, np.multiply, (reshape(x, (-1, 1)), reshape(y, (1, -1))))


def einsum(spec: str, *operands: Tensor) -> Tensor:
    """``np.einsum``, from left to right: each step a product, or a multiplication and a sum."""
    left, result, names = labels(spec, operands)
    found, current = operands[0], left[0]
    found, current = diagonal_free(found, current)
    for y, other, later in zip(operands[1:], left[1:], rest(left), strict=True):
        kept = set(result) | set(later)
        found, current = contract(found, current, *diagonal_free(y, other), kept)
    gone = tuple(n for n, name in enumerate(current) if name not in result)
    if gone:
        found, current = reduce(found, "sum", gone), "".join(c for c in current if c in result)
    if current == result:
        return found if len(operands) > 1 or gone else Tensor.fresh(found.graph, found.node)
    del names
    return transpose(found, tuple(current.index(c) for c in result))


def rest(left: list[str]) -> list[str]:
    """Of each step, the labels of the operands that come later."""
    return ["".join(left[n + 1 :]) for n in range(1, len(left))]


def labels(spec: str, operands: tuple[Tensor, ...]) -> tuple[list[str], str, str]:
    """One letter for each dimension of operands and result; an ellipsis takes letters that are free."""
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


def diagonal_free(x: Tensor, names: str) -> tuple[Tensor, str]:
    if len(set(names)) != len(names):
        raise NotTraced(
            here().loc(), what="`np.einsum`", problem=f"{names!r} takes a diagonal", way="multiply by `np.eye` and sum"
        )
    return x, names


def contract(x: Tensor, a: str, y: Tensor, b: str, kept: set[str]) -> tuple[Tensor, str]:
    """Two operands: labels that both have and nobody keeps are summed."""
    summed = [c for c in a if c in b and c not in kept]
    batch = [c for c in a if c in b and c in kept]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    if summed and rows and columns:
        left = merge(x, a, batch, rows, summed)
        right = merge(y, b, batch, summed, columns)
        made = matmul(left, right)
        sizes = {**dict(zip(a, x.shape, strict=True)), **dict(zip(b, y.shape, strict=True))}
        names = "".join((*batch, *rows, *columns))
        return reshape(made, tuple(sizes[c] for c in names)), names
    names = "".join(dict.fromkeys(a + b))
    found = call(x.graph, np.multiply, (spread(x, a, names), spread(y, b, names)))
    gone = tuple(n for n, c in enumerate(names) if c not in kept)
    if gone:
        found = reduce(found, "sum", gone)
    return found, "".join(c for c in names if c in kept)


def merge(x: Tensor, names: str, *groups: list[str]) -> Tensor:
    """Dimensions in another order, with each group but the first as one."""
    sizes = dict(zip(names, x.shape, strict=True))
    order = [c for group in groups for c in group]
    turned = transpose(x, tuple(names.index(c) for c in order))
    shape = [sizes[c] for c in groups[0]]
    for group in groups[1:]:
        size = 1
        for c in group:
            size *= sizes[c]
        shape.append(size)
    return reshape(turned, tuple(shape))


def spread(x: Tensor, names: str, wanted: str) -> Tensor:
    """Dimensions in the order of a list of labels, with size 1 where there is none."""
    kept = [c for c in wanted if c in names]
    sizes = dict(zip(names, x.shape, strict=True))
    turned = transpose(x, tuple(names.index(c) for c in kept))
    return reshape(turned, tuple(sizes.get(c, 1) for c in wanted))
