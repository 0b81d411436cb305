"""What the language's public names are: objects that mean something inside a kernel only."""

from __future__ import annotations

import inspect
from typing import Any, Final

from pypto.errors.frontend import OutsideKernel
from pypto.ops.row import REQUIRED, OpRow, Param


class KernelName:
    """A name that the front end gives its meaning to. Called from plain Python it is an error."""

    def __init__(self, name: str, doc: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc
        self.__module__ = "pypto"

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise OutsideKernel(name=self.__name__)

    def __repr__(self) -> str:
        return f"pto.{self.__name__}"


class OpFunction(KernelName):
    """The public name of an op; signature and docstring are those of its row."""

    def __init__(self, row: OpRow) -> None:
        super().__init__(row.name, docstring(row))
        self.row = row
        self.__signature__ = inspect.Signature([parameter(p) for p in row.params])


def parameter(p: Param) -> inspect.Parameter:
    default = inspect.Parameter.empty if p.default is REQUIRED else p.default
    return inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


class Intrinsic(KernelName):
    """A public name that is no op: ranges, assertions, prints and promises, which the front end handles itself."""


class constexpr:
    """Annotation of a parameter that a kernel is compiled for; as a call, a value to be read as a constant."""

    def __init__(self, value: Any) -> None:
        self.value: Any = value.value if isinstance(value, constexpr) else value

    def __repr__(self) -> str:
        return f"pto.constexpr({self.value!r})"


class Promise:
    """Annotation of an argument: its shape is kept at run time (`dynamic`), or always compiled in (`static`)."""

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.__doc__ = doc

    def __repr__(self) -> str:
        return f"pto.{self.name}"


dynamic: Final = Promise("dynamic", "Annotation: the argument's shape stays a run-time value.")
static: Final = Promise("static", "Annotation: the argument's shape is always compiled in.")


def docstring(row: OpRow) -> str:
    """numpydoc text of a row."""
    lines = [row.doc, "", "Parameters", "----------"] if row.params else [row.doc]
    for p in row.params:
        kind = "tile or number" if p.is_operand else p.kind
        lines.append(f"{p.name} : {kind}" + ("" if p.default is REQUIRED else f", default {p.default!r}"))
        lines += [f"    {p.doc}"] if p.doc else []
    return "\n".join([*lines, "", "Examples", "--------", f"    pto.{row.example}"] if row.example else lines)
