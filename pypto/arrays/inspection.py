"""What a program can ask of this namespace: the inspection of the array API standard 2024.12."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

VERSION: Final = "2024.12"


class NamespaceInfo:
    """What `__array_namespace_info__` gives.

    Examples
    --------
    >>> import pypto.arrays as pt
    >>> pt.__array_namespace_info__().capabilities()["boolean indexing"]
    False
    """

    def capabilities(self) -> dict[str, Any]:
        """Masks pick no elements, and no shape depends on values, in functions that are traced."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> str:
        return self.devices()[0]

    def devices(self) -> list[str]:
        """Where arrays of numpy are."""
        return [str(device) for device in np.__array_namespace_info__().devices()]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        """Types of arrays that are made without one, but for complex ones."""
        self._check(device)
        found = np.__array_namespace_info__().default_dtypes()
        return {name: found[name] for name in ("real floating", "integral", "indexing")}

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, Any]:
        """The types of some kinds, as `isdtype` takes them."""
        self._check(device)
        found = np.__array_namespace_info__().dtypes(kind=kind)
        return {name: dtype for name, dtype in found.items() if np.dtype(dtype).kind != "c"}

    def _check(self, device: str | None) -> None:
        if device not in (None, *self.devices()):
            raise ValueError(f"arrays are on the {self.default_device()}, and not on {device!r}")


def array_namespace_info() -> NamespaceInfo:
    """What this namespace has: capabilities, devices and types."""
    return NamespaceInfo()
