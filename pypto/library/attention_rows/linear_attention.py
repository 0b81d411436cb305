"""Rows of linear attention by the gated delta rule."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.gradients import linear_attention as gradients
from pypto.library.gradients.rule import composed
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
    results = gradients.gated_delta_sequence(torch, v)
    v.state.copy_(results["last"])
    return results["out"]


ARGUMENTS: Final = (
    "q[b..., g, t, d] f32, k[b..., g, t, d], v[b..., h, t, e], gate[b..., h, t], beta[b..., h, t], "
    "state[b..., h, e, d] "
)
SIZES: Final = {
    "small": {"b": 1, "g": 1, "t": 70, "d": 16, "h": 2, "e": 16},
    "model": {"b": 1, "g": 8, "t": 2048, "d": 128, "h": 8, "e": 128},
}


ROWS: Final = (
    Operator(
        name="gated_delta_rule",
        doc="Linear attention by the gated delta rule, with its state in place",
        text=ARGUMENTS + "-> out[b..., h, t, e] where h % g == 0, 1 <= d",
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
        sizes=SIZES,
        sampler=gates,
        tolerance={"out": Close(1e-3, 1e-4), "state": Close(1e-3, 1e-4)},
        flops=lambda n: 8.0 * n.b * n.h * n.t * n.d * n.e,
        effects=("state",),
        notes="On Ascend, tokens of a head follow each other: a token takes 0.7 µs, in which instructions on the state "
        "wait for each other, however fast memory is.",
        items="e",
        peer=by_torch,
        no_gradient="it writes the state in place; `gated_delta_sequence` has one",
    ),
    Operator(
        name="gated_delta_sequence",
        doc="Linear attention by the gated delta rule, from one state to another",
        text=ARGUMENTS + "-> out[b..., h, t, e], last[b..., h, e, d] where h % g == 0, 1 <= d",
        formula="`gated_delta_rule` on a copy of the state: `last` is the state after the tokens, and `state` stays.",
        source="Yang and others, Gated Delta Networks, 2024",
        reference=gated_delta_rule,
        implementations=(
            Implementation("chunks", partial(kernels.on_a_copy, kernels.gated_delta_rule_chunked), ("cpu",)),
            Implementation("rows", partial(kernels.on_a_copy, kernels.gated_delta_rule_by_rows), ("ascend",)),
            Implementation("tokens", partial(kernels.on_a_copy, kernels.gated_delta_rule)),
        ),
        sizes=SIZES,
        sampler=gates,
        tolerance={"out": Close(1e-3, 1e-4), "last": Close(1e-3, 1e-4)},
        flops=lambda n: 8.0 * n.b * n.h * n.t * n.d * n.e,
        items="e",
        peer=lambda torch, v: tuple(gradients.gated_delta_sequence(torch, v).values()),
        gradient=composed(gradients.gated_delta_sequence, "in chunks of 64 tokens"),
    ),
)
