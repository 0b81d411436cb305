"""The linear algebra extension of the array API standard 2024.12, by numpy's functions.

A fused function runs products, norms and diagonals as kernels. Decompositions (`cholesky`, `det`, `eigh`, `inv`, `qr`,
`solve`, `svd`, …) are steps that numpy runs between kernels; `pypto.arrays.explain` shows them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.arrays.names import LINALG

__all__ = [*LINALG]  # noqa: PLE0604  # names of the standard


def __getattr__(name: str) -> Any:
    """Return a function of the extension.

    Raises
    ------
    AttributeError
        When the standard has no such name.
    """
    if name in LINALG:
        return getattr(np.linalg, name)
    raise AttributeError(f"pypto.arrays.linalg has no {name!r}")
