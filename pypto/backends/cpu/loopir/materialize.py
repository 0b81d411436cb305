"""Materialisation: decides which tiles get a buffer; all others are inlined into their readers (rematerialisation).

A tile gets a buffer when a reader needs all of it (a dot, a loop, a reshape), when computing it again for a second
reader costs more than memory, when expressions grow too deep, or when a store might overwrite the array that a load
reads before its last reader. Inlining saves the memory and its traffic; it is legal for ops whose elements can be
computed one by one.

    %m = max %x                                        %x: inlined, a load costs less than a buffer
    %e = exp (%x - %m)                                 %e: 10 per element and two readers: a buffer b0
    %s = sum %e                                        %m, %s: scalars
    tile_store %y, %e / %s                             the division: inlined into the store
becomes
    reduce max | compute exp -> b0, reduce sum | store
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pypto.backends.cpu.loopir.index_maps import GATHERING, is_inlinable, is_tile, tile_operands
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.techniques import is_enabled
from pypto.ir.core import Function, Op, Region, Value
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.analysis.dimensions import is_unit_reshape
from pypto.passes.analysis.dot_facts import packs_transposed, values_read_by_dot
from pypto.passes.analysis.memory_effects import is_same_access, may_alias, writes_memory

_MAX_EXPR_DEPTH = 64  # inlined ops one inside the other: emission is recursive
_MAX_RECOMPUTED_COST = 4  # simple lane instructions that are cheaper to repeat for a second reader than a load
_FUNCTION_COST = 10  # of one transcendental function
_MIN_COLUMN = 8  # elements from which a vector of functions pays for its buffer
_MAX_OPERAND_COST = 1000  # cost of operands is capped, since it doubles along a chain of squares


@dataclass
class Materialization:
    """The decision, and the facts about a function that scheduling asks for.

    Positions number the ops in program order, a control op before the ops of its regions.
    """

    function: Function
    target: CpuTarget
    uses: dict[Value, list[Op]] = field(default_factory=lambda: defaultdict(list))  # ops with this operand
    position: dict[Op, int] = field(default_factory=dict)
    end_position: dict[Op, int] = field(default_factory=dict)  # that of the last op of its regions
    enclosing_loops: dict[Op, tuple[Op, ...]] = field(default_factory=dict)  # from the outermost
    parent_loop: dict[Value, Op] = field(default_factory=dict)  # the control op of a region's argument
    materialized: set[Value] = field(default_factory=set)  # values with a buffer
    readers: dict[Value, tuple[Op, ...]] = field(default_factory=dict)  # ops whose statement or library op reads it
    writes: list[Op] = field(default_factory=list)  # all ops that store to arrays
    read_in_place: set[Value] = field(default_factory=set)  # values that a dot reads from their array itself
    packed: set[Op] = field(default_factory=set)  # dots that pack panels from the untransposed right side
    expr_depth: dict[Value, int] = field(default_factory=dict)  # inlined ops between a value and its reader

    def defined_at(self, v: Value) -> int:
        """Position at which a value is written."""
        if v.op is None:
            return self.position[self.parent_loop[v]]
        return self.end_position[v.op] if v.op.regions else self.position[v.op]

    def last_read(self, v: Value) -> int:
        """Position of the last read, or that of the definition where nobody reads."""
        reads = (self.read_until(v, reader) for reader in self.readers.get(v, ()))
        return max((self.defined_at(v), *reads))

    def read_until(self, v: Value, reader: Op) -> int:
        """Position until which a reader reads: the end of the outermost loop that the value enters from outside."""
        own_loops = self.enclosing(v)
        outer = next((loop for loop in self.enclosing_loops[reader] if loop not in own_loops), None)
        return self.position[reader] if outer is None else self.end_position[outer]

    def enclosing(self, v: Value) -> tuple[Op, ...]:
        """The loops around the definition of a value, from the outermost."""
        if v.op is None:
            parent = self.parent_loop.get(v)
            return () if parent is None else (*self.enclosing_loops[parent], parent)
        return self.enclosing_loops[v.op]


def plan_materialization(function: Function, target: CpuTarget) -> Materialization:
    """Decide for every tile of a function, readers before what they read."""
    plan = Materialization(function, target)
    ops = number_ops(plan, function.body, ())
    plan.writes = [op for op in ops if writes_memory(op)]
    dots = [op for op in ops if op.name == "dot"]
    plan.packed = {dot for dot in dots if packs_transposed(dot, target)}
    for dot in dots if is_enabled(function, "in_place_operands") else []:
        for chain in values_read_by_dot(plan.function, plan.uses, plan.enclosing_loops, dot, target):
            if not is_clobbered_before(plan, chain[-1], dot):
                plan.read_in_place.update(chain)
    cost = recomputation_costs(ops)
    for op in reversed(ops):
        for v in op.results:
            if is_tile(v):
                decide_materialized(plan, op, v, cost[v])
        for region in op.regions:
            for v in region.args:
                if is_tile(v):
                    plan.materialized.add(v)
                    plan.readers[v] = readers_of(plan, v)
    return plan


def recomputation_costs(ops: list[Op]) -> dict[Value, int]:
    """Cost of one element of each value, if all that it is computed from is inlined."""
    cost: dict[Value, int] = {}
    for op in ops:
        operands = min(_MAX_OPERAND_COST, sum(cost.get(v, 0) for v in tile_operands(op)))
        for v in op.results:
            cost[v] = op_cost(op) + operands if is_inlinable(op) else 0
    return cost


def number_ops(plan: Materialization, region: Region, loops: tuple[Op, ...]) -> list[Op]:
    """Number all ops of a region, and record uses and loops; gives the ops in that order."""
    ops = []
    for op in region.ops:
        plan.position[op] = len(plan.position)
        plan.enclosing_loops[op] = loops
        for v in op.operands:
            plan.uses[v].append(op)
        ops.append(op)
        for inner in op.regions:
            for v in inner.args:
                plan.parent_loop[v] = op
            ops += number_ops(plan, inner, (*loops, op) if op.name != "if" else loops)
        plan.end_position[op] = len(plan.position) - 1
    return ops


def op_cost(op: Op) -> int:
    """Cost of one element, in simple lane instructions."""
    row = TABLE[op.name]
    if row.cost == 0:
        return 0
    if op.name == "tile_load":
        access = Access.of(op)
        return 8 if is_tile(access.base) else 4 if access.mask is not None else 1
    return _FUNCTION_COST if row.ulp else row.cost


def readers_of(plan: Materialization, v: Value) -> tuple[Op, ...]:
    """The ops whose statements read a value: its users, with the readers of those that are inlined in their place."""
    readers: dict[Op, None] = {}
    for user in plan.uses[v]:
        result = user.results[0] if user.results else None
        if result is not None and is_inlinable(user) and result not in plan.materialized:
            readers.update(dict.fromkeys(plan.readers[result]))
        elif result is not None and user.name == "reshape" and not is_unit_reshape(user):
            readers.update(dict.fromkeys((user, *plan.readers[result])))  # the result is a view of the same memory
        elif result is not None and user.name == "permute":
            readers.update(dict.fromkeys((user, *packing_dots(plan, result))))
        else:
            readers[user] = None
    return tuple(readers)


def packing_dots(plan: Materialization, v: Value) -> list[Op]:
    """Dots that have a transposed value as their right side, and pack their panels from the untransposed one."""
    return [user for user in plan.uses[v] if user in plan.packed and v is user.operands[1]]


def decide_materialized(plan: Materialization, op: Op, v: Value, cost: int) -> None:
    """Decide for one result of an op; its readers are decided already."""
    plan.readers[v] = readers_of(plan, v)
    dots = packing_dots(plan, v)
    readers = [reader for reader in plan.readers[v] if reader not in dots]
    results = [user.results[0] for user in plan.uses[v] if user.results and user.results[0] in plan.expr_depth]
    inlined_depths = (plan.expr_depth[r] for r in results if r not in plan.materialized)
    plan.expr_depth[v] = 1 + max(inlined_depths, default=0)
    is_repeated = len(readers) > 1 or is_read_in_loop(plan, v, readers)
    is_costly = cost > _MAX_RECOMPUTED_COST and (is_repeated or is_computed_per_row(plan, v, cost))
    is_deep = plan.expr_depth[v] % _MAX_EXPR_DEPTH == 0
    is_required = v not in plan.read_in_place and any(requires_buffer(user, v) for user in plan.uses[v])
    if is_costly or is_deep or is_required or not is_inlinable(op) or is_load_clobbered(plan, op, v):
        plan.materialized.add(v)


def requires_buffer(user: Op, v: Value) -> bool:
    """Whether an op reads a value from a buffer: a dot its left side and accumulator, others in permuted order.

    The right side of a dot is computed straight into its panels.
    """
    if user.name in (*GATHERING, "dot") and v is user.operands[0]:
        return True
    if user.name == "reshape":
        return not is_unit_reshape(user)
    return not is_constant(v) and ((user.name == "dot" and v in user.operands[2:]) or permutes_lanes(user))


def permutes_lanes(op: Op) -> bool:
    """Whether an op is a permute that moves the last dimension, along which the lanes lie."""
    dims: Any = op.attrs.get("dims")
    return op.name == "permute" and bool(dims) and dims[-1] != len(dims) - 1


def is_constant(v: Value) -> bool:
    """Whether all elements are one constant, or undefined."""
    return v.op is not None and v.op.name in ("constant", "undef")


def is_read_in_loop(plan: Materialization, v: Value, readers: Iterable[Op]) -> bool:
    """Whether a reader is in a loop that does not contain the definition, so that inlining repeats the work."""
    own_loops = plan.enclosing(v)
    return any(loop not in own_loops for r in readers for loop in plan.enclosing_loops[r])


def is_computed_per_row(plan: Materialization, v: Value, cost: int) -> bool:
    """Whether inlining would compute functions row by row, on one element each, and not along the lanes.

    That is so where a vector becomes a column that is broadcast: the lanes then lie along the other dimension.
    """
    if cost < _FUNCTION_COST or len(v.shape) != 1 or v.tile.size < _MIN_COLUMN:
        return False
    columns = [user.results[0] for user in plan.uses[v] if user.name == "reshape" and user.results[0].shape[-1] == 1]
    return any(user.name == "broadcast_to" for column in columns for user in plan.uses[column])


def is_load_clobbered(plan: Materialization, op: Op, v: Value) -> bool:
    """Whether a store may overwrite what a load reads before the last reader has run.

    A store that reads the load itself, at the same elements in the same order, reads each one before it writes it.
    """
    if op.name != "tile_load":
        return False
    writes = [w for w in plan.writes if plan.position[op] < plan.position[w] and may_alias(plan.function, op, w)]
    in_place = [w for w in writes if is_same_access(op, w) and keeps_element_order(plan, v)]
    return any(
        plan.position[w] <= plan.read_until(v, reader) and not (w is reader and w in in_place)
        for reader in plan.readers[v]
        for w in writes
    )


def is_clobbered_before(plan: Materialization, v: Value, reader: Op) -> bool:
    """Whether a store may overwrite what a load reads before one reader has run."""
    load = v.op
    assert load is not None
    between = (w for w in plan.writes if plan.position[load] < plan.position[w] <= plan.read_until(v, reader))
    return any(may_alias(plan.function, load, w) for w in between)


def keeps_element_order(plan: Materialization, v: Value) -> bool:
    """Whether all values that are inlined between a value and its readers have their elements in the same order."""
    seen = {v}
    work = [v]
    for x in work:
        users = [user for user in plan.uses[x] if user.results and is_inlinable(user)]
        if any(user.name == "permute" for user in users):
            return False
        for user in users:
            result = user.results[0]
            if result not in plan.materialized and result not in seen:
                seen.add(result)
                work.append(result)
    return True
