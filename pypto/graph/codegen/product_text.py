"""Kernel lines of matrix products and of accumulators that loops carry."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from pypto.graph.codegen.op_text import neutral, number_text
from pypto.graph.codegen.writer import Tile, Writer
from pypto.graph.ir.node import Node
from pypto.graph.schedule.axes import Dim
from pypto.ir.types import DType


class ProductWriter(Writer):
    """Writes the lines of products and accumulators."""

    def scaled(self, node: Node, name: str, axes: Dim) -> str:
        """Return an accumulator, rescaled to the running maximum if it is a sum of an online softmax."""
        online = self.program.online
        if online is None or node not in online.sums or self.scale is None:
            return name
        return f"{name} * {self.aligned(self.scale, axes)}"

    def masked(self, text: str, axes: Dim, along: Iterable[int], value: Any) -> str:
        """Mask a tile: replace the elements beyond the end of some of its axes."""
        number = f'float("{value}")' if isinstance(value, float) and not math.isfinite(value) else repr(value)
        for axis in along:
            if not self.program.has_rest(axis):
                continue
            first = "k + " if axis == self.program.loop else ""
            inside = f"({first}pto.arange(0, {self.program.tile_size(axis)}) < {self.size_text(axis)})"
            text = f"pto.where({self.aligned(Tile(inside, (axis,)), axes)}, {text}, {number})"
        return text

    def accumulated(self, node: Node, op: str, dtype: DType, axes: Dim, combine: Callable[[str], str]) -> Tile:
        """Write a reduction along a loop as an accumulator that the loop carries."""
        shape = tuple(self.program.tile_size(a) for a in axes)
        tile = self.variable(
            0, f"pto.full({shape}, {number_text(neutral(op, dtype), dtype)}, pto.{dtype.public})", axes
        )
        self.put(self.within, f"{tile.name} = {combine(self.scaled(node, tile.name, axes))}", node)
        self.stages[tile.name] = self.within + 1
        return tile

    def product(self, node: Node) -> Tile:
        if node.inputs[0].has("parts") and node.inputs[0] in self.program.space.values:
            return self.joined_product(node)
        a, b = self.operand(node, 0), self.operand(node, 1)
        lines = [self.program.reads.get((node, n), self.program.values.get(x, ())) for n, x in enumerate(node.inputs)]
        tiled = [tuple(x for x in line if self.is_tiled(x)) for line in lines]
        contracted = [x for x in lines[0] if x in lines[1] and x not in self.program.values[node]]
        depth = tuple(x for x in contracted if self.is_tiled(x))
        rows, columns = (tuple(x for x in line if x not in depth) for line in tiled)
        left = self.full(a, (*rows, *depth), node.inputs[0].type.dtype)
        right = self.full(b, (*depth, *columns), node.inputs[1].type.dtype)
        if (node, 0) not in self.program.reads:
            left = self.masked(left, (*rows, *depth), depth, 0)
        if (node, 1) not in self.program.reads:  # behind the end may be infinities, and 0 times one is NaN
            right = self.masked(right, (*depth, *columns), depth, 0)
        left, right = self.matrix(left, rows, depth), self.matrix(right, depth, columns)
        how = self.how(node)
        axes = (*rows, *columns)
        if any(x in self.program.loops for x in contracted):
            return self.carried_product(node, left, right, how, axes, bool(rows and columns))
        tile = self.variable(self.stage(a, b), f"pto.dot({left}, {right}{how})", axes, node)
        return tile if rows and columns else self.flattened(tile, axes)

    def matrix(self, text: str, *sides: Dim) -> str:
        """Reshape a tile to a matrix: each side merges its axes, and a side without axes has size 1."""
        if any(len(side) > 1 for side in sides):
            shape = tuple(math.prod(self.program.tile_size(a) for a in side) for side in sides)
            return f"pto.reshape({text}, {shape})"
        return text if all(sides) else f"{text}[{', '.join(':' if side else 'None' for side in sides)}]"

    def joined_product(self, node: Node) -> Tile:
        """Write a product of arrays that are concatenated along the contracted axis as a sum of products."""
        joined, right = node.inputs
        line, result = self.program.reads[node, 1], self.program.values[node]
        (depth,) = [a for a in line if a in self.program.values[joined] and a not in result]
        columns = tuple(a for a in line if a != depth and self.is_tiled(a))
        rows = tuple(a for a in self.program.values[joined] if a != depth and self.is_tiled(a))
        array, first, total = self.argument(right, line), 0, ""
        for n, part in enumerate(joined.inputs):
            left, stage = self.part(joined, n, rows)
            end = first + part.shape[-1]
            self.reads(array, (None if a == depth else a for a in line))
            at = ", ".join(f"{first} : {end}" if a == depth else self.indices[a][1] for a in line)
            stage = max(stage, self.stage_along(line))
            more = f", {total}" if total else ""
            text = f"pto.dot({left}, {array.name}[{at}]{more}{self.how(node)})"
            total = self.variable(max(stage, self.stages.get(total, 0)), text, (*rows, *columns), node).name
            first = end
        return Tile(total, (*rows, *columns))

    def part(self, joined: Node, number: int, rows: Dim) -> tuple[str, int]:
        """Return one part of a concatenation as a matrix, and the stage of its lines."""
        tile = self.operand(joined, number)
        line = self.program.reads.get((joined, number), self.program.values.get(joined.inputs[number], ()))
        along = tuple(a for a in line if a not in self.program.values[joined])
        text = self.full(tile, (*rows, *along), joined.type.dtype)
        return (text if along else f"{text}[:, None]"), self.stage(tile)

    def how(self, node: Node) -> str:
        """Return the precision argument of a product."""
        wanted = self.precision and node.inputs[0].type.dtype.bits == 32
        return f', input_precision="{self.precision}"' if wanted else ""

    def carried_product(self, node: Node, left: str, right: str, how: str, axes: Dim, in_bounds: bool) -> Tile:
        if in_bounds:
            dtype = node.type.dtype
            return self.accumulated(node, "sum", dtype, axes, lambda name: f"pto.dot({left}, {right}, {name}{how})")
        text = self.reshaped(f"pto.dot({left}, {right}{how})", axes)
        return self.accumulated(node, "sum", node.type.dtype, axes, lambda name: f"{name} + {text}")

    def flattened(self, tile: Tile, axes: Dim) -> Tile:
        stage = self.stages[tile.name]
        return self.variable(stage, self.reshaped(tile.name, axes), axes)

    def reshaped(self, text: str, axes: Dim) -> str:
        """Drop the dimension of size 1 of a product with one row or one column."""
        shape = tuple(self.program.tile_size(a) for a in axes)
        return f"pto.reshape({text}, {shape or (1,)})" + ("" if shape else "[0]")
