"""Numbers that no round of a loop changes are computed before it."""

from __future__ import annotations

from dataclasses import replace

from pypto.backends.ascend.blockir.effects import items_of, names_in
from pypto.backends.ascend.blockir.ir import Assign, BlockKernel, Expr, Item, Let, Loop, Read, Scalar
from pypto.backends.ascend.blockir.rewrite import inside

_COUNTS = frozenset(("blocks", "grid_x", "grid_y", "grid_z"))  # 1 or more


def hoist_invariants(kernel: BlockKernel) -> BlockKernel:
    """The kernel with its loops' invariant numbers in front of them."""
    return replace(kernel, body=_sequence(kernel.body), cube_body=_sequence(kernel.cube_body))


def _sequence(items: tuple[Item, ...]) -> tuple[Item, ...]:
    return tuple(done for item in items for done in _item(item))


def _item(item: Item) -> tuple[Item, ...]:
    made = inside(item, _sequence)
    if not isinstance(made, Loop):
        return (made,)
    free, rest = _split_invariants(made.body, {made.name, *_defined(made.body)})
    return (*free, replace(made, body=rest))


def _defined(items: tuple[Item, ...]) -> set[str]:
    """Names that get a value somewhere in a loop."""
    return {item.name for item in items_of(items) if isinstance(item, Let | Assign | Loop)}


def _split_invariants(body: tuple[Item, ...], inside: set[str]) -> tuple[list[Item], tuple[Item, ...]]:
    """The numbers that need nothing from inside of the loop, and all else."""
    assigned = {item.name for item in items_of(body) if isinstance(item, Assign)}
    free: list[Item] = []
    rest: list[Item] = []
    for item in body:
        moves = isinstance(item, Let) and item.name not in assigned and _is_invariant(item.value, inside)
        (free if moves else rest).append(item)
        if moves and isinstance(item, Let):
            inside.discard(item.name)
    return free, tuple(rest)


def _is_invariant(value: Scalar, inside: set[str]) -> bool:
    """Whether a number can be computed at any time: it is no constant, which costs nothing where it is."""
    return isinstance(value, Expr) and inside.isdisjoint(names_in(value)) and _is_speculatable(value)


def _is_speculatable(value: Scalar) -> bool:
    if isinstance(value, Read):
        return False
    if not isinstance(value, Expr):
        return True
    by = value.args[-1]
    divides = value.op not in ("//", "%") or (isinstance(by, int) and by > 0) or by in _COUNTS
    return divides and all(map(_is_speculatable, value.args))
