"""A group as the text of a kernel, which its user could have written.

Every node is one line, in order, with the line of the function that it comes from behind it. Tiles have the axes of
their array that are no single indices of the program; where tiles with different axes meet, dimensions are added.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pypto.blocking import AUTO, Blocking
from pypto.graph.axes import Clash, Dim
from pypto.graph.dims import quotient
from pypto.graph.index_space import scanned
from pypto.graph.node import Node
from pypto.graph.nodes import SORTS
from pypto.graph.op_text import call_text, number_text
from pypto.graph.program import Program
from pypto.graph.versions import versions_of
from pypto.graph.writer import Argument, KernelText, Tile, Writer
from pypto.ir.types import DType
from pypto.ops.table import REDUCTIONS, SCANS

# Reductions in pieces: what they begin with, and how two results are one.
CARRIED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sum": "{a} + {b}",
        "prod": "{a} * {b}",
        "max": "pto.maximum({a}, {b})",
        "min": "pto.minimum({a}, {b})",
        "reduce_or": "{a} | {b}",
    }
)


def neutral(op: str, dtype: DType) -> float | int | bool:
    """What a reduction begins with."""
    if op in ("sum", "reduce_or"):
        return False if dtype.is_bool else 0
    if op == "prod":
        return 1
    low, high = (-float("inf"), float("inf")) if dtype.is_float else dtype.integer_range
    return low if op in ("max", "argmax") else high


def kernel_text(program: Program, precision: str = "", blocking: Blocking = AUTO) -> KernelText:
    """The text of a group's kernel."""
    writer = GroupWriter(program, precision, blocking).written()
    found = []
    for version in versions_of(program):
        other = GroupWriter(
            version.program, precision, blocking,
            steps=program.blocks, arguments=writer.arguments, extents=writer.extents,
        )  # fmt: skip
        found.append((version.most, other.written()))
    return writer.text(found)


class GroupWriter(Writer):
    """Writes the nodes of a group."""

    def written(self) -> GroupWriter:
        """This writer, when it has written all."""
        for node in self.program.space.nodes:
            self.node(node)
        for node in self.program.space.outputs:
            self.store(node)
        return self

    def node(self, node: Node) -> None:
        online = self.program.online
        if online is not None and node is online.maximum:
            self.running_maximum(node)
        elif online is not None and node in online.guards:
            if online.is_read_late:
                self.final[node] = self.guard(node)
            self.tiles[node] = self.tiles[online.maximum]
        elif node.op in ("reshape", "permute", "broadcast_to", "copy"):
            tile = self.operand(node, 0)
            self.tiles[node] = tile
        elif node.op == "dot":
            self.tiles[node] = self.product(node)
        elif node.op in REDUCTIONS:
            self.tiles[node] = self.reduction(node)
        elif node.op == "take":
            self.tiles[node] = self.take(node)
        elif node.op == "arange":
            self.tiles[node] = self.counted(node)
        elif node.op in SCANS or node.op in SORTS:
            self.tiles[node] = self.scan(node)
        else:
            self.tiles[node] = self.elementwise(node)

    def elementwise(self, node: Node) -> Tile:
        operands = [self.operand(node, n) for n in range(len(node.inputs))]
        present = dict.fromkeys(a for t in operands for a in t.axes)
        longest = max((t.axes for t in operands), key=len)
        axes = longest if set(longest) == set(present) else tuple(present)
        texts = [self.aligned(t, axes) for t in operands]
        text = call_text(node, texts)
        return self.variable(self.stage(*operands), text, axes, node)

    def counted(self, node: Node) -> Tile:
        (axis,) = self.program.values[node] or (None,)
        start = node.attr("start")
        if axis is None:
            return self.variable(0, f"pto.full((), {start}, pto.int32)", (), node)
        index, _ = self.indices[axis]
        offset = " + ".join(x for x in (index if index != "0" else "", str(start) if start else "") if x)
        if not self.is_tiled(axis):
            return self.variable(0, f"({offset}).to(pto.int32)", (), node)
        text = f"pto.arange(0, {self.program.tile_size(axis)})" + (f" + {offset}" if offset else "")
        return self.variable(1 if axis == self.program.loop else 0, text, (axis,), node)

    def reduction(self, node: Node) -> Tile:
        source = self.operand(node, 0)
        line = self.program.reads.get((node, 0), self.program.values.get(node.inputs[0], ()))
        gone = [a for a in line if a not in self.program.values[node]]
        axes = (*source.axes, *(a for a in gone if a not in source.axes))
        text = self.full(source, axes, node.inputs[0].type.dtype)
        if node.op in ("argmax", "argmin") and len(gone) > 1:
            raise Clash("a position over several axes has no form")
        loop = self.program.loop
        text = self.masked(text, axes, gone, neutral(node.op, node.inputs[0].type.dtype))
        kept = tuple(a for a in axes if a not in gone)
        where = tuple(axes.index(a) for a in gone)
        if not where:
            return self.variable(self.stage(source), text, kept, node)
        text = f"pto.{node.op}({text}, axis={where[0] if len(where) == 1 else where})"
        if loop not in gone:
            return self.variable(self.stage(source), text, kept, node)
        return self.accumulated(node, kept, lambda name: CARRIED[node.op].format(a=name, b=text))

    def scan(self, node: Node) -> Tile:
        source = self.operand(node, 0)
        axes = tuple(a for a in self.program.values[node] if self.is_tiled(a))
        text = self.full(source, axes, node.inputs[0].type.dtype)
        (along,) = [a for a in axes if a in scanned(node, self.program.space.values)] or (None,)
        if along is None and node.op == "argsort":
            return self.variable(0, "pto.full((), 0, pto.int32)", (), node)
        if along is None:
            return Tile(text, axes)
        if node.op not in SORTS:
            return self.variable(self.stage(source), f"pto.{node.op}({text}, axis={axes.index(along)})", axes, node)
        dtype = node.inputs[0].type.dtype
        last = float("nan") if dtype.is_float else dtype.integer_range[0 if node.attr("descending") else 1]
        text = self.masked(text, axes, [along], last)
        how = ", descending=True" if node.attr("descending") else ""
        return self.variable(self.stage(source), f"pto.{node.op}({text}, {axes.index(along)}{how})", axes, node)

    def running_maximum(self, node: Node) -> None:
        """The maximum so far, and what the sums so far are multiplied by; rows of -inf alone add nothing."""
        source = self.operand(node, 0)
        loop, dtype = self.program.loop, node.type.dtype
        assert loop is not None
        kept = tuple(a for a in source.axes if a != loop)
        text = source.name
        if self.program.has_rest(loop):
            source = self.variable(1, self.masked(text, source.axes, [loop], -float("inf")), source.axes)
            self.tiles[node.inputs[0]] = source
        shape = tuple(self.program.tile_size(a) for a in kept)
        start = f'pto.full({shape}, float("-inf"), pto.{dtype.public})'
        self.put(0, f"most = {start}")
        self.put(1, f"new = pto.maximum(most, pto.max({source.name}, axis={source.axes.index(loop)}))", node)
        self.put(1, 'base = pto.where(new == float("-inf"), 0.0, new)')
        self.put(1, "scale = pto.exp(most - base)")
        self.put(1, "most = new")
        self.stages["base"] = 1
        self.stages["scale"] = 1
        self.tiles[node] = Tile("base", kept)
        self.scale = Tile("scale", kept)
        self.stages["most"] = 2
        self.final[node] = Tile("most", kept)

    def guard(self, node: Node) -> Tile:
        """What makes a maximum NaN behind the loop, and its other shapes."""
        if node.op == "ne":
            return self.elementwise(node)
        if node.op == "reduce_or":
            self.tiles[node.inputs[0]] = self.final[node.inputs[0]]
            return self.reduction(node)
        operands = [self.final.get(x) or self.operand(node, n) for n, x in enumerate(node.inputs)]
        if node.op != "where":
            return operands[0]
        axes = operands[2].axes
        return self.variable(2, call_text(node, [self.aligned(t, axes) for t in operands]), axes, node)

    def scaled(self, node: Node, name: str, axes: Dim) -> str:
        """A sum so far, as it is with the maximum so far."""
        online = self.program.online
        if online is None or node not in online.sums or self.scale is None:
            return name
        return f"{name} * {self.aligned(self.scale, axes)}"

    def masked(self, text: str, axes: Dim, along: Iterable[int], value: Any) -> str:
        """A tile with what lies behind the end of some of its axes replaced."""
        number = f'float("{value}")' if isinstance(value, float) and not math.isfinite(value) else repr(value)
        for axis in along:
            if not self.program.has_rest(axis):
                continue
            first = "k + " if axis == self.program.loop else ""
            inside = f"({first}pto.arange(0, {self.program.tile_size(axis)}) < {self.size_text(axis)})"
            text = f"pto.where({self.aligned(Tile(inside, (axis,)), axes)}, {text}, {number})"
        return text

    def accumulated(self, node: Node, axes: Dim, combine: Callable[[str], str]) -> Tile:
        """A reduction over the axis of the loop, in a variable that the loop carries."""
        shape = tuple(self.program.tile_size(a) for a in axes)
        start = number_text(neutral(node.op if node.op != "dot" else "sum", node.type.dtype), node.type.dtype)
        tile = self.variable(0, f"pto.full({shape}, {start}, pto.{node.type.dtype.public})", axes)
        self.put(1, f"{tile.name} = {combine(self.scaled(node, tile.name, axes))}", node)
        self.stages[tile.name] = 2
        return tile

    def product(self, node: Node) -> Tile:
        a, b = self.operand(node, 0), self.operand(node, 1)
        lines = [self.program.reads.get((node, n), self.program.values.get(x, ())) for n, x in enumerate(node.inputs)]
        tiled = [[x for x in line if self.is_tiled(x)] for line in lines]
        (depth,) = [x for x in tiled[0] if x in tiled[1]]
        rows, columns = ([x for x in line if x != depth] for line in tiled)
        left = self.full(a, (*rows, depth), node.inputs[0].type.dtype)
        right = self.full(b, (depth, *columns), node.inputs[1].type.dtype)
        if (node, 0) not in self.program.reads:
            left = self.masked(left, (*rows, depth), [depth], 0)
        if (
            node,
            1,
        ) not in self.program.reads:  # behind the end may be infinities, and 0 times one is NaN
            right = self.masked(right, (depth, *columns), [depth], 0)
        left = left if rows else f"{left}[None, :]"
        right = right if columns else f"{right}[:, None]"
        how = f', input_precision="{self.precision}"' if self.precision and node.inputs[0].type.dtype.bits == 32 else ""
        axes = (*rows, *columns)
        if depth == self.program.loop:
            return self.carried_product(node, left, right, how, axes, bool(rows and columns))
        tile = self.variable(self.stage(a, b), f"pto.dot({left}, {right}{how})", axes, node)
        return tile if rows and columns else self.flattened(tile, axes)

    def carried_product(self, node: Node, left: str, right: str, how: str, axes: Dim, whole: bool) -> Tile:
        if whole:
            return self.accumulated(node, axes, lambda name: f"pto.dot({left}, {right}, {name}{how})")
        text = self.reshaped(f"pto.dot({left}, {right}{how})", axes)
        return self.accumulated(node, axes, lambda name: f"{name} + {text}")

    def flattened(self, tile: Tile, axes: Dim) -> Tile:
        stage = self.stages[tile.name]
        return self.variable(stage, self.reshaped(tile.name, axes), axes)

    def reshaped(self, text: str, axes: Dim) -> str:
        """A product with one row or one column, without that dimension."""
        shape = tuple(self.program.tile_size(a) for a in axes)
        return f"pto.reshape({text}, {shape or (1,)})" + ("" if shape else "[0]")

    def take(self, node: Node) -> Tile:
        """Elements by an array of indices: a slice where the index is one number, and pointers where it is a tile."""
        index = self.operand(node, 1)
        line = self.program.reads[node, 0]
        array = self.argument(node.inputs[0], line)
        result = self.program.values[node]
        (picked,) = [a for a in line if a not in result] or (None,)
        if not index.axes:
            at = ", ".join(index.name if a == picked else self.indices[a][1] for a in line) or "0"
            axes = tuple(a for a in line if self.is_tiled(a) and a != picked)
            stage = max(self.stage(index), 1 if self.program.loop in axes else 0)
            return self.variable(stage, f"{array.name}[{at}]", axes, node)
        return self.gathered(node, array, line, picked, index)

    def gathered(self, node: Node, array: Argument, line: Dim, picked: int | None, index: Tile) -> Tile:
        axes = tuple(dict.fromkeys((*index.axes, *(a for a in line if self.is_tiled(a) and a != picked))))
        terms, masks, loop = [], [], self.program.loop
        for n, a in enumerate(line):
            at, _ = self.indices[a]
            if a == picked:
                terms.append(f"{self.aligned(index, axes)} * {array.name}.strides[{n}]")
                continue
            size = self.program.tile_size(a)
            text = f"({at} + pto.arange(0, {size}))" if self.is_tiled(a) else at
            text = self.aligned(Tile(text, (a,)), axes) if self.is_tiled(a) else text
            terms.append(f"{text} * {array.name}.strides[{n}]")
            if self.is_tiled(a) and quotient(self.program.sizes[a], size) is None:
                masks.append(f"({text} < {self.size_text(a)})")
        mask = f", mask={' & '.join(masks)}, other=0" if masks else ""
        text = f"pto.load({array.name} + {' + '.join(terms)}{mask})"
        return self.variable(max(self.stage(index), 1 if loop in axes else 0), text, axes, node)

    def store(self, node: Node) -> None:
        tile = self.final.get(node) or self.tiles[node]
        line = self.program.values[node]
        array = self.argument(node, line, True)
        axes = tuple(a for a in line if self.is_tiled(a))
        stage = 1 if self.program.loop in line else 2
        if stage == 1 and self.stages.get(tile.name) == 2:
            raise Clash("a long axis would be gone through twice")
        text = self.full(tile, axes, node.type.dtype)
        self.put(stage, f"{array.name}[{self.subscript(line)}] = {text}", node)

    # --- the whole -------------------------------------------------------------------------------------------------

    def body(self) -> list[str]:
        """All lines but those that say which elements a program has."""
        before, within, after = self.lines
        found = before[self.heads :]
        if self.program.loop is not None:
            found.append(f"for k in range(0, {self.size_text(self.program.loop)}, {self.program.chunk}):")
            found += [f"    {line}" for line in within]
        return [*found, *after]

    def condition(self, most: Mapping[int, int]) -> str:
        """Whether there are so few elements along some axes."""
        rests = {a: f"{self.size_text(a)} - {self.indices[a][0]}" for a in most if a in self.program.blocks}
        return " and ".join(f"{rests.get(a) or self.size_text(a)} <= {count}" for a, count in most.items())

    def text(self, versions: Sequence[tuple[Mapping[int, int], GroupWriter]] = ()) -> KernelText:
        """The kernel, with other bodies for few elements along some axes."""
        body = self.body()
        if versions:
            body = ["else:", *(f"    {line}" for line in body)]
        for most, writer in reversed(versions):
            word = "if" if most is versions[0][0] else "elif"
            body = [f"{word} {self.condition(most)}:", *(f"    {line}" for line in writer.body()), *body]
        body = [*self.extent_lines(), *self.lines[0][: self.heads], *body]
        given = tuple(self.arguments.values())
        rest = "\n".join([f"({', '.join(x.name for x in given)}):", *(f"    {line}" for line in body)])
        sized = self.sized()
        options = options_text(sized, self.blocking)
        name = f"{self.program.form}_{hashlib.sha256((options + rest).encode()).hexdigest()[:8]}"
        return KernelText(
            name, f"@pto.jit{options}\ndef {name}{rest}\n", given, self.grid, self.program.form, sized, self.blocking
        )


def options_text(sized: tuple[str, ...], blocking: Blocking) -> str:
    """What the decorator of a kernel is given."""
    options = []
    if sized:
        options.append(f"do_not_specialize={list(sized)}".replace("'", '"'))
    if blocking.overrides:
        options.append(f"blocking=pto.{blocking!r}")
    return f"({', '.join(options)})" if options else ""
