"""The writer of kernel lines: grid indices, array arguments, loads and tiles.

A kernel of a plan is a source text. The front end parses it like the function of a user, so every tool for kernels
works on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pypto.blocking import AUTO, Blocking
from pypto.graph.ir.dims import ceil_div, is_fixed, quotient
from pypto.graph.ir.node import Node
from pypto.graph.ir.types import COMPLEX, contiguous, part_type
from pypto.graph.schedule.index_space import Dim, FusionConflict, Use
from pypto.graph.schedule.tiling import Program
from pypto.ir.types import DType
from pypto.jit.generated import MODULES


def number_text(value: float | int | bool, dtype: DType) -> str:
    """Print a number as source of a kernel."""
    if dtype.is_float and not math.isfinite(value):
        return f'float("{value}")'
    if dtype.bits <= 32 and dtype.is_float:
        return str(np.float32(value))
    return repr(value)


@dataclass(frozen=True, slots=True)
class Argument:
    """An array argument of a kernel: a node's array in the shape of the program's axes."""

    name: str
    node: Node
    shape: tuple[int, ...]
    is_output: bool = False

    @property
    def is_pair(self) -> bool:
        """Whether it is a complex array, which the kernel has as floats, with a last dimension of size 2."""
        return self.node.type.dtype in COMPLEX


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store of an array in a kernel, recorded so that passes need not parse the source.

    Parameters
    ----------
    array : str
        The name of the argument.
    axes : tuple of int or None
        For each dimension the program axis that indexes it with the program's elements, or None for another index: a
        number, an element of an array, or an axis plus an offset.
    mode : "read" or "write"
    """

    array: str
    axes: tuple[int | None, ...]
    mode: Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class KernelText:
    """The source of a kernel, with its arguments, grid and accesses."""

    name: str
    source: str
    arguments: tuple[Argument, ...]
    grid: tuple[int, ...]
    form: str
    sized: tuple[str, ...] = ()  # arguments with a dimension whose size is known at the launch
    blocking: Blocking = AUTO
    accesses: tuple[Access, ...] = ()


@dataclass(slots=True)
class Tile:
    """A variable of the kernel that holds a tile, with its axes in order; `second` is a pair's other part."""

    name: str
    axes: Dim
    second: Tile | None = None


@dataclass(slots=True)
class Writer:
    """Collects the lines of a kernel in five stages: before, in and after its first loop, in and after its second."""

    program: Program
    precision: str = ""
    blocking: Blocking = AUTO
    lines: tuple[list[str], ...] = field(default_factory=lambda: ([], [], [], [], []))
    within: int = 1  # the stage of the loop that is being written
    tiles: dict[Node, Tile] = field(default_factory=dict)
    stages: dict[str, int] = field(default_factory=dict)  # of variables: before, in or after a loop
    loads: dict[Any, Tile] = field(default_factory=dict)
    arguments: dict[Any, Argument] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    indices: dict[int, tuple[str, str]] = field(default_factory=dict)  # of axes: as an index, and as a slice
    carried: list[str] = field(default_factory=list)
    extents: dict[int, str] = field(default_factory=dict)  # of axes whose size is known at the launch: a variable
    grid: tuple[int, ...] = ()
    scale: Tile | None = None  # of an online softmax
    final: dict[Node, Tile] = field(default_factory=dict)  # forms of its maximum behind the loop
    count: int = 0
    steps: Mapping[int, int] | None = None  # from program to program along axes of the grid, where not their blocks
    heads: int = 0  # lines that say which elements a program has

    def __post_init__(self) -> None:
        self.write_indices()
        self.heads = len(self.lines[0])

    # --- programs --------------------------------------------------------------------------------------------------

    def write_indices(self) -> None:
        """Write the lines that compute the program's elements along every axis."""
        p = self.program
        self.steps = p.blocks if self.steps is None else self.steps
        counts = {a: ceil_div(p.sizes[a], step) for a, step in self.steps.items()}
        shared = [a for a in self.grid_order() if counts[a] != 1]
        first, others = (shared[:2], shared[2:]) if len(shared) > 3 else (shared[:3], [])
        sizes = [counts[a] for a in first]
        names = {a: f"pto.program_id({n})" for n, a in enumerate(first)}
        if others:
            total, divisors = 1, list[str]()
            for a in others:
                count = self.count_text(a)
                names[a] = " ".join(["pto.program_id(2)", *(f"// {text}" for text in divisors), "%", count])
                total *= counts[a]
                divisors.append(count)
            sizes.append(total)
        self.grid = tuple(sizes) or (1,)
        for n, a in enumerate(shared):
            block, step = p.blocks[a], self.steps[a]
            name = f"i{n}"
            self.put(0, f"{name} = {names[a]}" + (f" * {step}" if step > 1 else ""))
            self.indices[a] = name, f"{name} : {name} + {block}" if block > 1 else name
        for n, a in enumerate(p.outer):
            self.indices[a] = f"g{n}", f"g{n}"
        for a in p.sizes:
            if a == p.loop:
                self.indices[a] = "k", f"k : k + {p.chunk}"
            elif a not in self.indices:
                self.indices[a] = "0", ":" if is_fixed(p.sizes[a]) else f"0 : {p.tile_size(a)}"

    def size_text(self, axis: int) -> str:
        """Return the size of an axis: a number, or a variable for a dynamic size."""
        size = self.program.sizes[axis]
        if is_fixed(size):
            return str(size)
        return self.extents.setdefault(axis, f"n{len(self.extents)}")

    def count_text(self, axis: int) -> str:
        """Return the number of blocks of an axis as text."""
        block = (self.steps or self.program.blocks)[axis]
        size = self.program.sizes[axis]
        if is_fixed(size):
            return str(ceil_div(size, block))
        return f"(({self.size_text(axis)} + {block - 1}) // {block})" if block > 1 else self.size_text(axis)

    def extent_lines(self) -> list[str]:
        """Return the lines that define the variables of dynamic sizes, from shapes of arguments."""
        lines = []
        for axis, name in self.extents.items():
            array, line = next((x, line) for (_, line, _), x in self.arguments.items() if axis in line)
            lines.append(f"{name} = {array.name}.shape[{line.index(axis)}]")
        return lines

    def sized(self) -> tuple[str, ...]:
        """Return the arguments that have a dynamic dimension."""
        sizes = self.program.sizes
        rows = self.arguments.items()
        shapes = ((x, (*x.shape, *(sizes[a] for a in line))) for (_, line, _), x in rows)
        return tuple(x.name for x, shape in shapes if not all(map(is_fixed, shape)))

    def grid_order(self) -> list[int]:
        """Return the axes of the grid, the fastest varying first."""
        axes = list(self.program.blocks)
        if self.program.form in ("product", "chain"):
            blocked = [a for a in axes if self.program.blocks[a] > 1]
            return [*blocked, *(a for a in reversed(axes) if a not in blocked)]
        return axes[::-1]

    def moved_index(self, axis: int, by: int) -> str:
        """Return the subscript of a program's elements along an axis, plus a constant offset."""
        first, _ = self.indices[axis]
        if first == "0":
            return f"{by} : {by + self.program.tile_size(axis)}"
        moved = first if by == 0 else f"{first} {'-' if by < 0 else '+'} {abs(by)}"
        return f"{moved} : {moved} + {self.program.tile_size(axis)}" if self.is_tiled(axis) else moved

    def is_tiled(self, axis: int) -> bool:
        """Whether an axis is a dimension of tiles instead of a scalar index."""
        return axis == self.program.loop or (axis not in self.program.outer and self.program.blocks.get(axis, 2) > 1)

    def stage_along(self, axes: Iterable[int], after: int = 0) -> int:
        """Return the stage of a line that depends on some axes: the current loop if it runs along one of them."""
        loops = self.program.loops
        return self.within if any(a in loops for a in axes) else after

    def put(self, stage: int, line: str, node: Node | None = None) -> None:
        place = f"  # {Path(node.loc.file).name}:{node.loc.line}" if node is not None and node.place is not None else ""
        self.lines[stage].append(line + place)

    def variable(self, stage: int, text: str, axes: Dim, node: Node | None = None) -> Tile:
        name = f"t{self.count}"
        self.count += 1
        self.put(stage, f"{name} = {text}", node)
        self.stages[name] = stage
        return Tile(name, axes)

    def stage(self, *tiles: Tile) -> int:
        """Return the stage of a line that reads some tiles."""
        names = [part.name for t in tiles for part in (t, t.second) if part is not None]
        last = max((self.stages.get(name, 0) for name in names), default=0)
        if any(stage % 2 and stage < last for stage in (self.stages.get(name, 0) for name in names)):
            raise FusionConflict("a long axis would be gone through twice")
        return last

    # --- arrays ----------------------------------------------------------------------------------------------------

    def argument(self, node: Node, line: Dim, is_output: bool = False) -> Argument:
        key = node.number, line, is_output
        if key not in self.arguments:
            shape = tuple(self.program.sizes[a] for a in line) or (1,)
            kind = "out" if is_output else "a"
            number = sum(1 for x in self.arguments.values() if x.is_output == is_output)
            self.arguments[key] = Argument(f"{kind}{number}", node, shape, is_output)
        return self.arguments[key]

    def reads(self, array: Argument, axes: Iterable[int | None]) -> None:
        """Record that the next line reads an argument."""
        self.accesses.append(Access(array.name, tuple(axes), "read"))

    def subscript(self, line: Dim) -> str:
        return ", ".join(self.indices[a][1] for a in line) or "0"

    def load(self, node: Node, number: int) -> Tile:
        """Load an operand from outside of the group."""
        line = self.program.reads[node, number]
        array = self.argument(node.inputs[number], line)
        if array.name not in self.loads:
            axes = tuple(a for a in line if self.is_tiled(a))
            stage = self.stage_along(line)
            self.reads(array, line)
            if array.is_pair:
                parts = [self.variable(stage, self.loaded(array, line, part, (node, number)), axes) for part in (0, 1)]
                self.loads[array.name] = Tile(parts[0].name, axes, parts[1])
            elif (node, number) in self.program.adjacent:
                self.loads[array.name] = self.variable(stage, self.loaded(array, line, 0, (node, number)), axes)
            else:
                self.loads[array.name] = self.variable(stage, f"{array.name}[{self.subscript(line)}]", axes)
        return self.loads[array.name]

    def loaded(self, array: Argument, line: Dim, part: int, use: Use) -> str:
        """Return the load of a part of a complex array."""
        steps = [f"{array.name}.strides[{n}]" for n in range(len(line))]
        if line and use in self.program.adjacent:
            steps[-1] = "2"
        pointer, mask = self.pointer(array, line, steps, part)
        return f"pto.load({pointer}{mask}{', other=0' if mask else ''})"

    def pointer(self, array: Argument, line: Dim, steps: list[str], part: int) -> tuple[str, str]:
        """Return the addresses of a tile's elements, and the mask of those that exist, as an argument."""
        axes = tuple(a for a in line if self.is_tiled(a))
        terms, masks = [str(part)] if part else [], []
        for a, step in zip(line, steps, strict=True):
            first, _ = self.indices[a]
            if not self.is_tiled(a):
                terms += [f"{first} * {step}"] if first != "0" else []
                continue
            size = self.program.tile_size(a)
            index = f"pto.arange(0, {size})" if first == "0" else f"({first} + pto.arange(0, {size}))"
            index = self.aligned(Tile(index, (a,)), axes)
            terms.append(f"{index} * {step}")
            if quotient(self.program.sizes[a], size) is None:
                masks.append(f"({index} < {self.size_text(a)})")
        return " + ".join([array.name, *terms]), f", mask={' & '.join(masks)}" if masks else ""

    def operand(self, node: Node, number: int) -> Tile:
        x = node.inputs[number]
        if x.is_constant:
            return Tile(number_text(x.attr("value"), x.type.dtype), ())
        online = self.program.online
        if online is not None and (online.is_late(node, x) or (self.within > 1 and x in self.final)):
            return self.final[x]
        return self.load(node, number) if (node, number) in self.program.reads else self.tiles[x]

    def pair(self, node: Node) -> Tile:
        """Return the tiles of a complex array's parts, which differ in their axes where one of them repeats."""
        real, imag = (self.operand(node, n) for n in (0, 1))
        return Tile(real.name, real.axes, Tile(imag.name, imag.axes))

    def put_store(self, node: Node, tile: Tile, array: Argument, stage: int) -> None:
        """Write the store of a tile; the two parts of a complex array are neighbours in memory."""
        line = self.program.values[node]
        axes = tuple(a for a in line if self.is_tiled(a))
        if tile.second is None:
            text = self.full(tile, axes, node.type.dtype)
            self.put(stage, f"{array.name}[{self.subscript(line)}] = {text}", node)
            return
        strides = contiguous(tuple(self.program.sizes[a] for a in line))
        steps = [str(2 * n) if is_fixed(n) else f"{array.name}.strides[{d}]" for d, n in enumerate(strides)]
        for number, part in enumerate((tile, tile.second)):
            pointer, mask = self.pointer(array, line, steps, number)
            text = self.full(Tile(part.name, part.axes), axes, part_type(node.type.dtype))
            self.put(stage, f"pto.store({pointer}, {text}{mask})", node)

    def aligned(self, tile: Tile, axes: Dim) -> str:
        """Permute a tile to an order of axes, with size 1 for axes that it does not have."""
        if not tile.axes or tile.axes == axes:
            return tile.name
        order = tuple(a for a in axes if a in tile.axes)
        text = tile.name
        if order != tile.axes:
            text = f"pto.permute({text}, {tuple(tile.axes.index(a) for a in order)})"
        if order == axes:
            return text
        return f"{text}[{', '.join(':' if a in order else 'None' for a in axes)}]"

    def full(self, tile: Tile, axes: Dim, dtype: DType) -> str:
        """Broadcast a tile to the full extent of some axes."""
        shape = tuple(self.program.tile_size(a) for a in axes)
        if set(tile.axes) == set(axes):
            return self.aligned(tile, axes)
        if not tile.axes:
            return f"pto.full({shape}, {tile.name}, pto.{dtype.public})" if shape else tile.name
        return f"pto.broadcast_to({self.aligned(tile, axes)}, {shape})"


def full_source(text: KernelText) -> str:
    """Return a kernel's source with its imports, as a complete file."""
    return f"{imports(text.source)}\n\n{text.source}"


def imports(source: str) -> str:
    """Return the imports that the source of kernels needs."""
    used = [name for name in MODULES if f"{name}." in source]
    return "import pypto as pto\n" + (f"from pypto.language import {', '.join(used)}\n" if used else "")
