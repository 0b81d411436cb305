"""Access regions: which elements of an array an access touches, and which of them exist."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.ascend.blockir.conditions import compared, conjunction
from pypto.backends.ascend.blockir.ir import Expr, Scalar, fold
from pypto.backends.ascend.vector.builder import Index, Lowering
from pypto.backends.ascend.vector.values import Pointer, Pointers
from pypto.ir.core import Value
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access
from pypto.passes.analysis.ranges import is_nonnegative


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of an access."""

    size: int  # indices of the tile
    start: Scalar  # first valid index
    stop: Scalar  # index behind the last valid one
    stride: Scalar  # elements in the array from one index to the next

    @property
    def is_whole(self) -> bool:
        """Whether all indices are valid."""
        return self.start == 0 and self.stop == self.size

    @property
    def count(self) -> Scalar:
        """Number of valid indices."""
        return fold("-", self.stop, self.start)


@dataclass(frozen=True, slots=True)
class AccessRegion:
    """All dimensions of an access."""

    base: Pointer | Pointers  # the array, or a tile of pointers
    dims: tuple[Dim, ...]  # its dimensions
    exists: Scalar  # condition on dimensions of size 1, without which nothing exists
    first: Scalar  # offset of index 0

    @property
    def is_whole(self) -> bool:
        """Whether all elements exist."""
        return self.exists is True and all(dim.is_whole for dim in self.dims)

    @property
    def is_ragged(self) -> Scalar:
        """Condition that some element does not exist."""
        conditions = [compared("<", dim.count, dim.size) for dim in self.dims if not dim.is_whole]
        conditions += [] if self.exists is True else [Expr("not", (self.exists,))]
        result = conditions.pop(0) if conditions else False
        for part in conditions:
            result = Expr("||", (result, part))
        return result

    def offset(self, low: Lowering, index: Index) -> Scalar:
        """Return the offset of an element in the array."""
        at = self.first
        for i, dim in zip(index, self.dims, strict=True):
            at = fold("+", at, fold("*", i, dim.stride))
        return fold("+", low.offset(self.base, index), at)


def region_of(low: Lowering, access: Access) -> AccessRegion:
    """Return the region of an access."""
    base = low.env[access.base]
    assert isinstance(base, Pointer | Pointers)
    dims: list[Dim] = []
    exists: list[Scalar] = []
    first: Scalar = 0
    for size, offset, stride, extent in zip(access.shape, access.offsets, access.strides, access.extents, strict=True):
        start = low.number(offset)
        step = low.number(stride)
        end = low.number(extent)
        first = fold("+", first, fold("*", start, step))
        if size == 1:
            exists += [
                compared("<", start, end),
                True if is_nonnegative(offset, low.nonnegative) else compared(">=", start, 0),
            ]
            dims.append(Dim(1, 0, 1, step))
        elif is_inside(low, offset, size, extent):
            dims.append(Dim(size, 0, size, step))
        else:
            dims.append(Dim(size, *valid_range(low, size, start, end, is_nonnegative(offset, low.nonnegative)), step))
    condition = conjunction(*exists)
    if isinstance(condition, Expr):
        condition = low.let("exists", int1, condition)
    return AccessRegion(base, tuple(dims), condition, low.let("first", int64, first))


def is_inside(low: Lowering, start: Value, count: int, end: Value) -> bool:
    """Whether `count` indices from `start` on surely lie between 0 and `end`."""
    first, behind = low.ranges.range_of(start), low.ranges.range_of(end)
    return first is not None and behind is not None and first[0] >= 0 and first[1] + count <= behind[0]


def valid_range(
    low: Lowering, size: int, offset: Scalar, extent: Scalar, is_nonnegative: bool
) -> tuple[Scalar, Scalar]:
    """Return the first valid index and the one behind the last."""
    start: Scalar = 0
    if not is_nonnegative:
        start = fold("max", fold("-", 0, offset), 0)
        start = low.let("start", int64, fold("min", start, size))
    remaining = fold("-", extent, offset)
    stop = fold("max", fold("min", remaining, size), start)
    return start, low.let("count" if start == 0 else "stop", int64, stop)
