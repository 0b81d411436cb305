"""Plans a launch for torch graphs: which arrays the kernel writes, and which values it captures.

torch orders and copies according to the writes that an operator declares. So the kernel's Tile IR is built for arrays
of these types and any size. When the operator runs, the launched version is checked against the declaration.
"""

from __future__ import annotations

import builtins
import importlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pypto.arguments import describe
from pypto.errors import Diagnostic
from pypto.ir.types import DType
from pypto.passes.analysis.memory_effects import written_names
from pypto.runtime.arrays import ArrayInfo, dtype_of

torch: Any = importlib.import_module("torch")
ArgumentSpec = tuple[Any, ...]  # kind, dtype or value, and of a tensor its shape, None for what varies
Plan = tuple[frozenset[str], tuple[Any, ...]]  # the arrays that a kernel writes, and what it reads from outside
_EXTENTS: Final = (16, 64)  # of arrays whose sizes nobody knows yet, where a tile's extent is one of them


@dataclass(frozen=True)
class Stand:
    """A tensor of which only type and shape are known."""

    dtype: DType
    shape: tuple[int, ...]

    def as_array_info(self) -> ArrayInfo:
        strides = tuple(math.prod(self.shape[n + 1 :]) for n in range(len(self.shape)))
        return ArrayInfo(64, self.shape, strides, self.dtype, True, self)


def build(kernel: Any, rows: Mapping[str, ArgumentSpec]) -> Plan:
    """Finds a kernel's writes and captures from its Tile IR for these types, of any size or of these if it needs them.

    Raises
    ------
    Diagnostic
        When it cannot be compiled for them.
    """
    is_known = all(None not in shape for kind, _, shape in rows.values() if kind == "tensor")
    problem: Diagnostic | None = None
    with own_builtins():
        for extent in (*_EXTENTS, None) if is_known else _EXTENTS:
            try:
                return built_for(kernel, {name: example(row, extent) for name, row in rows.items()}, extent is None)
            except Diagnostic as error:
                problem = error if is_known else problem or error
    assert problem is not None
    raise problem


@contextmanager
def own_builtins() -> Iterator[None]:
    """Restores Python's `max` and `min`, which kernels mean: torch.export replaces them while it traces."""
    others = {name: f for name in ("max", "min") if isinstance(f := getattr(builtins, name), partial)}
    for name, f in others.items():
        setattr(builtins, name, f.keywords.get("real_callable", f))
    try:
        yield
    finally:
        for name, f in others.items():
            setattr(builtins, name, f)


def example(row: ArgumentSpec, extent: int | None) -> Any:
    """A value of the kind that an argument has, with an extent of all axes in place of its own."""
    kind, value, shape = row
    if kind == "tensor":
        dtype = dtype_of(value)
        sizes = tuple(n if extent is None else extent for n in shape)
        return Stand(dtype, sizes) if dtype else torch.empty((0,) * len(shape), dtype=value)
    return {"integers": 2, "floats": 2.0}.get(kind, value)


def built_for(kernel: Any, values: Mapping[str, Any], is_fixed: bool) -> Plan:
    infos, specs = describe(kernel.signature, kernel.signature.bind((), values))
    arrays = {name: info for name, info in infos.items() if isinstance(info, ArrayInfo)}
    unknown = frozenset((name, dim) for name, info in arrays.items() for dim in range(len(info.shape)))
    built, _ = kernel.build(infos, specs, frozenset() if is_fixed else unknown, {})
    return written_names(built.function), built.captures
