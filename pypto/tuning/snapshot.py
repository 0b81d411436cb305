"""Arrays as they were before a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


def is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) or (hasattr(x, "clone") and hasattr(x, "copy_"))


def zero(x: Any) -> None:
    """Fill an array or tensor with zeros."""
    if hasattr(x, "zero_"):
        x.zero_()
    elif x is not None:
        x[...] = 0


def written_by(version: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a compiled version writes to; those with pointers from elsewhere count all."""
    found = version[0] if isinstance(version, list) else version
    written = getattr(getattr(found, "program", None), "written", None)
    roots = named.keys() if written is None else {name.partition(".")[0] for name in written}
    return {name: x for name, x in named.items() if name in roots}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Copies of arrays, to be put back."""

    copies: tuple[tuple[Any, Any], ...]

    @staticmethod
    def of(arrays: Mapping[str, Any]) -> Snapshot:
        found = (getattr(x, "base", x) if not is_array(x) else x for x in arrays.values())
        return Snapshot(tuple((x, x.copy() if isinstance(x, np.ndarray) else x.detach().clone())
                              for x in found if is_array(x)))  # fmt: skip

    def restore(self) -> None:
        for array, copy in self.copies:
            if isinstance(array, np.ndarray):
                array[...] = copy
            else:
                array.detach().copy_(copy)
