"""Guards on values from outside of a traced function: each is compared, recorded, ignored or refused.

The read program repeats the reads that a function made while it was traced, before the launches of its plan. Each row
reads one value, from the value of an earlier row or from a root, and checks it. A value is identified by its path and
no object is kept alive, so one plan serves a model that is replaced by another model of equal structure.
"""

from __future__ import annotations

import sys
import sysconfig
import weakref
from argparse import Namespace
from collections import UserDict, UserList, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.graph.ir.node import key_of
from pypto.graph.ir.types import element_type

LIBRARIES: Final = frozenset(
    ("numpy", "scipy", "pypto", "torch", "jax", "jaxlib", "pandas", "numba", "ml_dtypes", "matplotlib", "pytest")
)
_STANDARD: Final = sysconfig.get_paths()["stdlib"]
PLAIN: Final = (bool, int, float, complex, str, bytes, np.generic, np.dtype, slice, range, frozenset, Enum)
COPIED: Final = (list, tuple, dict, deque, SimpleNamespace)
_OPEN: Final = (Namespace, UserDict, UserList)  # classes of Python whose instances hold what programs put there
_HEAP_TYPE: Final = 1 << 9
_OFFERED: Final = "bools, integers, and floats of 16 to 64 bits"


@lru_cache(maxsize=1024)
def is_library(name: str | None) -> bool:
    """Whether a module belongs to the standard library or a known library, whose contents do not change.

    Examples
    --------
    >>> is_library("numpy.linalg"), is_library("my_model"), is_library("__main__")
    (True, False, False)
    """
    root = (name or "builtins").partition(".")[0]
    if root == "__main__" or root not in sys.stdlib_module_names:
        return root in LIBRARIES
    file = getattr(sys.modules.get(root), "__file__", None)  # a program may have a module `test` or `code` of its own
    return file is None or file.startswith(_STANDARD)


def is_plain(value: Any) -> bool:
    """Whether a guard compares a value directly."""
    return value is None or value is Ellipsis or value is NotImplemented or isinstance(value, PLAIN)


def is_number(value: Any) -> bool:
    """Whether a value may become a run-time scalar."""
    return type(value) in (int, float) or (isinstance(value, np.floating | np.integer) and value.dtype.isnative)


def is_array(value: Any) -> bool:
    """Whether a value is exactly a numpy array, by its real type."""
    return issubclass(type(value), np.ndarray)


def is_scalar(value: Any) -> bool:
    """Whether a value is a run-time scalar, by its real type."""
    return getattr(type(value), "is_scalar", False) is True


def is_container(value: Any) -> bool:
    """Whether a value is a container that a trace copies with its contents."""
    return isinstance(value, COPIED) and (not isinstance(value, tuple) or type(value) is tuple or is_named_tuple(value))


def is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def is_function(value: Any) -> bool:
    """Whether a value is a function whose globals and closure a trace records."""
    return type(value) is FunctionType and not is_library(value.__globals__.get("__name__"))


def is_object(value: Any) -> bool:
    """Whether a value is an instance of a user's class, whose attribute reads a trace records."""
    kind = type(value)
    if not kind.__flags__ & _HEAP_TYPE or (is_library(kind.__module__) and kind not in _OPEN):
        return False
    return not isinstance(value, type | ModuleType | FunctionType | MethodType | BuiltinFunctionType | BaseException)


def is_class(value: Any) -> bool:
    """Whether a value is a user's class."""
    return isinstance(value, type) and bool(value.__flags__ & _HEAP_TYPE) and not is_library(value.__module__)


def owned_by(kind: type, name: str) -> Any:
    """Return the attribute of a class by name, without instrumentation."""
    owned = next((c.__dict__[name] for c in kind.__mro__ if name in c.__dict__), None)
    return getattr(owned, "instead_of", owned)


def owned_by_user(kind: type, name: str) -> Any:
    """Return the attribute of a class by name, if the user's program defines it."""
    return next((c.__dict__[name] for c in kind.__mro__ if name in c.__dict__ and is_class(c)), None)


def is_module(value: Any) -> bool:
    """Whether a value is a user's module."""
    return isinstance(value, ModuleType) and not is_library(value.__name__)


def bytes_of(value: Any) -> bytes | None:
    """Return the bytes of a value with the buffer protocol, such as a `bytearray`, or None."""
    try:
        return bytes(memoryview(value))
    except (TypeError, ValueError, BufferError):
        return None


def same(value: Any, key: Any) -> bool:
    """Whether a plain value equals the one that a key was made of."""
    try:
        return bool(key_of(value) == key)
    except (TypeError, ValueError):
        return False


# --- arrays that no kernel computes with ---------------------------------------------------------------------------


def objection(value: Any) -> tuple[str, str] | None:
    """Return why fused functions refuse an array-like value, and what to write instead, or None."""
    if is_array(value):
        return of_class(value) or of_dtype(value.dtype)
    return of_library(value, type(value).__module__.partition(".")[0], type(value).__name__)


def of_library(value: Any, root: str, name: str) -> tuple[str, str] | None:
    """Return why fused functions refuse an array of another library."""
    if root == "torch" and name in ("Tensor", "Parameter"):
        return "a tensor of torch in a call on arrays of numpy", "pass tensors as arguments, too, or `.numpy()` of it"
    if root == "pypto" and name == "DeviceArray":
        return (
            f"an array on the device {value.device}",
            "pass `x.numpy()`; a fused function takes arrays of a device as its arguments, or none of them",
        )
    rows = (
        ("jax", "__array__", "an array of jax", "pass `np.asarray(x)` of it"),
        ("jaxlib", "__array__", "an array of jax", "pass `np.asarray(x)` of it"),
        ("pandas", "isoformat", f"a {name} of pandas", "pass a number, as `x.timestamp()` gives one"),
        ("xarray", "to_numpy", f"a {name} of xarray", "pass `x.to_numpy()` of it"),
        ("pandas", "to_numpy", f"a {name} of pandas", "pass `x.to_numpy(np.float32)` of it"),
        ("scipy", "toarray", f"a sparse matrix ({name})", "pass `x.toarray()` of it"),
        ("datetime", "isoformat", f"a {name}", "pass a number, as `x.timestamp()` gives one"),
    )
    for library, mark, what, way in rows:
        if root == library and hasattr(value, mark):
            return what, way
    if not isinstance(value, np.generic | type) and has_memory(value):
        return f"a {type(value).__module__}.{name}", "pass `np.asarray(x)` of it"
    return None


def has_memory(value: Any) -> bool:
    """Whether a value is an array of another library."""
    kind = type(value)
    return (
        hasattr(kind, "__dlpack__") or hasattr(kind, "__array_interface__") or hasattr(kind, "__cuda_array_interface__")
    )


def of_class(value: Any) -> tuple[str, str] | None:
    """Return why a subclass of arrays is refused: kernels would ignore the behaviour that it adds."""
    kind = type(value)
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(value, masked.MaskedArray):
        return "a masked array", "pass `x.filled(value)`, or its data and its mask as two arrays"
    if isinstance(value, np.matrix):
        return "a matrix, whose `*` is the product of matrices", "pass `np.asarray(x)`, and write `@` for products"
    if isinstance(value, np.memmap) or kind is np.ndarray:
        return None
    subclasses = (c for c in kind.__mro__ if c not in np.ndarray.__mro__)
    changed = sorted({name for c in subclasses for name in vars(c) if hasattr(np.ndarray, name)} - _ALWAYS)
    if not changed:
        return None
    what = f"a {kind.__name__}, a subclass of ndarray with a `{changed[0]}` of its own"
    return what, "pass `np.asarray(x)` of it, and put back what the class adds (a unit, a mask) behind the call"


_ALWAYS: Final = frozenset(("__module__", "__doc__", "__dict__", "__weakref__", "__slots__", "__firstlineno__"))


def of_dtype(dtype: np.dtype[Any]) -> tuple[str, str] | None:
    """Return why arrays of an element type are refused."""
    if element_type(dtype) is not None:
        return None
    if dtype.kind in "Mm":
        return f"an array of times ({dtype})", "pass numbers: `(x - x[0]) / np.timedelta64(1, 's')`"
    if dtype.kind in "USOT":
        what = "objects of Python" if dtype.kind == "O" else f"texts ({dtype})"
        return f"an array of {what}", "pass an array of numbers: `.astype(np.float32)` makes one where they are numbers"
    if dtype.names:
        return f"an array of records ({', '.join(dtype.names)})", "pass its fields as arrays: `x['name']`"
    if not dtype.isnative:
        native = str(dtype.newbyteorder("="))
        return f"an array of {native} with its bytes swapped", f"convert it first: `.astype({native!r})`"
    return f"an array of {dtype}", f"convert it by `.astype(…)`: kernels have {_OFFERED}"


Array = np.ndarray[Any, Any]
Get = Callable[[list[Any], "Roots"], Any]
Check = Callable[[Any, list[Any]], bool]
Path = tuple[Any, ...]
_GONE = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, ReferenceError)


@dataclass(slots=True)
class Roots:
    """The roots of a call's reads: the traced function, and the arrays and other leaves of its arguments.

    `given` has the arrays of another library whose memory `arrays` show; it is empty for arrays of numpy.
    """

    function: Any
    arrays: Sequence[Any] = ()
    others: Sequence[Any] = ()
    given: Sequence[Any] = ()

    def argument(self, number: int) -> Any:
        """Return an array among the arguments as the caller passed it."""
        return (self.given or self.arrays)[number]


@dataclass(frozen=True, slots=True)
class Read:
    """One read, with the check of its value.

    Parameters
    ----------
    path : tuple
        The identity of the read, equal from call to call.
    text : str
        The value as the user would write it.
    get : callable
        Returns the value.
    check : callable
        Whether the plan is valid for the value.
    number : type, optional
        The type of a pinned number, which another plan may take as a run-time scalar.
    """

    path: Path
    text: str
    get: Get
    check: Check
    number: type | None = None


@dataclass(frozen=True, slots=True)
class CapturedInput:
    """A plan input that a row reads: an array, a number with an element type, or an array that `enter` converts."""

    row: int
    dtype: Any = None
    enter: Callable[[Any], Any] | None = None

    def read(self, values: Sequence[Any]) -> Any:
        """Return the array of the input, from the values of all rows."""
        value = values[self.row]
        if self.enter is not None:
            return self.enter(value)
        return value if self.dtype is None else np.array(value, self.dtype)


@dataclass(slots=True)
class ReadProgram:
    """The read program of a traced function."""

    rows: list[Read] = field(default_factory=list)
    given: tuple[CapturedInput, ...] = ()
    pinned: frozenset[Path] = frozenset()  # numbers whose value was asked for
    steps: tuple[tuple[Get, Check], ...] = ()

    def __post_init__(self) -> None:
        self.steps = tuple((row.get, row.check) for row in self.rows)

    def read(self, roots: Roots) -> list[Array] | None:
        """Run all reads, and return the arrays for the plan's further inputs, or None if a check fails."""
        values: list[Any] = []
        try:
            for get, check in self.steps:
                value = get(values, roots)
                if not check(value, values):
                    return None
                values.append(value)
        except _GONE:
            return None
        return [given.read(values) for given in self.given]

    def changed(self, roots: Roots) -> list[Path] | None:
        """Return the numbers that changed, or None if any other value changed."""
        values: list[Any] = []
        paths: list[Path] = []
        try:
            for row in self.rows:
                value = row.get(values, roots)
                if not row.check(value, values):
                    if type(value) is not row.number:
                        return None
                    paths.append(row.path)
                values.append(value)
        except _GONE:
            return None
        return paths


# --- what values are compared by -----------------------------------------------------------------------------------


def anything(value: Any, values: list[Any]) -> bool:
    return True


def equal(value: Any) -> Check:
    """Return a check that a plain value is equal, including its type and the sign of zero."""
    key = key_of(value)
    return lambda x, values: x is value or same(x, key)


def equal_set(value: set[Any]) -> Check:
    copy = frozenset(value)
    return lambda x, values: type(x) is set and x == copy


def of_type(kind: type) -> Check:
    return lambda x, values: type(x) is kind


def one_of(known: int) -> Check:
    """Return a check that a value is identical to an earlier row's value."""
    return lambda x, values: x is values[known]


def array_like(array: Array) -> Check:
    kind, shape, dtype, strides = type(array), array.shape, array.dtype, array.strides
    return lambda x, values: type(x) is kind and x.shape == shape and x.dtype == dtype and x.strides == strides


def array_equal(array: Array) -> Check:
    """Return a check that an array has equal elements, because numpy may have read them during the trace."""
    like, copy = array_like(array), array.copy()
    return lambda x, values: like(x, values) and x.tobytes() == copy.tobytes()


def identical(value: Any) -> Check:
    """Return a check of an object's identity, which does not keep the object alive."""
    try:
        reference = weakref.ref(value)
    except TypeError:
        return lambda x, values: x is value
    return lambda x, values: x is reference()


def same_memory(kind: type, memory: bytes) -> Check:
    return lambda x, values: type(x) is kind and bytes_of(x) == memory


def container_like(value: Any) -> Check:
    """Return a check of a container's type, length and keys."""
    kind = type(value)
    if isinstance(value, dict):
        keys = list(value)
        return lambda x, values: type(x) is kind and list(x) == keys
    if not hasattr(value, "__len__"):
        names = list(vars(value))
        return lambda x, values: type(x) is kind and list(vars(x)) == names
    count = len(value)
    return lambda x, values: type(x) is kind and len(x) == count


def graph_of(value: Any) -> Any:
    """Return the graph of an array that is traced, or None."""
    kind = type(value)
    is_tensor = getattr(kind, "stands_in", False) and not getattr(kind, "is_scalar", False)
    return getattr(value, "graph", None) if is_tensor else None
