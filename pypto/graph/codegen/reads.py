"""The text of reads at other places than a program's own: windows of arrays, and gathers by indices."""

from __future__ import annotations

import numpy as np

from pypto.graph.codegen.op_text import ProductWriter
from pypto.graph.codegen.writer import Argument, Tile, number_text
from pypto.graph.ir.dims import is_fixed, quotient
from pypto.graph.ir.node import Node
from pypto.graph.schedule.index_space import Dim, FusionConflict


class ReadWriter(ProductWriter):
    """Writes the lines that read an array at moved or computed indices."""

    def window(self, node: Node) -> Tile:
        """Write a load of a window, in which elements outside of the array read as its number."""
        (x,) = node.inputs
        key = x.number, (), "window"  # as it lies, whatever other reads of it see
        if key not in self.arguments:
            number = sum(1 for a in self.arguments.values() if not a.is_output)
            self.arguments[key] = Argument(f"a{number}", x, x.shape)
        at, axes = [], []
        for start, dim in zip(node.attr("starts"), self.program.space.values[node], strict=True):
            sized_axes = [a for a in dim if a in self.program.sizes]
            if len(sized_axes) > 1:
                raise FusionConflict("a part of an array is read along one dimension in two ways")
            at.append(self.moved_index(sized_axes[0], start) if sized_axes else str(start))
            axes += [a for a in sized_axes if self.is_tiled(a)]
        stage = self.stage_along(a for dim in self.program.space.values[node] for a in dim)
        self.reads(self.arguments[key], (None,) * len(x.shape))
        text = f"{self.arguments[key].name}[{', '.join(at)}]"
        fill = dict(node.attrs).get("fill")
        if fill is not None:
            text = f"pto.where({self.inside(node, tuple(axes))}, {text}, {number_text(fill, x.type.dtype)})"
        return self.variable(stage, text, tuple(axes), node)

    def inside(self, node: Node, axes: Dim) -> str:
        """Return the condition under which elements of a window are elements of the array."""
        conditions = []
        lines = self.program.space.values[node]
        for start, count, size, line in zip(node.attr("starts"), node.shape, node.inputs[0].shape, lines, strict=True):
            place, sized_axes = str(start), [a for a in line if a in self.program.sizes]
            if sized_axes:
                (axis,) = sized_axes
                terms = [self.indices[axis][0], str(start)]
                terms += [f"pto.arange(0, {self.program.tile_size(axis)})"] if self.is_tiled(axis) else []
                place = f"({' + '.join(x for x in terms if x != '0') or '0'})"
            tests = [f"{place} >= 0"] * (start < 0) + [f"{place} < {size}"] * (start + count > size)
            is_tile = bool(sized_axes) and self.is_tiled(sized_axes[0])
            conditions += [
                self.aligned(Tile(f"({x})", tuple(sized_axes)), axes) if is_tile else f"({x})" for x in tests
            ]
        return " & ".join(conditions)

    def take(self, node: Node) -> Tile:
        """Write a gather: a scalar index reads a slice, and a tile of indices reads through pointers."""
        index = self.operand(node, 1)
        line = self.program.reads[node, 0]
        array = self.argument(node.inputs[0], line)
        result = self.program.values[node]
        (picked,) = [a for a in line if a not in result] or (None,)
        self.reads(array, (None if a == picked else a for a in line))
        if not index.axes:
            at = ", ".join(index.name if a == picked else self.indices[a][1] for a in line) or "0"
            axes = tuple(a for a in line if self.is_tiled(a) and a != picked)
            stage = max(self.stage(index), self.stage_along(a for a in line if a != picked))
            return self.variable(stage, f"{array.name}[{at}]", axes, node)
        return self.gathered(node, array, line, picked, index)

    def inside_axis(self, index: Node, text: str, axis: int) -> list[str]:
        """Return the conditions for an index inside of its axis, without those that hold for all its numbers."""
        numbers, size = np.iinfo(index.type.dtype.numpy), self.program.sizes[axis]
        low = [f"({text} >= 0)"] if numbers.min < 0 else []
        return low if is_fixed(size) and numbers.max < size else [*low, f"({text} < {self.size_text(axis)})"]

    def gathered(self, node: Node, array: Argument, line: Dim, picked: int | None, index: Tile) -> Tile:
        axes = tuple(dict.fromkeys((*index.axes, *(a for a in line if self.is_tiled(a) and a != picked))))
        terms, masks = [], []
        for n, a in enumerate(line):
            at, _ = self.indices[a]
            if a == picked:
                text = self.aligned(index, axes)
                terms.append(f"{text} * {array.name}.strides[{n}]")
                masks += self.inside_axis(node.inputs[1], text, a)
                continue
            size = self.program.tile_size(a)
            text = f"({at} + pto.arange(0, {size}))" if self.is_tiled(a) else at
            text = self.aligned(Tile(text, (a,)), axes) if self.is_tiled(a) else text
            terms.append(f"{text} * {array.name}.strides[{n}]")
            if self.is_tiled(a) and quotient(self.program.sizes[a], size) is None:
                masks.append(f"({text} < {self.size_text(a)})")
        mask = f", mask={' & '.join(masks)}, other=0" if masks else ""
        text = f"pto.load({array.name} + {' + '.join(terms)}{mask})"
        return self.variable(max(self.stage(index), self.stage_along(a for a in line if a != picked)), text, axes, node)
