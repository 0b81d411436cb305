"""Rows of optimisers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.kernels import optim as kernels
from pypto.library.row import Implementation, Operator, f64


def adamw(w: Any, g: Any, m: Any, v: Any, t: int, **numbers: float) -> Any:
    """Reference implementation of `adamw` in numpy."""
    beta1, beta2 = numbers["beta1"], numbers["beta2"]
    first, second = beta1 * f64(m) + (1 - beta1) * f64(g), beta2 * f64(v) + (1 - beta2) * f64(g) ** 2
    change = first / (1 - beta1**t) / (np.sqrt(second / (1 - beta2**t)) + numbers["eps"]) + numbers["decay"] * f64(w)
    return f64(w) - numbers["rate"] * change, first, second


def moments(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples a second moment that is not negative."""
    return {"v": rng.random(n.n, np.float32), "t": 3}


def first_step(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: moments of 0, and gradients with zeros."""
    zeros = np.zeros(9, np.float32)
    return {"w": np.ones(9, np.float32), "g": np.arange(9, dtype=np.float32), "m": zeros, "v": zeros.copy(), "t": 1}


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation: torch's fused step."""
    step = torch.tensor(float(v.t))
    return torch._fused_adamw_(
        [v.w], [v.g], [v.m], [v.v], [], [step], lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.01, eps=1e-8,
        amsgrad=False, maximize=False,
    )  # fmt: skip


ROWS: Final = (
    Operator(
        name="adamw",
        doc="A step of AdamW, in place",
        text="w[n...] f32|bf16, g[n...], m[n...] f32, v[n...] f32, t=1, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, "
        "decay=0.01"
        " -> where 1 <= t",
        formula="`m = beta1*m + (1-beta1)*g`, `v = beta2*v + (1-beta2)*g²`, "
        "`w = w - rate * (m/(1-beta1^t) / (sqrt(v/(1-beta2^t)) + eps) + decay*w)`; steps t count from 1.",
        source="Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2017",
        reference=adamw,
        implementations=(Implementation("blocks", kernels.adamw),),
        sizes={"small": {"n": 1000}, "model": {"n": 1 << 24}},
        sampler=moments,
        edges={"first step": first_step},
        flops=lambda n: 14.0 * n.n,
        bytes=lambda n: 28.0 * n.n,
        effects=("w", "m", "v"),
        peer=by_torch,
        limited="memory: both read and write 28 bytes for each weight, once.",
        items="n",
        no_gradient="it is a step of an optimiser, in place",
    ),
)
