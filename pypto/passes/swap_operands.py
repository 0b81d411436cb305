"""Operand swap: C = A B is computed as C^T = B^T A^T where all programs share A and each has its own B.

Convolutions are such products. A is then the side that lies in panels, packed once, and B is read in place: its columns
are rows of C^T, so that registers hold rows of A alone, and no lanes are spent on columns behind B's edge.

Legality: every element of the result adds the same products in the same order. A chain of products that accumulate is
swapped as a whole, so that its sum is transposed once. Columns of B that no store takes are not loaded.

    %c = dot %a, %b        ->        %bt = permute %b [1, 0]
                                     %at = permute %a [1, 0]
                                     %ct = dot %bt, %at
                                     %c = permute %ct [1, 0]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import TileType
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.passes.analysis.dimensions import is_unit_reshape, matching_dim
from pypto.passes.analysis.dot_facts import in_place_operand, is_grid_invariant, is_unpacked_narrow
from pypto.passes.dce import dce
from pypto.passes.target_facts import TargetFacts

TRANSPOSE_DIMS: Final = (1, 0)


def swap_operands(function: Function, target: TargetFacts) -> Function:
    """The function with such products swapped."""
    rule = SwapOperands(function, tuple(swappable_chains(function, target)))
    return dce(rewrite(function, rule, OpBuilder)) if rule.dots else function


def swappable_chains(function: Function, target: TargetFacts) -> Iterator[Op]:
    """Chains of products that begin with a constant accumulator and are deep enough together."""
    dots = [op for op in function.body.ops if op.name == "dot" and len(op.results[0].shape) == 2]
    if not any(map(in_place_operand, (v for op in dots for v in op.operands[:1]))):
        return
    uses = Counter(v for op in function.walk() for v in op.operands)
    chains: dict[Op, list[Op]] = {}
    for op in dots:
        before = op.operands[2].op if len(op.operands) > 2 else None
        begins = len(op.operands) == 2 or (before is not None and before.name == "constant")
        follows = before in chains and uses[op.operands[2]] == 1
        if (begins or follows) and is_profitable(function, op, target):
            chains[op] = [*(chains.pop(before) if follows and before is not None else ()), op]
    for chain in chains.values():
        least = target.products.swapped_chain_k if len(chain) > 1 else target.products.swapped_k
        if sum(op.operands[0].shape[1] for op in chain) >= least:
            yield from chain


def is_profitable(function: Function, dot: Op, target: TargetFacts) -> bool:
    """Whether A is the same for all programs, and B is not."""
    a, b = dot.operands[:2]
    left = in_place_operand(a)
    right = in_place_operand(b)
    if (
        left is None
        or right is None
        or left[0].transposed
        or right[0].transposed
        or not is_unpacked_narrow(dot, target)
    ):
        return False
    limits = target.products
    fits = min(a.shape[0], b.shape[1]) > limits.column_rows and a.shape[1] <= limits.column_k
    return fits and is_grid_invariant(function, left[0]) and not is_grid_invariant(function, right[0])


@dataclass
class SwapOperands:
    """The rule: a product becomes the transpose of the product of its transposed operands in swapped order."""

    function: Function
    dots: tuple[Op, ...]
    transposed: dict[Value, Value] = field(default_factory=dict)
    load_limits: dict[Op, tuple[int, Access, int]] = field(default_factory=dict)  # of loads, by the store of the sum

    def __post_init__(self) -> None:
        uses = Counter(v for op in self.function.walk() for v in op.operands)
        reshapes = {op.operands[0]: op for op in self.function.body.ops if op.name == "reshape" and is_unit_reshape(op)}
        stores = {Access.of(op).value: Access.of(op) for op in self.function.body.ops if op.name == "tile_store"}
        for op in self.dots:
            last = self.chain_end(op).results[0]
            stored = reshapes[last].results[0] if last in reshapes else last
            side = in_place_operand(op.operands[1])
            store = stores.get(stored)
            if side is None or store is None or any(uses[v] != 1 for v in (last, stored, side[0].load.results[0])):
                continue
            d = matching_dim(stored.shape, last.shape, 1)
            if d is not None:
                self.load_limits[side[0].load] = side[0].columns, store, d

    def chain_end(self, op: Op) -> Op:
        after = next((x for x in self.dots if op.results[0] in x.operands[2:]), None)
        return op if after is None else self.chain_end(after)

    def __call__(self, rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op in self.load_limits:
            return self.clip_load(rewriter, op)
        return self.swap(rewriter, op) if op in self.dots else None

    def swap(self, rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
        a, b, *_ = rewriter.operands(op)
        sides = [transpose(rewriter, b), transpose(rewriter, a)]
        for old in op.operands[2:]:
            sides.append(self.transposed.get(old) or transposed_constant(rewriter, old))
        kind = transposed_type(op.results[0])
        new = rewriter.builder.create("dot", tuple(sides), op.attrs, (kind,)).result
        self.transposed[op.results[0]] = new
        return (transpose(rewriter, new),)

    def clip_load(self, rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
        """A load of B, whose columns end where the store of the sum ends."""
        d, store, at = self.load_limits[op]
        operands = list(rewriter.operands(op))
        b = rewriter.builder
        access = Access.of(op)
        size = b.emit("sub", rematerialize(rewriter, store.extents[at]), rematerialize(rewriter, store.offsets[at]))
        end = b.emit("add", size, rewriter.value(access.offsets[d]))
        place = 1 + 2 * len(access.shape) + d
        operands[place] = b.emit("minimum", operands[place], end, propagate_nan=False)
        return b.create(op.name, tuple(operands), op.attrs, (op.results[0].type,)).results


def transposed_type(v: Value) -> TileType:
    return v.tile.with_shape(v.shape[::-1])


def transpose(rewriter: Rewriter[OpBuilder], v: Value) -> Value:
    return rewriter.builder.create("permute", (v,), {"dims": TRANSPOSE_DIMS}, (transposed_type(v),)).result


def transposed_constant(rewriter: Rewriter[OpBuilder], v: Value) -> Value:
    assert v.op is not None
    return rewriter.builder.create("constant", (), v.op.attrs, (transposed_type(v),)).result


def rematerialize(rewriter: Rewriter[OpBuilder], v: Value) -> Value:
    """A scalar that may be defined only later, computed here."""
    if v in rewriter.mapping or v.op is None:
        return rewriter.value(v)
    operands = tuple(rematerialize(rewriter, x) for x in v.op.operands)
    return rewriter.builder.create(v.op.name, operands, v.op.attrs, (v.type,)).result
