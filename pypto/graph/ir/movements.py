"""Movements: ops that move or repeat the elements of an array and compute nothing. Each is a row of this table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.types import PARTS, Shape, Strides, broadcast, contiguous, regrouped

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MovementRow:
    """What a movement does to an array.

    Parameters
    ----------
    shape : callable
        Shape rule: from the shape of the operand and the attributes. It raises `TypeError` where they do not fit.
    reference : callable
        The movement as numpy makes it: a view where there can be one.
    strides : callable
        Strides of a view of an array of some shape and strides, for all sizes of its dimensions by name.
    is_identity : callable
        Whether the result is the operand.
    view : callable, optional
        The view, or None where there can be none; without it the reference is a view always.
    composed : callable, optional
        The attributes of one such movement that does what two do, the first one first.
    inverse : callable, optional
        The op, and its attributes, that gives the operand again after elements of the result were replaced. None where
        several elements of the result are one of the operand.
    traits : frozenset of str
        What the stages ask for, as of other nodes.
    """

    shape: Callable[[Shape, Attrs], Shape]
    reference: Callable[[Array, Attrs], Array]
    strides: Callable[[Shape, Shape, Attrs], Strides]
    is_identity: Callable[[Shape, Attrs], bool]
    view: Callable[[Array, Attrs], Array | None] | None = None
    composed: Callable[[Attrs, Attrs], dict[str, Any]] | None = None
    inverse: Callable[[Shape, Attrs], tuple[str, dict[str, Any]]] | None = None
    traits: frozenset[str] = frozenset()


def reshaped(shape: Shape, attrs: Attrs) -> Shape:
    if -1 in attrs["shape"] or math.prod(attrs["shape"]) != math.prod(shape):
        raise TypeError(f"an array of shape {shape} cannot be reshaped to {attrs['shape']}")
    return tuple(attrs["shape"])


def reshaped_view(array: Array, attrs: Attrs) -> Array | None:
    try:
        return np.reshape(array, attrs["shape"], copy=False)
    except ValueError:
        return None


def reshaped_strides(shape: Shape, strides: Shape, attrs: Attrs) -> Strides:
    wanted = attrs["shape"]
    return contiguous(wanted) if strides == contiguous(shape) else regrouped(shape, strides, wanted)


def permuted(shape: Shape, attrs: Attrs) -> Shape:
    if sorted(attrs["dims"]) != list(range(len(shape))):
        raise TypeError(f"{attrs['dims']} is no permutation of {len(shape)} dimensions")
    return tuple(shape[d] for d in attrs["dims"])


def repeated(shape: Shape, attrs: Attrs) -> Shape:
    if broadcast(shape, attrs["shape"]) != tuple(attrs["shape"]):
        raise TypeError(f"an array of shape {shape} does not broadcast to {attrs['shape']}")
    return tuple(attrs["shape"])


def repeated_strides(shape: Shape, strides: Shape, attrs: Attrs) -> Strides:
    lead = len(attrs["shape"]) - len(shape)
    sizes = zip(shape, attrs["shape"][lead:], strides, strict=True)
    return (*(0,) * lead, *(0 if n == 1 and wanted != 1 else s for n, wanted, s in sizes))


def sliced(shape: Shape, attrs: Attrs) -> Shape:
    spans = zip(shape, attrs["starts"], attrs["shape"], attrs["steps"], strict=True)
    if not all(inside(*each) for each in spans):
        raise TypeError(f"the slice {dict(attrs)} reaches out of an array of shape {shape}")
    return tuple(attrs["shape"])


def inside(size: int, start: int, count: int, step: int) -> bool:
    """Whether all elements of a slice exist."""
    return count == 0 or (0 <= start < size and 0 <= start + (count - 1) * step < size)


def span(start: int, count: int, step: int) -> slice:
    """A slice of `count` elements."""
    stop = start + count * step
    return slice(start, None if stop < 0 else stop, step)


def spans(attrs: Attrs, shape: Shape) -> tuple[slice, ...]:
    """The slices of a part of a shape, along all dimensions."""
    return tuple(span(*each) for each in zip(attrs["starts"], shape, attrs["steps"], strict=True))


def unfolded(shape: Shape, attrs: Attrs) -> Shape:
    axis, size = attrs["axis"], attrs["size"]
    if not 0 <= axis < len(shape) or not 1 <= size <= shape[axis]:
        raise TypeError(f"an array of shape {shape} has no windows of {size} along axis {axis}")
    return (*shape[:axis], shape[axis] - size + 1, *shape[axis + 1 :], size)


def has_shape(shape: Shape, attrs: Attrs) -> bool:
    return bool(shape == tuple(attrs["shape"]))


def part(name: str) -> MovementRow:
    """Return the row of a part of complex arrays, whose elements are two numbers in memory."""
    return MovementRow(
        lambda shape, attrs: shape,
        lambda array, attrs: getattr(array, name),
        lambda shape, strides, attrs: tuple(2 * s for s in strides),
        lambda shape, attrs: False,
    )


MOVEMENTS: Final[Mapping[str, MovementRow]] = MappingProxyType(
    {
        "reshape": MovementRow(
            reshaped,
            lambda array, attrs: array.reshape(attrs["shape"]),
            reshaped_strides,
            has_shape,
            reshaped_view,
            composed=lambda first, second: dict(second),
            inverse=lambda shape, attrs: ("reshape", {"shape": shape}),
        ),
        "permute": MovementRow(
            permuted,
            lambda array, attrs: array.transpose(attrs["dims"]),
            lambda shape, strides, attrs: tuple(strides[d] for d in attrs["dims"]),
            lambda shape, attrs: bool(attrs["dims"] == tuple(range(len(shape)))),
            composed=lambda first, second: {"dims": tuple(first["dims"][d] for d in second["dims"])},
            inverse=lambda shape, attrs: ("permute", {"dims": tuple(int(d) for d in np.argsort(attrs["dims"]))}),
        ),
        "broadcast_to": MovementRow(
            repeated, lambda array, attrs: np.broadcast_to(array, attrs["shape"]), repeated_strides, has_shape
        ),
        "slice": MovementRow(
            sliced,
            lambda array, attrs: array[spans(attrs, attrs["shape"])],
            lambda shape, strides, attrs: tuple(s * step for s, step in zip(strides, attrs["steps"], strict=True)),
            lambda shape, attrs: has_shape(shape, attrs) and all(step == 1 for step in attrs["steps"]),
            inverse=lambda shape, attrs: ("place", {"starts": attrs["starts"], "steps": attrs["steps"]}),
        ),
        "unfold": MovementRow(  # the windows along an axis, which overlap, along a new last dimension
            unfolded,
            lambda array, attrs: sliding_window_view(array, attrs["size"], attrs["axis"]),
            lambda shape, strides, attrs: (*strides, strides[attrs["axis"]]),
            lambda shape, attrs: False,
        ),
        "real": part("real"),
        "imag": part("imag"),
    }
)


def strides_of(op: str, shape: Shape, strides: Strides, attrs: Attrs) -> Strides:
    """Strides of a view, in elements; None where there is no view, or nobody knows."""
    if strides is None:
        return None
    if op in PARTS or not all(map(is_fixed, (*shape, *strides, *attrs.get("shape", ()), *attrs.get("starts", ())))):
        return MOVEMENTS[op].strides(shape, strides, attrs)
    return strides_of_view(op, shape, strides, tuple(attrs.items()))


@lru_cache(maxsize=4096)
def strides_of_view(op: str, shape: Shape, strides: Shape, attrs: tuple[tuple[str, Any], ...]) -> Strides:
    """`strides_of`, as numpy has it for an array of bytes."""
    memory = as_strided(np.empty(1, np.uint8), shape, strides)  # none of its elements is read
    view = (MOVEMENTS[op].view or MOVEMENTS[op].reference)(memory, dict(attrs))
    return None if view is None else view.strides
