"""Functions of single elements, on whole tiles: built on scalars, then done again on tiles, branches as `where`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, Final

from pypto.errors.frontend import UnknownSyntax
from pypto.frontend.scope import Scope
from pypto.frontend.tuples import leaves, rebuild
from pypto.frontend.values import as_pointer
from pypto.ir.core import Op, Region, Value, walk
from pypto.ir.types import scalar
from pypto.ops.build import OpBuilder
from pypto.ops.row import Effect
from pypto.ops.table import ROWS, TABLE

ELEMENTWISE: Final = frozenset((*(row.name for row in ROWS if row.elementwise), "addptr"))


def on_scalars(scope: Scope, node: ast.Call, function: Any, tiles: list[Value]) -> tuple[Region, Any]:
    """The body of a function of one element of each tile, and what it gives back."""
    from pypto.frontend.calls import call

    region = Region([Value(scalar(t.tile.elem)) for t in tiles])
    with scope.builder.inside(region):
        result = call(scope, node, function, list(region.args), {})
    region.ops[:] = needed(region.ops, {x for x in leaves(result) if isinstance(x, Value)})
    return region, result


def needed(ops: list[Op], values: set[Value]) -> list[Op]:
    """The ops that do something, or that these values come from: a function may compute what it asks the type of."""
    needed_ops: list[Op] = []
    for op in reversed(ops):
        if op.regions or TABLE[op.name].effect is not Effect.PURE or values & {*op.results}:
            needed_ops.append(op)
            values |= {v for x in (op, *(x for r in op.regions for x in walk(r))) for v in x.operands}
    return needed_ops[::-1]


def combination(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> str | None:
    """The row that a function of two elements is, or None where it is more than one op."""
    function, tile = args
    region, result = on_scalars(scope, node, function, [tile, tile])
    if len(region.ops) != 1 or region.ops[0].results != (result,) or {*region.args} != {*region.ops[0].operands}:
        return None
    return None if region.ops[0].attrs.get("propagate_nan") else region.ops[0].name


def map_elements(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`function(x, y, …)` on the elements of tiles that are broadcast together."""
    function, *operands = args
    b = scope.at(node)
    tiles = b.align([b.value(as_pointer(b, x)) for x in operands])
    region, result = on_scalars(scope, node, function, tiles)
    replay = Replay(b, tiles[0].shape, dict(zip(region.args, tiles, strict=True)), scope)
    with b.at(b.loc):
        replay.run(region.ops, None)
    return rebuild(result, iter([replay.tile(b.value(x)) for x in leaves(result)]))


@dataclass
class Replay:
    """Does ops on scalars again, on tiles where they depend on elements."""

    b: OpBuilder
    shape: tuple[int, ...]
    tiles: dict[Value, Value]
    scope: Scope

    def tile(self, v: Value) -> Value:
        return self.b.broadcast(self.tiles.get(v, v), self.shape)

    def run(self, ops: list[Op], active: Value | None) -> None:
        """`active` tells for which elements the ops run; None: for all of them."""
        for op in ops:
            self.b.loc = op.loc
            if op.name == "if":
                self.branch(op, active)
            elif op.name == "load":
                self.tiles[op.result] = self.load(op, active)
            elif op.name in ELEMENTWISE and any(v in self.tiles for v in op.operands):
                self.tiles[op.result] = self.b.emit(op.name, *map(self.tile, op.operands), **op.attrs)
            elif TABLE[op.name].effect is Effect.PURE and not op.regions and not self.tiles.keys() & {*op.operands}:
                self.b.region.ops.append(op)
            elif op.name != "assert_":
                what = f"`{op.name.strip('_')}` in a function of single elements"
                raise UnknownSyntax(op.loc, what=what, way="do it on the whole tile, outside of the function")

    def branch(self, op: Op, active: Value | None) -> None:
        """Both sides, and the results of the one that each element takes."""
        condition = self.tile(op.operands[0])
        sides = []
        for region, side in zip(op.regions, (condition, self.b.emit("not_", condition)), strict=True):
            self.run(region.body, side if active is None else self.b.emit("and_", active, side))
            sides.append([self.tile(v) for v in region.terminator.operands])
        for v, x, y in zip(op.results, *sides, strict=True):
            self.tiles[v] = self.b.emit("where", condition, x, y)

    def load(self, op: Op, active: Value | None) -> Value:
        """A load for the active elements."""
        pointer, *optional = map(self.tile, op.operands)
        masks = [x for x in (active, *optional[:1]) if x is not None]
        on = [self.b.emit("and_", *masks)] if len(masks) > 1 else masks
        return self.b.emit("load", pointer, *on, *optional[1:], **op.attrs)
