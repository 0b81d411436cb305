"""Values of the front end.

A run-time value is an `ir.Value`. Everything else is known at compile time and is the Python object itself: numbers,
strings, None, dtypes, functions, modules, tuples (which may hold run-time values), and the few classes below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from pypto.errors.frontend import NotConstant
from pypto.frontend.source import FunctionNode, KernelSource
from pypto.frontend.tuples import leaves
from pypto.ir.core import Value
from pypto.ir.types import ArrayType, TileType
from pypto.loc import Loc

if TYPE_CHECKING:
    from pypto.frontend.scope import Scope
    from pypto.ops.build import OpBuilder


# fmt: off
# What other libraries call it; a name that is meant is nearer than one that is spelt alike.
ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType({
    "half": "float16", "float": "float32", "double": "float64", "concatenate": "cat", "concat": "cat", "matmul": "dot",
    "transpose": "trans", "power": "pow", "clip": "clamp", "absolute": "abs", "amax": "max", "amin": "min",
    "swish": "silu", "true_divide": "fdiv", "average": "mean", "variance": "var", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan",
})
# fmt: on


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


def has_values(x: Any) -> bool:
    return any(isinstance(leaf, Value | Method | Dims | Range) for leaf in leaves(x))


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


def source_of(argument: Value) -> str:
    """An argument as the kernel writes it; the leaves of a tuple are items of it."""
    name, *path = argument.hint.split(".")
    return name + "".join(f"[{n}]" for n in path)


def load_first(*arrays: Value) -> str:
    """What to write where elements are meant, and arrays are given."""
    loads = " and ".join(f"`{source_of(x)}[:]`" for x in arrays)
    return f"load {'it' if len(arrays) == 1 else 'them'} first: {loads}"


def constant(x: Any, what: str, loc: Loc) -> Any:
    """`x`, which has to be known at compile time."""
    for leaf in leaves(x):
        if has_values(leaf):
            raise NotConstant(loc, what=what, problem=f"is a run-time {describe(leaf)}", needed=(leaf,))
    return x
