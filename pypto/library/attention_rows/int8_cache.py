"""The row of attention over an int8 key-value cache."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, bfloat16
from pypto.library.attention_rows.softmax_attention import SMALL, attention
from pypto.library.attention_rows.softmax_attention import by_torch as attention_by_torch
from pypto.library.gradients import attention as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels.attention import cache as kernels
from pypto.library.kernels.attention import cache_on_cube as on_cube
from pypto.library.row import Implementation, Operator, f64


def attention_int8_cache(q: Any, k: Any, key_scale: Any, v: Any, value_scale: Any, scale: float, causal: int) -> Any:
    """Reference implementation of `attention_int8_cache` in numpy."""
    return attention(q, f64(k) * f64(key_scale)[:, None], f64(v) * f64(value_scale)[..., None], scale, causal)


def codes(rng: np.random.Generator, n: SimpleNamespace) -> dict[str, Any]:
    """Samples all codes, and scales that give scores near 1."""
    return {
        "k": rng.integers(-127, 128, (n.b, n.g, n.m, n.d)).astype(np.int8),
        "key_scale": (rng.random((n.g, n.d), np.float32) + 0.5) / 127,
        "v": rng.integers(-127, 128, (n.b, n.g, n.m, n.e)).astype(np.int8),
        "value_scale": rng.random((n.b, n.g, n.m), np.float32) / 127,
    }


def causal(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> dict[str, Any]:
    """Samples codes for the causal mask."""
    return codes(rng, n) | {"causal": 1}


def one_query(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: one query on a cache of odd length, as in decoding; the values of one token are all 0."""
    n = SimpleNamespace(**SMALL | {"m": 131})
    quantized = codes(rng, n)
    quantized["value_scale"][:, :, 5] = 0
    return quantized | {"q": rng.standard_normal((n.b, n.h, 1, n.d), np.float32).astype(bfloat16.numpy)}


def few_keys(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: causal attention with more queries than keys, so that the first queries see none."""
    n = SimpleNamespace(**SMALL | {"m": 13})
    q = rng.standard_normal((n.b, n.h, n.n, n.d), np.float32)
    return codes(rng, n) | {"q": q, "causal": 1}


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch: dequantises the cache to the queries' dtype, then calls torch's attention."""
    k = (v.k * v.key_scale[:, None]).to(v.q.dtype)
    values = (v.v * v.value_scale[..., None]).to(v.q.dtype)
    return attention_by_torch(torch, SimpleNamespace(q=v.q, k=k, v=values))


ROWS: Final = (
    Operator(
        "attention_int8_cache", "Attention on a cache of int8 keys and values, unpacked in registers",
        "q[b..., h, n, d] bf16|f16|f32, k[b..., g, m, d] i8, key_scale[g, d] f32, v[b..., g, m, e] i8, "
        "value_scale[b..., g, m] f32, scale=0.0, causal=0 -> out[b..., h, n, e] where h % g == 0, 1 <= d, any(k, v)",
        "`attention` with `k * key_scale[:, None]` and `v * value_scale[..., None]`, in float32: a channel of the keys "
        "has one scale, which goes into the queries, and a token of the values one for each head.",
        "Liu and others, KIVI, 2024", attention_int8_cache,
        (Implementation("widened", on_cube.attention_int8_cache, ("ascend",)),
         Implementation("flash", kernels.attention_int8_cache)),
        {"small": SMALL, "model": {"b": 1, "h": 32, "g": 8, "n": 1, "m": 8192, "d": 128, "e": 128}},
        sampler=causal, edges={"one query": one_query, "more queries than keys": few_keys},
        flops=lambda n: 2.0 * n.b * n.h * n.n * n.m * (n.d + n.e), peer=by_torch,
        gradient=composed(gradients.attention_int8_cache, "which keeps all weights of a head"),
    ),
)  # fmt: skip
