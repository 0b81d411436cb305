"""Memory effects and alias analysis: which arrays a kernel reads and writes, and whether two accesses may overlap.

Passes that move or fuse accesses ask here whether their order matters. An access is an op that reads or writes memory;
its first operand is the pointer. The root of a pointer is the array argument that it points into. `root` follows
address arithmetic alone and gives one array, or None where it is not known; `pointer_roots` follows loops and branches
too, and gives all arrays that a pointer may come from.

Two accesses with different roots do not overlap where the function has the fact ``noalias``: the launch has seen that
no array that the kernel writes shares memory with another argument. Without that fact all arrays may overlap.

    %q = addptr (array_ptr %y), %n                    root y
    %r = if %b { yield %p } { yield %q }              root not known; pointer_roots {x, y}
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.ir.types import TileType
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import MOVEMENT_OPS, TABLE
from pypto.passes.analysis.carried import LAYOUTS, flows

_ADDRESS_OPS: Final = ("addptr", "ptr_cast", *MOVEMENT_OPS)  # whose result points into the array of their first operand
_READS: Final = (Effect.READ, Effect.ATOMIC)
_WRITES: Final = (Effect.WRITE, Effect.ATOMIC)


def is_pure(op: Op) -> bool:
    """Whether an op touches no memory. What the ops in its regions do does not count."""
    return TABLE[op.name].effect is Effect.PURE


def is_load(op: Op) -> bool:
    """Whether an op reads memory and does nothing else."""
    return TABLE[op.name].effect is Effect.READ


def is_atomic(op: Op) -> bool:
    """Whether an op reads and writes memory in one step."""
    return TABLE[op.name].effect is Effect.ATOMIC


def reads_memory(op: Op) -> bool:
    """Whether an op reads memory: a load or an atomic op."""
    return TABLE[op.name].effect in _READS


def writes_memory(op: Op) -> bool:
    """Whether an op writes memory: a store or an atomic op."""
    return TABLE[op.name].effect in _WRITES


def has_side_effects(op: Op) -> bool:
    """Whether an op does more than to read memory: it writes, synchronises or prints."""
    return TABLE[op.name].effect not in (Effect.PURE, Effect.READ)


def accesses_memory(op: Op) -> bool:
    """Whether the first operand of an op is the pointer of an access."""
    return reads_memory(op) or writes_memory(op)


def is_noalias(function: Function) -> bool:
    """Whether no array that the kernel writes overlaps another argument."""
    return bool(function.attrs.get("noalias", False))


def pointer_base(pointer: Value) -> Value:
    """The pointer that address arithmetic, casts and moves of dimensions begin with."""
    while pointer.op is not None and pointer.op.name in _ADDRESS_OPS:
        pointer = pointer.op.operands[0]
    return pointer


def root(pointer: Value) -> Value | None:
    """The array argument that a pointer, or every pointer of a tile, points into; None when that is not known."""
    op = pointer_base(pointer).op
    return op.operands[0] if op is not None and op.name == "array_ptr" else None


def accessed_array(op: Op) -> Value | None:
    """The array argument that an access goes to; None when that is not known."""
    return root(op.operands[0])


def read_arrays(function: Function) -> frozenset[Value | None]:
    """The arrays that loads read; None is among them where one is not known."""
    return frozenset(accessed_array(op) for op in function.walk() if is_load(op))


def written_arrays(function: Function) -> frozenset[Value | None]:
    """The arrays that are written; None is among them where one is not known."""
    return frozenset(accessed_array(op) for op in function.walk() if writes_memory(op))


def is_never_written(function: Function, array: Value | None, written: frozenset[Value | None]) -> bool:
    """Whether the memory of an array is the same all through a launch. `written` are the function's written arrays."""
    return is_noalias(function) and array is not None and not written & {array, None}


def is_constant_load(function: Function, op: Op, written: frozenset[Value | None]) -> bool:
    """Whether an op loads a number that is the same all through a launch; it may run again anywhere."""
    return is_load(op) and not op.result.shape and is_never_written(function, accessed_array(op), written)


def may_alias(function: Function, a: Op, b: Op) -> bool:
    """Whether two accesses may go to overlapping arrays."""
    x, y = accessed_array(a), accessed_array(b)
    return x is y or None in (x, y) or not is_noalias(function)


def is_same_access(a: Op, b: Op) -> bool:
    """Whether two accesses touch the same elements in the same order, so that one may follow the other one by one.

    False where it is not known: for accesses through tiles of pointers.
    """
    if "shape" not in a.attrs or "shape" not in b.attrs:
        return False
    x, y = Access.of(a), Access.of(b)
    return (x.shape, x.base, x.offsets, x.strides) == (y.shape, y.base, y.offsets, y.strides)


def pointer_roots(function: Function) -> dict[Value, frozenset[str]]:
    """The names of the array arguments that each pointer may come from, through loops and branches too."""
    roots: dict[Value, frozenset[str]] = {}
    before, addresses = -1, any(op.name == "ptr_cast" for op in function.walk())  # then integers may be pointers, too
    while before != (before := sum(map(len, roots.values()))):
        for op in function.walk():
            if op.name == "array_ptr":
                roots[op.result] = frozenset({op.operands[0].hint})
            for v, source in sources(op):
                if not (isinstance(v.type, TileType) and (v.type.is_ptr or addresses)) or reads_memory(op):
                    continue
                roots[v] = roots.get(v, frozenset()) | roots.get(source, frozenset())
    return roots


def sources(op: Op) -> Iterator[tuple[Value, Value]]:
    """Pairs of values, the second of which the first may be or be made from."""
    return flows(op) if op.name in LAYOUTS else product(op.results, op.operands)


def written_names(function: Function) -> frozenset[str]:
    """Names of all array arguments that a kernel may write, through loops and branches too."""
    roots = pointer_roots(function)
    return frozenset().union(*(roots.get(op.operands[0], ()) for op in function.walk() if writes_memory(op)))
