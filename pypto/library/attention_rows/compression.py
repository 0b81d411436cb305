"""The row that compresses a window of tokens into one row of keys and values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.attention_rows.softmax_attention import softmax
from pypto.library.attention_rows.v4 import rotated, turned_by_torch, uniform
from pypto.library.gradients.rule import CACHES
from pypto.library.kernels.attention import compressor as kernels
from pypto.library.norms import rms_norm
from pypto.library.row import Implementation, Operator, Values, bf, f64
from pypto.library.tolerance import BF16, Close

SMALL: Final = {"t": 12, "h": 96, "w": 128, "r": 4, "d": 64, "e": 16, "b": 2, "p": 4, "page": 8, "pages": 10}
OVERLAPPING: Final = {"t": 256, "h": 4096, "w": 1024, "r": 4, "d": 512, "e": 64, "b": 64, "p": 8, "page": 128,
                      "pages": 544}  # fmt: skip
LONG: Final = {"t": 512, "h": 4096, "w": 512, "r": 128, "d": 512, "e": 64, "b": 2, "p": 8, "page": 128, "pages": 17}


def state_rows(state: Any, table: Any, positions: Any) -> Any:
    """Returns the state rows of one sequence at these positions."""
    return state[table[positions // state.shape[1]], positions % state.shape[1]]


def pooled(v: Any, kv: Any, score: Any, b: int, end: int) -> Any:
    """Pools a window by a softmax over its rows, separately for each channel."""
    ratio, d = len(v["ape"]), len(v["gain"])
    now, before = np.arange(end - ratio, end), np.arange(max(end - 2 * ratio, 0), end - ratio)
    values, scores = (state_rows(x, v["table"][b], now)[:, -d:] for x in (kv, score))
    if kv.shape[2] == 2 * d:
        values, scores = (
            np.concatenate([state_rows(x, v["table"][b], before)[:, :d], own_values])
            for x, own_values in ((kv, values), (score, scores))
        )
    return (softmax(scores.T).T * values).sum(axis=0)


def compressor(**v: Any) -> tuple[Any, ...]:
    """Reference implementation of `compressor` in numpy."""
    kv, score = f64(v["kv_state"]), f64(v["score_state"])
    t, s = len(v["x"]), len(v["x"]) // len(v["start"])
    given, gate = f64(v["x"]) @ f64(v["w_kv"]).T, f64(v["x"]) @ f64(v["w_gate"]).T
    page, ratio, out = kv.shape[1], len(v["ape"]), np.zeros((t, len(v["gain"])))
    for i in range(t):
        position = int(v["start"][i // s]) + i % s
        at = v["table"][i // s, position // page], position % page
        kv[at], score[at] = given[i], gate[i] + v["ape"][position % ratio]
    for i in range(t):
        end = int(v["start"][i // s]) + i % s + 1
        if end % ratio == 0:
            out[i] = rms_norm(bf(pooled(v, kv, score, i // s, end))[None], v["gain"], v["eps"])[0]
    result = rotated(bf(out)[:, None], v["cos"], v["sin"])[:, 0]
    return result if v["hadamard"] is None else bf(result) @ f64(v["hadamard"]), kv, score


def windows(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> Values:
    """Samples sequences that begin anywhere, and one at 0, with earlier states."""
    start = rng.integers(0, n.p * n.page - n.t // n.b + 1, n.b).astype(np.int32)
    start[0] = 0
    table = rng.permutation(n.pages)[: n.b * n.p].reshape(n.b, n.p).astype(np.int32)
    return {
        "x": uniform(rng, 1, n.t, n.h), "w_kv": uniform(rng, 1.7 / n.h**0.5, n.w, n.h),
        "w_gate": uniform(rng, 1.7 / n.h**0.5, n.w, n.h), "gain": uniform(rng, 1, n.d), "start": start,
        "cos": uniform(rng, 1, n.t, n.e), "sin": uniform(rng, 1, n.t, n.e), "table": table,
    }  # fmt: skip


def distant_blocks(rng: np.random.Generator) -> Values:
    """Edge case: windows that do not overlap and cross pages, and a transform."""
    n = SimpleNamespace(**{**SMALL, "w": 64, "r": 6, "page": 4, "p": 8, "pages": 16})
    given = windows(rng, n, DType("bf16"))
    states = rng.standard_normal((2, n.pages, n.page, n.w), np.float32)
    transform = np.linalg.qr(rng.standard_normal((n.d, n.d)))[0].astype(given["x"].dtype)
    ape = rng.standard_normal((n.r, n.w), np.float32)
    return {**given, "ape": ape, "kv_state": states[0], "score_state": states[1], "hadamard": transform}


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch: it pools a window for every token, and zeroes rows that end no window."""
    (t, ratio, d), page, s = (len(v.x), len(v.ape), len(v.gain)), v.kv_state.shape[1], len(v.x) // len(v.start)
    b = torch.arange(t) // s
    position = (v.start[b] + torch.arange(t) % s).long()
    at = v.table[b, position // page].long(), position % page
    v.kv_state.index_put_(at, (v.x @ v.w_kv.T).float())
    v.score_state.index_put_(at, (v.x @ v.w_gate.T).float() + v.ape[position % ratio])
    number = position[:, None] - torch.arange(ratio * (v.kv_state.shape[2] // d)).flip(0)
    before = number.clamp(min=0)
    places = v.table[b[:, None], before // page].long(), before % page
    kv, score = v.kv_state[places], v.score_state[places].masked_fill((number < 0)[..., None], -torch.inf)
    if kv.shape[2] == 2 * d:
        kv, score = (torch.cat([x[:, :ratio, :d], x[:, ratio:, d:]], 1) for x in (kv, score))
    pooled = (torch.softmax(score, 1) * kv).sum(1).bfloat16()
    row = turned_by_torch(torch, torch.nn.functional.rms_norm(pooled, (d,), v.gain, v.eps)[:, None], v)[:, 0]
    row = row if v.hadamard is None else row @ v.hadamard
    return row * ((position + 1) % ratio == 0)[:, None]


ROWS: Final = (
    Operator(
        name="compressor",
        doc="One row of keys and values for each window of tokens, with states in paged caches",
        text="x[t..., h] bf16, w_kv[w, h], w_gate[w, h], ape[r, w] f32, gain[d], cos[t..., e], sin[t..., e], "
        "start[b] i32, "
        "table[b, p] i32, kv_state[pages, page, w] f32, score_state[pages, page, w] f32, hadamard[d, d]?, eps=1e-6 "
        "-> out[t..., d] where t % b == 0, 1 <= r, 1 <= page, w == d or w == 2*d, 1 <= e <= d, e % 2 == 0, "
        "0 <= start <= p*page - t//b, "
        "0 <= table[max(start + 1 - w//d*r, 0)//page:cdiv(start + t//b, page)] < pages, "
        "contiguous_rows(table, kv_state, score_state)",
        formula="Token j of s of sequence i has the position `start[i] + j`; its rows `x @ w_kv.T` and `x @ w_gate.T + "
        "ape[position % r]` go to the pages of the sequence, by `table`. A token with `(position + 1) % r = 0` ends a "
        "window of r rows: `pooled = bf16(sum of softmax(score) * kv over the rows)`, for every channel by itself. "
        "With `w = 2d`, the window before takes part with its first d channels, this one with its last d; the first "
        "window of a sequence has none before. `out = rms_norm(pooled, gain)`, its last e columns turned "
        "(`rope_interleaved`), and times `hadamard`. Rows of tokens that end no window are 0.",
        source="DeepSeek-V4's compressed attention",
        reference=compressor,
        implementations=(Implementation("steps", kernels.compressor),),
        sizes={"small": SMALL, "model": OVERLAPPING, "long": LONG},
        sampler=windows,
        edges={"distant blocks": distant_blocks},
        tolerance={"kv_state": Close(1e-4, 1e-4), "score_state": Close(1e-4, 1e-4), "out": BF16},
        flops=lambda n: 4.0 * n.t * n.h * n.w,
        bytes=lambda n: 4.0 * n.w * n.h + 16.0 * n.t * n.w,
        effects=("kv_state", "score_state"),
        peer=by_torch,
        no_gradient=CACHES,
    ),
)
