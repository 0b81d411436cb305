"""Writes the stubs of what Python makes at run time: ops of the language, and the operators of the library.

``python -m docs.stubs`` writes them beside the modules; a test holds them to what it would write. Type checkers read
them, since they see neither the op table nor the rows.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pypto.library
from pypto import language
from pypto.ir.types import DType
from pypto.language import ops
from pypto.library import Operator, rows
from pypto.library.signature import ArraySpec
from pypto.ops.public import OpFunction
from pypto.ops.row import REQUIRED

ROOT: Final = Path(pypto.library.__file__).parents[1]
HEAD: Final = "# Written by `python -m docs.stubs`; corrections belong there.\n"
# Dtypes of results that numpy has a name for; the others are those of ml_dtypes.
NUMPY: Final = {
    "f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "i32": "int32", "i64": "int64", "u8": "uint8",
}  # fmt: skip
LANGUAGE_HEAD: Final = """from typing import Any, Final
from types import MappingProxyType

from pypto.ops.public import constexpr as constexpr

# Annotations of parameters that are arrays or tiles.
const = Any
dynamic = Any
static = Any
class tensor(Any): ...  # type: ignore[misc]
"""
LIBRARY_HEAD: Final = """from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from pypto.library.registry import Registry as Registry
from pypto.library.row import Implementation as Implementation, Operator as Operator
from pypto.library.signature import Signature as Signature
from pypto.library.tolerance import EXACT as EXACT, Close as Close, Tolerance as Tolerance

_D = TypeVar("_D", bound=np.generic)
_T = TypeVar("_T")

rows: Registry

def register(row: Operator, *, replace: bool = False) -> Operator: ...
"""


def op_stubs() -> Iterator[str]:
    """Functions of the ops; a tile is of any type to a checker, as it is in a kernel's annotations."""
    yield f"{HEAD}\nfrom typing import Any\n"
    for name in ops.__all__:
        found = getattr(ops, name)
        params = ", ".join(parameter(p) for p in found.row.params) if isinstance(found, OpFunction) else ""
        if not isinstance(found, OpFunction):
            params = "*args: Any, **kwargs: Any"
        yield f"def {name}({params}) -> Any: ..."


def parameter(p: Any) -> str:
    """A parameter of an op, which may have a default."""
    name = f"{p.name}_" if keyword.iskeyword(p.name) else p.name
    return f"{name}: Any" + ("" if p.default is REQUIRED else " = ...")


def language_stubs() -> Iterator[str]:
    """All names of the language, each from the module that has it, and the list of them."""
    yield f"{HEAD}\n{LANGUAGE_HEAD}"
    modules = [m for m in vars(language).values() if getattr(m, "__name__", "").startswith("pypto.language.")]
    listed: dict[str, str] = {}
    for module in modules:
        for name in getattr(module, "__all__", ()):
            listed.setdefault(name, module.__name__)
    for name in language._MATH:
        listed[name] = "pypto.language.libdevice"
    for module in sorted({m.__name__.rpartition(".")[2] for m in modules}):
        yield f"from pypto.language import {module} as {module}"
    for name in language.__all__:
        if home := listed.get(name):
            yield f"from {home} import {name} as {name}"
    yield "\nMETHODS: Final[MappingProxyType[str, Any]]\nWITH_GRADIENTS: Final[MappingProxyType[str, Any]]\n"
    yield "__all__ = ["
    yield from (f'    "{name}",' for name in language.__all__)
    yield "]"


def library_stubs() -> Iterator[str]:
    """A class for each row, whose call has the parameters and results of its signature."""
    yield f"{HEAD}\n{LIBRARY_HEAD}"
    for row in rows.values():
        yield from operator_stub(row)


def operator_stub(row: Operator) -> Iterator[str]:
    """Of arrays of numpy, results have their dtypes; of tensors and others, they are of the kind of the first array."""
    name = "".join(word.capitalize() for word in row.name.split("_"))
    yield f"class _{name}(Operator):"
    for first, kind in (("np.ndarray[Any, np.dtype[_D]]", "numpy"), ("_T", "")):
        # An operator in general takes anything, and one of them takes what its signature says.
        yield "    @overload" + ("  # type: ignore[override]" if kind else "")
        given = ", ".join((*parameters(row, first), "*", "version: str = ..."))
        yield f"    def __call__(self, {given}) -> {result(row, kind)}: ..."
    yield f"\n{row.name}: _{name}\n"


def parameters(row: Operator, first: str) -> Iterator[str]:
    """Parameters in the order of the signature; those behind one with a default have one, too, as far as calls go."""
    specs = {spec.name: spec for spec in row.signature.inputs}
    has_default = False
    for name in row.signature.names:
        if name in specs:
            annotation = first if specs[name] is row.signature.inputs[0] else "Any"
            has_default = has_default or specs[name].is_optional
        else:
            default = row.signature.numbers[name]
            annotation = "int | tuple[int, int]" if isinstance(default, tuple) else type(default).__name__
            has_default = True
        yield f"{name}: {annotation}" + (" = ..." if has_default else "")


def result(row: Operator, kind: str) -> str:
    """The type of what a call gives."""
    found = [array(spec, kind) for spec in row.signature.outputs]
    if not found:
        return "None"
    return found[0] if len(found) == 1 else f"tuple[{', '.join(found)}]"


def array(spec: ArraySpec, kind: str) -> str:
    """The type of a result."""
    if not kind:
        return "_T"
    if not spec.dtypes:
        return "np.ndarray[Any, np.dtype[_D]]"
    return f"NDArray[{numpy_name(spec.dtypes[0])}]"


def numpy_name(dtype: DType) -> str:
    """The name of a dtype for a type checker."""
    found = NUMPY.get(str(dtype))
    return f"np.{found}" if found else "Any"


STUBS: Final = {
    "language/ops.pyi": op_stubs,
    "language/__init__.pyi": language_stubs,
    "library/__init__.pyi": library_stubs,
}


def texts() -> dict[Path, str]:
    """The stubs by their files."""
    return {ROOT / name: "\n".join(lines()).rstrip("\n") + "\n" for name, lines in STUBS.items()}


def main() -> None:
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
