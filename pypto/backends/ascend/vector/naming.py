"""Names of buffers and numbers: the user's name of a value where there is one, else one derived from its op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pypto.ir.core import Op, Value
from pypto.ir.types import TileType
from pypto.ops.table import MOVEMENT_OPS
from pypto.passes.analysis.memory_effects import accessed_array

# The result of these ops keeps the name of the operand.
_VALUE_PRESERVING: Final = (*MOVEMENT_OPS, "cast")
_STORES: Final = frozenset(("tile_store", "store", "masked_store"))
_LOADS: Final = frozenset(("tile_load", "load"))
_MAX_NAME: Final = 20

Users = Mapping[Value, Sequence[Op]]


def name_hint(op: Op, users: Users) -> str:
    """Return the name for the result of an op."""
    if not op.results:
        return local_name(op) if op.name in _STORES else op.name
    return user_name(op.results[0], users) or derived_name(op)


def user_name(v: Value, users: Users) -> str:
    """Return the user's name of a value or of its only use; a value that is stored is named after the array."""
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
    """Return the Ascend C name for the part of an array that a core works on; a number is named as the array."""
    array = accessed_array(op)
    name = array.hint if array is not None and array.hint else "loaded"
    is_number = bool(op.results) and op.result.tile.size == 1
    return name if is_number else f"{name}Local"


def derived_name(op: Op) -> str:
    """Return a name made of an op and its operand, such as ``max_scores``."""
    if op.name in _LOADS:
        return local_name(op)
    if op.name in _VALUE_PRESERVING and op.operands[0].hint:
        return op.operands[0].hint
    source = next((v for v in op.operands if isinstance(v.type, TileType) and v.shape), None)
    while source is not None and not source.hint and source.op is not None and source.op.name in _VALUE_PRESERVING:
        source = source.op.operands[0]
    if source is not None and source.op is not None and not source.hint and source.op.name in _LOADS:
        return f"{op.name.rstrip('_')}_{local_name(source.op).removesuffix('Local')}"
    result = op.results[0].tile
    if not result.shape and source is None:
        return "n" if result.is_ptr or not result.dtype.is_float else "value"
    name = source.hint if source is not None else ""
    op_name = op.name.rstrip("_")
    full_name = f"{op_name}_{name}" if name else f"{op_name}_tile"
    return full_name if len(full_name) <= _MAX_NAME else f"{op_name}_tile"
