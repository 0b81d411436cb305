"""Rows of activation functions."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from pypto.library.gradients import activations as gradients
from pypto.library.kernels import activations as kernels
from pypto.library.row import Implementation, Operator, f64

TEXT: Final = "x[t..., d] bf16|f16|f32 -> y[t..., d]"
SIZES: Final = {"small": {"t": 5, "d": 96}, "model": {"t": 4096, "d": 4096}}


def sigmoid(t: Any) -> Any:
    """Computes 1 / (1 + exp(-t)) without overflow."""
    e = np.exp(-np.abs(t))
    return np.where(t >= 0, 1 / (1 + e), e / (1 + e))


def gelu(x: Any) -> Any:
    """Reference implementation of `gelu` in numpy."""
    return f64(x) * 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(f64(x) * math.sqrt(0.5)))


def gelu_tanh(x: Any) -> Any:
    """Reference implementation of `gelu_tanh` in numpy."""
    t = f64(x)
    return t * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t**3)))


def silu(x: Any) -> Any:
    """Reference implementation of `silu` in numpy."""
    return f64(x) * sigmoid(f64(x))


def swiglu(x: Any) -> Any:
    """Reference implementation of `swiglu` in numpy."""
    gate, up = np.split(f64(x), 2, axis=1)
    return silu(gate) * up


def softmax(x: Any) -> Any:
    """Reference implementation of `softmax` in numpy."""
    e = np.exp(f64(x) - f64(x).max(axis=1, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=1, keepdims=True)


def hidden(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: rows in which all elements but one are minus infinity."""
    x = np.full((3, 70), -np.inf, np.float32)
    x[[0, 1, 2], [0, 33, 69]] = 2, -3, 1000
    return {"x": x}


def large(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: numbers whose exponentials overflow."""
    return {"x": np.array([[-1000, -90, -20, 0, 20, 90, 1000, 0.5]], np.float32)}


ROWS: Final = (
    Operator(
        "gelu", "Gaussian error linear unit", TEXT, "`y = x/2 * (1 + erf(x / sqrt(2)))`",
        "Hendrycks and Gimpel, Gaussian Error Linear Units, 2016", gelu,
        (Implementation("tails", kernels.gelu_by_tails, ("ascend",)), Implementation("rows", kernels.gelu)), SIZES,
        edges={"large": large}, flops=lambda n: 10.0 * n.t * n.d,
        peer=lambda torch, v: torch.nn.functional.gelu(v.x),
        limited="memory: both move the array at 0.8 of the rate of a copy.", is_elementwise=True, items="t",
        gradient=gradients.gelu,
    ),
    Operator(
        "gelu_tanh", "Gaussian error linear unit, by its approximation with tanh", TEXT,
        "`y = x/2 * (1 + tanh(sqrt(2/π) * (x + 0.044715 x³)))`",
        "Hendrycks and Gimpel, Gaussian Error Linear Units, 2016", gelu_tanh,
        (Implementation("rows", kernels.gelu_tanh),), SIZES, edges={"large": large}, flops=lambda n: 10.0 * n.t * n.d,
        peer=lambda torch, v: torch.nn.functional.gelu(v.x, approximate="tanh"), is_elementwise=True, items="t",
        gradient=gradients.gelu_tanh,
    ),
    Operator(
        "silu", "Sigmoid linear unit", TEXT, "`y = x / (1 + exp(-x))`",
        "Elfwing, Uchibe and Doya, Sigmoid-weighted linear units, 2017", silu, (Implementation("rows", kernels.silu),),
        SIZES, edges={"large": large}, flops=lambda n: 5.0 * n.t * n.d,
        peer=lambda torch, v: torch.nn.functional.silu(v.x), is_elementwise=True, items="t",
        gradient=gradients.silu,
    ),
    Operator(
        "swiglu", "Gated linear unit with SiLU: the first half of a row gates the second",
        "x[t..., w] bf16|f16|f32 -> y[t..., w//2] where w % 2 == 0",
        "`y = silu(x[:d]) * x[d:]`", "Shazeer, GLU Variants Improve Transformer, 2020", swiglu,
        (Implementation("rows", kernels.swiglu),), {"small": {"t": 5, "w": 96}, "model": {"t": 4096, "w": 8192}},
        flops=lambda n: 3.0 * n.t * n.w,
        peer=lambda torch, v: torch.nn.functional.silu(v.x.chunk(2, 1)[0]) * v.x.chunk(2, 1)[1], items="t",
        gradient=gradients.swiglu,
    ),
    Operator(
        "softmax", "Softmax of rows", TEXT, "`y = exp(x - max(x))` divided by its sum, in float32, rounded once.",
        "Bridle, Probabilistic Interpretation of Feedforward Classification Network Outputs, 1990", softmax,
        (Implementation("rows", kernels.softmax),), SIZES, edges={"large": large, "hidden": hidden},
        flops=lambda n: 5.0 * n.t * n.d, peer=lambda torch, v: torch.softmax(v.x, 1), items="t",
        gradient=gradients.softmax,
    ),
)  # fmt: skip
