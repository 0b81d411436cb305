"""Reductions and scans of traced arrays along axes, with numpy's result types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import WrongShapes
from pypto.graph.ir.dims import bounds, is_fixed
from pypto.graph.ir.node import checked, here
from pypto.graph.ir.type_rules import may_propagate_nan
from pypto.graph.ir.types import TensorType, accumulator, is_floating
from pypto.graph.tracing.movement import broadcast_to, concatenate, full_like, reshape
from pypto.graph.tracing.numpy_steps import by_numpy
from pypto.graph.tracing.tensor import Tensor, TensorGraph, untraced
from pypto.graph.tracing.ufuncs import call, cast, lift, to_out, truth, where
from pypto.ir.types import int32
from pypto.ops.rules import normal_axes, reduced_shape
from pypto.tuning.tile_sizes import TILES

OF_UFUNC: Final[Mapping[str, str]] = MappingProxyType(
    {
        "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any",
        "logical_and": "all",
    }
)  # fmt: skip
PIECE: Final = 8192  # elements of a long axis in which a position is looked for at once
COMBINE: Final[Mapping[str, tuple[Any, Any]]] = MappingProxyType(  # two results, and that of no elements
    {
        "sum": (np.add, 0), "prod": (np.multiply, 1), "max": (np.maximum, None), "min": (np.minimum, None),
        "any": (np.logical_or, False), "all": (np.logical_and, True),
    }
)  # fmt: skip
SCANS: Final[Mapping[str, str]] = MappingProxyType({"add": "cumsum", "multiply": "cumprod"})


def of_ufunc(graph: TensorGraph, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Trace ``np.add.reduce`` and the `reduce` of other ufuncs."""
    name = (OF_UFUNC if method == "reduce" else SCANS).get(ufunc.__name__)
    if name is None:
        step: Tensor = by_numpy(getattr(ufunc, method), f"np.{ufunc.__name__}.{method}")(*inputs, **kwargs)
        return step
    x, axis = lift(graph, inputs[0]), kwargs.get("axis", 0)
    if method == "accumulate":
        return scan(x, name, axis, kwargs.get("dtype"))
    some = kwargs.get("initial"), kwargs.get("where", True)
    return reduce_some(x, name, axis, bool(kwargs.get("keepdims")), kwargs.get("dtype"), *some)


def axes_of(x: Tensor, axis: Any) -> tuple[int, ...]:
    """Normalise axes; an axis out of range is an error at the user's line."""
    given = tuple(int(a) for a in axis) if isinstance(axis, tuple | list) else None if axis is None else int(axis)
    axes = normal_axes(x.shape, given)
    if any(not 0 <= a < x.ndim for a in axes):
        problem = f"{axis} is out of range for an array of {x.ndim} dimensions"
        raise WrongShapes(here().loc(), what="axis", problem=problem)
    return axes


def total_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of numpy's sums: 64 bits for integers."""
    if dtype.kind == "u":
        return np.dtype(np.uint64)
    return np.dtype(np.int64) if dtype.kind in "bi" else dtype


def floating(x: Tensor) -> Tensor:
    """Cast integers and bools to float64, as numpy's norms do."""
    return x if is_floating(x.dtype) else cast(x, np.float64)


def reduce(x: Tensor, name: str, axis: Any, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """Reduce along axes by a row of the op table; `any` and `all` reduce bools."""
    axes = axes_of(x, axis)
    if name in ("any", "all"):
        return of_truth(x, name, axes, keepdims)
    result = x.dtype
    if name in ("sum", "prod"):
        result = np.dtype(dtype or total_dtype(x.dtype))
        if result == np.bool_:
            return of_truth(x, "any" if name == "sum" else "all", axes, keepdims)
        x = cast(cast(x, result), accumulator(result))
        if name == "sum" and all(is_fixed(x.node.shape[a]) and x.node.shape[a] == 1 for a in axes):
            x = plus_zero(x)
    if not axes:
        return Tensor.fresh(x.graph, cast(x, result).node)
    make = x.graph.add
    attrs: dict[str, Any] = {"axes": axes, "keep_dims": keepdims}
    if may_propagate_nan(name) and x.type.dtype.is_float:  # the row ignores NaN, numpy does not
        attrs["propagate_nan"] = True
    node = checked(f"`{name}`", lambda: make(name, x.node, place=here(), **attrs))
    return cast(Tensor.fresh(x.graph, node), result)


def reduce_some(
    x: Tensor, name: str, axis: Any, keepdims: bool, dtype: Any = None, initial: Any = None, chosen: Any = True
) -> Tensor:
    """Reduce the elements that a mask chooses, together with a first value."""
    ufunc, neutral = COMBINE[name]
    if initial is not None and neutral is None:
        initial = neutral = lift(x.graph, initial, x.dtype)
    if chosen is not True:
        if neutral is None:
            raise ValueError(f"reduction operation '{ufunc.__name__}' does not have an identity")
        if name in ("sum", "prod"):
            x = cast(x, dtype or total_dtype(x.dtype))
        x = where(lift(x.graph, chosen), truth(x.graph, x) if type(neutral) is bool else x, neutral)
    axes = axes_of(x, axis)
    is_empty = any(is_fixed(x.node.shape[a]) and x.node.shape[a] == 0 for a in axes)
    if initial is not None and is_empty and name in ("max", "min"):
        return call(x.graph, np.add, (full_like(x, 0, shape=reduced_shape(x.node.shape, axes, keepdims)), initial))
    result = reduce(x, name, axis, keepdims, dtype)
    return result if initial is None else call(x.graph, ufunc, (result, lift(x.graph, initial, result.dtype)))


def plus_zero(x: Tensor) -> Tensor:
    """Add 0 to a sum of one element, because numpy starts from 0, which turns -0.0 into 0."""
    return call(x.graph, np.add, (x, 0.0)) if is_floating(x.dtype) else x


def of_truth(x: Tensor, name: str, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Trace `any` and `all` of the elements' truth values."""
    make, flags = x.graph.add, truth(x.graph, x).node
    if any(
        is_fixed(x.node.shape[a]) and x.node.shape[a] == 0 for a in axes
    ):  # of no elements none is true, and all are
        shape = reduced_shape(x.node.shape, axes, keepdims)
        return Tensor.fresh(x.graph, x.graph.constant(name == "all", TensorType(shape, flags.type.dtype), here()))
    if name == "any":
        return Tensor.fresh(
            x.graph, make("reduce_or", flags, place=here(), axes=axes, keep_dims=keepdims) if axes else flags
        )
    result = make("not_", flags, place=here())
    result = make("reduce_or", result, place=here(), axes=axes, keep_dims=keepdims) if axes else result
    return Tensor.fresh(x.graph, make("not_", result, place=here()))


def scan(x: Tensor, name: str, axis: Any, dtype: Any = None) -> Tensor:
    """Trace a cumulative sum or product along an axis, or over the flat array if no axis is given."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    (at,) = axes_of(x, axis)
    result = np.dtype(dtype or total_dtype(x.dtype))
    widened = cast(cast(x, result), np.int32 if result == np.bool_ else accumulator(result))
    return cast(scan_of(widened, name, at), result)


def scan_of(x: Tensor, name: str, at: int) -> Tensor:
    """Scan in the dtype of the array; a long axis is scanned in pieces."""
    size, columns = x.node.shape[at], 1
    for n in x.node.shape[at + 1 :]:
        columns *= min(bounds(n)[1], TILES.most_columns)
    most = TILES.most_whole // min(max(columns, 1), TILES.most_columns)
    if is_fixed(size) and size > most:
        return scan_of_pieces(x, name, at, PIECE if columns == 1 else most)
    node = checked(f"`{name}`", lambda: x.graph.add(name, x.node, place=here(), axis=at, reverse=False))
    return Tensor.fresh(x.graph, node)


def scan_of_pieces(x: Tensor, name: str, at: int, most: int) -> Tensor:
    """Scan each piece, and combine it with the scan of the totals of earlier pieces."""
    combine, total, first = (np.add, "sum", -0.0) if name == "cumsum" else (np.multiply, "prod", 1)
    shape, lead = x.node.shape, (slice(None),) * at
    piece = next((n for n in range(most, most // 2, -1) if shape[at] % n == 0), most)
    count = shape[at] // piece
    full = x[(*lead, slice(count * piece))]
    pieces = reshape(full, (*shape[:at], count, piece, *shape[at + 1 :]))
    totals = reduce(pieces, total, at + 1, False, x.dtype)
    if name == "cumsum" and is_floating(x.dtype):  # a sum of -0.0 alone stays -0.0 in a running sum
        other = ~((pieces == 0) & call(x.graph, np.signbit, (pieces,)))
        totals = where(reduce(other, "any", at + 1), totals, np.asarray(-0.0, x.dtype))
    ends = scan_of(totals, name, at)
    none = full_like(ends, first, shape=(*shape[:at], 1, *shape[at + 1 :]))
    before = concatenate([none, ends[(*lead, slice(-1))]], at)
    begun = reshape(before, (*shape[:at], count, 1, *shape[at + 1 :]))
    scanned = reshape(call(x.graph, combine, (scan_of(pieces, name, at + 1), begun)), full.node.shape)
    if count * piece == shape[at]:
        return scanned
    remainder = scan_of(x[(*lead, slice(count * piece, None))], name, at)
    return concatenate([scanned, call(x.graph, combine, (remainder, ends[(*lead, slice(-1, None))]))], at)


def positions(x: Tensor, axis: int, start: int = 0) -> Tensor:
    """Return the indices along an axis, which counts from the end, in a shape that broadcasts to the array's."""
    size = x.node.shape[axis]
    if bounds(size)[1] + start >= 1 << 31:
        raise untraced("arange", "it counts further than int32 can", "cut the array into parts")
    node = x.graph.add("arange", type=TensorType((size,), int32), place=here(), start=start, end=start + size)
    return reshape(Tensor.fresh(x.graph, node), (size, *(1,) * (-axis - 1)))


def mean(
    x: Tensor, axis: Any = None, dtype: Any = None, out: Tensor | None = None, keepdims: bool = False, *,
    where: Any = True,
) -> Tensor:  # fmt: skip
    """Compute the mean: in float64 for integers, and with float32 sums and division for narrow floats."""
    axes = axes_of(x, axis)
    result = average_dtype(x, dtype)
    widened = cast(x, accumulator(result))
    if where is True:
        return to_out(cast(average(widened, axes, 0, bool(keepdims)), result), out)
    total = reduce_some(widened, "sum", axes, bool(keepdims), widened.dtype, None, where)
    chosen = broadcast_to(truth(x.graph, lift(x.graph, where)), x.node.shape)
    count = reduce(chosen, "sum", axes, bool(keepdims), np.int64)
    return to_out(cast(call(x.graph, np.true_divide, (total, cast(count, total.dtype))), result), out)


def average_dtype(x: Tensor, dtype: Any) -> np.dtype[Any]:
    """Return the dtype of a mean: the array's if it is a float, otherwise float64."""
    return np.dtype(dtype or (x.dtype if is_floating(x.dtype) else np.float64))


def average(x: Tensor, axes: tuple[int, ...], fewer: float, keepdims: bool) -> Tensor:
    """Divide a sum by the number of its elements minus `ddof`, but at least 0."""
    count: Any = 1
    for a in axes:
        count *= x.shape[a]
    divisor = max(count - fewer, 0) if fewer else count
    return call(x.graph, np.true_divide, (reduce(x, "sum", axes, keepdims), divisor))


def var(x: Tensor, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """Compute the variance, with divisor `n - ddof`; narrow floats are computed in float32."""
    return cast(wide_var(x, axis, dtype, ddof, keepdims), average_dtype(x, dtype))


def wide_var(x: Tensor, axis: Any, dtype: Any, ddof: float, keepdims: bool) -> Tensor:
    """Compute the variance without rounding to the result's dtype."""
    axes = axes_of(x, axis)
    widened = cast(x, accumulator(average_dtype(x, dtype)))
    centred = call(x.graph, np.subtract, (widened, average(widened, axes, 0, True)))
    return average(call(x.graph, np.square, (centred,)), axes, ddof, keepdims)


def std(x: Tensor, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    root = call(x.graph, np.sqrt, (wide_var(x, axis, dtype, ddof, keepdims),))
    return cast(root, average_dtype(x, dtype))


# --- methods of arrays ------------------------------------------------------------------------------------------------


def method_of(name: str) -> Callable[..., Tensor]:
    """Return a reduction as a method of arrays."""

    def method(
        x: Tensor, axis: Any = None, dtype: Any = None, out: Tensor | None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Tensor:  # fmt: skip
        return to_out(reduce_some(x, name, axis, bool(keepdims), dtype, initial, where), out)

    return method


def plain_method_of(name: str) -> Callable[..., Tensor]:
    """Return a reduction whose result has the dtype of the array as a method."""

    def method(
        x: Tensor, axis: Any = None, out: Tensor | None = None, keepdims: bool = False, initial: Any = None,
        where: Any = True,
    ) -> Tensor:  # fmt: skip
        return to_out(reduce_some(x, name, axis, bool(keepdims), None, initial, where), out)

    return method


def spread_method(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Trace `var` and `std`; `correction` is another name for `ddof`."""

    def method(
        x: Tensor, axis: Any = None, dtype: Any = None, out: Tensor | None = None, ddof: float = 0,
        keepdims: bool = False, *, correction: float | None = None,
    ) -> Tensor:  # fmt: skip
        return to_out(fn(x, axis, dtype, ddof if correction is None else correction, bool(keepdims)), out)

    return method


def scan_method(name: str) -> Callable[..., Tensor]:
    """Return a scan as a method of arrays."""

    def method(x: Tensor, axis: Any = None, dtype: Any = None, out: Tensor | None = None) -> Tensor:
        return to_out(scan(x, name, axis, dtype), out)

    return method
