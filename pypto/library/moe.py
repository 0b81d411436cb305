"""Rows of mixture of experts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, bfloat16
from pypto.library.activations import sigmoid as logistic
from pypto.library.attention_rows.softmax_attention import softmax
from pypto.library.gradients import moe as gradients
from pypto.library.kernels import moe as kernels
from pypto.library.kernels import permutation
from pypto.library.kernels import ragged as ragged_kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import EXACT, Close


def moe_gate(x: Any, w: Any) -> Any:
    """Reference implementation of `moe_gate` in numpy."""
    return f64(x) @ f64(w).T


def select_experts(  # arguments as in the operator
    logits: Any, bias: Any, k: int, groups: int, kept: int, sigmoid: int, renormalize: int, scaling: float
) -> tuple[Any, Any]:
    """Reference implementation of `select_experts` in numpy."""
    w = logistic(f64(logits)) if sigmoid else softmax(f64(logits))
    s = w if bias is None else w + f64(bias)
    best = s.reshape(len(s), groups, -1).max(axis=2)
    closed = np.argsort(-best, axis=1, kind="stable")[:, kept:]
    split = s.reshape(len(s), groups, -1).copy()
    np.put_along_axis(split, closed[:, :, None], -np.inf, axis=1)
    ids = np.argsort(-split.reshape(s.shape), axis=1, kind="stable")[:, :k]
    weights = np.take_along_axis(w, ids, axis=1)
    if renormalize:
        weights /= weights.sum(axis=1, keepdims=True) + 1e-20
    return ids, weights * scaling


def permute_tokens(x: Any, ids: Any, experts: int) -> tuple[Any, ...]:
    """Reference implementation of `permute_tokens` in numpy."""
    flat = ids.reshape(-1)
    order = np.argsort(flat, kind="stable")
    return (
        f64(x)[order // ids.shape[1]],
        order,
        np.argsort(order),
        np.searchsorted(flat[order], np.arange(experts), "right"),
    )


def combine_experts(y: Any, position: Any, weights: Any) -> Any:
    """Reference implementation of `combine_experts` in numpy."""
    return (f64(y)[position].reshape(*weights.shape, -1) * f64(weights)[:, :, None]).sum(axis=1)


def grouped_matmul(x: Any, w: Any, ends: Any) -> Any:
    """Reference implementation of `grouped_matmul` in numpy."""
    result = np.zeros((x.shape[0], w.shape[2]))
    for e, (start, stop) in enumerate(zip((0, *ends), ends, strict=False)):
        result[start:stop] = f64(x)[start:stop] @ f64(w)[e]
    return result


def chosen(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples distinct experts for each token; some experts get none."""
    ids = np.argsort(rng.random((n.t, n.experts)), axis=1)[:, : n.k].astype(np.int32)
    return {"ids": ids, "experts": n.experts}


def one_expert(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: all tokens go to one expert."""
    x = rng.standard_normal((700, 8)).astype(np.float32)
    return {"x": x, "ids": np.full((700, 1), 2, np.int32), "experts": 4}


def ties(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: equal scores, of which the lowest numbers win."""
    return {"logits": np.zeros((2, 16), np.float32), "bias": None, "k": 3, "groups": 4, "kept": 2, "sigmoid": 1}


def negative(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: scores that are negative after the bias; a closed group is never selected."""
    logits = rng.standard_normal((4, 16)).astype(np.float32)
    return {"logits": logits, "bias": np.full(16, -3, np.float32), "k": 4, "groups": 4, "kept": 1, "sigmoid": 1}


def positions(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples the positions of the tokens' choices."""
    places = rng.permutation(n.t * n.k).astype(np.int32)
    return {"position": places, "y": rng.standard_normal((n.t * n.k, n.d), np.float32).astype(dtype.numpy)}


def ragged(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples groups of all sizes, some of them empty."""
    shares = rng.random(n.e) ** 3
    ends = np.floor(np.cumsum(shares) / shares.sum() * n.t + 1e-6).astype(np.int32)
    w = (rng.standard_normal((n.e, n.k, n.n), np.float32) / np.sqrt(n.k)).astype(dtype.numpy)
    return {"ends": ends, "w": w}


def empty_groups(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: all rows are in one group between empty ones."""
    x, w = rng.standard_normal((70, 32), np.float32), rng.standard_normal((4, 32, 24), np.float32)
    return {
        "x": x.astype(bfloat16.numpy),
        "w": (w / 6).astype(bfloat16.numpy),
        "ends": np.array([0, 0, 70, 70], np.int32),
    }


def loop_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, with one product for each group."""
    ends = v.ends.tolist()
    return torch.cat([v.x[a:b] @ v.w[e] for e, (a, b) in enumerate(zip([0, *ends], ends, strict=False))])


def select_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, which ignores expert groups."""
    w = torch.sigmoid(v.logits)
    ids = (w + v.bias).topk(8, 1).indices
    selected = w.gather(1, ids)
    return ids, selected / selected.sum(1, keepdim=True)


def combine_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    return (v.y[v.position.long()].view(*v.weights.shape, -1) * v.weights[:, :, None]).sum(1)


def permute_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    flat = v.ids.flatten()
    order = flat.argsort(stable=True)
    return v.x[order // v.ids.shape[1]], order, order.argsort(), torch.bincount(flat, minlength=v.experts).cumsum(0)


ROWS: Final = (
    Operator(
        "moe_gate", "Logits of experts", "x[t..., d] f32|bf16, w[e, d] -> logits[t..., e] f32",
        "`logits = x @ w.T`, in float32.", "GLM-4.5", moe_gate, (Implementation("tiles", kernels.moe_gate),),
        {"small": {"t": 5, "d": 96, "e": 16}, "model": {"t": 1026, "d": 5120, "e": 160}},
        tolerance={"logits": Close(1e-4, 1e-3)}, flops=lambda n: 2.0 * n.t * n.d * n.e,
        peer=lambda torch, v: v.x @ v.w.T,
        limited="one product in IEEE float32, at 0.54 of the rate of multiply-adds; torch's product has 0.6.",
        items="t",
        gradient=gradients.moe_gate,
    ),
    Operator(
        "select_experts", "Choice of k experts for every token, by softmax or by sigmoid within groups",
        "logits[t..., e] f32, bias[e]? f32|bf16, k=8, groups=1, kept=1, sigmoid=1, renormalize=1, scaling=1.0"
        " -> ids[t..., k] i32, weights[t..., k] f32 "
        "where 1 <= groups, e % groups == 0, 1 <= kept <= groups, 0 <= k <= kept*(e // groups)",
        "`w = sigmoid(logits)`, or softmax; `s = w + bias`. Of `groups` equal groups, the `kept` ones of the largest s"
        " stay open, and s of the others is minus infinity. `ids` are the k largest s, descending, ties to the lowest "
        "number; `weights = w[ids]`, without the bias, over their sum if `renormalize`, times `scaling`.",
        "GLM-4.5 and DeepSeek-V3", select_experts,
        (Implementation("batches", kernels.select_experts_in_batches, ("ascend",)),
         Implementation("tokens", kernels.select_experts)),
        {"small": {"t": 5, "e": 32}, "model": {"t": 1026, "e": 160}},
        edges={"ties": ties, "negative scores": negative},
        tolerance={"ids": EXACT}, flops=lambda n: 10.0 * n.t * n.e, peer=select_by_torch, items="t",
        gradient=gradients.select_experts,
    ),
    Operator(
        "permute_tokens", "Rows of tokens in the order of their experts",
        "x[t..., d] bf16|f32, ids[t..., k] i32, experts=8 -> y[t*k, d], order[t*k] i32, position[t*k] i32, "
        "ends[experts] i32 "
        "where 1 <= d, 0 <= experts, 0 <= ids < experts",
        "`order` are the numbers of choices, `token * k + i`, sorted by expert, in their order within one; "
        "`y = x[order // k]`, `position[order[i]] = i`, and `ends[e]` is the number of choices of experts up to e.",
        "Mixtures of experts", permute_tokens,
        (
            Implementation("blocks", permutation.permute_tokens, ("ascend",)),
            Implementation("experts", kernels.permute_tokens),
        ),
        {"small": {"t": 9, "d": 32, "k": 2, "experts": 5}, "model": {"t": 1024, "d": 5120, "k": 8, "experts": 160}},
        chosen, edges={"one expert": one_expert}, tolerance={"y": EXACT}, flops=lambda n: 0.0, peer=permute_by_torch,
        gradient=gradients.permute_tokens,
    ),
    Operator(
        "grouped_matmul", "Products of ragged groups of rows with their weights",
        "x[t, k] bf16|f32, w[e, k, n], ends[e] i32 -> y[t, n] "
        "where 0 <= ends[0], ends[-1] == t, 0 <= steps(ends), contiguous(ends)",
        "Rows from `ends[e-1]` to `ends[e]` times `w[e]`, summed in float32. `ends` ascends to t. One grid covers all "
        "groups: a prefix sum of their tiles says which group a program works on.", "Mixtures of experts",
        grouped_matmul,
        (
            Implementation("waves", ragged_kernels.grouped_matmul, ("ascend",)),
            Implementation("tall tiles", kernels.grouped_matmul_by_tall_tiles, ("cpu",)),
            Implementation("tiles", kernels.grouped_matmul),
        ),
        {"small": {"t": 90, "k": 32, "e": 4, "n": 48}, "model": {"t": 2048, "k": 2048, "e": 16, "n": 1536}}, ragged,
        edges={"empty groups": empty_groups}, flops=lambda n: 2.0 * n.t * n.k * n.n, peer=loop_by_torch,
        limited="0.12 of the rate of instructions for tiles of bfloat16, as a loop of torch's products has. Every tile "
        "packs the weights of its expert.", items="n",
        no_leading="`t` counts the rows of all groups, which lie one behind the other",
        gradient=gradients.grouped_matmul,
    ),
    Operator(
        "combine_experts", "Weighted sum of what a token's experts gave",
        "y[m, d] bf16|f32, position[m] i32, weights[t..., k] f32 -> out[t..., d] where m == t*k, 0 <= position < m",
        "`out[t] = sum over i of weights[t, i] * y[position[t*k + i]]`, in float32.", "Mixtures of experts",
        combine_experts, (Implementation("tokens", kernels.combine_experts),),
        {"small": {"t": 5, "k": 2, "m": 10, "d": 48}, "model": {"t": 1024, "k": 8, "m": 8192, "d": 5120}}, positions,
        flops=lambda n: 2.0 * n.m * n.d, peer=combine_by_torch, items="d",
        gradient=gradients.combine_experts,
    ),
)  # fmt: skip
