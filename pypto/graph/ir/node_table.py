"""The table of graph ops on whole arrays, which have no row in the op table of tiles.

`input` is an argument. `take` gathers along an axis by an array of indices, `place` writes a slice, `concat`
concatenates. `call` is a Python function of the user that runs between kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.ir.movements import inside, spans
from pypto.graph.ir.types import TensorType, broadcast, is_floating, pair_type
from pypto.ir.core import Op
from pypto.ir.types import int32
from pypto.ops import dims
from pypto.ops.dims import DimRelation, DimRule

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node without a row in the op table.

    Parameters
    ----------
    name : str
    infer : callable
        Type rule.
    reference : callable or None
        Its meaning in numpy.
    doc : str
    traits : str
        Properties that the stages ask for, beside those of rows of the op table:
        ``assembled`` (made between kernels, of whole arrays);
        ``update`` (the first operand with elements replaced, which may be in place);
        ``indexed`` (an operand holds indices of elements in memory);
        ``positions`` (its elements are indices);
        ``sort`` (an axis in order: a program has all of it);
        ``selection`` (a few elements of an axis, which a program has all of);
        ``shifted`` (it reads an array at its own indices plus a number);
        ``parts`` (its operands are parts of it, which a product may read instead);
        ``elementwise`` (each element is computed of those at its own index);
        ``movement`` (it moves elements, and computes nothing);
        ``pair`` (its operands are the parts of each of its elements).
    dims : callable or None
        Relation of the dimensions of its result and operands, see `pypto.ops.dims`. Without it, the node has no form in
        a kernel of several nodes.
    into : callable or None
        Writes the result into an array. For an update, the array holds the first operand already.
    """

    name: str
    infer: Callable[[Sequence[TensorType], Attrs], TensorType]
    reference: Callable[..., Array] | None
    doc: str
    traits: frozenset[str] = frozenset()
    dims: DimRule | None = None
    into: Callable[..., None] | None = None


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
    """Gather along an axis; the indices share the first `batch` dimensions."""
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
    if not all(inside(*each) for each in zip(base.shape, attrs["starts"], value.shape, attrs["steps"], strict=True)):
        raise TypeError(f"{value} reaches out of {base}")
    return base


def place_into(attrs: Attrs, target: Array, value: Array) -> None:
    target[spans(attrs, value.shape)] = value


def updated(into: Callable[..., None]) -> Callable[..., Array]:
    """The reference of an update: what writes it, on a copy."""

    def reference(attrs: Attrs, base: Array, *operands: Array) -> Array:
        result = base.copy()
        into(attrs, result, *operands)
        return result

    return reference


def infer_window(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    (source,) = types
    if not len(source.shape) == len(attrs["starts"]) == len(attrs["shape"]):
        raise TypeError(f"{attrs['shape']} at {attrs['starts']} is no window of {source}")
    return TensorType(tuple(attrs["shape"]), source.dtype)


def window(attrs: Attrs, source: Array) -> Array:
    """Return the elements of a window, with one number outside of the array."""
    result = np.full(attrs["shape"], attrs.get("fill", 0), source.dtype)
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


def concat_into(attrs: Attrs, target: Array, *parts: Array) -> None:
    np.concatenate(parts, axis=attrs["axis"], out=target)


def infer_roll(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    (source,) = types
    if len(attrs["shifts"]) != len(source.shape):
        raise TypeError(f"{attrs['shifts']} are no shifts of {source}")
    return source


def roll_into(attrs: Attrs, target: Array, x: Array) -> None:
    """Copy a block for each combination of the two parts of every axis that is rolled."""
    for blocks in product(*map(rolled_parts, attrs["shifts"], x.shape)):
        target[tuple(to for to, _ in blocks)] = x[tuple(of for _, of in blocks)]


def rolled_parts(shift: int, size: int) -> list[tuple[slice, slice]]:
    """Return the parts of an axis: where each one goes, and where it was."""
    first = shift % max(1, size)
    if not first:
        return [(slice(None), slice(None))]
    return [(slice(first, None), slice(size - first)), (slice(first), slice(size - first, None))]


def declared(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    raise TypeError("the type of this node is given by who makes it")


def infer_order(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    """Infer the type of a sort; an array of 0 dimensions has no order."""
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
    """Return the positions of the greatest elements, the greatest first."""
    return np.take(order_of({**attrs, "descending": True}, x), range(attrs["count"]), axis=attrs["axis"])


def infer_argsort(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    return TensorType(infer_order(types, attrs).shape, int32)


def order_of(attrs: Attrs, x: Array) -> Array:
    """Return the positions of a stable argsort, with NaN last in both directions."""
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


def put_into(attrs: Attrs, target: Array, index: Array, value: Array) -> None:
    """Replace elements along an axis, or combine them. Of equal indices the last one counts, or all do, in order."""
    at = (*(slice(None),) * attrs["axis"], index)
    if attrs["how"]:
        getattr(np, attrs["how"]).at(target, at, value)
    else:
        target[at] = value


def infer_pair(types: Sequence[TensorType], attrs: Attrs) -> TensorType:
    real, imag = types
    dtype = pair_type(real.dtype)
    if dtype is None or real.dtype != imag.dtype:
        raise TypeError(f"{real} and {imag} are no parts of a complex array")
    return TensorType(broadcast(real.shape, imag.shape), dtype)


def pair(attrs: Attrs, real: Array, imag: Array) -> Array:
    result = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real.dtype, np.complex64))
    parts = result[..., None].view(real.dtype)
    parts[..., 0], parts[..., 1] = real, imag
    return result


def take_dims(op: Op) -> DimRelation:
    """The dimensions of the indices stand where the axis was; those of a batch are the source's as well."""
    source, index = op.operands
    axis, batch = op.attrs["axis"], op.attrs.get("batch", 0)
    added = dims.rank(index) - batch - 1  # dimensions behind the axis move by them
    of_source = (((source, d), (op.result, d + added * (d > axis))) for d in range(dims.rank(source)) if d != axis)
    of_index = (((index, d), (op.result, d - batch + axis)) for d in range(batch, dims.rank(index)))
    shared = (((index, d), (op.result, d)) for d in range(batch))
    return DimRelation((*of_source, *of_index, *shared), mixed=((source, axis),))


def concat_dims(op: Op) -> DimRelation:
    """All dimensions of the parts but that along which they are joined."""
    ranks = [d for d in range(dims.rank(op.result)) if d != op.attrs["axis"]]
    return DimRelation(tuple(((part, d), (op.result, d)) for part in op.operands for d in ranks))


def selection_dims(op: Op) -> DimRelation:
    source, axis = op.operands[0], op.attrs["axis"]
    others = [d for d in range(dims.rank(source)) if d != axis]
    pairs = (((source, d), (op.result, d)) for d in others)
    return DimRelation(tuple(pairs), mixed=((source, axis), (op.result, axis)))


COMBINED: Final = ("add", "subtract", "multiply", "maximum", "minimum")  # numpy's names of what `put` may do
ROWS: Final = (
    NodeRow("input", declared, None, "An argument of the function."),
    NodeRow(
        "take",
        infer_take,
        take,
        "Elements along an axis by an array of indices from 0; `batch` dimensions are shared.",
        frozenset({"indexed"}),
        take_dims,
    ),
    NodeRow(
        "window",
        infer_window,
        window,
        "A part of an array that may reach beyond it, where all elements are `fill`, or 0.",
        frozenset({"shifted"}),
    ),
    NodeRow(
        "place",
        infer_place,
        updated(place_into),
        "An array with a slice of it replaced.",
        frozenset({"assembled", "update"}),
        into=place_into,
    ),
    NodeRow(
        "concat",
        infer_concat,
        lambda attrs, *arrays: np.concatenate(arrays, axis=attrs["axis"]),
        "Arrays one after the other along an axis.",
        frozenset({"assembled", "parts"}),
        dims=concat_dims,
        into=concat_into,
    ),
    NodeRow(
        "roll",
        infer_roll,
        lambda attrs, x: np.roll(x, attrs["shifts"], range(x.ndim)),
        "An array whose elements are rotated along its axes.",
        frozenset({"assembled"}),
        into=roll_into,
    ),
    NodeRow(
        "sort",
        infer_order,
        lambda attrs, x: np.take_along_axis(x, order_of(attrs, x), attrs["axis"]),
        "Elements in order along an axis, NaN last.",
        frozenset({"sort"}),
        dims.scan,
    ),
    NodeRow(
        "argsort",
        infer_argsort,
        order_of,
        "Where the elements of a sorted array were.",
        frozenset({"sort", "positions"}),
        dims.scan,
    ),
    NodeRow(
        "argtopk",
        infer_argtopk,
        argtopk,
        "Where the greatest elements along an axis are, greatest first.",
        frozenset({"selection", "positions"}),
        selection_dims,
    ),
    NodeRow(
        "put",
        infer_put,
        updated(put_into),
        "An array with elements along an axis replaced, or combined with others, by indices.",
        frozenset({"assembled", "update", "indexed"}),
        into=put_into,
    ),
    NodeRow(
        "copy",
        lambda types, attrs: types[0],
        lambda attrs, x: x.copy(),
        "The same array in memory of its own.",
        dims=dims.elementwise,
    ),
    NodeRow(
        "complex",
        infer_pair,
        pair,
        "A complex array of its real and imaginary parts.",
        frozenset({"elementwise", "pair"}),
        dims.elementwise,
    ),
    NodeRow("real", declared, None, "The real part of a complex array.", frozenset({"movement"}), dims.elementwise),
    NodeRow(
        "imag", declared, None, "The imaginary part of a complex array.", frozenset({"movement"}), dims.elementwise
    ),
    NodeRow("extent", declared, None, "The value of a size that is known when a plan runs, as an array of one number."),
    NodeRow(
        "call",
        declared,
        None,
        "One result of a function on arrays that runs between kernels.",
        frozenset({"assembled"}),
    ),
)
NODES: Final[Mapping[str, NodeRow]] = MappingProxyType({row.name: row for row in ROWS})
