"""Values of integers and truth values in all programs of a launch at once, as arrays of numpy.

What the adjoint of a launch depends on is made of places in the grid, trips of loops, sizes and numbers. Such a value
is an array with one axis for each axis of the grid and each depth of loops, and then those of its tile; an axis along
which it does not change has size 1. What depends on memory or floats is not known. Integers are 64 bits wide, as
addresses are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import TileType
from pypto.ops.table import TABLE
from pypto.passes.adjoint.footprint import LaunchNumbers

Array = np.ndarray[Any, Any]
GRID_AXES: Final = 3


class LaunchValues:
    """The values of a function in a launch, or in some of its programs; `places` are theirs in the grid."""

    def __init__(self, function: Function, launch: LaunchNumbers, places: Sequence[Array] | None = None) -> None:
        self.launch = launch
        self.places = places if places is not None else [np.arange(n) for n in launch.grid]
        self.depths: dict[Op, int] = {}
        self.loops: dict[Value, Op] = {}
        self.enter(function.body, 0)
        self.rank = GRID_AXES + max(self.depths.values(), default=0) + 1
        self.known: dict[Value, Array | None] = {}

    def enter(self, region: Region, depth: int) -> None:
        for op in region.ops:
            if op.name == "for":
                self.depths[op] = depth
                self.loops[op.regions[0].args[0]] = op
            for inner in op.regions:
                self.enter(inner, depth + (op.name == "for"))

    # --- loops ----------------------------------------------------------------------------------------------------

    def most(self, loop: Op) -> int | None:
        """How often a loop runs at most; None where its bounds are not numbers of the launch."""
        low, high, step = (self.of(v) for v in loop.operands[:3])
        if low is None or high is None or step is None or not step.size or (step == 0).any():
            return None
        counts = -((low - high) // step)
        return max(0, int(counts.max(initial=0)))

    def indices(self, loop: Op) -> Array | None:
        """The indices of a loop that runs as often as it does at most."""
        low, step, count = self.of(loop.operands[0]), self.of(loop.operands[2]), self.most(loop)
        if low is None or step is None or count is None:
            return None
        return np.asarray(low + step * self.line(GRID_AXES + self.depths[loop], np.arange(count)))

    def runs(self, loop: Op) -> Array | None:
        """Whether a loop makes the trip of an index."""
        index, high, step = self.of(loop.regions[0].args[0]), self.of(loop.operands[1]), self.of(loop.operands[2])
        if index is None or high is None or step is None:
            return None
        return np.asarray(np.where(step > 0, index < high, index > high))

    # --- values ---------------------------------------------------------------------------------------------------

    def of(self, v: Value) -> Array | None:
        """A value in all programs and trips; a pointer is its distance from the first element of its array."""
        if v not in self.known:
            self.known[v] = self.evaluate(v)
        return self.known[v]

    def evaluate(self, v: Value) -> Array | None:
        if v in self.loops:
            return self.indices(self.loops[v])
        if v.op is None:
            value = self.launch.scalars.get(v.hint)
            return self.number(value) if isinstance(value, int) else None
        is_whole = isinstance(v.type, TileType) and (v.tile.is_ptr or not v.dtype.is_float)
        return self.result(v.op) if is_whole and len(v.op.results) == 1 and not v.op.regions else None

    def result(self, op: Op) -> Array | None:
        """The result of an op on whole numbers, truth values or pointers."""
        start = self.start(op)
        if start is not None:
            return start
        operands = [self.of(x) for x in op.operands]
        known = [x for x in operands if x is not None]
        if len(known) < len(operands) or not known:
            return None
        if op.name in ("reshape", "broadcast_to", "permute"):
            return self.moved(op, known[0])
        if op.name == "addptr":
            return np.asarray(known[0] + known[1])
        if op.name == "cast":
            return np.asarray(known[0] != 0 if op.result.dtype.is_bool else known[0].astype(np.int64))
        row = TABLE[op.name]
        if not row.elementwise or row.reference is None or op.name == "bitcast":
            return None
        return np.asarray(row.reference(op, *known))

    def start(self, op: Op) -> Array | None:
        """The result of an op without operands, or of one that asks an array."""
        if op.name == "constant":
            return self.number(op.attrs["value"], op.result.shape)
        if op.name == "program_id":
            return self.line(int(op.attrs["axis"]), self.places[int(op.attrs["axis"])])
        if op.name == "num_programs":
            return self.number(self.launch.grid[int(op.attrs["axis"])])
        if op.name in ("array_shape", "array_stride"):
            table = self.launch.shapes if op.name == "array_shape" else self.launch.strides
            return self.number(table[op.operands[0].hint][int(op.attrs["dim"])])
        if op.name == "array_ptr":
            return self.number(0)
        if op.name == "arange":
            return np.arange(op.attrs["start"], op.attrs["end"]).reshape((1,) * self.rank + (-1,))
        return None

    def moved(self, op: Op, x: Array) -> Array:
        """A tile in another shape or order."""
        lead, tile = x.shape[: self.rank], x.shape[self.rank :]
        shape = op.result.shape
        if op.name == "permute":
            dims: Any = op.attrs["dims"]
            return x.transpose((*range(self.rank), *(self.rank + d for d in dims)))
        if op.name == "broadcast_to":
            x = x.reshape(lead + (1,) * (len(shape) - len(tile)) + tile)
            return np.broadcast_to(x, lead + shape)
        return x.reshape(lead + shape)

    def number(self, value: Any, shape: tuple[int, ...] = ()) -> Array:
        return np.full((1,) * self.rank + shape, value)

    def line(self, axis: int, values: Array) -> Array:
        """Values along one axis of programs or trips."""
        return values.reshape(tuple(values.size if a == axis else 1 for a in range(self.rank)))

    def programs(self) -> int:
        return math.prod(x.size for x in self.places)

    def places_in_grid(self) -> Iterator[Array]:
        """The places of programs on each axis of the grid."""
        return (self.line(axis, x) for axis, x in enumerate(self.places))

    def moment(self, loops: Sequence[Op]) -> Array:
        """The number of a program, and then of its trips of some loops, outermost first, in one number."""
        x, y, z = self.places_in_grid()
        moment = x + self.launch.grid[0] * (y + self.launch.grid[1] * z)
        for loop in loops:
            count = self.most(loop) or 1
            moment = moment * count + self.line(GRID_AXES + self.depths[loop], np.arange(count))
        return np.asarray(moment)

    def moments(self, loops: Sequence[Op]) -> int:
        """How many moments a program has."""
        return math.prod(self.most(loop) or 1 for loop in loops)
