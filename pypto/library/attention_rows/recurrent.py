"""The row of a recurrent cell, sum-LSTM."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.library.gradients import residual as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels.attention import recurrent as kernels
from pypto.library.norms import rms_norm
from pypto.library.residual import sigmoid
from pypto.library.row import Implementation, Operator, f64


def quick_gelu(x: Any) -> Any:
    """Computes x times the logistic function of 1.702 x, in float64."""
    return x * sigmoid(1.702 * x)


def sum_lstm(**v: Any) -> tuple[Any, Any]:
    """Reference implementation of `sum_lstm` in numpy."""
    forget, enter, out, cell = np.split(f64(v["states"]) + v["alpha"] * f64(v["z"]), 4, axis=1)
    fresh = quick_gelu(rms_norm(cell, v["w_c"], v["eps"]) + f64(v["b_c"]))
    state = f64(v["prev"]) * sigmoid(forget) + fresh * sigmoid(enter)
    return quick_gelu(rms_norm(state, v["w_s"], v["eps"]) + f64(v["b_s"])) * sigmoid(out), state


def large(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: gates that are fully open or closed, a zero state, and a zero cell."""
    states = np.zeros((2, 128), np.float32)
    states[0, :32], states[0, 32:64], states[1, 64:96] = 80, -80, -80
    zeros, ones = np.zeros((2, 32), np.float32), np.ones(32, np.float32)
    return {"states": states, "z": np.zeros_like(states), "prev": zeros, "w_c": ones, "b_c": ones, "w_s": ones,
            "b_s": 0 * ones}  # fmt: skip


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""

    def activated(x: Any, gain: Any, bias: Any) -> Any:
        t = torch.nn.functional.rms_norm(x, gain.shape, gain.float(), v.eps) + bias
        return t * torch.sigmoid(1.702 * t)

    forget, enter, out, cell = (v.states.float() + v.alpha * v.z).chunk(4, 1)
    state = v.prev * torch.sigmoid(forget) + activated(cell, v.w_c, v.b_c) * torch.sigmoid(enter)
    h = activated(state, v.w_s, v.b_s) * torch.sigmoid(out)
    return h.to(v.states.dtype), state.to(v.states.dtype)


ROWS: Final = (
    Operator(
        "sum_lstm", "A step of an LSTM whose gates are sums of a state and a token",
        "states[t..., 4*d] f16|bf16|f32, z[t..., 4*d], prev[t..., d], w_c[d], b_c[d], w_s[d], b_s[d], alpha=0.1, "
        "eps=1e-6 -> h[t..., d], c[t..., d]",
        "`[f, i, o, g] = states + alpha * z`; `c = prev * sigmoid(f) + a(rms_norm(g, w_c) + b_c) * sigmoid(i)`, `h = "
        "a(rms_norm(c, w_s) + b_s) * sigmoid(o)`, with `a(x) = x * sigmoid(1.702 x)`. In float32; `h` is computed from "
        "c before it is rounded.",
        "Snowflake's Arctic speculator", sum_lstm, (Implementation("rows", kernels.sum_lstm),),
        {"small": {"t": 5, "d": 96}, "model": {"t": 32, "d": 4096}}, edges={"open and closed": large},
        flops=lambda n: 60.0 * n.t * n.d, items="t", peer=by_torch,
        gradient=composed(gradients.sum_lstm),
    ),
)  # fmt: skip
