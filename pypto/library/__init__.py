"""The operators of large models: each is one row, from which its call, tests, benchmark and documentation are read.

``library.rms_norm(x, g)`` calls a row, ``library.rows["rms_norm"]`` is the row, and ``library.register`` adds one.

Read `row`, `signature`, `expressions`, `conditions` and `binding`, then `registry`, `tolerance`, `checking`, `items`,
`timing`, `residency` and `card`. Rows: `norms`, `activations`, `losses`, `moe`, `optim`, `residual`, `transforms`,
`image`, `attention_rows`, `quantized_rows`. Their kernels: `kernels`.
"""

from __future__ import annotations

from pypto.library.registry import Registry
from pypto.library.row import Implementation, Operator
from pypto.library.signature import Signature
from pypto.library.tolerance import EXACT, Close, Tolerance
from pypto.options import suggestion as _suggestion

rows = Registry()
register = rows.register

__all__ = ["EXACT", "Close", "Implementation", "Operator", "Registry", "Signature", "Tolerance", "register", "rows"]


def __getattr__(name: str) -> Operator:
    """An operator by its name."""
    if name.startswith("_") or name not in rows:
        near = "" if name.startswith("_") else _suggestion(name, rows)
        raise AttributeError(f"module 'pypto.library' has no attribute {name!r}{near}")
    return rows[name]


def __dir__() -> list[str]:
    return sorted([*__all__, *rows])
