"""Values of the front end.

A run-time value is an `ir.Value`. Everything else is known at compile time and is the Python object itself: numbers,
strings, None, dtypes, functions, modules, tuples (which may hold run-time values), and the few classes below.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from pypto.errors.frontend import NotConstant, UnsupportedGlobal
from pypto.frontend.source import FunctionNode, KernelSource
from pypto.ir.core import Value
from pypto.ir.types import ArrayType, DType, PtrType, TileType, from_numpy
from pypto.loc import Loc
from pypto.ops.public import constexpr

if TYPE_CHECKING:
    from pypto.frontend.scope import Scope
    from pypto.ops.build import OpBuilder

Number = bool | int | float


@dataclass(frozen=True, slots=True)
class Method:
    """`receiver.name`, before `function` is called with the receiver first."""

    receiver: Any
    name: str
    function: Any


@dataclass(frozen=True, slots=True)
class Dims:
    """`array.shape` or `array.strides`: an entry is asked for when it is read."""

    array: Value
    strides: bool

    def __len__(self) -> int:
        return array_type(self.array).ndim


@dataclass(frozen=True, slots=True)
class Range:
    """What a `for` iterates over at run time; `unroll` are numbers of iterations that may be done at once."""

    start: Value | int
    stop: Value | int
    step: Value | int
    unroll: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Label:
    """What `with pto.label(text):` names a part of the kernel."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Inlined:
    """A function whose body is built where it is called; `scope` is that of the kernel which defines it, if any."""

    name: str
    node: FunctionNode
    source: KernelSource
    scope: Scope | None
    defaults: tuple[Any, ...]
    kw_defaults: dict[str, Any]


def is_array(x: Any) -> bool:
    return isinstance(x, Value) and isinstance(x.type, ArrayType)


def array_type(array: Value) -> ArrayType:
    assert isinstance(array.type, ArrayType)
    return array.type


def as_pointer(b: OpBuilder, x: Any) -> Any:
    """An array is the address of its first element where a pointer is wanted."""
    return b.emit("array_ptr", x) if is_array(x) else x


def tile_type(x: Any) -> TileType | None:
    """The type of a run-time tile or scalar; None for arrays and all else."""
    return x.type if isinstance(x, Value) and isinstance(x.type, TileType) else None


def is_number(x: Any) -> bool:
    return isinstance(x, bool | int | float)


def is_index(x: Any) -> bool:
    """Whether `x` is an integer: a Python one, or a scalar at run time."""
    if not isinstance(x, Value):
        return isinstance(x, int) and not isinstance(x, bool)
    type = tile_type(x)
    return type is not None and not type.shape and not type.is_ptr and type.dtype.is_int


def leaves(x: Any) -> Iterator[Any]:
    """The values in a tuple of tuples, in order."""
    if isinstance(x, tuple):
        for item in x:
            yield from leaves(item)
    else:
        yield x


def alike(a: Any, b: Any) -> bool:
    """Whether tuples are nested alike in both, and their classes do not differ; a plain tuple stands for any."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)):
        return not isinstance(a, tuple) and not isinstance(b, tuple)
    kinds = {type(a), type(b)} - {tuple}
    return len(kinds) < 2 and len(a) == len(b) and all(map(alike, a, b))


def rebuild(like: Any, items: Iterator[Any]) -> Any:
    """A structure like `like`, with other leaves."""
    return remade(like, [rebuild(x, items) for x in like]) if isinstance(like, tuple) else next(items)


def remade(like: tuple[Any, ...], items: Iterable[Any]) -> Any:
    """A tuple with other items; a named one stays what it is."""
    return getattr(like, "_make", tuple)(items)


def is_named(kind: Any) -> TypeGuard[type[Any]]:
    """Whether this is a class of named tuples; aggregates are such."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def has_values(x: Any) -> bool:
    return any(isinstance(leaf, Value | Method | Dims | Range) for leaf in leaves(x))


def same(a: Any, b: Any) -> bool:
    """Whether two leaves are one value on every path."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, int | float | str | DType | PtrType):
        return False
    return bool(a == b) and (not isinstance(a, float) or math.copysign(1.0, a) == math.copysign(1.0, b))


def describe(x: Any) -> str:
    """What a value is, in an error."""
    if isinstance(x, Value):
        return str(x.type)
    if isinstance(x, tuple):
        return f"a tuple of {len(x)}"
    if isinstance(x, Method):
        return f"the method `{x.name}`"
    if isinstance(x, Dims):
        return "the strides of an array" if x.strides else "the shape of an array"
    if isinstance(x, Range):
        return "a range"
    if isinstance(x, Inlined) or callable(x):
        return f"the function `{getattr(x, '__name__', None) or getattr(x, 'name', '?')}`"
    if isinstance(x, ModuleType):
        return f"the module `{x.__name__}`"
    return f"the constant {x!r}"


def constant(x: Any, what: str, loc: Loc) -> Any:
    """`x`, which has to be known at compile time."""
    for leaf in leaves(x):
        if has_values(leaf):
            raise NotConstant(loc, what=what, type=describe(leaf))
    return x


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
        raise UnsupportedGlobal(loc, name=name, what="an array", way="pass it to the kernel as an argument")
    return value


def has_plain_fields(x: Any) -> bool:
    """Whether attributes of a constant cannot change: enums, dtypes, frozen dataclasses."""
    if isinstance(x, enum.Enum | DType | PtrType):
        return True
    if isinstance(x, type):
        return issubclass(x, enum.Enum)
    params: Any = getattr(x, "__dataclass_params__", None)
    return params is not None and bool(params.frozen)
