"""Snapshots of arrays, which are restored after a trial."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.passes.analysis.memory_effects import is_atomic, pointer_roots, reads_memory

Array = np.ndarray[Any, Any]


def is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) or (hasattr(x, "clone") and hasattr(x, "copy_"))


def zero(x: Any) -> None:
    """Fill an array or tensor with zeros."""
    if hasattr(x, "zero_"):
        x.zero_()
    elif x is not None:
        x[...] = 0


def written_by(version: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a compiled version writes; with foreign pointers, that is every argument."""
    writer = version[0] if isinstance(version, list) else version
    written = getattr(getattr(writer, "program", None), "written", None)
    roots = named.keys() if written is None else {name.partition(".")[0] for name in written}
    return {name: x for name, x in named.items() if name in roots}


def function_of(version: Any) -> Any:
    """Return the Tile IR of a compiled version, or None if it is unknown."""
    function = version[0] if isinstance(version, list) else version
    return getattr(getattr(function, "program", None), "function", None)


def has_no_atomics(version: Any) -> bool:
    """Whether a compiled version has no atomics, so that its programs are independent."""
    function = function_of(version)
    return function is not None and not any(map(is_atomic, function.walk()))


def unread_by(version: Any, written: Mapping[str, Any], named: Mapping[str, Any]) -> frozenset[str]:
    """Return the written arrays that a compiled version does not load, not even through shared memory."""
    function = function_of(version)
    if function is None:
        return frozenset()
    roots, read = pointer_roots(function), set[str]()
    for op in function.walk():
        if reads_memory(op):
            known = roots.get(op.operands[0])
            read.update(known or named.keys())  # a pointer from elsewhere may lead anywhere
    shared = [x.base for name, x in written.items() if name.partition(".")[0] in read]
    return frozenset(name for name, x in written.items() if name.partition(".")[0] not in read
                     and not any(x.base is base for base in shared))  # fmt: skip


def as_numpy(x: Any) -> Array:
    """Return the elements of an array or tensor as numpy, with types that numpy lacks as their bits."""
    if isinstance(x, np.ndarray):
        return x
    host = x.detach().cpu()
    try:
        return np.asarray(host.numpy())
    except TypeError:
        return np.asarray(host.contiguous().view(sys.modules["torch"].uint8).numpy())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Copies of arrays with their names, to restore the arrays later."""

    copies: tuple[tuple[str, Any, Any], ...]

    @staticmethod
    def of(arrays: Mapping[str, Any]) -> Snapshot:
        rows = ((name, getattr(x, "base", x) if not is_array(x) else x) for name, x in arrays.items())
        return Snapshot(tuple((name, x, x.copy() if isinstance(x, np.ndarray) else x.detach().clone())
                              for name, x in rows if is_array(x)))  # fmt: skip

    def restore(self) -> None:
        for _, array, copy in self.copies:
            if isinstance(array, np.ndarray):
                array[...] = copy
            else:
                array.detach().copy_(copy)
