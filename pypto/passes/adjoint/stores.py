"""Stores of a launch: whether each element is stored once, so that its gradient belongs to one store.

An element that two programs store has the value of one of them, and no gradient. The footprint of a store decides where
it is affine. Elsewhere, as for programs in a swizzled order, the origins of all tiles are computed: tiles of one size
whose origins differ by whole tiles are disjoint. What neither decides is left to `addresses`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pypto.ir.core import Op, Value
from pypto.ops.memory import Access
from pypto.passes.adjoint.footprint import AffineNumbers, Digit, footprint
from pypto.passes.adjoint.launch_values import LaunchValues
from pypto.passes.adjoint.ownership import meets_once, owning_axes

Array = np.ndarray[Any, Any]
Store = tuple[Op, tuple[Op, ...]]  # with the loops around it
_MOST_TILES: Final = 1 << 22  # whose origins are compared


def stores_once(op: Op, loops: tuple[Op, ...], numbers: AffineNumbers, values: LaunchValues) -> bool:
    """Whether a store is proved to write no element twice in a launch."""
    footprint_of_op = footprint(op, loops, numbers)
    if footprint_of_op is not None:
        digits: dict[Digit, int] = dict(enumerate(numbers.launch.grid))
        digits.update((loop.regions[0].args[0], numbers.trips(loop)) for loop in loops)
        if len(owning_axes([footprint_of_op], digits, numbers.launch.grid)) == 3 and meets_once(
            footprint_of_op, digits
        ):
            return True
    return op.name == "tile_store" and has_disjoint_tiles(Access.of(op), loops, values)


def are_disjoint(a: Store, b: Store, numbers: AffineNumbers) -> bool:
    """Whether two stores write different elements, in all programs and trips: apart along a dimension of the array."""
    first, second = footprint(*a, numbers), footprint(*b, numbers)
    if first is None or second is None or not (first.is_native and second.is_native):
        return False
    digits: dict[Digit, int] = dict(enumerate(numbers.launch.grid))
    digits.update((loop.regions[0].args[0], numbers.trips(loop)) for loop in (*a[1], *b[1]))
    return any(x.is_separate(y, digits) for x, y in zip(first.dimensions, second.dimensions, strict=True))


def has_disjoint_tiles(access: Access, loops: Sequence[Op], values: LaunchValues) -> bool:
    """Whether the tiles of all programs and trips begin at places that differ by whole tiles."""
    place = origin(access, values)
    strides = [values.of(v) for v in access.strides]
    extents = [values.of(v) for v in access.extents]
    lines = [values.line(axis, x) for axis, x in enumerate(values.places)]
    lines += [x for x in (values.indices(loop) for loop in loops) if x is not None]
    known = [x for x in (*strides, *extents) if x is not None]
    if place is None or len(known) < 2 * len(strides) or len(lines) < 3 + len(loops):
        return False
    shape = np.broadcast_shapes(place.shape, *(x.shape for x in lines))
    if math.prod(shape) > _MOST_TILES:
        return False
    digits = place_digits(place, known[: len(strides)], known[len(strides) :], access.shape)
    if digits is None:
        return False
    origins = np.stack([np.broadcast_to(x, shape).ravel() for x in digits], axis=1)
    return len(np.unique(origins, axis=0)) == len(origins)


def origin(access: Access, values: LaunchValues) -> Array | None:
    """How far the first element of each tile lies behind the first one of its array."""
    place = base_offsets(access.base, values)
    for offset, stride in zip(access.offsets, access.strides, strict=True):
        x, step = values.of(offset), values.of(stride)
        if place is None or x is None or step is None:
            return None
        place = place + x * step
    return place


def place_digits(
    place: Array, strides: Sequence[Array], extents: Sequence[Array], sizes: Sequence[int]
) -> list[Array] | None:
    """Places as rows, columns, …, by the strides of a tile; None where tiles are not whole tiles apart."""
    before: int | None = None
    digits: list[Array] = []
    for d in sorted(range(len(sizes)), key=lambda d: -int(strides[d].flat[0])):
        stride = int(strides[d].flat[0])
        if stride < 1 or (strides[d] != stride).any():
            return None
        digit = place // stride
        place = place - digit * stride
        width = np.minimum(np.maximum(extents[d], 0), sizes[d])
        if before is not None and ((digit + width) * stride > before).any():
            return None
        if ((digit - digit.min(initial=0)) % sizes[d]).any():
            return None
        before = stride
        digits.append(digit)
    return digits if not place.any() else None


def base_offsets(pointer: Value, values: LaunchValues) -> Array | None:
    """How far the pointer of each program lies behind the first element of its array."""
    total = values.number(0)
    while pointer.op is not None and pointer.op.name == "addptr":
        offset = values.of(pointer.op.operands[1])
        if offset is None:
            return None
        total, pointer = total + offset, pointer.op.operands[0]
    return total if pointer.op is not None and pointer.op.name == "array_ptr" and not pointer.shape else None
