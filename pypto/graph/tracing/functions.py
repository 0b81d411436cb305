"""numpy functions that are not ufuncs, traced through `__array_function__`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import NotTraced, WrongShapes
from pypto.graph.capture.scalars import pinned
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import here
from pypto.graph.ir.types import is_floating
from pypto.graph.tracing import methods, movement, numerical, ordering, products, reductions, ufuncs
from pypto.graph.tracing.movement import broadcast_to, concatenate, expand_dims, full_like, like, stack
from pypto.graph.tracing.numpy_steps import by_numpy
from pypto.graph.tracing.ordering import take
from pypto.graph.tracing.tensor import Tensor, graph_of, place_of
from pypto.graph.tracing.ufuncs import call, cast, lift, to_out

_MOST_ROLLED: Final = 1 << 19  # elements that are rolled inside of a kernel; more are faster copied in parts


def where(condition: Any, *choices: Any) -> Tensor:
    if len(choices) != 2:
        raise NotTraced(
            here().loc(), what="`np.where` of one operand", way="give both choices: `np.where(condition, a, b)`",
            problem="how many elements it finds is not known while a function is traced",
        )  # fmt: skip
    return ufuncs.where(condition, *choices)


def einsum(*operands: Any, out: Any = None, optimize: Any = False, **more: Any) -> Tensor:
    if not isinstance(operands[0], str) or any(value not in (None, "K", "safe") for value in more.values()):
        raise methods.untraced("this form of `np.einsum`", "give the labels as a text")
    graph = graph_of(*operands[1:])
    return to_out(products.einsum(operands[0], *(lift(graph, x) for x in operands[1:])), out)


def empty_like(x: Any, *args: Any, **given: Any) -> Tensor:
    """Trace `np.empty_like`: zeros, whose memory a launch of a kernel takes as it is."""
    tensor: Tensor = like(0)(x, *args, **given)
    tensor.storage.clear()
    return tensor


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    graph = graph_of(a, b)
    x, y = lift(graph, a), lift(graph, b)
    if isinstance(axes, int):
        axes = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    left, right = ([place_of(d, t.ndim) for d in np.atleast_1d(each)] for each, t in zip(axes, (x, y), strict=True))
    if products.is_single(x, y):
        return products.of_single(x, y, x.ndim + y.ndim - 2 * len(left))
    return products.tensordot(x, y, left, right)


def roll(x: Tensor, shift: Any, axis: Any = None) -> Tensor:
    """Trace ``np.roll``: rotate elements along axes."""
    if axis is None:
        return movement.reshape(roll(x.reshape(-1), shift, 0), x.shape)
    shifts = [0] * x.ndim
    for by, along in zip(*(each.tolist() for each in np.broadcast_arrays(shift, np.atleast_1d(axis))), strict=True):
        at = place_of(along, x.ndim)
        size = x.node.shape[at]
        shifts[at] = (shifts[at] + by) % max(1, size) if is_fixed(size) else shifts[at] + by
    moved = [at for at, by in enumerate(shifts) if by]
    if not moved:
        return movement.copy(x)
    if all(map(is_fixed, x.node.shape)) and x.size <= _MOST_ROLLED >> 3 * (len(moved) > 1) and x.dtype != np.bool_:
        for at in moved:
            x = rolled(x, shifts[at], at)
        return x
    return Tensor.fresh(x.graph, x.graph.add("roll", x.node, place=here(), shifts=tuple(shifts)))


def rolled(x: Tensor, by: int, at: int) -> Tensor:
    """Choose each element of a roll from two windows, which a kernel reads beside other work."""

    def window(start: int) -> Tensor:
        starts = tuple(start if d == at else 0 for d in range(x.ndim))
        return Tensor.fresh(x.graph, x.graph.add("window", x.node, place=here(), starts=starts, shape=x.node.shape))

    first, last = window(x.node.shape[at] - by), window(-by)
    return ufuncs.where(reductions.positions(x, at - x.ndim) < by, first, last)


def pad(x: Tensor, pad_width: Any, mode: Any = "constant", **how: Any) -> Tensor:
    """Trace `np.pad`: a constant is written around a copy, and other modes take elements by their places."""
    if callable(mode):
        raise methods.untraced("`np.pad` with a function", "write the padding by `np.concatenate`")
    if type(pad_width) is dict:
        by_axis = {place_of(axis, x.ndim): pair for axis, pair in pad_width.items()}
        pad_width = [np.broadcast_to(by_axis.get(d, 0), 2).tolist() for d in range(x.ndim)]
    constant_values = how.pop("constant_values", 0)
    if mode in numerical.MODES and not how:
        return numerical.pad(x, pad_width, mode)
    if mode != "constant" or np.ndim(constant_values):
        how = how if mode != "constant" else {"constant_values": constant_values}
        step: Tensor = by_numpy(np.pad)(x, pad_width, mode, **how)
        return step
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))
    result = full_like(x, constant_values, shape=shape)
    result[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True))] = x
    return result


def diff(x: Tensor, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Trace ``np.diff``; numbers before and behind the array are joined to it first."""
    edges = [None if edge is None else edge_of(x, edge, axis) for edge in (prepend, append)]
    parts = [part for part in (edges[0], x, edges[1]) if part is not None]
    x = concatenate(parts, axis) if len(parts) > 1 else x
    less = np.not_equal if x.dtype == np.bool_ else np.subtract
    for _ in range(n):
        head, tail = ((slice(None),) * (place_of(axis, x.ndim)) + (part,) for part in (slice(None, -1), slice(1, None)))
        x = call(x.graph, less, (x[tail], x[head]))
    return x


def edge_of(x: Tensor, edge: Any, axis: int) -> Tensor:
    """Return what is joined to an array along an axis: an array, or a number in all places beside it."""
    value = lift(x.graph, edge)
    return (
        value
        if value.ndim
        else broadcast_to(value, tuple(1 if d == place_of(axis, x.ndim) else n for d, n in enumerate(x.shape)))
    )


def flip(x: Tensor, axis: Any = None) -> Tensor:
    axes = range(x.ndim) if axis is None else [place_of(a, x.ndim) for a in np.atleast_1d(axis)]
    return x[tuple(slice(None, None, -1) if d in axes else slice(None) for d in range(x.ndim))]


def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    if ord not in (None, 2) or (ord == 2 and axis is None and x.ndim > 1):
        raise methods.untraced(f"`np.linalg.norm` with ord={ord!r}")
    x = reductions.floating(x)
    square = call(x.graph, np.square, (x,))
    return call(x.graph, np.sqrt, (reductions.reduce(square, "sum", axis, keepdims),))


def moveaxis(x: Tensor, source: Any, destination: Any) -> Tensor:
    sources, targets = ([place_of(a, x.ndim) for a in np.atleast_1d(each)] for each in (source, destination))
    order = [d for d in range(x.ndim) if d not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return movement.transpose(x, order)


def array_split(x: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Trace ``np.array_split``: if the parts cannot be equal, the first ones have one more element."""
    size, parts = x.shape[axis], indices_or_sections
    cuts = [size // parts * n + min(n, size % parts) for n in range(1, parts)] if isinstance(parts, int) else parts
    lead, ends = (slice(None),) * (place_of(axis, x.ndim)), [int(c) for c in cuts]
    return [x[(*lead, slice(a, b))] for a, b in zip([0, *ends], [*ends, size], strict=True)]


def split(x: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    parts = indices_or_sections
    if isinstance(parts, int) and x.shape[axis] % parts:
        problem = f"{x.shape[axis]} elements do not make {parts} equal parts"
        raise WrongShapes(here().loc(), what="`np.split`", problem=problem)
    return array_split(x, parts, axis)


def nan_to_num(x: Tensor, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    if not is_floating(x.dtype):
        return movement.copy(x)
    import ml_dtypes

    most: Any = ml_dtypes.finfo(x.dtype)  # type: ignore[no-untyped-call]  # it has no types
    ends = (most.max if posinf is None else posinf, most.min if neginf is None else neginf)
    result = ufuncs.where(call(x.graph, np.isnan, (x,)), np.asarray(nan, x.dtype), x)
    for limit, end in zip((np.inf, -np.inf), ends, strict=True):
        result = ufuncs.where(
            call(x.graph, np.equal, (x, np.asarray(limit, x.dtype))), np.asarray(end, x.dtype), result
        )
    return result if copy else to_out(result, x)


def copyto(target: Tensor, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    value = src
    if where is not True:
        value = ufuncs.where(where, cast(lift(target.graph, value), target.dtype), target)
    ufuncs.assign(target, value, casting)


def two(fn: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def function(a: Any, b: Any, out: Any = None) -> Tensor:
        graph = graph_of(a, b)
        return to_out(fn(lift(graph, a), lift(graph, b)), out)

    return function


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "where": where, "take": take, "concatenate": concatenate, "stack": stack, "einsum": einsum,
        "vstack": lambda arrays: concatenate([x if x.ndim > 1 else x[None] for x in arrays]),
        "hstack": lambda arrays: concatenate(arrays, 0 if arrays[0].ndim == 1 else 1),
        "expand_dims": expand_dims, "broadcast_to": broadcast_to, "tensordot": tensordot, "roll": roll, "pad": pad,
        "full_like": full_like, "zeros_like": like(0), "ones_like": like(1), "empty_like": empty_like,
        "dot": two(products.dot), "outer": two(products.outer), "inner": two(products.inner),
        "vdot": two(lambda a, b: products.matmul(a.reshape(-1), b.reshape(-1))), "moveaxis": moveaxis,
        "permute_dims": movement.transpose, "matrix_transpose": methods.matrix_transpose,
        "amax": methods.METHODS["max"], "amin": methods.METHODS["min"], "around": methods.round_, "diff": diff,
        "repeat": numerical.repeat,
        "flip": flip, "sort": ordering.sort, "argsort": ordering.argsort,
        "take_along_axis": ordering.take_along_axis, "put_along_axis": ordering.put_along_axis,
        "linalg.norm": norm, "split": split, "array_split": array_split, "copyto": copyto,
        "atleast_1d": lambda x: x if x.ndim else x.reshape((1,)), "shape": lambda x: x.shape, "ndim": lambda x: x.ndim,
        "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
        "result_type": lambda *args: np.result_type(*(x.dtype if isinstance(x, Tensor) else x for x in pinned(args))),
        "can_cast": lambda from_, to, casting="safe": np.can_cast(from_.dtype, to, casting),
        "nan_to_num": nan_to_num,
    }
)  # fmt: skip
