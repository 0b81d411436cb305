"""Kernel source generation: prints a group as a kernel in the kernel language, as a user could have written it.

Every node becomes one line, in order, with the user's line as a comment. A tile has the axes of its array that the
program does not index by a single number. Tiles with different axes are broadcast by dimensions of size 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from pypto.blocking import AUTO, Blocking
from pypto.errors.graph import NoKernel
from pypto.graph.codegen.op_text import (
    call_text,
    combined,
    is_of_magnitudes,
    is_redundant,
    name_of,
    neutral,
    propagates_nan,
)
from pypto.graph.codegen.reads import ReadWriter
from pypto.graph.codegen.writer import Access, KernelText, Tile
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Node
from pypto.graph.ir.type_rules import better
from pypto.graph.ir.types import contiguous
from pypto.graph.schedule.fusion import Partition
from pypto.graph.schedule.group import Programs
from pypto.graph.schedule.index_space import FusionConflict, flat, ordered
from pypto.graph.schedule.tiling import Program, versions_of
from pypto.ir.types import DType, float32, int1, int32
from pypto.ops.table import TABLE


def kernel_text(program: Program, precision: str = "", blocking: Blocking = AUTO) -> KernelText:
    """Write the source of a group's kernel."""
    writer = GroupWriter(program, precision, blocking).written()
    variants = []
    for version in versions_of(program):
        other = GroupWriter(
            version.program, precision, blocking,
            steps=program.blocks, arguments=writer.arguments, extents=writer.extents,
        )  # fmt: skip
        variants.append((version.most, other.written()))
    return writer.text(variants)


class GroupWriter(ReadWriter):
    """Writes the lines of a group's nodes."""

    def written(self) -> GroupWriter:
        """Write all nodes and stores, and return this writer."""
        online, nodes, outputs = self.program.online, self.program.space.nodes, self.program.space.outputs
        second = () if online is None else online.second
        later = () if online is None else (*second, *online.repeated)
        self.first_nodes(second)
        for node in outputs:
            if node not in later:
                self.store(node)
        if later:
            self.begin_second_loop()
        for node in nodes:
            if node in later:
                self.node(node)
        for node in outputs:
            if node in later:
                self.store(node)
        return self

    def first_nodes(self, second: tuple[Node, ...]) -> None:
        """Write all nodes except those of a second loop."""
        for node in self.program.space.nodes:
            if node not in second:
                self.node(node)

    def node(self, node: Node) -> None:
        online = self.program.online
        if online is not None and node is online.maximum:
            self.running_maximum(node)
        elif online is not None and node in online.shapes:
            if online.is_read_late:
                self.final[node] = self.final[node.inputs[0]]
            self.tiles[node] = self.tiles[online.maximum]
        elif not node.has("parts"):  # its parts are read by a product
            self.tiles[node] = self.computed(node)

    def computed(self, node: Node) -> Tile:
        """Write a node, and return its tile."""
        if node.op in _WRITERS:
            return _WRITERS[node.op](self, node)
        if node.has("reduction", "arg_reduction"):
            return self.reduction(node)
        return self.scan(node) if node.has("scan", "sort") else self.elementwise(node)

    def renamed(self, node: Node) -> Tile:
        """Return the operand's tile for a movement that only renames axes."""
        return self.operand(node, 0)

    def begin_second_loop(self) -> None:
        """Begin the second loop, and forget the tiles of the first one."""
        self.within = 3
        self.tiles = {node: tile for node, tile in self.tiles.items() if self.stages.get(tile.name, 0) != 1}
        self.loads = {name: tile for name, tile in self.loads.items() if self.stages[tile.name] != 1}

    def elementwise(self, node: Node) -> Tile:
        operands = [self.operand(node, n) for n in range(len(node.inputs))]
        present = dict.fromkeys(a for t in operands for a in t.axes)
        longest = max((t.axes for t in operands), key=len)
        axes = longest if set(longest) == set(present) else tuple(present)
        texts = [self.aligned(t, axes) for t in operands]
        text = call_text(node, texts)
        return self.variable(self.stage(*operands), text, axes, node)

    def counted(self, node: Node) -> Tile:
        """Write an `arange`; if its dimension has several axes, the index combines theirs."""
        line, start = self.program.values[node], node.attr("start")
        if not line:
            return self.variable(0, f"pto.full((), {start}, pto.int32)", (), node)
        if len(line) == 1:
            return self.counted_along(line[0], node, start)
        inner = tuple(self.program.sizes[a] for a in line[1:])
        if not all(map(is_fixed, inner)):
            raise FusionConflict("an index lies in several axes of sizes that are not fixed")
        tiles = [self.counted_along(axis, node) for axis in line]
        axes = tuple(a for a in line if self.is_tiled(a))
        steps = contiguous((1, *inner))
        terms = [f"{self.aligned(t, axes)} * {step}" for t, step in zip(tiles, steps, strict=True)]
        return self.variable(self.stage(*tiles), " + ".join([*terms, str(start)]), axes, node)

    def counted_along(self, axis: int, node: Node, start: int = 0) -> Tile:
        index, _ = self.indices[axis]
        offset = " + ".join(x for x in (index if index != "0" else "", str(start) if start else "") if x)
        if not self.is_tiled(axis):
            return self.variable(self.stage_along((axis,)), f"({offset or 0}).to(pto.int32)", (), node)
        text = f"pto.arange(0, {self.program.tile_size(axis)})" + (f" + {offset}" if offset else "")
        if index != "0" and not is_fixed(self.program.sizes[axis]):  # which a size known at the launch makes wider
            text = f"({text}).to(pto.int32)"
        return self.variable(self.stage_along((axis,)), text, (axis,), node)

    def reduction(self, node: Node) -> Tile:
        source = self.operand(node, 0)
        if self.is_nan_tested(node) and is_of_magnitudes(node):
            return self.largest(node, source)
        extreme = self.reduced(node, node.op, source, node.inputs[0].type.dtype, node.type.dtype)
        return self.nan_tested(node, source, extreme) if self.is_nan_tested(node) else extreme

    def largest(self, node: Node, source: Tile) -> Tile:
        """Write a maximum of magnitudes on their bits: as integers they have the same order, and NaN is the largest."""
        bits = self.variable(self.stage(source), f"pto.bitcast({source.name}, pto.int32)", source.axes, node)
        most = self.reduced(node, "max", bits, int32, int32)
        return self.variable(self.stage(most), f"pto.bitcast({most.name}, pto.float32)", most.axes, node)

    def is_nan_tested(self, node: Node) -> bool:
        """Whether a maximum or minimum that propagates NaN needs an explicit NaN test."""
        return propagates_nan(node) and (bool(self.program.loops) or not is_redundant(self.program.space, node))

    def nan_tested(self, node: Node, source: Tile, extreme: Tile) -> Tile:
        """Write the NaN test of a maximum or minimum: the result is NaN if an element of its operand is."""
        is_nan = self.variable(self.stage(source), f"{source.name} != {source.name}", source.axes, node)
        any_nan = self.reduced(node, "reduce_or", is_nan, int1, int1)
        text = f'pto.where({self.aligned(any_nan, extreme.axes)}, float("nan"), {extreme.name})'
        return self.variable(self.stage(any_nan, extreme), text, extreme.axes, node)

    def reduced(self, node: Node, op: str, source: Tile, dtype: DType, result: DType) -> Tile:
        """Write a reduction of a tile along the axes that a node reduces."""
        line = self.program.reads.get((node, 0), self.program.values.get(node.inputs[0], ()))
        gone = [a for a in line if a not in self.program.values[node]]
        axes = (*source.axes, *(a for a in gone if a not in source.axes and self.is_tiled(a)))
        where = tuple(axes.index(a) for a in gone if a in axes)
        text = self.masked(self.full(source, axes, dtype), axes, [axes[n] for n in where], neutral(op, dtype))
        remaining = tuple(a for a in axes if a not in gone)
        if where:
            text = f"{name_of(op, TABLE[op].public)}({text}, axis={where[0] if len(where) == 1 else where})"
        if where and better(TABLE[op]) and result.bits < 32:
            text += f".to(pto.{result.public})"  # the language has extremes in 32 bits
        if not any(a in self.program.loops for a in gone):
            return self.variable(self.stage(source), text, remaining, node)
        return self.accumulated(node, op, result, remaining, lambda name: combined(op, name, text))

    def scan(self, node: Node) -> Tile:
        source = self.operand(node, 0)
        axes = tuple(a for a in self.program.values[node] if self.is_tiled(a))
        text = self.full(source, axes, node.inputs[0].type.dtype)
        space = self.program.space
        (along,) = [a for a in axes if a in flat(ordered(node, space.values, space.reads))] or (None,)
        if along is None and node.has("positions"):
            return self.variable(0, "pto.full((), 0, pto.int32)", (), node)
        if along is None:
            return Tile(text, axes)
        if not node.has("sort"):
            return self.variable(self.stage(source), f"pto.{node.op}({text}, axis={axes.index(along)})", axes, node)
        dtype = node.inputs[0].type.dtype
        last = float("nan") if dtype.is_float else dtype.integer_range[0 if node.attr("descending") else 1]
        text = self.masked(text, axes, [along], last)
        how = ", descending=True" if node.attr("descending") else ""
        return self.variable(self.stage(source), f"pto.{node.op}({text}, {axes.index(along)}{how})", axes, node)

    def selection(self, node: Node) -> Tile:
        """Write a top-k: the positions of the greatest elements, on an axis that replaces the operand's."""
        source, values = self.operand(node, 0), self.program.values[node]
        line = self.program.reads.get((node, 0), self.program.values.get(node.inputs[0], ()))
        (along,) = [a for a in line if a not in values]
        (new_axis,) = [a for a in values if a not in line]
        axes = tuple(a for a in line if self.is_tiled(a))
        dtype = node.inputs[0].type.dtype
        least = float("nan") if dtype.is_float else dtype.integer_range[0]
        text = self.masked(self.full(source, axes, dtype), axes, [along], least)
        how = f"{node.attr('count')}, {axes.index(along)}, return_indices=True"
        result_axes = tuple(new_axis if a == along else a for a in axes)
        return self.variable(self.stage(source), f"pto.topk({text}, {how})[1]", result_axes, node)

    def running_maximum(self, node: Node) -> None:
        """Write the running maximum of an online softmax and the factor for its sums; a row of only -inf adds 0."""
        source = given = self.operand(node, 0)
        loop, dtype = self.program.loop, node.type.dtype
        assert loop is not None
        remaining = tuple(a for a in source.axes if a != loop)
        text = source.name
        if self.program.has_rest(loop):
            source = self.variable(1, self.masked(text, source.axes, [loop], -float("inf")), source.axes)
            self.tiles[node.inputs[0]] = source
        shape = tuple(self.program.tile_size(a) for a in remaining)
        widened = float32 if dtype.is_narrow else dtype  # the language has the extreme of a tile in 32 bits
        narrowed = f".to(pto.{dtype.public})" if dtype.is_narrow else ""
        self.put(0, f'most = pto.full({shape}, float("-inf"), pto.{widened.public})')
        self.put(1, f"new = pto.maximum(most, pto.max({source.name}, axis={source.axes.index(loop)}))", node)
        self.put(1, 'base = pto.where(new == float("-inf"), 0.0, new)')
        self.put(1, "scale = pto.exp(most - base)")
        self.put(1, "most = new")
        self.stages.update(base=1, scale=1, most=2)
        self.tiles[node] = self.variable(1, f"base{narrowed}", remaining) if narrowed else Tile("base", remaining)
        self.scale = Tile("scale", remaining)
        self.final[node] = self.variable(2, f"most{narrowed}", remaining) if narrowed else Tile("most", remaining)
        if self.program.online is not None and self.program.online.is_read_late and propagates_nan(node):
            self.final[node] = self.nan_tested(node, given, self.final[node])

    def store(self, node: Node) -> None:
        tile = self.final.get(node) or self.tiles[node]
        line = self.program.values[node]
        array = self.argument(node, line, True)
        stage = self.stage_along(line, self.within + 1)
        if stage == self.within and self.stage(tile) == self.within + 1:
            raise FusionConflict("a long axis would be gone through twice")
        self.accesses.append(Access(array.name, line, "write"))
        self.put_store(node, tile, array, stage)

    # --- the whole -------------------------------------------------------------------------------------------------

    def looped(self, lines: list[str]) -> list[str]:
        """Return lines in the program's nest of loops, or no lines if it has no loop."""
        loop, outer = self.program.loop, self.program.outer
        if not self.program.loops:
            return []
        heads = [f"for {self.indices[a][0]} in range(0, {self.size_text(a)}):" for a in outer]
        if loop is not None:
            heads.append(f"for k in range(0, {self.size_text(loop)}, {self.program.chunk}):")
        nest = [f"{'    ' * n}{head}" for n, head in enumerate(heads)]
        return [*nest, *(f"{'    ' * len(heads)}{line}" for line in lines)]

    def body(self) -> list[str]:
        """Return all lines after the program's indices."""
        before, first, between, second, after = self.lines
        last = self.looped(second) if second else []
        return [*before[self.heads :], *self.looped(first), *between, *last, *after]

    def condition(self, most: Mapping[int, int]) -> str:
        """Return the condition under which some axes have at most so many elements."""
        rests = {a: f"{self.size_text(a)} - {self.indices[a][0]}" for a in most if a in self.program.blocks}
        return " and ".join(f"{rests.get(a) or self.size_text(a)} <= {count}" for a, count in most.items())

    def text(self, versions: Sequence[tuple[Mapping[int, int], GroupWriter]] = ()) -> KernelText:
        """Return the kernel, with a second body for each shape version."""
        body = self.body()
        if versions:
            body = ["else:", *(f"    {line}" for line in body)]
        for most, writer in reversed(versions):
            word = "if" if most is versions[0][0] else "elif"
            body = [f"{word} {self.condition(most)}:", *(f"    {line}" for line in writer.body()), *body]
        body = [*self.extent_lines(), *self.lines[0][: self.heads], *body]
        given = tuple(self.arguments.values())
        source_text = "\n".join([f"({', '.join(x.name for x in given)}):", *(f"    {line}" for line in body)])
        sized = self.sized()
        options = options_text(sized, self.blocking)
        accesses = tuple(x for writer in (self, *(w for _, w in versions)) for x in writer.accesses)
        name = f"{self.program.form}_{hashlib.sha256((options + source_text).encode()).hexdigest()[:8]}"
        source = f"@pto.jit{options}\ndef {name}{source_text}\n"
        return KernelText(name, source, given, self.grid, self.program.form, sized, self.blocking, accesses)


_WRITERS: Final[Mapping[str, Callable[[GroupWriter, Node], Tile]]] = MappingProxyType(
    {
        **dict.fromkeys(("reshape", "permute", "broadcast_to", "copy"), GroupWriter.renamed),
        "dot": GroupWriter.product,
        "complex": GroupWriter.pair,
        "take": GroupWriter.take,
        "window": GroupWriter.window,
        "arange": GroupWriter.counted,
        "argtopk": GroupWriter.selection,
    }
)


def options_text(sized: tuple[str, ...], blocking: Blocking) -> str:
    """Return the arguments of a kernel's decorator."""
    options = []
    if sized:
        options.append(f"do_not_specialize={list(sized)}".replace("'", '"'))
    if blocking.overrides:
        options.append(f"blocking=pto.{blocking!r}")
    return f"({', '.join(options)})" if options else ""


def texts_of(parts: Partition, precision: str = "") -> list[KernelText | None]:
    """Write the kernels of a partition's groups; a group without a program gives None.

    Equal groups from the same lines share one text.
    """
    known: dict[Any, KernelText] = {}
    return [
        None if g.program is None else shared_text(parts.programs, g.program, precision, known) for g in parts.groups
    ]


def shared_text(programs: Programs, program: Program, precision: str, known: dict[Any, KernelText]) -> KernelText:
    """Write a program's kernel, or reuse the text of an equal group."""
    nodes = program.space.nodes
    key, outside = programs.key(nodes, program.space.outputs)
    lines = tuple(x.place and (x.place.line, getattr(x.place, "code", None)) for x in (*nodes, *outside))
    text = known.get((key, lines))
    if text is None:
        try:
            new = kernel_text(program, precision)
        except FusionConflict as conflict:
            raise NoKernel(nodes[-1].loc, op=nodes[-1].op, type=nodes[-1].type, problem=str(conflict)) from None
        known[key, lines] = with_nodes(new, {n: k for k, n in enumerate((*nodes, *outside))})
        return new
    return with_nodes(text, dict(enumerate((*nodes, *outside))))


def with_nodes(text: KernelText, others: Mapping[Any, Any]) -> KernelText:
    """Replace the nodes of a text's arguments."""
    return replace(text, arguments=tuple(replace(a, node=others[a.node]) for a in text.arguments))
