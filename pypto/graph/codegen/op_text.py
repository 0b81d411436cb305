"""The text of ops in the kernel language: elementwise ops, matrix products, and the tests for NaN that are redundant.

The op table's rows give operators, functions and numbers.

Redundant NaN test elimination omits the test after a maximum if every result is NaN without it. numpy's maximum is NaN
if any element is, which a node says by `propagate_nan`; the maximum of the kernel language ignores NaN. So a kernel
tests for NaN beside the maximum. In a softmax the test is redundant: the sum of the exponentials is NaN in such a row,
and so is every quotient. Legality: each array that the group stores, and that depends on the maximum, is NaN in all
its elements of such a row. Two properties prove this. An array is *strict* if it is NaN where the operand of the
maximum is. It is *poisoned* if it is NaN in whole rows: the sum of a strict array along a row is poisoned, and so is
the result of arithmetic on a poisoned array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from pypto.frontend.operators import OPERATORS
from pypto.graph.codegen.writer import Tile, Writer, number_text
from pypto.graph.ir import type_rules
from pypto.graph.ir.node import Node
from pypto.graph.ir.type_rules import better, is_strict
from pypto.graph.schedule.index_space import Dim, FusionConflict, IndexSpace, flat, operand, reduced_axes
from pypto.ir.types import DType, float32
from pypto.ops.row import Reduction
from pypto.ops.table import TABLE

_CASTS: Final = {"cast": "", "bitcast": ", bitcast=True"}  # what `to` is given besides the type
SYMBOLS: Final = {row: symbol for symbol, _, row in OPERATORS.values() if row}


def call_text(node: Node, operands: list[str]) -> str:
    """Print an elementwise op on the texts of its operands."""
    numbers = [x.is_constant for x in node.inputs]
    values = numbers[1:] if node.op == "where" else numbers
    if all(values) and values:  # a number alone has no type
        first = node.inputs[-1]
        operands = [*operands[:-1], f"pto.full((), {operands[-1]}, pto.{first.type.dtype.public})"]
    return rounded(node, written(node, operands))


def written(node: Node, operands: list[str]) -> str:
    row = TABLE[node.op]
    if node.op in _CASTS:
        return f"{operands[0]}.to(pto.{node.attr('dtype').public}{_CASTS[node.op]})"
    if node.op in SYMBOLS and len(operands) == 2:
        symbol = SYMBOLS[node.op]
        first = f"({operands[0]})" if symbol == "**" and operands[0].startswith("-") else operands[0]
        return f"{first} {symbol} {operands[1]}"  # `**` alone binds closer than the minus of a number
    if node.op in SYMBOLS:
        return f"{SYMBOLS[node.op]}{operands[0]}"
    options = [f"{name} = {value!r}".replace(" ", "") for name, value in node.attrs if value is not False]
    return f"{name_of(node.op, row.public)}({', '.join((*operands, *options))})"


def name_of(op: str, public: bool) -> str:
    """Return the name of an op in the kernel language."""
    from pypto import language
    from pypto.language import libdevice

    if public and hasattr(language, op):
        return f"pto.{op}"
    if hasattr(libdevice, op):
        return f"libdevice.{op}"
    raise FusionConflict(f"{op} has no name in the kernel language")


def rounded(node: Node, text: str) -> str:
    """Cast a result to the type of the node: the language divides narrow floats in float32."""
    if node.op == "div" and node.type.dtype.is_narrow:
        return f"({text}).to(pto.{node.type.dtype.public})"
    return text


def combined(op: str, a: str, b: str) -> str:
    """Print the combination of two partial results of a reduction."""
    rule = TABLE[op].lane_rule
    if not isinstance(rule, Reduction):
        raise FusionConflict(f"{op} cannot be computed by pieces")
    if rule.tile_op in SYMBOLS:
        return f"{a} {SYMBOLS[rule.tile_op]} {b}"
    return f"{name_of(rule.tile_op, TABLE[rule.tile_op].public)}({a}, {b})"


def neutral(op: str, dtype: DType) -> float | int | bool:
    """Return the neutral element with which a reduction begins."""
    try:
        return type_rules.neutral(TABLE[op], dtype)
    except LookupError as error:
        raise FusionConflict(str(error)) from None


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


RENAMING: Final = frozenset({"reshape", "broadcast_to", "copy"})  # elements stay at their axes


def propagates_nan(node: Node) -> bool:
    """Whether a reduction propagates NaN although the reduction of the kernel language ignores it."""
    return bool(dict(node.attrs).get("propagate_nan")) and "reduction" in TABLE[node.op].traits


def is_of_magnitudes(node: Node) -> bool:
    """Whether a reduction is the maximum of float32 magnitudes."""
    (x,) = node.inputs
    is_magnitude = x.op in TABLE and "magnitude" in TABLE[x.op].traits
    return is_magnitude and x.type.dtype == float32 and better(TABLE[node.op]) == "gt"


def is_redundant(space: IndexSpace, extreme: Node) -> bool:
    """Whether a NaN test is redundant: without it, all stored arrays that depend on the result are NaN as well."""
    row = set(reduced_axes(extreme, space.values, space.reads))
    line = flat(operand(extreme, 0, space.values, space.reads))
    source = extreme.inputs[0]
    dependent, strict, poisoned = {extreme}, set[Node](), set[Node]()
    for node in space.nodes:
        if any(x in dependent for x in node.inputs):
            dependent.add(node)
        if node.op == "sum":
            along = set(reduced_axes(node, space.values, space.reads))
            if along == row and node.inputs[0] in strict:
                poisoned.add(node)
        elif node.op in RENAMING or is_strict_node(node):
            if any(x in poisoned for x in node.inputs):
                poisoned.add(node)
            reads_source = any(
                x is source and flat(operand(node, n, space.values, space.reads)) == line
                for n, x in enumerate(node.inputs)
            )
            if reads_source or any(x in strict for x in node.inputs):
                strict.add(node)
    return all(node in poisoned for node in space.outputs if node in dependent)


def is_strict_node(node: Node) -> bool:
    """Whether a node is NaN if any operand is NaN."""
    is_rounding = node.op == "cast" and node.type.dtype.is_float and node.inputs[0].type.dtype.is_float
    return is_rounding or is_strict(node.op)
