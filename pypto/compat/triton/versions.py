"""Compiled versions of a kernel, as Triton's tests and its hooks see them: by device, and as a text to compile from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pypto.compat.triton.compiled import sample
from pypto.compat.triton.utils import mangle_type
from pypto.ir.types import DType
from pypto.ops.public import constexpr

if TYPE_CHECKING:
    from pypto.compat.triton.kernels import JITFunction


def serialized(fn: JITFunction, values: Mapping[str, Any]) -> str:
    """What a kernel is compiled for, as a text from which `preload` compiles it again."""
    fixed = {p.name for p in fn.params if p.is_constexpr}
    arguments = {name: constant(x) if name in fixed else encoded(x) for name, x in values.items()}
    return json.dumps({"name": fn.__qualname__, "arguments": arguments}, default=str)


def deserialized(fn: JITFunction, text: str) -> dict[str, Any]:
    """The arguments of a kernel to compile for.

    Raises
    ------
    RuntimeError
        When the text is that of another kernel.
    """
    data = json.loads(text)
    if data["name"] != fn.__qualname__:
        raise RuntimeError(f"this is what {data['name']} is compiled for, and not {fn.__qualname__}")
    return {name: decoded(x) for name, x in data["arguments"].items()}


def constant(x: Any) -> dict[str, Any]:
    """A constant as JSON."""
    return {"dtype": x.mnemonic} if isinstance(x, DType) else {"value": x}


def encoded(x: Any) -> Any:
    """An argument as JSON: a constant by its value, anything else by its type."""
    if isinstance(x, constexpr):
        return {"constexpr": x.value}
    if isinstance(x, tuple):
        return [encoded(part) for part in x]
    return {"value": x} if x is None or (type(x) is int and x == 1) else {"type": mangle_type(x)}


def decoded(x: Any) -> Any:
    """A value to compile for, of an argument as JSON."""
    if isinstance(x, list):
        return tuple(map(decoded, x))
    if "type" in x:
        return sample(x["type"])
    if "dtype" in x:
        return DType(x["dtype"])
    return x["value"] if "value" in x else constexpr(x["constexpr"])


class Versions(dict[Any, Any]):
    """The compiled versions of a kernel on the one device, by key. To clear it is to forget them."""

    def __init__(self, fn: JITFunction) -> None:
        super().__init__({tuple(s.types): s for s in fn.ours.specializations})
        self.fn = fn

    def clear(self) -> None:
        self.fn.ours.known.clear()
        super().clear()


class Devices(Mapping[Any, tuple[Versions]]):
    """The compiled versions of a kernel by device, whatever it is called: a number, "cpu"."""

    def __init__(self, fn: JITFunction) -> None:
        self.fn = fn

    def __getitem__(self, device: Any) -> tuple[Versions]:
        return (Versions(self.fn),)

    def __iter__(self) -> Iterator[Any]:
        return iter((0,))

    def __len__(self) -> int:
        return 1
