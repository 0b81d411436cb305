"""Rows that write to paged caches."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.gradients.rule import CACHES
from pypto.library.kernels.attention import paged as kernels
from pypto.library.row import Implementation, Operator
from pypto.library.tolerance import EXACT


def scatter_update(cache: Any, index: Any, rows: Any) -> Any:
    """Reference implementation of `scatter_update` in numpy."""
    updated = np.array(cache)
    for at, row in zip(index, rows, strict=True):
        updated[at] = row
    return updated


def distinct(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples each cache row at most once."""
    return {"index": rng.permutation(n.n)[: n.t].astype(np.int32)}


def repeated(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: several tokens name one row, near each other and far apart."""
    index = rng.integers(0, 5, 1500).astype(np.int32)
    rows = rng.standard_normal((1500, 8)).astype(np.float32)
    return {"cache": np.zeros((7, 8), np.float32), "index": index, "rows": rows}


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, which does not define the order of repeated rows."""
    return v.cache.index_copy_(0, v.index.long(), v.rows)


ROWS: Final = (
    Operator(
        name="scatter_update",
        doc="Rows into a cache, in place",
        text="cache[n, d] bf16|f16|f32|i8, index[t...] i32|i64, rows[t..., d] -> where 0 <= index < n, any(cache, "
        "rows)",
        formula="`cache[index[j]] = rows[j]` for every token j; the last token that names a row writes it, and no "
        "other does, so that no two programs write to one place. Other rows stay as they are. A paged cache is one "
        "with `n = pages * rows of a page`, and `index = page * rows of a page + row`.",
        source="DeepSeek-V3.2's MLA prolog",
        reference=scatter_update,
        implementations=(Implementation("tokens", kernels.scatter_update),),
        sizes={"small": {"n": 40, "d": 64, "t": 6}, "model": {"n": 131072, "d": 576, "t": 1024}},
        sampler=distinct,
        edges={"repeated rows": repeated},
        tolerance={"cache": EXACT},
        flops=lambda n: 0.0,
        bytes=lambda n: 4.0 * n.t * n.d,
        effects=("cache",),
        peer=by_torch,
        limited="each token looks whether a later one names its row, so that the last one wins; torch's "
        "`index_copy_` promises nothing there. Both move 1 MB.",
        no_gradient=CACHES,
    ),
)
