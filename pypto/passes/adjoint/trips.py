"""Trip counts: how often a loop runs at most, over all programs of a launch.

The bounds of a loop are evaluated for all programs at once, with numpy; a bound that depends on the index of a loop
around it is evaluated for all trips of that one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.ir.core import Function, Op, Region, Value
from pypto.passes.adjoint.footprint import LaunchNumbers

Array = np.ndarray[Any, Any]
_OPS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType({
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
    "floordiv": np.floor_divide, "rem": np.remainder, "neg": np.negative, "where": np.where, "cast": lambda x: x,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and_": np.bitwise_and, "or_": np.bitwise_or,
})  # fmt: skip


class TripCounts:
    """The largest trip counts of a function's loops in a launch."""

    def __init__(self, function: Function, launch: LaunchNumbers) -> None:
        self.launch = launch
        self.depths: dict[Op, int] = {}
        self.loops: dict[Value, Op] = {}
        self.enter(function.body, 0)
        self.rank = 3 + max(self.depths.values(), default=0) + 1
        self.known: dict[Value, Array | None] = {}

    def enter(self, region: Region, depth: int) -> None:
        for op in region.ops:
            if op.name == "for":
                self.depths[op] = depth
                self.loops[op.regions[0].args[0]] = op
            for inner in op.regions:
                self.enter(inner, depth + (op.name == "for"))

    def most(self, loop: Op) -> int | None:
        """How often a loop runs at most; None where its bounds are not numbers of the launch."""
        low, high, step = (self.of(v) for v in loop.operands[:3])
        if low is None or high is None or step is None or not step.size or (step == 0).any():
            return None
        counts = -((low - high) // step)
        return max(0, int(counts.max(initial=0)))

    def of(self, v: Value) -> Array | None:
        """A scalar for all programs: axes 0 to 2 are those of the grid, the others those of loops."""
        if v not in self.known:
            self.known[v] = self.evaluate(v)
        return self.known[v]

    def evaluate(self, v: Value) -> Array | None:
        if v in self.loops:
            return self.indices(self.loops[v])
        if v.op is None:
            value = self.launch.scalars.get(v.hint)
            return self.number(value) if isinstance(value, int) else None
        op = v.op
        if op.name == "constant" and not v.shape:
            return self.number(op.attrs["value"])
        if op.name in ("program_id", "num_programs"):
            axis = int(op.attrs["axis"])
            size = self.launch.grid[axis]
            return self.line(axis, size) if op.name == "program_id" else self.number(size)
        if op.name in ("array_shape", "array_stride"):
            table = self.launch.shapes if op.name == "array_shape" else self.launch.strides
            return self.number(table[op.operands[0].hint][int(op.attrs["dim"])])
        operands = [self.of(x) for x in op.operands]
        if op.name not in _OPS or any(x is None for x in operands) or op.regions:
            return None
        with np.errstate(all="ignore"):
            return np.asarray(_OPS[op.name](*operands))

    def indices(self, loop: Op) -> Array | None:
        low, step, count = self.of(loop.operands[0]), self.of(loop.operands[2]), self.most(loop)
        if low is None or step is None or count is None:
            return None
        return np.asarray(low + step * self.line(3 + self.depths[loop], count))

    def number(self, value: Any) -> Array:
        return np.full((1,) * self.rank, value)

    def line(self, axis: int, size: int) -> Array:
        return np.arange(size).reshape(tuple(size if a == axis else 1 for a in range(self.rank)))
