"""Kinds of values that a traced function takes from outside: what is compared, what is followed, what is left alone."""

from __future__ import annotations

import sys
import sysconfig
from argparse import Namespace
from collections import UserDict, UserList, deque
from enum import Enum
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.graph.ir.node import key_of

LIBRARIES: Final = frozenset(
    ("numpy", "scipy", "pypto", "torch", "jax", "jaxlib", "pandas", "numba", "ml_dtypes", "matplotlib", "pytest")
)
_STANDARD: Final = sysconfig.get_paths()["stdlib"]
PLAIN: Final = (bool, int, float, complex, str, bytes, np.generic, np.dtype, slice, range, frozenset, Enum)
COPIED: Final = (list, tuple, dict, deque, SimpleNamespace)
_OPEN: Final = (Namespace, UserDict, UserList)  # classes of Python whose instances hold what programs put there
_HEAP_TYPE: Final = 1 << 9


@lru_cache(maxsize=1024)
def is_library(name: str | None) -> bool:
    """Whether a module of this name is Python's own or a known library: what is within it stays as it is.

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
    """Whether a value is compared as it is."""
    return value is None or value is Ellipsis or value is NotImplemented or isinstance(value, PLAIN)


def is_number(value: Any) -> bool:
    """Whether a value may become a run-time scalar."""
    return type(value) in (int, float) or (isinstance(value, np.floating | np.integer) and value.dtype.isnative)


def is_array(value: Any) -> bool:
    """Whether a value is an array of numpy itself, whatever it says of its class."""
    return issubclass(type(value), np.ndarray)


def is_container(value: Any) -> bool:
    """Whether a value is a container that is copied with what is within it."""
    return isinstance(value, COPIED) and (not isinstance(value, tuple) or type(value) is tuple or is_named_tuple(value))


def is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def is_function(value: Any) -> bool:
    """Whether a value is a function whose globals and closure are seen while it is traced."""
    return type(value) is FunctionType and not is_library(value.__globals__.get("__name__"))


def is_object(value: Any) -> bool:
    """Whether a value is an instance of a class of the user's, whose attributes are seen while they are read."""
    kind = type(value)
    if not kind.__flags__ & _HEAP_TYPE or (is_library(kind.__module__) and kind not in _OPEN):
        return False
    return not isinstance(value, type | ModuleType | FunctionType | MethodType | BuiltinFunctionType | BaseException)


def is_class(value: Any) -> bool:
    """Whether a value is a class of the user's."""
    return isinstance(value, type) and bool(value.__flags__ & _HEAP_TYPE) and not is_library(value.__module__)


def is_module(value: Any) -> bool:
    """Whether a value is a module of the user's."""
    return isinstance(value, ModuleType) and not is_library(value.__name__)


def bytes_of(value: Any) -> bytes | None:
    """What is in the memory of a value that shows it, such as a `bytearray`; None of others."""
    try:
        return bytes(memoryview(value))
    except (TypeError, ValueError, BufferError):
        return None


def same(value: Any, key: Any) -> bool:
    """Whether a plain value is the one that a key was made of."""
    try:
        return bool(key_of(value) == key)
    except (TypeError, ValueError):
        return False
