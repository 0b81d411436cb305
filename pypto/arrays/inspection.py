"""The inspection API of the array API standard 2024.12: capabilities, devices and dtypes of this namespace."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

VERSION: Final = "2024.12"


class NamespaceInfo:
    """The result of `__array_namespace_info__`.

    Examples
    --------
    >>> import pypto.arrays as pt
    >>> pt.__array_namespace_info__().capabilities()["boolean indexing"]
    False
    """

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities: traced functions have no boolean indexing and no data-dependent shapes."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> str:
        return self.devices()[0]

    def devices(self) -> list[str]:
        """Return the devices of numpy arrays."""
        return [str(device) for device in np.__array_namespace_info__().devices()]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        """Return the default dtypes of new arrays, without complex ones."""
        self._check(device)
        dtypes = np.__array_namespace_info__().default_dtypes()
        return {name: dtypes[name] for name in ("real floating", "integral", "indexing")}

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, Any]:
        """Return the dtypes of some kinds, in the notation of `isdtype`."""
        self._check(device)
        dtypes = np.__array_namespace_info__().dtypes(kind=kind)
        return {name: dtype for name, dtype in dtypes.items() if np.dtype(dtype).kind != "c"}

    def _check(self, device: str | None) -> None:
        if device not in (None, *self.devices()):
            raise ValueError(f"arrays are on the {self.default_device()}, and not on {device!r}")


def array_namespace_info() -> NamespaceInfo:
    """Return the capabilities, devices and dtypes of this namespace."""
    return NamespaceInfo()
