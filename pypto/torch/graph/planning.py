"""What the operator is told of a launch before it is made: what the kernel writes, and which values it reads.

torch orders and copies by what an operator says that it writes. So the kernel's Tile IR is built for arrays of these
types, of any size. When the operator runs, the version that is launched is held to what was said.
"""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pypto.arguments import describe
from pypto.errors import Diagnostic
from pypto.ir.types import DType
from pypto.passes.memory_effects import written_names
from pypto.runtime.arrays import ArrayInfo, dtype_of

torch: Any = importlib.import_module("torch")
Row = tuple[Any, ...]  # of an argument: its kind, and of a tensor its dtype and rank, else its value
Plan = tuple[frozenset[str], tuple[Any, ...]]  # the arrays that a kernel writes, and what it reads from outside
_EXTENTS: Final = (16, 64)  # of arrays whose sizes nobody knows yet, where a tile's extent is one of them


@dataclass(frozen=True)
class Stand:
    """A tensor of which only type and rank are known."""

    dtype: DType
    rank: int
    extent: int

    def as_array_info(self) -> ArrayInfo:
        shape = (self.extent,) * self.rank
        strides = tuple(self.extent**n for n in reversed(range(self.rank)))
        return ArrayInfo(64, shape, strides, self.dtype, True, self)


def build(kernel: Any, rows: Mapping[str, Row]) -> Plan:
    """What a kernel writes and reads, by its Tile IR for these types.

    Raises
    ------
    Diagnostic
        When it cannot be compiled for them.
    """
    problem: Diagnostic | None = None
    with own_builtins():
        for extent in _EXTENTS:
            try:
                return built_for(kernel, {name: example(row, extent) for name, row in rows.items()})
            except Diagnostic as error:
                problem = problem or error
    assert problem is not None
    raise problem


@contextmanager
def own_builtins() -> Iterator[None]:
    """Python's own `max` and `min`, which kernels mean: torch.export has others in their places while it traces."""
    others = {name: f for name in ("max", "min") if isinstance(f := getattr(builtins, name), partial)}
    for name, f in others.items():
        setattr(builtins, name, f.keywords.get("real_callable", f))
    try:
        yield
    finally:
        for name, f in others.items():
            setattr(builtins, name, f)


def example(row: Row, extent: int) -> Any:
    """A value of the kind that an argument has."""
    kind, held, rank = row
    if kind == "tensor":
        dtype = dtype_of(held)
        return Stand(dtype, rank, extent) if dtype else torch.empty((0,) * rank, dtype=held)
    return {"integers": 2, "floats": 2.0}.get(kind, held)


def built_for(kernel: Any, values: Mapping[str, Any]) -> Plan:
    infos, specs = describe(kernel.signature, kernel.signature.bind((), values))
    arrays = {name: info for name, info in infos.items() if isinstance(info, ArrayInfo)}
    unknown = frozenset((name, dim) for name, info in arrays.items() for dim in range(len(info.shape)))
    built, _ = kernel.build(infos, specs, unknown, {})
    return written_names(built.function), built.captures
