"""The row of variable-length attention over sequences that lie one after the other."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.attention_rows.softmax_attention import attention
from pypto.library.conditions import RAGGED
from pypto.library.gradients import attention as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels.attention import varlen as kernels
from pypto.library.row import Implementation, Operator, Values


def varlen_attention(q: Any, k: Any, v: Any, starts: Any, scale: float, causal: int, longest: int) -> Any:
    """Reference implementation of `varlen_attention` in numpy."""
    result = np.zeros((*q.shape[:2], v.shape[2]))
    for first, end in pairwise(starts):
        queries, keys, values = (x[first:end].swapaxes(0, 1)[None] for x in (q, k, v))
        if first < end:
            result[first:end] = attention(queries, keys, values, scale, causal)[0].swapaxes(0, 1)
    return result


def sequences(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> Values:
    """Samples sequences of all lengths; one of three or more is empty."""
    cuts = np.sort(rng.integers(0, n.t + 1, n.s - 2))
    if n.s > 3:
        cuts[1] = cuts[0]
    starts = np.array([0, *cuts, n.t], np.int32)
    return {"starts": starts, "longest": int(np.diff(starts).max())}


def long_and_causal(rng: np.random.Generator) -> Values:
    """Edge case: a causal sequence longer than a block, beside sequences of one token, with grouped heads."""
    q = rng.standard_normal((170, 4, 32), np.float32)
    k, v = rng.standard_normal((2, 170, 2, 32), np.float32)
    return {"q": q, "k": k, "v": v, "starts": np.array([0, 1, 169, 170], np.int32), "causal": 1, "longest": 168}


def neighbours(rng: np.random.Generator) -> Values:
    """Edge case: NaN in one sequence must not reach others, and one sequence is empty."""
    q, k, v = rng.standard_normal((3, 20, 2, 16), np.float32)
    k[7] = v[7] = np.nan
    return {"q": q, "k": k, "v": v, "starts": np.array([0, 7, 7, 20], np.int32), "scale": 0.5}


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, one call for each sequence."""
    results = []
    for first, end in pairwise(v.starts.tolist()):
        heads = (x[first:end].transpose(0, 1)[None] for x in (v.q, v.k, v.v))
        one = torch.nn.functional.scaled_dot_product_attention(*heads, enable_gqa=True)
        results.append(one[0].transpose(0, 1))
    return torch.cat(results)


ROWS: Final = (
    Operator(
        name="varlen_attention",
        doc="Attention within each of several sequences that lie one after the other, without padding",
        text="q[t, h, d] bf16|f16|f32, k[t, g, d], v[t, g, e], starts[s] i32, scale=0.0, causal=0, longest=0 "
        "-> out[t, h, e] where "
        f"h % g == 0, 0 <= longest, {RAGGED}, 0 <= steps(starts) <= (longest or t), "
        "1 <= d, contiguous_rows(v)",
        formula="Tokens from `starts[i]` to `starts[i + 1]` are a sequence; `starts` begins with 0 and ends with t. A "
        "token sees those of its sequence, with `causal` those up to itself: `out = softmax(q @ k.T * scale) @ v`, "
        "with `scale = 1/sqrt(d)` where it is 0. Each head of keys serves `h/g` heads of queries. No sequence is longer"
        " than `longest`; 0 stands for t. Softmax in float32 and one pass; weights are rounded to the dtype "
        "of the values before they are divided by their sum.",
        source="Dao and others, FlashAttention, 2022",
        reference=varlen_attention,
        implementations=(
            Implementation("masked", partial(kernels.varlen_attention, masked=True), platforms=("ascend",)),
            Implementation("flash", kernels.varlen_attention),
        ),
        sizes={
            "small": {"t": 40, "h": 4, "g": 2, "d": 32, "e": 32, "s": 4},
            "model": {"t": 4096, "h": 12, "g": 12, "d": 64, "e": 64, "s": 33},
        },
        sampler=sequences,
        edges={"long and causal": long_and_causal, "neighbours": neighbours},
        flops=lambda n: 2.0 * n.h * n.t * n.t / (n.s - 1) * (n.d + n.e),
        peer=by_torch,
        no_leading="`t` counts the tokens of all sequences, which are packed one behind the other",
        gradient=composed(gradients.varlen_attention, "on sequences padded to `longest`"),
    ),
)
