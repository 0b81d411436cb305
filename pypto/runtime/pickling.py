"""Pickling of kernels and of fused functions: as Python pickles functions, by the module and the name.

`cloudpickle`, and what stands on it (joblib, dask, ray), pickles functions by value where they have no such name. Then
the function goes with its options and the lines of its source.
"""

from __future__ import annotations

import copyreg
import linecache
import sys
from collections.abc import Callable
from importlib import import_module
from types import CodeType, FrameType, FunctionType
from typing import Any, ClassVar, Final

from pypto.errors.launch import NotPickled

BY_VALUE: Final = ("cloudpickle", "dill")


class Pickled:
    """What is pickled by its name. A copy of it is itself, as a copy of a function is."""

    pickled: ClassVar[tuple[str, ...]] = ()  # attributes that it is made of, the function first

    def __init_subclass__(cls, pickled: tuple[str, ...] | None = None, **given: Any) -> None:
        super().__init_subclass__(**given)
        if pickled is not None:
            cls.pickled = pickled

    def __reduce__(self) -> Any:
        function = self.named_function()
        module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
        parts = self.pickled_parts() if is_by_value() else None
        if is_named(self, module, name) and (module != "__main__" or parts is None):
            return fetched, (module, name)
        if parts is None:
            problem = f"there is no such name in the module `{module}`, or it is something else there"
            raise NotPickled(what=f"`{name}`", problem=problem)
        rebuild, *arguments = parts
        return restored, (rebuild, source_of(function), *arguments)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A class of others, derived from one of ours, may say by `__getstate__` how it is pickled, as torch's does."""
        theirs = getattr(type(self), "__getstate__", None) is not getattr(object, "__getstate__", None)
        if not theirs:
            return self.__reduce__()
        return vars(copyreg)["__newobj__"], (type(self),), self.__getstate__()

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def named_function(self) -> Any:
        """The function whose module and name this has."""
        return self.function  # type: ignore[attr-defined]

    def pickled_parts(self) -> tuple[Any, ...] | None:
        """What makes this again, and its arguments, of which the first is the function; None where nothing does."""
        parts = tuple(getattr(self, name) for name in self.pickled)
        return (getattr(self, "kind", type(self)), *parts) if parts else None


def is_named(value: Any, module: str, name: str) -> bool:
    """Whether a module has a value under a name."""
    named: Any = sys.modules.get(module)
    for part in name.split("."):
        named = getattr(named, part, None)
    return named is value


def fetched(module: str, name: str) -> Any:
    """What a module has under a name."""
    value: Any = import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def is_by_value() -> bool:
    """Whether who pickles now pickles functions by value."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if any(part in BY_VALUE for part in str(frame.f_globals.get("__name__", "")).split(".")):
            return True
        frame = frame.f_back
    return False


def source_of(function: Any) -> tuple[str, list[str]] | None:
    """The file of a function, and its lines: of a notebook or a prompt they are nowhere else."""
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None or not isinstance(function, FunctionType):
        return None
    linecache.checkcache(code.co_filename)
    return code.co_filename, linecache.getlines(code.co_filename, function.__globals__)


def restored(rebuild: Callable[..., Any], source: tuple[str, list[str]] | None, function: Any, *parts: Any) -> Any:
    """What was pickled by value."""
    if source is not None:
        file, lines = source
        if not linecache.getlines(file):
            linecache.cache[file] = sum(map(len, lines)), None, lines, file
        function.__code__ = in_file(function.__code__, file)
    return rebuild(function, *parts)


def in_file(code: CodeType, file: str) -> CodeType:
    """The code of a function, which cloudpickle says is of no file, in its file."""
    constants = tuple(in_file(x, file) if isinstance(x, CodeType) else x for x in code.co_consts)
    return code.replace(co_filename=file, co_consts=constants)
