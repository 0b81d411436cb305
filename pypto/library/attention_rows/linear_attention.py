"""The row of linear attention by the gated delta rule."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.kernels.attention import linear_attention as kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import Close


def unit(x: Any) -> Any:
    """Scales vectors to length 1."""
    return f64(x) / np.sqrt((f64(x) ** 2).sum(axis=-1, keepdims=True) + 1e-6)


def gated_delta_rule(q: Any, k: Any, v: Any, gate: Any, beta: Any, state: Any) -> tuple[Any, Any]:
    """The reference: one token after the other."""
    group, d = v.shape[1] // q.shape[1], q.shape[3]
    queries, keys = (np.repeat(unit(x), group, axis=1) for x in (q, k))
    s, out = f64(state).swapaxes(2, 3).copy(), np.zeros(v.shape)
    for t in range(v.shape[2]):
        s *= np.exp(f64(gate)[:, :, t, None, None])
        key = keys[:, :, t]
        change = (f64(v)[:, :, t] - np.einsum("bhd,bhde->bhe", key, s)) * f64(beta)[:, :, t, None]
        s += key[..., None] * change[:, :, None, :]
        out[:, :, t] = np.einsum("bhd,bhde->bhe", queries[:, :, t], s) / np.sqrt(d)
    return out, s.swapaxes(2, 3)


def gates(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples logarithms of decay factors below 1, and strengths between 0 and 1."""
    shape = (n.b, n.h, n.t)
    return {"gate": -rng.random(shape, np.float32) / 4, "beta": rng.random(shape, np.float32)}


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, in chunks of 64 tokens, as model libraries write it."""
    (b, h, t), group, d = v.v.shape[:3], v.v.shape[1] // v.q.shape[1], v.q.shape[3]
    q, k = (x * torch.rsqrt(x.square().sum(3, keepdim=True) + 1e-6) for x in (v.q, v.k))
    q, k = (torch.nn.functional.pad(x.repeat_interleave(group, 1), (0, 0, 0, -t % 64)) for x in (q / math.sqrt(d), k))
    values = torch.nn.functional.pad(v.v, (0, 0, 0, -t % 64))
    beta, gate = (torch.nn.functional.pad(x, (0, -t % 64)) for x in (v.beta, v.gate))
    q, k, values = (x.view(b, h, -1, 64, x.shape[3]) for x in (q, k, values))
    beta, total = beta.view(b, h, -1, 64)[..., None], gate.view(b, h, -1, 64).cumsum(3)
    decay = (total[..., None] - total[..., None, :]).tril().exp().tril()
    inverse = torch.eye(64) + ((k * beta) @ k.transpose(3, 4) * decay).tril(-1)
    u, w = (torch.linalg.solve_triangular(inverse, x, upper=False, unitriangular=True)
            for x in (values * beta, k * beta * total.exp()[..., None]))  # fmt: skip
    state, results = v.state.transpose(2, 3), []
    for i in range(q.shape[2]):
        fresh, sums = u[:, :, i] - w[:, :, i] @ state, total[:, :, i, :, None]
        inside = q[:, :, i] @ k[:, :, i].transpose(2, 3) * decay[:, :, i]
        results.append((q[:, :, i] * sums.exp()) @ state + inside @ fresh)
        last = sums[:, :, -1:]
        state = state * last.exp() + (k[:, :, i] * (last - sums).exp()).transpose(2, 3) @ fresh
    v.state.copy_(state.transpose(2, 3))
    return torch.cat(results, 2)[:, :, :t]


ROWS: Final = (
    Operator(
        name="gated_delta_rule",
        doc="Linear attention by the gated delta rule, with its state in place",
        text="q[b, g, t, d] f32, k[b, g, t, d], v[b, h, t, e], gate[b, h, t], beta[b, h, t], state[b, h, e, d] "
        "-> out[b, h, t, e] where h % g == 0, 1 <= d",
        formula="q and k have length 1 and serve `h/g` heads; for each token, with S the state transposed: `S = "
        "exp(gate) S`, `S = S + k^T (beta (v - k @ S))`, `out = q @ S / sqrt(d)`. The version `chunks` computes 64 "
        "tokens at once: corrections within them by forward substitution, all else by products.",
        source="Yang and others, Gated Delta Networks, 2024",
        reference=gated_delta_rule,
        implementations=(
            Implementation("chunks", kernels.gated_delta_rule_chunked, platforms=("cpu",)),
            Implementation("rows", kernels.gated_delta_rule_by_rows, platforms=("ascend",)),
            Implementation("tokens", kernels.gated_delta_rule),
        ),
        sizes={
            "small": {"b": 1, "g": 1, "t": 70, "d": 16, "h": 2, "e": 16},
            "model": {"b": 1, "g": 8, "t": 2048, "d": 128, "h": 8, "e": 128},
        },
        sampler=gates,
        tolerance={"out": Close(1e-3, 1e-4), "state": Close(1e-3, 1e-4)},
        flops=lambda n: 8.0 * n.b * n.h * n.t * n.d * n.e,
        effects=("state",),
        notes="On Ascend, tokens of a head follow each other: a token takes 0.7 µs, in which instructions on the state "
        "wait for each other, however fast memory is.",
        items="e",
        peer=by_torch,
        no_gradient="it writes the state in place",
    ),
)
