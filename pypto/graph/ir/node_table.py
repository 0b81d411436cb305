"""Nodes that have no row in the op table, because they are about whole arrays; each is a row of this table.

`input` is an argument. `take` gathers along an axis by an array of indices, `place` writes a slice, `concat`
concatenates. `call` is a Python function that runs between kernels; only the user asks for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.ir.types import TensorType, is_floating
from pypto.ir.types import int32

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node without a row in the op table: its type rule, its meaning in numpy, and what it does."""

    name: str
    infer: Callable[[Sequence[TensorType], Attrs], TensorType]
    reference: Callable[..., Array] | None
    doc: str


def infer_take(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    source, index = types
    axis = attrs["axis"]
    if not 0 <= axis < len(source.shape):
        raise TypeError(f"axis {axis} is out of range for an array of {len(source.shape)} dimensions")
    if not index.dtype.is_int:
        raise TypeError(f"indices are integers, not {index.dtype}")
    batch = attrs.get("batch", 0)
    if batch not in (0, axis) or index.shape[:batch] != source.shape[:batch]:
        raise TypeError(f"{source} and {index} do not share the {batch} dimensions before axis {axis}")
    return TensorType((*source.shape[:axis], *index.shape[batch:], *source.shape[axis + 1 :]), source.dtype)


def take(attrs: Attrs, source: Array, index: Array) -> Array:
    """Elements along an axis; `batch` dimensions before it are shared with the indices."""
    batch = attrs.get("batch", 0)
    if not batch:
        return np.take(source, index, axis=attrs["axis"])
    counted = np.indices(index.shape, sparse=True)[:batch]
    picked: Array = source[(*counted, index)]
    return picked


def infer_place(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    base, value = types
    if base.dtype != value.dtype or len(base.shape) != len(value.shape):
        raise TypeError(f"{value} cannot be placed into {base}")
    for n, start, count, step in zip(base.shape, attrs["starts"], value.shape, attrs["steps"], strict=True):
        if count and not (0 <= start < n and 0 <= start + (count - 1) * step < n):
            raise TypeError(f"{value} reaches out of {base}")
    return base


def span(start: int, count: int, step: int) -> slice:
    """A slice of `count` elements."""
    stop = start + count * step
    return slice(start, None if stop < 0 else stop, step)


def place(attrs: Attrs, base: Array, value: Array) -> Array:
    result = base.copy()
    spans = zip(attrs["starts"], value.shape, attrs["steps"], strict=True)
    result[tuple(span(*each) for each in spans)] = value
    return result


def infer_window(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    (source,) = types
    if not len(source.shape) == len(attrs["starts"]) == len(attrs["shape"]):
        raise TypeError(f"{attrs['shape']} at {attrs['starts']} is no window of {source}")
    return TensorType(tuple(attrs["shape"]), source.dtype)


def window(attrs: Attrs, source: Array) -> Array:
    """What a window shows, with zeros beside the array."""
    result = np.zeros(attrs["shape"], source.dtype)
    spans = list(zip(attrs["starts"], attrs["shape"], source.shape, strict=True))
    inside = tuple(slice(max(0, -a), max(0, min(n, size - a))) for a, n, size in spans)
    shown = tuple(slice(max(0, a), max(0, min(size, a + n))) for a, n, size in spans)
    result[inside] = source[shown]
    return result


def infer_concat(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    axis, first = attrs["axis"], types[0]
    if not 0 <= axis < len(first.shape):
        raise TypeError(f"axis {axis} is out of range for {first}")
    for t in types:
        others = [(*s.shape[:axis], *s.shape[axis + 1 :]) for s in (t, first)]
        if t.dtype != first.dtype or len(t.shape) != len(first.shape) or others[0] != others[1]:
            raise TypeError(f"{t} cannot be joined with {first} along axis {axis}")
    size = sum(t.shape[axis] for t in types)
    return TensorType((*first.shape[:axis], size, *first.shape[axis + 1 :]), first.dtype)


def declared(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    raise TypeError("the type of this node is given by who makes it")


def infer_order(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    """The type of `sort`; sizes of 0 dimensions have no order."""
    (source,) = types
    if not 0 <= attrs["axis"] < len(source.shape):
        raise TypeError(f"axis {attrs['axis']} is out of range for an array of {len(source.shape)} dimensions")
    if source.dtype.is_bool:
        raise TypeError("bools are not sorted")
    return source


def infer_argtopk(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    source, axis, count = infer_order(types, attrs), attrs["axis"], attrs["count"]
    if not 1 < count <= source.shape[axis]:
        raise TypeError(f"{count} elements are not selected from an axis of size {source.shape[axis]}")
    return TensorType((*source.shape[:axis], count, *source.shape[axis + 1 :]), int32)


def argtopk(attrs: Attrs, x: Array) -> Array:
    """Where the greatest elements are, greatest first."""
    return np.take(order_of({**attrs, "descending": True}, x), range(attrs["count"]), axis=attrs["axis"])


def infer_argsort(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    return TensorType(infer_order(types, attrs).shape, int32)


def order_of(attrs: Attrs, x: Array) -> Array:
    """Where the elements of a sorted array were; equal ones keep their order, and NaN is last either way."""
    key = x
    if attrs["descending"]:
        key = -x if is_floating(x.dtype) else ~x  # reverse the order, and leave NaN last
    return np.argsort(key, axis=attrs["axis"], kind="stable")


def infer_put(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    base, index, value = types
    axis = attrs["axis"]
    if not 0 <= axis < len(base.shape):
        raise TypeError(f"axis {axis} is out of range for an array of {len(base.shape)} dimensions")
    if not index.dtype.is_int:
        raise TypeError(f"indices are integers, not {index.dtype}")
    shape = (*base.shape[:axis], *index.shape, *base.shape[axis + 1 :])
    if base.dtype != value.dtype or value.shape != shape or attrs["how"] not in ("", *COMBINED):
        raise TypeError(f"{value} cannot be put into {base} at {index}")
    return base


def put(attrs: Attrs, base: Array, index: Array, value: Array) -> Array:
    """An array with elements along an axis replaced, or combined with others."""
    result = base.copy()
    put_into(attrs, result, index, value)
    return result


def put_into(attrs: Attrs, target: Array, index: Array, value: Array) -> None:
    """`put` in the memory of an array. Of equal indices the last one counts, or all do, in their order."""
    at = (*(slice(None),) * attrs["axis"], index)
    if attrs["how"]:
        getattr(np, attrs["how"]).at(target, at, value)
    else:
        target[at] = value


COMBINED: Final = ("add", "subtract", "multiply", "maximum", "minimum")  # numpy's names of what `put` may do
SORTS: Final = ("sort", "argsort")  # an axis in order: a program has all of it
SELECTION: Final = "argtopk"  # a few elements of an axis, which a program has all of
ASSEMBLED: Final = ("concat", "place", "put", "call")  # made between kernels, of whole arrays
UPDATES: Final = ("place", "put")  # of an array, the first operand, which may be in place
ROWS: Final = (
    NodeRow("input", declared, None, "An argument of the function."),
    NodeRow(
        "take", infer_take, take, "Elements along an axis by an array of indices from 0; `batch` dimensions are shared."
    ),
    NodeRow("window", infer_window, window, "A part of an array that may reach beyond it, where it is 0."),
    NodeRow("place", infer_place, place, "An array with a slice of it replaced."),
    NodeRow(
        "concat",
        infer_concat,
        lambda attrs, *arrays: np.concatenate(arrays, axis=attrs["axis"]),
        "Arrays one after the other along an axis.",
    ),
    NodeRow(
        "sort",
        infer_order,
        lambda attrs, x: np.take_along_axis(x, order_of(attrs, x), attrs["axis"]),
        "Elements in order along an axis, NaN last.",
    ),
    NodeRow("argsort", infer_argsort, order_of, "Where the elements of a sorted array were."),
    NodeRow("argtopk", infer_argtopk, argtopk, "Where the greatest elements along an axis are, greatest first."),
    NodeRow(
        "put", infer_put, put, "An array with elements along an axis replaced, or combined with others, by indices."
    ),
    NodeRow("copy", lambda types, attrs: types[0], lambda attrs, x: x.copy(), "The same array in memory of its own."),
    NodeRow("extent", declared, None, "The value of a size that is known when a plan runs, as an array of one number."),
    NodeRow("call", declared, None, "One result of a function on arrays that runs between kernels."),
)
NODES: Final[Mapping[str, NodeRow]] = MappingProxyType({row.name: row for row in ROWS})
