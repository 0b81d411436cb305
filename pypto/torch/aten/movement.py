"""Rows of movements: views, slices, joins and padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pypto.graph.ir.types import contiguous
from pypto.torch.aten.layout import inverse, memory_order
from pypto.torch.aten.row import NotLowered, Result, Row, as_type, joined


def view(x: Any, size: Sequence[Any], results: tuple[Result, ...] = ()) -> Any:
    return np.reshape(x, results[0].shape)


def expand(x: Any, size: Sequence[Any], implicit: bool = False, results: tuple[Result, ...] = ()) -> Any:
    return np.broadcast_to(x, results[0].shape)


def permute(x: Any, dims: Sequence[int]) -> Any:
    return np.transpose(x, tuple(d % x.ndim for d in dims)) if x.ndim else x


def transpose(x: Any, first: int, second: int) -> Any:
    return np.swapaxes(x, first, second) if x.ndim else x


def squeeze(x: Any, dim: Any = None, results: tuple[Result, ...] = ()) -> Any:
    return np.reshape(x, results[0].shape)


def unsqueeze(x: Any, dim: int) -> Any:
    return np.expand_dims(x, dim)


def select(x: Any, dim: int, index: Any) -> Any:
    return x[(*(slice(None),) * (dim % x.ndim), index)]


def bounds(size: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """Return the bounds of a slice as torch clips them."""
    start = 0 if start is None else start
    end = size if end is None or (isinstance(end, int) and end >= 1 << 62) else end
    return start, end


def sliced(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    at = dim % x.ndim
    start, end = bounds(x.shape[at], start, end)
    return x[(*(slice(None),) * at, slice(start, end, step))]


def slice_scatter(x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    at = dim % x.ndim
    start, end = bounds(x.shape[at], start, end)
    result = x.copy()
    result[(*(slice(None),) * at, slice(start, end, step))] = source
    return result


def select_scatter(x: Any, source: Any, dim: int, index: Any) -> Any:
    result = x.copy()
    result[(*(slice(None),) * (dim % x.ndim), index)] = source
    return result


def concatenated(tensors: Sequence[Any], dim: int = 0) -> Any:
    parts = [x for x in tensors if x.shape != (0,)] or list(tensors[:1])
    dtype = tensors[0].dtype
    for x in tensors[1:]:
        dtype = joined(dtype, x.dtype)
    parts = [as_type(x, dtype) for x in parts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=dim)


def stacked(tensors: Sequence[Any], dim: int = 0) -> Any:
    dtype = tensors[0].dtype
    for x in tensors[1:]:
        dtype = joined(dtype, x.dtype)
    return np.stack([as_type(x, dtype) for x in tensors], axis=dim)


def split(x: Any, size: Any, dim: int = 0) -> Any:
    length = x.shape[dim]
    count = -(-length // size) if length else 1
    return [sliced(x, dim, n * size, min((n + 1) * size, length)) for n in range(count)]


def split_with_sizes(x: Any, sizes: Sequence[Any], dim: int = 0) -> Any:
    parts, start = [], 0
    for size in sizes:
        parts.append(sliced(x, dim, start, start + size))
        start = start + size
    return parts


def unbind(x: Any, dim: int = 0) -> Any:
    return [select(x, dim, n) for n in range(x.shape[dim])]


def constant_pad(x: Any, pad: Sequence[int], value: Any = 0) -> Any:
    widths = [(0, 0)] * x.ndim
    for n in range(len(pad) // 2):
        widths[-1 - n] = (pad[2 * n], pad[2 * n + 1])
    for axis, (before, after) in enumerate(widths):
        size = x.shape[axis]
        cut = slice(-before if before < 0 else 0, size + after if after < 0 else size)
        if before < 0 or after < 0:
            x = x[(*(slice(None),) * axis, cut)]
    widths = [(max(0, before), max(0, after)) for before, after in widths]
    return np.pad(x, widths, constant_values=as_type(value, x.dtype)) if any(map(any, widths)) else x


def flip(x: Any, dims: Sequence[int]) -> Any:
    return np.flip(x, tuple(dims)) if dims else x


def roll(x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    return np.roll(x, tuple(shifts), tuple(dims)) if dims else np.roll(x, shifts[0])


def repeat(x: Any, repeats: Sequence[Any]) -> Any:
    return np.tile(x, tuple(repeats)) if repeats else x


def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return np.diagonal(x, offset, dim1, dim2)


def strided(x: Any, size: Sequence[Any], stride: Sequence[Any], offset: Any = None, inputs: Sequence[Any] = ()) -> Any:
    """A view by strides, where it shows all elements of a dense operand: they are put in the order of its memory."""
    source = inputs[0]
    order = memory_order(source) or tuple(range(x.ndim))
    dense = tuple(source.shape[n] for n in order)
    is_dense = tuple(source.stride()[n] for n in order) == contiguous(dense)
    wanted = tuple(sorted(range(len(size)), key=lambda n: (-stride[n], -size[n])))
    sizes = tuple(size[n] for n in wanted)
    is_full = tuple(stride[n] for n in wanted) == contiguous(sizes) and math.prod(sizes) == x.size
    if not (is_dense and is_full) or (offset or 0) != source.storage_offset():
        raise NotLowered("a view by strides")
    return np.transpose(np.reshape(np.transpose(x, order), sizes), inverse(wanted))


def triangle(keep: Any) -> Any:
    def lower(x: Any, diagonal: int = 0) -> Any:
        return keep(x, diagonal)

    return lower


ROWS: Final = (
    Row("view", view, wants=("results",)),
    Row("reshape", view, wants=("results",)),
    Row("_unsafe_view", view, wants=("results",)),
    Row("expand", expand, wants=("results",)),
    Row("permute", permute),
    Row("transpose", transpose),
    Row("t", np.transpose),
    Row("squeeze", squeeze, wants=("results",)),
    Row("unsqueeze", unsqueeze),
    Row("select", select),
    Row("slice", sliced),
    Row("slice_scatter", slice_scatter),
    Row("select_scatter", select_scatter),
    Row("cat", concatenated),
    Row("stack", stacked),
    Row("split", split),
    Row("split_with_sizes", split_with_sizes),
    Row("unbind", unbind),
    Row("constant_pad_nd", constant_pad),
    Row("flip", flip),
    Row("roll", roll),
    Row("repeat", repeat),
    Row("diagonal", diagonal),
    Row("as_strided", strided, wants=("inputs",)),
    Row("tril", triangle(np.tril)),
    Row("triu", triangle(np.triu)),
)
