"""What the language's public names are: objects that mean something inside a kernel only."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pypto.errors.frontend import OnlyAnAnnotation, OutsideKernel
from pypto.loc import Caller
from pypto.ops.row import REQUIRED, OpRow, Param


class KernelName:
    """A name that the front end gives its meaning to. Called from plain Python it is an error."""

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc
        self.__module__ = "pypto"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        name, frame = self.__name__, sys._getframe(1)
        while frame.f_globals.get("__name__", "").startswith("pypto.language.") and frame.f_back is not None:
            name, frame = frame.f_code.co_name, frame.f_back
        try:
            raise OutsideKernel(Caller.of(frame).loc(), name=name)
        except OutsideKernel as error:
            error.__traceback__ = None  # a bare `raise` adds no frame of ours
            raise

    def __repr__(self) -> str:
        return f"pto.{self.__name__}"


class OpFunction(KernelName):
    """The name of an op in a module; signature and docstring are those of its row."""

    def __init__(self, row: OpRow, module: str = "pto") -> None:
        super().__init__(row.name, docstring(row, module))
        self.row = row
        self.__signature__ = inspect.Signature([parameter(p) for p in row.params])


def parameter(p: Param) -> inspect.Parameter:
    default = inspect.Parameter.empty if p.default is REQUIRED else p.default
    return inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


class Intrinsic(KernelName):
    """A public name that is no op: ranges, assertions, prints and promises, which the front end handles itself."""


class Refused(KernelName):
    """A name that other languages have and this one has not; called in a kernel it is an error that says why."""

    def __init__(self, name: str, way: str) -> None:
        super().__init__(name, f"{name}: an error. {way[0].upper()}{way[1:]}.")
        self.way = way


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of values, on constants that hold them."""
    return lambda *args: constexpr(function(*(x.value if isinstance(x, constexpr) else x for x in args)))


_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
_OTHERS = ("neg", "pos", "invert", "abs", "eq", "ne", "lt", "le", "gt", "ge", "getitem")
_FUNCTIONS = {name: getattr(operator, f"__{name}__") for name in (*_BINARY, *_OTHERS)}
_AS_VALUE = {"hash": hash, "bool": bool, "index": operator.index, "float": float, "len": len}
_Operators: Any = type("_Operators", (), {
    **{f"__{name}__": lambda x, f=function: f(x.value) for name, function in _AS_VALUE.items()},
    **{f"__{name}__": lifted(function) for name, function in _FUNCTIONS.items()},
    **{f"__r{name}__": lifted(lambda x, y, f=_FUNCTIONS[name]: f(y, x)) for name in _BINARY},
})  # fmt: skip


class constexpr(_Operators):  # type: ignore[misc]  # its operators are those of the values
    """Annotation of a parameter that a kernel is compiled for; as a call, a value to be read as a constant.

    Outside of kernels, operators work on the values and give constants again.

    Examples
    --------
    >>> constexpr(2) * 3 + constexpr(1)
    pto.constexpr(7)
    >>> list(range(constexpr(2)))
    [0, 1]
    """

    def __init__(self, value: Any) -> None:
        self.value: Any = value.value if isinstance(value, constexpr) else value

    @property
    def type(self) -> constexpr_type:
        return constexpr_type(self.value)

    def __repr__(self) -> str:
        return f"pto.constexpr({self.value!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)


@dataclass(frozen=True)
class constexpr_type:
    """The type that Triton gives a constant: one for each value."""

    value: Any


class tensor:
    """Annotation of what is known at run time: tiles, scalars and pointers. In kernels, `isinstance` knows it."""

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        try:
            raise OnlyAnAnnotation(Caller.of(sys._getframe(1)).loc())
        except OnlyAnAnnotation as error:
            error.__traceback__ = None
            raise


class Promise:
    """Annotation of an argument: its shape is kept at run time (`dynamic`) or always compiled in (`static`), or `const`."""

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.__doc__ = doc

    def __repr__(self) -> str:
        return f"pto.{self.name}"


dynamic: Final = Promise("dynamic", "Annotation: the argument's shape stays a run-time value.")
const: Final = Promise("const", "Annotation: the kernel does not write through this argument.")
static: Final = Promise("static", "Annotation: the argument's shape is always compiled in.")


def docstring(row: OpRow, module: str) -> str:
    """numpydoc text of a row."""
    lines = [row.doc, *(["", f"Gradient: {row.kink}"] if row.kink else [])]
    lines += ["", "Parameters", "----------"] if row.params else []
    for p in row.params:
        kind = "tile or number" if p.is_operand else p.kind
        lines.append(f"{p.name} : {kind}" + ("" if p.default is REQUIRED else f", default {p.default!r}"))
        lines += [f"    {p.doc}"] if p.doc else []
    return "\n".join([*lines, "", "Examples", "--------", f"    {module}.{row.example}"] if row.example else lines)
