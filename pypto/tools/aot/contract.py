"""What a version that was compiled ahead of time takes, as data: for the header, and for the loader in its manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pypto.backends.base import Slot
from pypto.errors.aot import NotAhead
from pypto.ir.types import ArrayType, DType, TileType
from pypto.runtime.specialization import Guard

ABI: Final = 1  # of entries and manifests
_PLAIN: Final = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel: an array of a dtype and rank, a number of a dtype, or a constant with its value."""

    name: str
    kind: str
    dtype: str = ""
    ndim: int = 0
    is_written: bool = False
    value: Any = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """What a version takes; `facts` must hold of it, and with `noalias`, written arrays share memory with none."""

    symbol: str
    parameters: tuple[Parameter, ...]
    slots: tuple[Slot, ...]
    facts: tuple[tuple[str, str, int, int | bool | None], ...]
    noalias: bool
    levels: tuple[str, ...]

    @property
    def arrays(self) -> list[Parameter]:
        return [p for p in self.parameters if p.kind == "array"]

    @property
    def given(self) -> list[Parameter]:
        """What a call passes: all but constants."""
        return [p for p in self.parameters if p.kind != "constant"]


def parameters_of(kernel: Any, specs: Mapping[str, Any], written: frozenset[str]) -> tuple[Parameter, ...]:
    """The parameters of a kernel for specified arguments.

    Raises
    ------
    NotAhead
        When one is of a kind that a C function cannot take.
    """
    parameters = []
    for name, spec in specs.items():
        if isinstance(spec, tuple):
            raise NotAhead(kernel=kernel.signature.kernel, problem=f"`{name}` is a tuple; pass its items one by one")
        if isinstance(spec, ArrayType):
            parameters.append(Parameter(name, "array", spec.elem.mnemonic, spec.ndim, name in written))
        elif isinstance(spec, TileType) and isinstance(spec.elem, DType):
            parameters.append(Parameter(name, "number", spec.elem.mnemonic))
        else:
            value = spec.value if isinstance(spec.value, _PLAIN) else None
            parameters.append(Parameter(name, "constant", value=value, text=repr(spec.value)))
    return tuple(parameters)


def facts_of(guard: Guard) -> tuple[tuple[str, str, int, int | bool | None], ...]:
    """What a version asks of its arguments. Numbers in C have types, so none is weak."""
    rows = sorted((key, value) for key, value in guard.items() if key[0] != "weak")
    return tuple((*key, value) for key, value in rows)


def manifest(kernel: str, versions: Sequence[Version]) -> bytes:
    """The contract of a library, as JSON; the same for the same versions."""
    rows = [
        {
            "symbol": v.symbol,
            "parameters": [
                {"name": p.name, "kind": p.kind, "dtype": p.dtype, "ndim": p.ndim, "written": p.is_written,
                 "value": p.value, "text": p.text}
                for p in v.parameters
            ],
            "slots": [[s.kind, s.arg, s.dim, s.dtype.mnemonic] for s in v.slots],
            "facts": [list(fact) for fact in v.facts],
            "noalias": v.noalias,
            "levels": list(v.levels),
        }
        for v in versions
    ]  # fmt: skip
    return json.dumps({"abi": ABI, "kernel": kernel, "versions": rows}, sort_keys=True).encode()
