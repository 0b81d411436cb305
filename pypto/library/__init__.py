"""Operators of large models: each is one row, which gives its checked call, tests, benchmark and documentation.

``library.rms_norm(x, g)`` calls an operator, ``library.rows["rms_norm"]`` is its row, ``library.register`` adds a row.

Read `row`, `signature`, `expressions`, `conditions`, `leading`, `binding`, `recording` and `call_cache`, then
`registry`, `tolerance`, `checking`, `items`, `timing`, `residency` and `card`. Rows: `norms`, `activations`, `losses`,
`moe`, `optim`, `residual`, `transforms`, `image`, `attention_rows`, `quantized_rows`. Beside them: `kernels`,
`gradients`.
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
    """Returns an operator by its name."""
    if name.startswith("_") or name not in rows:
        close_names = "" if name.startswith("_") else _suggestion(name, rows)
        raise AttributeError(f"module 'pypto.library' has no attribute {name!r}{close_names}", name=name)
    return rows[name]


def __dir__() -> list[str]:
    return sorted([*__all__, *rows])
