"""Loop-invariant code motion on Block IR: numbers that no iteration changes are computed before the loop.

The scalar unit computes numbers, and the other units wait for it, so this pays in every inner loop. A number moves if
all its operands are defined outside of the loop, nothing assigns to it, and it can be computed speculatively: it reads
no memory and divides by nothing that may be zero.

    for i in range(n):                       base: int64 = row * 64
        base: int64 = row * 64       ->      for i in range(n):
        DataCopy(a[0], x[base + i], ...)         DataCopy(a[0], x[base + i], ...)
"""

from __future__ import annotations

from dataclasses import replace

from pypto.backends.ascend.blockir.effects import items_of, names_in
from pypto.backends.ascend.blockir.ir import Assign, BlockKernel, Expr, Item, Let, Loop, Read, Scalar
from pypto.backends.ascend.blockir.rewrite import inside

_POSITIVE_NAMES = frozenset(("blocks", "grid_x", "grid_y", "grid_z"))  # 1 or more


def hoist_invariants(kernel: BlockKernel) -> BlockKernel:
    """Return the kernel with the invariant numbers of its loops in front of them."""
    return replace(kernel, body=_sequence(kernel.body), cube_body=_sequence(kernel.cube_body))


def _sequence(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Hoist in each item of a sequence."""
    return tuple(output for item in items for output in _item(item))


def _item(item: Item) -> tuple[Item, ...]:
    """Hoist in an item, innermost loops first."""
    changed = inside(item, _sequence)
    if not isinstance(changed, Loop):
        return (changed,)
    invariant, rest = _split_invariants(changed.body, {changed.name, *_defined(changed.body)})
    return (*invariant, replace(changed, body=rest))


def _defined(items: tuple[Item, ...]) -> set[str]:
    """Return the names that get a value somewhere in a loop."""
    return {item.name for item in items_of(items) if isinstance(item, Let | Assign | Loop)}


def _split_invariants(body: tuple[Item, ...], loop_names: set[str]) -> tuple[list[Item], tuple[Item, ...]]:
    """Split the body of a loop into the numbers that need nothing from inside of it, and all else."""
    assigned = {item.name for item in items_of(body) if isinstance(item, Assign)}
    invariant: list[Item] = []
    rest: list[Item] = []
    for item in body:
        is_moved = isinstance(item, Let) and item.name not in assigned and _is_invariant(item.value, loop_names)
        (invariant if is_moved else rest).append(item)
        if is_moved and isinstance(item, Let):
            loop_names.discard(item.name)
    return invariant, tuple(rest)


def _is_invariant(value: Scalar, loop_names: set[str]) -> bool:
    """Whether a number can move out of a loop. Constants stay: they cost nothing."""
    return isinstance(value, Expr) and loop_names.isdisjoint(names_in(value)) and _is_speculatable(value)


def _is_speculatable(value: Scalar) -> bool:
    """Whether a number can be computed on any path: it reads no memory and divides by nothing that may be zero."""
    if isinstance(value, Read):
        return False
    if not isinstance(value, Expr):
        return True
    divisor = value.args[-1]
    is_division_safe = (
        value.op not in ("//", "%") or (isinstance(divisor, int) and divisor > 0) or divisor in _POSITIVE_NAMES
    )
    return is_division_safe and all(map(_is_speculatable, value.args))
