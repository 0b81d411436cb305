"""Values from outside of a kernel, as what they are in it; what may change after the kernel is compiled is refused."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from pypto.errors.frontend import UnsupportedGlobal
from pypto.frontend.tuples import remade
from pypto.ir.types import DType, PtrType, from_numpy
from pypto.loc import Loc
from pypto.ops.public import constexpr

_ARRAY = "pass it to the kernel as an argument, and load from it; one number may be a Python number instead"
_OUTSIDE = (
    (list, "a list", "a list may change after the kernel is compiled; use a tuple"),
    (dict, "a dict", "a dict may change after the kernel is compiled; use a tuple, a frozen dataclass or an enum"),
    (set, "a set", "use a tuple"),
)


def captured(name: str, value: Any, loc: Loc) -> Any:
    """What an outside value is in a kernel."""
    if isinstance(value, constexpr):
        return captured(name, value.value, loc)
    if isinstance(value, tuple):
        return remade(value, [captured(name, x, loc) for x in value])
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return from_numpy(value) or value
    for kind, what, way in _OUTSIDE:
        if isinstance(value, kind):
            raise UnsupportedGlobal(loc, name=name, what=what, way=way)
    if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        raise UnsupportedGlobal(loc, name=name, what="an array", way=_ARRAY)
    return value


def has_plain_fields(x: Any) -> bool:
    """Whether attributes of a constant cannot change: enums, dtypes, frozen dataclasses."""
    if isinstance(x, enum.Enum | DType | PtrType):
        return True
    if isinstance(x, type):
        return issubclass(x, enum.Enum)
    params: Any = getattr(x, "__dataclass_params__", None)
    return params is not None and bool(params.frozen)
