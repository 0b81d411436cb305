"""The geometry of windows: sizes, steps and padding along the dimensions of images, and the slices that are their taps.

Output element `o` of a window reads the elements ``o * stride + k * dilation - padding`` of the image. For each `k`,
these elements are a slice of the padded image, a *tap*. A kernel reads taps where they lie and fills in what lies
beside the image, so neither windows nor padded images are stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.errors.graph import WrongShapes
from pypto.graph.ir.node import here

Array = Any


def numbers(value: Any, rank: int, what: str) -> tuple[int, ...]:
    """Return one number for each dimension from one or several."""
    given = (value,) * rank if isinstance(value, int | np.integer) else tuple(value)
    if len(given) != rank:
        raise refused(what, f"{value} has not one number for each of {rank} dimensions")
    return tuple(map(int, given))


def refused(what: str, problem: str) -> WrongShapes:
    """Return the error for arguments that do not fit."""
    return WrongShapes(here().loc(), what=f"`{what}`", problem=problem)


def is_channels_last(data_format: str, rank: int, what: str) -> bool:
    """Whether the channels of images are their last dimension, from a format such as NHWC or channels_last."""
    if data_format in ("channels_first", "channels_last"):
        return data_format == "channels_last"
    letters = "DHW"[3 - rank :]
    if data_format not in (f"NC{letters}", f"N{letters}C"):
        raise refused(what, f"data_format is 'NC{letters}' or 'N{letters}C', not {data_format!r}")
    return data_format.endswith("C")


def spatial_axes(x: Array, data_format: str, what: str) -> tuple[int, ...]:
    """Return the dimensions of images other than their number and their channels."""
    rank = x.ndim - 2
    if not 1 <= rank <= 3:
        raise refused(what, f"images have 3 to 5 dimensions, not {x.ndim}")
    return tuple(range(1, rank + 1) if is_channels_last(data_format, rank, what) else range(2, rank + 2))


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of images, one number for each dimension of the window.

    Parameters
    ----------
    axes : tuple of int
        The dimensions of the images along which windows lie.
    sizes, strides, dilations : tuple of int
        Elements of a window, and the steps from window to window and within a window.
    before, after : tuple of int
        Padding in front of the images and behind them, of which a window may read more.
    counts : tuple of int
        The number of windows.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    counts: tuple[int, ...]

    @staticmethod
    def of(
        what: str, shape: Sequence[int], axes: tuple[int, ...], sizes: tuple[int, ...], stride: Any,
        padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    ) -> Windows:  # fmt: skip
        """Place windows on images of a shape; `padding` is also "valid", "same", or two numbers for each dimension."""
        rank = len(axes)
        strides, dilations = numbers(stride, rank, what), numbers(dilation, rank, what)
        if min(*sizes, *strides, *dilations) < 1:
            raise refused(what, "sizes, strides and dilations of windows are 1 or more")
        spans = [d * (n - 1) + 1 for n, d in zip(sizes, dilations, strict=True)]
        lengths = [shape[a] for a in axes]
        pairs = paddings(padding, lengths, spans, strides, what)
        counts = []
        for length, span, step, (before, after) in zip(lengths, spans, strides, pairs, strict=True):
            room = length + before + after - span
            if room < 0:
                raise refused(what, f"a window of {span} elements does not fit {length + before + after} elements")
            last = room // step
            if ceil_mode and room % step and (last + 1) * step < length + before:  # it begins within the image
                last += 1
            counts.append(last + 1)
        sides = [tuple(pair[end] for pair in pairs) for end in (0, 1)]
        return Windows(axes, sizes, strides, dilations, sides[0], sides[1], tuple(counts))

    def padded(self, x: Array, fill: float = 0) -> Array:
        """Return the part of images that windows read, with `fill` beside the images; a kernel does not store it."""
        widths, inside = [(0, 0)] * x.ndim, [slice(None)] * x.ndim
        rows = zip(self.axes, self.sizes, self.strides, self.dilations, self.before, self.counts, strict=True)
        for axis, size, step, dilation, before, count in rows:
            length, read = x.shape[axis], (count - 1) * step + (size - 1) * dilation + 1
            start, stop = (min(max(0, end), length) for end in (-before, read - before))
            front = min(max(0, before), read)
            inside[axis] = slice(start, stop)
            widths[axis] = (front, read - front - (stop - start))
        x = x[tuple(inside)]
        return x if not any(map(any, widths)) else np.pad(x, widths, constant_values=fill)

    def taps(self, x: Array, fill: float = 0) -> list[Array]:
        """Return for each element of a window the elements of the images that it reads."""
        padded, taps = self.padded(x, fill), []
        for place in itertools.product(*map(range, self.sizes)):
            at = [slice(None)] * x.ndim
            rows = zip(self.axes, place, self.dilations, self.strides, self.counts, strict=True)
            for axis, k, dilation, step, count in rows:
                at[axis] = slice(k * dilation, k * dilation + (count - 1) * step + 1, step)
            taps.append(padded[tuple(at)])
        return taps

    def by_axis(self) -> list[Windows]:
        """Return the windows along each dimension alone."""
        rows = zip(
            self.axes, self.sizes, self.strides, self.dilations, self.before, self.after, self.counts, strict=True
        )
        return [Windows(*((value,) for value in row)) for row in rows]

    def lengths(self, shape: Sequence[int], include_padding: bool) -> list[list[int]]:
        """Return for each dimension how many elements of each window count in a mean."""
        lines = []
        rows = zip(self.axes, self.sizes, self.strides, self.before, self.after, self.counts, strict=True)
        for axis, size, step, before, after, count in rows:
            starts = [n * step - before for n in range(count)]
            end = shape[axis] + (after if include_padding else 0)
            lines.append([min(a + size, end) - (a if include_padding else max(a, 0)) for a in starts])
        return lines


def paddings(
    padding: Any, lengths: Sequence[int], spans: Sequence[int], strides: Sequence[int], what: str
) -> list[tuple[int, int]]:
    """Return the padding in front of and behind each dimension."""
    if padding == "valid":
        return [(0, 0)] * len(lengths)
    if padding == "same":  # the result has a window for each `stride` elements
        totals = [
            max(0, (-(-n // step) - 1) * step + span - n) for n, span, step in zip(lengths, spans, strides, strict=True)
        ]
        return [(total // 2, total - total // 2) for total in totals]
    if isinstance(padding, str):
        raise refused(what, f"padding is a number, numbers, 'valid' or 'same', not {padding!r}")
    if not isinstance(padding, int | np.integer) and any(np.ndim(p) for p in padding):
        pairs = [tuple(map(int, p)) for p in padding]
        if len(pairs) != len(lengths) or any(len(p) != 2 for p in pairs):
            raise refused(what, f"padding {padding} has not two numbers for each of {len(lengths)} dimensions")
        return [(before, after) for before, after in pairs]
    return [(p, p) for p in numbers(padding, len(lengths), what)]
