"""The linear algebra extension of the array API standard 2024.12, as numpy has it.

In a fused function products, norms, diagonals and the like are kernels. Decompositions (`cholesky`, `det`, `eigh`,
`inv`, `qr`, `solve`, `svd`, …) are steps that numpy makes between them; `pypto.arrays.explain` shows these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.arrays.names import LINALG

__all__ = [*LINALG]  # noqa: PLE0604  # names of the standard


def __getattr__(name: str) -> Any:
    """A function of the extension.

    Raises
    ------
    AttributeError
        Where the standard has no such name.
    """
    if name in LINALG:
        return getattr(np.linalg, name)
    raise AttributeError(f"pypto.arrays.linalg has no {name!r}")
