"""The row of block-sparse attention, in which a mask selects blocks of keys."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.gradients import attention as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels.attention import block_sparse as kernels
from pypto.library.row import Implementation, Operator, Values, f64, normal
from pypto.library.tolerance import Close


def block_sparse_attention(**v: Any) -> tuple[Any, Any]:
    """Reference implementation of `block_sparse_attention`, with an elementwise mask."""
    b, h, n, d = v["q"].shape
    g, m = v["k"].shape[1:3]
    queries = f64(v["q"]).reshape(b, g, h // g, n, d)
    seen = v["mask"].repeat(v["bx"], axis=2)[:, :, :n].repeat(v["by"], axis=3)[..., :m].reshape(b, g, h // g, n, m) != 0
    s = queries @ f64(v["k"])[:, :, None].swapaxes(3, 4) * (v["scale"] or 1 / math.sqrt(d))
    s[~seen] = -np.inf
    most = s.max(axis=4)
    e = np.exp(s - np.where(np.isinf(most), 0, most)[..., None])
    total = e.sum(axis=4)
    with np.errstate(divide="ignore"):
        lse = most + np.log(total)
    e /= np.where(total > 0, total, 1)[..., None]
    return (e @ f64(v["v"])[:, :, None]).reshape(b, h, n, -1), lse.reshape(b, h, n)


def some_blocks(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> Values:
    """Samples a mask with a quarter of the blocks, and the first block of every row."""
    shape = (n.b, n.h, -(-n.n // n.bx), -(-n.m // n.by))
    mask = (rng.random(shape) < 0.25).astype(np.uint8)
    mask[..., 0] = 1
    return {"mask": mask, "bx": n.bx, "by": n.by}


def no_block(rng: np.random.Generator) -> Values:
    """Edge case: queries that see no block, only the last, partial block, or all blocks."""
    sizes = SimpleNamespace(b=1, h=2, g=1, n=20, m=37, bx=8, by=16)
    mask = np.array([[0, 0, 0], [0, 0, 1], [9, 1, 1]], np.uint8)[None, None].repeat(2, axis=1)
    arrays = {name: normal(rng, (1, heads, rows, 32), DType("f32"))
              for name, heads, rows in (("q", 2, 20), ("k", 1, 37), ("v", 1, 37))}  # fmt: skip
    return {**arrays, "mask": mask, "bx": sizes.bx, "by": sizes.by}


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, with an elementwise mask."""
    mask = v.mask.repeat_interleave(v.bx, 2)[:, :, : v.q.shape[2]].repeat_interleave(v.by, 3)[..., : v.k.shape[2]]
    return torch.nn.functional.scaled_dot_product_attention(v.q, v.k, v.v, attn_mask=mask != 0, enable_gqa=True)


ROWS: Final = (
    Operator(
        name="block_sparse_attention",
        doc="Attention of blocks of queries over the blocks of keys that a mask names",
        text="q[b..., h, n, d] bf16|f16|f32, k[b..., g, m, d], v[b..., g, m, e], mask[b..., h, (n+bx-1)//bx, "
        "(m+by-1)//by] u8, "
        "bx=64, by=64, scale=0.0 -> out[b..., h, n, e], lse[b..., h, n] f32 "
        "where h % g == 0, 1 <= bx, 1 <= by, 1 <= d, 1 <= e, any(mask), contiguous(mask)",
        formula="Queries of block i see the keys of block j where `mask[i, j]` is not 0. `out = softmax(q @ k.T * "
        "scale) @ v` over them, with `scale = 1/sqrt(d)` where it is 0, and `lse = log sum exp(q @ k.T * scale)`; a "
        "head of keys serves `h/g` heads. The blocks of a row are listed first, so that time goes with their "
        "number. A query that sees no key gives 0, and its `lse` is minus infinity.",
        source="Block-sparse attention of long prompts",
        reference=block_sparse_attention,
        implementations=(
            Implementation("sorted", partial(kernels.block_sparse_attention, by_sort=True), platforms=("ascend",)),
            Implementation("listed", kernels.block_sparse_attention),
        ),
        sizes={
            "small": {"b": 1, "h": 4, "g": 2, "n": 40, "m": 70, "d": 32, "e": 32, "bx": 16, "by": 16},
            "model": {"b": 1, "h": 16, "g": 4, "n": 2048, "m": 2048, "d": 128, "e": 128, "bx": 128, "by": 128},
        },
        sampler=some_blocks,
        edges={"no block": no_block},
        tolerance={"lse": Close(1e-4, 1e-4)},
        flops=lambda n: 2.0 * n.b * n.h * n.n * n.m * (n.d + n.e) / 4,
        peer=by_torch,
        gradient=composed(gradients.block_sparse_attention, "which keeps all weights of a head"),
    ),
)
