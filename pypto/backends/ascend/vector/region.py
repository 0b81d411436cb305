"""Which elements an access touches: where they are in the array, and which of them exist."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.ascend.blockir.ir import Expr, Scalar, fold
from pypto.backends.ascend.rules.scalars import compared, conjunction
from pypto.backends.ascend.tile.nonnegative import is_nonnegative
from pypto.backends.ascend.vector.builder import Index, Lowering
from pypto.backends.ascend.vector.values import Pointer, Pointers
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of an access: indices from `start` to below `stop` exist, of `size`; `stride` is in elements."""

    size: int
    start: Scalar
    stop: Scalar
    stride: Scalar

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.stop == self.size

    @property
    def count(self) -> Scalar:
        return fold("-", self.stop, self.start)


@dataclass(frozen=True, slots=True)
class Region:
    """All dimensions of an access. Nothing exists where `exists` does not hold, which is of those of size 1."""

    base: Pointer | Pointers
    dims: tuple[Dim, ...]
    exists: Scalar
    first: Scalar  # offset of index 0

    @property
    def is_whole(self) -> bool:
        return self.exists is True and all(dim.is_whole for dim in self.dims)

    @property
    def is_ragged(self) -> Scalar:
        """Whether some element does not exist."""
        parts = [compared("<", dim.count, dim.size) for dim in self.dims if not dim.is_whole]
        parts += [] if self.exists is True else [Expr("not", (self.exists,))]
        made = parts.pop(0) if parts else False
        for part in parts:
            made = Expr("||", (made, part))
        return made

    def offset(self, low: Lowering, index: Index) -> Scalar:
        """Where an element lies in the array."""
        at = self.first
        for i, dim in zip(index, self.dims, strict=True):
            at = fold("+", at, fold("*", i, dim.stride))
        return fold("+", low.offset(self.base, index), at)


def region_of(low: Lowering, access: Access) -> Region:
    base = low.env[access.base]
    assert isinstance(base, Pointer | Pointers)
    dims: list[Dim] = []
    exists: list[Scalar] = []
    first: Scalar = 0
    for n, off, stride, extent in zip(access.shape, access.offsets, access.strides, access.extents, strict=True):
        o, s, e = low.number(off), low.number(stride), low.number(extent)
        first = fold("+", first, fold("*", o, s))
        if n == 1:
            exists += [compared("<", o, e), True if is_nonnegative(off, low.nonnegative) else compared(">=", o, 0)]
            dims.append(Dim(1, 0, 1, s))
        else:
            dims.append(Dim(n, *valid_range(low, n, o, e, is_nonnegative(off, low.nonnegative)), s))
    condition = conjunction(*exists)
    if isinstance(condition, Expr):
        condition = low.let("exists", int1, condition)
    return Region(base, tuple(dims), condition, low.let("first", int64, first))


def valid_range(low: Lowering, size: int, offset: Scalar, extent: Scalar, natural: bool) -> tuple[Scalar, Scalar]:
    """The first index that exists, and the one after the last."""
    start: Scalar = 0
    if not natural:
        start = fold("max", fold("-", 0, offset), 0)
        start = low.let("start", int64, fold("min", start, size))
    rest = fold("-", extent, offset)
    stop = fold("max", fold("min", rest, size), start)
    return start, low.let("count" if start == 0 else "stop", int64, stop)
