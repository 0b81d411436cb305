"""Rows of sparse attention over selected rows of a paged cache."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, bfloat16
from pypto.library.attention_rows.softmax_attention import softmax
from pypto.library.conditions import PAGED
from pypto.library.gradients import caches as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels.attention import gathered
from pypto.library.kernels.attention import sparse as kernels
from pypto.library.row import Implementation, Operator, bf, f64

SMALL: Final = {"t": 4, "h": 8, "c": 64, "r": 16, "pages": 20, "page": 16, "b": 2, "p": 6, "k": 70, "groups": 4}
MODEL: Final = {"t": 8, "h": 128, "c": 512, "r": 64, "pages": 2048, "page": 128, "b": 4, "p": 512, "k": 2048,
                "groups": 4}  # fmt: skip
CHOSEN: Final = (
    f"t % b == 0, 1 <= r, {PAGED}, 0 <= topk[:seen(lengths)] < tokens(lengths), contiguous(topk), "
    "contiguous_rows(keys, rope)"
)
FORMULA: Final = (
    "Token j of s tokens of sequence i sees `clamp(lengths[i] - s + 1 + j, 0, k)` rows, the first of `topk`, by "
    "`table`. `V = {0}`, `K = [V | rope]`, `out = softmax(q @ K.T * scale) @ V`, with `scale = 1/sqrt(c+r)` where it "
    "is 0. Softmax in float32 and one pass; weights are rounded to bfloat16 before they are divided by their sum. A "
    "token that sees no row gives 0."
)


def sparse_attention_quant(**v: Any) -> Any:
    """Reference implementation of `sparse_attention_quant` in numpy."""
    q = np.concatenate([f64(v["q_nope"]), f64(v["q_rope"])], axis=2)
    (t, _, c), b = v["q_nope"].shape, len(v["lengths"])
    page, s, result = v["keys"].shape[1], t // b, np.zeros(v["q_nope"].shape)
    unit = v["scale"] or 1 / math.sqrt(q.shape[2])
    for j in range(t):
        count = min(max(v["lengths"][j // s] - s + 1 + j % s, 0), v["topk"].shape[1])
        rows = v["topk"][j, :count]
        at = v["table"][j // s, rows // page], rows % page
        values = f64(v["keys"][at])
        if v["scales"] is not None:
            scales = np.repeat(f64(v["scales"][at]), c // v["scales"].shape[2], axis=1)
            values = bf(values * scales)
        keys = np.concatenate([values, f64(v["rope"][at])], axis=1)
        result[j] = softmax(q[j] @ keys.T * unit) @ values
    return result


def sparse_attention(**v: Any) -> Any:
    """Reference implementation of `sparse_attention` in numpy."""
    return sparse_attention_quant(scales=None, **v)


def chosen(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples row numbers that a token may see, in random order and padded with -1."""
    s = n.t // n.b
    lengths = rng.integers(s, n.p * n.page + 1, n.b).astype(np.int32)
    lengths[-1] = n.p * n.page
    topk = np.full((n.t, n.k), -1, np.int32)
    for j in range(n.t):
        seen = max(int(lengths[j // s]) - s + 1 + j % s, 0)
        rows = rng.permutation(seen)[: n.k]
        topk[j, : len(rows)] = rows
    table = rng.permutation(n.pages)[: n.b * n.p].reshape(n.b, n.p).astype(np.int32)
    return {"topk": topk, "table": table, "lengths": lengths}


def chosen_with_scales(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples selected rows with scales that make int8 numbers near 1."""
    scales = (0.005 + 0.01 * rng.random((n.pages, n.page, n.groups))).astype(np.float32)
    return {"scales": scales, **chosen(rng, n, dtype)}


def no_rows(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: sequences without rows, with one row, and two tokens of a sequence with one row."""

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32).astype(bfloat16.numpy)

    topk = np.full((6, 8), -1, np.int32)
    topk[3, 0] = topk[4, 0] = topk[5, 0] = 0
    topk[5, 1] = 1
    return {
        "q_nope": normal(6, 2, 32), "q_rope": normal(6, 2, 16), "keys": normal(4, 16, 32), "rope": normal(4, 16, 16),
        "topk": topk, "table": np.array([[3], [1], [2]], np.int32), "lengths": np.array([0, 1, 2], np.int32),
    }  # fmt: skip


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch: gathers rows for every token, then attends to them."""
    (t, _, c), b, page = v.q_nope.shape, len(v.lengths), v.keys.shape[1]
    q, results = torch.cat([v.q_nope, v.q_rope], 2), []
    counts = (v.lengths[torch.arange(t) // (t // b)] - t // b + 1 + torch.arange(t) % (t // b)).clamp(
        0, v.topk.shape[1]
    )
    for j, count in enumerate(counts.tolist()):
        rows = v.topk[j, :count].long()
        at = v.table[j // (t // b)].long()[rows // page], rows % page
        values = v.keys[at]
        if hasattr(v, "scales"):
            groups = v.scales.shape[2]
            values = (values.view(count, groups, c // groups) * v.scales[at][..., None]).to(q.dtype).flatten(1)
        keys = torch.cat([values, v.rope[at]], 1)
        s = (q[j] @ keys.T).float() / math.sqrt(q.shape[2])
        results.append(torch.softmax(s, 1).to(values.dtype) @ values)
    return torch.stack(results)


def flops(n: Any) -> float:
    """Counts the operations of products with the selected rows."""
    return float(2 * n.t * n.h * n.k * (2 * n.c + n.r))


ROWS: Final = (
    Operator(
        name="sparse_attention",
        doc="Latent attention over chosen rows of a paged cache",
        text="q_nope[t..., h, c] bf16, q_rope[t..., h, r], keys[pages, page, c], rope[pages, page, r], topk[t..., "
        "k] i32, "
        f"table[b, p] i32, lengths[b] i32, scale=0.0 -> out[t..., h, c] where {CHOSEN}",
        formula=FORMULA.format("keys[row]"),
        source="DeepSeek-V3.2's sparse attention",
        reference=sparse_attention,
        implementations=(
            Implementation("gathered", gathered.sparse_attention, ("ascend",)),
            Implementation("flash", kernels.sparse_attention),
        ),
        sizes={"small": SMALL, "model": MODEL},
        sampler=chosen,
        edges={"no rows": no_rows},
        flops=flops,
        bytes=lambda n: 2.0 * n.t * n.k * (n.c + n.r),
        peer=by_torch,
        items="h",
        gradient=composed(gradients.sparse_attention, "on gathered rows"),
    ),
    Operator(
        name="sparse_attention_quant",
        doc="Latent attention over chosen rows of a paged int8 cache with scales",
        text="q_nope[t..., h, c] bf16, q_rope[t..., h, r], keys[pages, page, c] i8, rope[pages, page, r], "
        "scales[pages, page, groups] f32, topk[t..., k] i32, table[b, p] i32, lengths[b] i32, scale=0.0 -> out[t..., "
        "h, c] "
        f"where c % groups == 0, {CHOSEN}, contiguous_rows(scales), any(keys)",
        formula=FORMULA.format("bf16(keys[row] * scales[row])")
        + " Each scale is that of `c / groups` neighbouring columns.",
        source="DeepSeek-V3.2's sparse attention",
        reference=sparse_attention_quant,
        implementations=(
            Implementation("gathered", gathered.sparse_attention_quant, ("ascend",)),
            Implementation("flash", kernels.sparse_attention_quant),
        ),
        sizes={"small": SMALL, "model": MODEL},
        sampler=chosen_with_scales,
        flops=flops,
        bytes=lambda n: 1.0 * n.t * n.k * (n.c + 2 * n.r + 4 * n.groups),
        items="h",
        peer=by_torch,
        gradient=composed(gradients.sparse_attention, "on gathered rows"),
    ),
)
