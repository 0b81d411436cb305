"""Transposed attention: a loop that reduces the rows of a product, and multiplies the result, works on its transpose.

Rows of the scores S = Q K^T then lie along the lanes: a row's maximum and sum are one lane, reductions add registers
and no lanes, keys and values are read in place, and the queries are packed once: S^T = K Q^T, and O^T += V^T P^T.

Legality: all that is computed from the scores is elementwise, reduces their rows, or multiplies them, so that each
element is computed from the same numbers in the same order. What else takes part is as cheap to read transposed.

    %s = dot %q, %kt                               %st = dot %k, %qt
    %top = max %s, axes [1]              ->        %top = max %st, axes [0]
    %p = sub %s, broadcast %top                    %pt = sub %st, broadcast %top
    %o = dot %p, %v, %acc                          %ot = dot %vt, %pt, %acct
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ops.build import OpBuilder
from pypto.ops.table import REDUCTIONS, TABLE
from pypto.passes.analysis.carried import carried
from pypto.passes.analysis.dot_facts import is_unpacked_narrow, packing_factor
from pypto.passes.dce import dce
from pypto.passes.swap_operands import TRANSPOSE_DIMS, transpose, transposed_type
from pypto.passes.target_facts import TargetFacts

Uses = defaultdict[Value, list[Op]]


def transpose_attention(function: Function, target: TargetFacts) -> Function:
    """The function with such loops on transposed scores."""
    uses: Uses = defaultdict(list)
    for op in function.walk():
        for v in op.operands:
            uses[v].append(op)
    loops = (op for op in function.walk() if op.name == "for")
    candidates = {op: next(score_products(op, uses, target), None) for op in loops}
    scores = {op: product for op, product in candidates.items() if product is not None}
    return dce(rewrite(function, TransposeScores(scores), OpBuilder)) if scores else function


def score_products(loop: Op, uses: Uses, target: TargetFacts) -> Iterator[ScoreProduct]:
    """The score products of a loop: one operand is invariant in the loop."""
    region = loop.regions[0]
    for op in region.body:
        if op.name == "dot" and len(op.operands) == 2 and is_profitable(op, region, target):
            scores = ScoreProduct(loop, op)
            if (
                scores.trace(op.result, uses)
                and scores.row_reductions
                and all(map(scores.is_cheap_transposed, scores.side_inputs))
            ):
                yield scores


def is_profitable(dot: Op, region: Region, target: TargetFacts) -> bool:
    """Whether there are enough query rows, invariant in the loop, and the keys are a transposed row-major tile."""
    a, b = dot.operands
    if not is_unpacked_narrow(dot, target) and (packing_factor(dot, target) != 2 or target.has_amx):
        return False
    return (
        len(a.shape) == 2
        and a.shape[0] >= target.products.transposed_rows
        and a.op not in region.ops
        and a not in region.args
        and is_transpose(b)
    )


def is_transpose(v: Value) -> bool:
    """Whether a value is the transpose of a matrix."""
    return v.op is not None and v.op.name == "permute" and v.op.attrs["dims"] == TRANSPOSE_DIMS


@dataclass(eq=False)
class ScoreProduct:
    """A product in a loop, with everything that is computed from it element by element, or multiplied.

    `members` are these values, `row_reductions` the reductions of its rows. `side_inputs` are the members' other
    operands.
    """

    loop: Op
    dot: Op
    members: set[Value] = field(default_factory=set)
    row_reductions: list[Op] = field(default_factory=list)
    side_inputs: list[Value] = field(default_factory=list)

    def trace(self, v: Value, uses: Uses) -> bool:
        """Whether every reader of a value can read it transposed."""
        if v in self.members:
            return True
        self.members.add(v)
        return all(self.can_read_transposed(op, v, uses) for op in uses[v])

    def can_read_transposed(self, op: Op, v: Value, uses: Uses) -> bool:
        """Whether `TransposeScores` can write an op with this operand transposed.

        The dimension relation in `dimensions` says where each dimension comes from, not that an op can be written with
        its dimensions swapped; so the ops that can are named here.
        """
        region = self.loop.regions[0]
        if op not in region.ops:
            return False
        if op.name == "yield":
            args = carried(self.loop, region)
            return all(self.trace(arg, uses) for arg, x in zip(args, op.operands, strict=True) if x is v)
        if op.name in REDUCTIONS and op.attrs["axes"] == (1,):
            self.row_reductions.append(op)
            return True
        if op.name == "dot":
            return v is not op.operands[1] and self.trace(op.result, uses)
        self.side_inputs += op.operands
        return TABLE[op.name].elementwise and self.trace(op.result, uses)

    def is_cheap_transposed(self, v: Value) -> bool:
        """Whether a tile costs no more when it is computed transposed."""
        if v in self.members or not v.shape:
            return True
        if v.op is None or v.op.name in ("constant", "broadcast_to"):
            return v.op is not None
        return TABLE[v.op.name].elementwise and all(map(self.is_cheap_transposed, v.op.operands))


@dataclass
class TransposeScores:
    """The rewrite: members are computed transposed, and transposed back for all other readers."""

    loops: dict[Op, ScoreProduct]
    transposed: dict[Value, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.members = {v for scores in self.loops.values() for v in scores.members}
        self.row_reductions = {op for scores in self.loops.values() for op in scores.row_reductions}
        self.terminators = {op.regions[0].terminator: op for op in self.loops}

    def __call__(self, rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op in self.loops:
            return self.rewrite_loop(rewriter, op)
        if op in self.terminators:
            args = carried(self.terminators[op], self.terminators[op].regions[0])
            pairs = zip(args, op.operands, strict=True)
            return rewriter.builder.create(
                "yield", tuple(self.carried_value(rewriter, arg, v) for arg, v in pairs)
            ).results
        if op in self.row_reductions:
            return self.rewrite_reduction(rewriter, op)
        if not op.results or op.results[0] not in self.members:
            return None
        sides = reversed(op.operands[:2]) if op.name == "dot" else op.operands[:2]
        operands = [self.transposed_value(rewriter, v) for v in (*sides, *op.operands[2:])]
        new = rewriter.builder.create(op.name, tuple(operands), op.attrs, (transposed_type(op.results[0]),)).result
        self.transposed[op.results[0]] = new
        return (transpose(rewriter, new),)

    def rewrite_loop(self, rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
        """The loop that carries transposed members; its invariant operand is transposed once, before it."""
        old = op.regions[0]
        dot = self.loops[op].dot
        first = rewriter.operands(op)[:3]
        args = carried(op, old)
        initial = [self.carried_value(rewriter, arg, v) for arg, v in zip(args, op.operands[3:], strict=True)]
        self.transposed[dot.operands[0]] = transpose(rewriter, rewriter.value(dot.operands[0]))
        region = Region([Value(transposed_type(a) if a in self.members else a.type, a.hint) for a in old.args])
        with rewriter.builder.inside(region):
            for a, new in zip(old.args, region.args, strict=True):
                self.transposed.update({a: new} if a in self.members else {})
                rewriter.mapping[a] = transpose(rewriter, new) if a in self.members else new
            for inner in old.ops:
                rewriter.visit(inner)
        types = tuple(a.type for a in region.args[len(region.args) - len(args) :])
        results = rewriter.builder.create(op.name, (*first, *initial), op.attrs, types, (region,)).results
        return [transpose(rewriter, v) if a in self.members else v for a, v in zip(args, results, strict=True)]

    def carried_value(self, rewriter: Rewriter[OpBuilder], arg: Value, v: Value) -> Value:
        """A carried value, transposed where it is a member."""
        return self.transposed_value(rewriter, v) if arg in self.members else rewriter.value(v)

    def rewrite_reduction(self, rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
        """The reduction of columns in place of rows; with `keep_dims` the unit dimension moves."""
        kind = op.result.tile
        keeps = op.attrs["keep_dims"]
        kind = kind.with_shape(kind.shape[::-1]) if keeps else kind
        operands = (self.transposed_value(rewriter, op.operands[0]),)
        attrs = {**op.attrs, "axes": (0,)}
        new = rewriter.builder.create(op.name, operands, attrs, (kind,)).result
        return (swap_unit_dims(rewriter, new) if keeps else new,)

    def transposed_value(self, rewriter: Rewriter[OpBuilder], v: Value) -> Value:
        """The transpose of a value, computed transposed where that is free."""
        if v in self.transposed or not v.shape:
            return self.transposed.get(v) or rewriter.value(v)
        op = v.op
        make = rewriter.builder.create
        if op is not None and is_transpose(v):
            return rewriter.value(op.operands[0])
        if op is None or not (op.name in ("constant", "broadcast_to") or TABLE[op.name].elementwise):
            return transpose(rewriter, rewriter.value(v))
        if op.name == "broadcast_to":
            source = rewriter.value(op.operands[0])
            parts: Iterable[Value] = (swap_unit_dims(rewriter, source) if source.shape else source,)
        else:
            parts = (self.transposed_value(rewriter, x) for x in op.operands)
        attrs = {**op.attrs, "shape": v.shape[::-1]} if "shape" in op.attrs else op.attrs
        return make(op.name, tuple(parts), attrs, (transposed_type(v),)).result


def swap_unit_dims(rewriter: Rewriter[OpBuilder], v: Value) -> Value:
    """A tile of one row as one of one column, or the other way around."""
    return rewriter.builder.create("reshape", (v,), {"shape": v.shape[::-1]}, (transposed_type(v),)).result
