"""Free leading dimensions: arrays that a signature writes as ``x[t..., d]`` have any number of dimensions before d.

Kernels see one dimension t in place of them, as large as all together. Arrays are viewed so without a copy. Where the
strides of an array forbid it, the first leading dimensions are taken element by element, each with launches of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from pypto.runtime.arrays import ArrayInfo
from pypto.runtime.device_arrays import DeviceArray

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LeadingDims:
    """The leading dimensions of a call, and how kernels see its arrays.

    Parameters
    ----------
    shape : tuple of int
        The leading dimensions.
    outer : int
        How many of them are taken element by element.
    widths : mapping of str to tuple of int
        The other dimensions of each array that has them.

    Examples
    --------
    >>> x = np.arange(24).reshape(2, 3, 4)
    >>> [part["x"].shape for part in LeadingDims((2, 3), 0, {"x": (4,)}).parts({"x": x})]
    [(6, 4)]
    >>> [part["x"].shape for part in LeadingDims((2, 3), 1, {"x": (4,)}).parts({"x": x})]
    [(3, 4), (3, 4)]
    """

    shape: Shape
    outer: int
    widths: Mapping[str, Shape]

    def flat_shape(self, name: str) -> Shape:
        """Returns the shape of an array with one leading dimension."""
        return prod(self.shape), *self.widths[name]

    def flattened(self, name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns an array with one leading dimension, if its leading dimensions are free; it may be a copy."""
        return x.reshape(self.flat_shape(name)) if name in self.widths else x

    def parts(self, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the arguments of every launch: views with one leading dimension."""
        inner = prod(self.shape[self.outer :])
        if not self.outer:
            given = ((name, values[name], width) for name, width in self.widths.items())
            yield {**values, **{name: flat(x, (inner, *width)) for name, x, width in given if x is not None}}
            return
        for index in np.ndindex(self.shape[: self.outer]):
            views = {
                name: flat(values[name][index], (inner, *width))
                for name, width in self.widths.items()
                if values[name] is not None
            }
            yield {**values, **views}

    def on_tensors(self, run: Callable[..., None], values: Mapping[str, Any]) -> Callable[..., None] | None:
        """Returns `run` on views of tensors with one leading dimension; None where one launch does not take all."""
        arrays = {name: values[name] for name in self.widths if values[name] is not None}
        if self.outer or any(isinstance(x, np.ndarray) for x in arrays.values()):
            return None
        shapes = [(name, self.flat_shape(name)) for name in arrays]

        def launch(**values: Any) -> None:
            for name, shape in shapes:
                values[name] = values[name].view(*shape)  # faster than with a tuple
            run(**values)

        return launch


def flat(x: Any, shape: Shape) -> Any:
    """Views an array in a shape with one leading dimension; the strides allow it."""
    if not isinstance(x, np.ndarray):
        return x.reshape(shape) if isinstance(x, DeviceArray) else x.view(shape)
    if x.flags.c_contiguous:
        return x.reshape(shape)
    others = len(shape) - 1
    strides = flat_strides(x.shape, x.strides, others)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=x.flags.writeable)


def flat_strides(shape: Shape, strides: Shape, others: int) -> Shape:
    """Returns the strides with one leading dimension: that of the last leading one with several elements."""
    lead = len(shape) - others
    step = next((strides[n] for n in reversed(range(lead)) if shape[n] > 1), strides[lead - 1] if lead else 0)
    return (step, *strides[lead:])


def flat_info(info: ArrayInfo, others: int) -> ArrayInfo:
    """Returns an array as kernels see it."""
    lead = len(info.shape) - others
    shape = (prod(info.shape[:lead]), *info.shape[lead:])
    strides = flat_strides(info.shape, info.strides, others)
    return ArrayInfo(info.address, shape, strides, info.dtype, info.writable, info.owner, info.device)


def outer_dimensions(infos: Sequence[ArrayInfo], lead: int) -> int:
    """Returns how many leading dimensions are taken element by element, so that one stride leads through the others.

    Examples
    --------
    >>> from pypto.runtime.arrays import array_info
    >>> x = np.zeros((2, 3, 4, 5))
    >>> [outer_dimensions([array_info(view, "", "")], 3) for view in (x, x[:, 1:], x[:, :, 1:], x.swapaxes(0, 1))]
    [0, 1, 2, 2]
    """
    pairs = [(info.shape, info.strides) for info in infos if 0 not in info.shape]
    return max((outer_of(shape[:lead], strides[:lead]) for shape, strides in pairs), default=0)


def outer_of(shape: Shape, strides: Shape) -> int:
    """Returns the first dimension from which on one stride leads through all elements."""
    expected = None
    for n in reversed(range(len(shape))):
        if shape[n] == 1:
            continue
        if expected is not None and strides[n] != expected:
            return n + 1
        expected = strides[n] * shape[n]
    return 0
