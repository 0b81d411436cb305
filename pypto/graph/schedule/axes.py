"""The axes of a group of nodes: which dimensions of different arrays have the same index.

A dimension is a tuple of atomic axes, the slowest first; a dimension of size 1 has none. Unification makes equal
sizes one axis. Where one size is a multiple of the other, it splits the greater axis. So a reshape that joins or
splits dimensions, a transpose and a broadcast only rename axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pypto.graph.ir.dims import quotient

Dim = tuple[int, ...]
Dims = tuple[Dim, ...]


class FusionConflict(Exception):
    """Nodes that cannot be fused into one kernel; the text is the reason that `pto.explain` shows."""


@dataclass(slots=True)
class Axes:
    """Union-find over axes: unification makes two axes one, or splits an axis into parts."""

    sizes: list[int] = field(default_factory=list)
    same: dict[int, Dim] = field(default_factory=dict)  # what an axis has become

    def new(self, size: int) -> Dim:
        """Add a dimension with an axis that no other dimension has."""
        if size == 1:
            return ()
        self.sizes.append(size)
        return (len(self.sizes) - 1,)

    def fresh(self, shape: Sequence[int]) -> Dims:
        return tuple(self.new(n) for n in shape)

    def resolve(self, dim: Iterable[int]) -> Dim:
        """Return the current atomic axes of a dimension, after all unifications so far."""
        same = self.same
        if type(dim) is tuple and same.keys().isdisjoint(dim):
            return dim
        axes: list[int] = []
        for axis in dim:
            if axis in same:
                same[axis] = self.resolve(same[axis])
                axes += same[axis]
            else:
                axes.append(axis)
        return tuple(axes)

    def size(self, dim: Iterable[int]) -> int:
        total = 1
        for axis in self.resolve(dim):
            total *= self.sizes[axis]
        return total

    def unify(self, a: Dim, b: Dim) -> None:
        """Unify two dimensions of one size, so that they have the same index.

        Raises
        ------
        FusionConflict
            When their parts do not fit together.
        """
        while a != b:
            left, right = self.resolve(a), self.resolve(b)
            pair = next(((x, y) for x, y in zip(left, right, strict=False) if x != y), None)
            if pair is None:
                if len(left) != len(right):
                    raise FusionConflict("sizes differ")
                return
            self._join(*pair)

    def _join(self, x: int, y: int) -> None:
        if self.sizes[x] == self.sizes[y]:
            self.same[max(x, y)] = (min(x, y),)
            return
        for big, small in ((x, y), (y, x)):
            outer = quotient(self.sizes[big], self.sizes[small])
            if outer is not None:
                self.same[big] = (small, *self.new(outer))
                return
        raise FusionConflict("one dimension is cut in two ways")

    def unify_reshaped(self, source: Dims, target: Dims) -> None:
        """Unify the dimensions before and after a reshape, in row-major order."""
        flat = [tuple(axis for dim in dims for axis in dim) for dims in (source, target)]
        self.unify(*flat)
