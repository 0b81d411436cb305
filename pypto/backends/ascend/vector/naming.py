"""What buffers and numbers are called: as the user calls the values, else after what they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pypto.ir.core import Op, Value
from pypto.ir.types import TileType
from pypto.passes.memory_effects import accessed_array

_VALUE_PRESERVING: Final = frozenset(
    ("reshape", "cast", "permute", "broadcast_to")
)  # the name of what they make is theirs too
_STORES: Final = frozenset(("tile_store", "store", "masked_store"))
_LOADS: Final = frozenset(("tile_load", "load"))
_MAX_NAME: Final = 20

Users = Mapping[Value, Sequence[Op]]


def name_hint(op: Op, users: Users) -> str:
    """The name for what an op makes."""
    if not op.results:
        return local_name(op) if op.name in _STORES else op.name
    return user_name(op.results[0], users) or derived_name(op)


def user_name(v: Value, users: Users) -> str:
    """The user's name of a value, be it that of its only use; a value that is stored is called after the array."""
    if v.hint:
        return v.hint
    uses = users.get(v, ())
    if len(uses) != 1:
        return ""
    (use,) = uses
    if use.name in _STORES and v.shape:
        return local_name(use)
    if use.name == "for" and v in use.operands[:2]:
        return "start" if v is use.operands[0] else "stop"
    return user_name(use.result, users) if use.name in _VALUE_PRESERVING else ""


def local_name(op: Op) -> str:
    """The part of an array that a core works on, as Ascend C calls it; a number is called as the array."""
    array = accessed_array(op)
    name = array.hint if array is not None and array.hint else "loaded"
    is_number = bool(op.results) and op.result.tile.size == 1
    return name if is_number else f"{name}Local"


def derived_name(op: Op) -> str:
    """An op on something that has a name: ``max_scores``."""
    if op.name in _LOADS:
        return local_name(op)
    if op.name in _VALUE_PRESERVING and op.operands[0].hint:
        return op.operands[0].hint
    source = next((v for v in op.operands if isinstance(v.type, TileType) and v.shape), None)
    while source is not None and not source.hint and source.op is not None and source.op.name in _VALUE_PRESERVING:
        source = source.op.operands[0]
    if source is not None and source.op is not None and not source.hint and source.op.name in _LOADS:
        return f"{op.name.rstrip('_')}_{local_name(source.op).removesuffix('Local')}"
    made = op.results[0].tile
    if not made.shape and source is None:
        return "n" if made.is_ptr or not made.dtype.is_float else "value"
    name, what = source.hint if source is not None else "", op.name.rstrip("_")
    whole = f"{what}_{name}" if name else f"{what}_tile"
    return whole if len(whole) <= _MAX_NAME else f"{what}_tile"
