"""`triton._utils`, and the words for types that `triton.runtime.jit` has."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pypto.compat.triton.compiled import MockTensor
from pypto.errors import PyptoWarning
from pypto.ir.types import ALL_DTYPES, DType, PtrType, void, written_type
from pypto.language import cdiv
from pypto.ops.build import weak_dtype
from pypto.ops.public import constexpr, constexpr_type

TRITON_MAX_TENSOR_NUMEL: Final = 1048576
_SHORT: Final[Mapping[str, str]] = MappingProxyType({"int": "i", "uint": "u", "bool": "u"})
_OTHERS: Final[Mapping[str, str]] = MappingProxyType({
    "bool": "u1", "uint1": "u1", "i1": "u1", "half": "fp16", "float": "fp32", "double": "fp64", "int": "i32",
})  # fmt: skip


@functools.cache
def named(dtype: DType) -> DType:
    """The element type as `triton.language` has it: torch writes its `repr` into texts that import Triton."""
    named_type = copy.copy(dtype)  # of the same class, by which torch knows such a constant
    vars(named_type)["module"] = "triton.language"
    return named_type


def short(dtype: DType) -> str:
    """The word for an element type in the signature of a kernel: `i32`, `u8`, `fp16`."""
    return f"{_SHORT[dtype.kind]}{dtype.bits}" if dtype.kind in _SHORT else dtype.triton


def spellings() -> Iterator[tuple[str, str]]:
    """All names of element types, with their words."""
    for dtype in (*ALL_DTYPES, void):
        for name in (dtype.public, dtype.triton, dtype.triton.replace("fp", "float"), short(dtype)):
            yield name, short(dtype)
    yield from _OTHERS.items()


type_canonicalisation_dict: Final = dict(spellings())
BITWIDTH_DICT: Final = {name: DType(word).bits for name, word in type_canonicalisation_dict.items()}


def str_to_ty(name: Any, c: Any = None) -> DType | PtrType | constexpr_type | tuple[Any, ...]:
    """The type of a word in a signature: "*fp32", "i32", "constexpr"; of a tuple of words, a tuple."""
    if isinstance(name, tuple):
        return tuple(str_to_ty(word, c) for word in name)
    if name == "constexpr":
        return constexpr_type(c)
    dtype = written_type(name)
    if dtype is None:
        raise ValueError(f"{name!r} is no type of an argument")
    return dtype


def canonicalize_dtype(dtype: Any) -> str:
    """The word for a type of torch or numpy, or its name."""
    return type_canonicalisation_dict[str(getattr(dtype, "public", dtype)).rpartition(".")[2]]


def canonicalize_ptr_dtype(dtype: Any, is_const: bool) -> str:
    return f"*{'k' if is_const else ''}{canonicalize_dtype(dtype)}"


def mangle_type(arg: Any, specialize: bool = False) -> Any:
    """The word for an argument's type in a signature: "*fp32", "i32", "constexpr"."""
    if arg is None or isinstance(arg, constexpr | str) or callable(arg) or (specialize and arg == 1):
        return "constexpr"
    if isinstance(arg, tuple):
        return tuple(mangle_type(x, specialize) for x in arg)
    if isinstance(arg, bool | int | float):
        return canonicalize_dtype(weak_dtype(arg))
    if isinstance(arg, MockTensor) or hasattr(arg, "data_ptr") or hasattr(arg, "__array_interface__"):
        return canonicalize_ptr_dtype(arg.dtype, False)
    return canonicalize_dtype(arg.dtype)


def get_primitive_bitwidth(dtype: str) -> int:
    return BITWIDTH_DICT[dtype]


def is_power_of_two(x: int) -> bool:
    return x > 0 and x & (x - 1) == 0


def validate_block_shape(shape: Sequence[int]) -> int:
    """The number of elements of a block, whose sizes Triton wants to be powers of two."""
    count = 1
    for n, size in enumerate(shape):
        if not isinstance(size, int):
            raise TypeError(f"Shape element {n} must be an integer known at compile time, not {size!r}")
        if not is_power_of_two(size):
            raise ValueError(f"Shape element {n} must be a power of 2")
        count *= size
    if count > TRITON_MAX_TENSOR_NUMEL:
        raise ValueError(f"a block has at most {TRITON_MAX_TENSOR_NUMEL} elements, not {count}")
    return count


# --- tuples of tuples -------------------------------------------------------------------------------------------------


def is_iterable(x: Any) -> bool:
    return isinstance(x, list | tuple)


def is_namedtuple(val: Any) -> bool:
    return isinstance(val, type) and issubclass(val, tuple) and hasattr(val, "_fields")


def apply_with_path(value: Any, fn: Callable[[tuple[int, ...], Any], None]) -> None:
    """Call a function with each leaf, and the indices that lead to it before it."""
    for path in find_paths_if(value, lambda _, __: True):
        fn(path, get_iterable_path(value, path))


def find_paths_if(iterable: Any, pred: Callable[[tuple[int, ...], Any], Any]) -> list[tuple[int, ...]]:
    """The indices that lead to the leaves of which a function says yes."""

    def paths(at: tuple[int, ...], x: Any) -> Iterator[tuple[int, ...]]:
        if is_iterable(x):
            for n, item in enumerate(x):
                yield from paths((*at, n), item)
        elif pred(at, x):
            yield at

    return list(paths((), iterable))


@functools.cache
def warn_once(message: str) -> None:
    """A warning that is given once."""
    warnings.warn(message, PyptoWarning, stacklevel=2)


def get_iterable_path(iterable: Any, path: tuple[int, ...]) -> Any:
    """What indices lead to."""
    for n in path:
        iterable = iterable[n]
    return iterable


def names() -> dict[str, Any]:
    """What `triton._utils` holds."""
    ours = ("short", "spellings", "names", "str_to_ty", "mangle_type")
    functions = {n: x for n, x in globals().items() if getattr(x, "__module__", "") == __name__ and n not in ours}
    words: dict[str, Any] = {"type_canonicalisation_dict": type_canonicalisation_dict, "BITWIDTH_DICT": BITWIDTH_DICT}
    words |= {"IterableType": Any, "ObjPath": tuple, "TRITON_MAX_TENSOR_NUMEL": TRITON_MAX_TENSOR_NUMEL}
    return {**functions, **words, "warn_once": warn_once, "cdiv": cdiv}
