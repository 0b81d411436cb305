"""Rows of normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pypto.ir.types import bfloat16
from pypto.library.gradients import norms as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels import norms as kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import Close

SIZES: Final = {"small": {"t": 5, "d": 96}, "model": {"t": 4096, "d": 4096}}
ADDED: Final = "`total` is rounded; `y` is computed from the sum before it is."


def rms_norm(x: Any, g: Any, eps: float) -> Any:
    """Reference implementation of `rms_norm` in numpy."""
    t = f64(x)
    return t / np.sqrt((t * t).mean(axis=1, keepdims=True) + eps) * f64(g)


def layer_norm(x: Any, g: Any, b: Any, eps: float) -> Any:
    """Reference implementation of `layer_norm` in numpy."""
    t = f64(x) - f64(x).mean(axis=1, keepdims=True)
    return t / np.sqrt((t * t).mean(axis=1, keepdims=True) + eps) * f64(g) + f64(b)


def rms_norm_backward(x: Any, g: Any, dy: Any, eps: float) -> tuple[Any, Any]:
    """Reference implementation of `rms_norm_backward` in numpy."""
    t, inner = f64(x), f64(dy) * f64(g)
    scale = 1 / np.sqrt((t * t).mean(axis=1, keepdims=True) + eps)
    unit = t * scale
    return (inner - unit * (inner * unit).mean(axis=1, keepdims=True)) * scale, (f64(dy) * unit).sum(axis=0)


def add_rms_norm(x: Any, residual: Any, g: Any, eps: float) -> Any:
    """Reference implementation of `add_rms_norm` in numpy."""
    total = f64(x) + f64(residual)
    return rms_norm(total, g, eps), total


def add_layer_norm(x: Any, residual: Any, g: Any, b: Any, eps: float) -> Any:
    """Reference implementation of `add_layer_norm` in numpy."""
    total = f64(x) + f64(residual)
    return layer_norm(total, g, b, eps), total


def zeros(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a row whose sum of squares is 0."""
    return {"x": np.zeros((3, 64), np.float32), "g": np.ones(64, np.float32)}


def zeros_with_gradient(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: rows of zeros, whose gradient is that of y divided by the root of eps."""
    return {**zeros(rng), "dy": rng.standard_normal((3, 64), np.float32)}


def float32_weights(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: float32 weights of bfloat16 activations."""
    x, residual, dy = rng.standard_normal((3, 5, 72), np.float32).astype(bfloat16.numpy)
    return {"x": x, "residual": residual, "dy": dy, "g": weights(rng, 72), "b": weights(rng, 72)}


def bfloat16_weights(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: bfloat16 weights of float32 activations."""
    return {name: x.astype(np.float32 if x.ndim > 1 else bfloat16.numpy) for name, x in float32_weights(rng).items()}


def weights(rng: np.random.Generator, d: int) -> Any:
    """Samples float32 weights that bfloat16 cannot represent."""
    return 1 + rng.random(d, np.float32) / 3


def mixed(*names: str) -> dict[str, Callable[[np.random.Generator], dict[str, Any]]]:
    """Returns the edge cases with weights of another dtype, for the arguments of a row."""

    def of(case: Callable[[np.random.Generator], dict[str, Any]]) -> Callable[[np.random.Generator], dict[str, Any]]:
        return lambda rng: {name: x for name, x in case(rng).items() if name in names}

    return {"float32 weights": of(float32_weights), "bfloat16 weights": of(bfloat16_weights)}


def one(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a row of one element."""
    return {"x": np.full((1, 1), -3, np.float32), "g": np.full(1, 2, np.float32)}


def backward_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, which has no single operator for this backward pass."""
    dx, dg = gradients.rms_norm_backward(torch, v).values()
    return dx.to(v.x.dtype), dg


def equal(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: rows without variance."""
    return {"x": np.full((3, 50), 4, np.float32), "g": np.ones(50, np.float32), "b": np.ones(50, np.float32)}


ROWS: Final = (
    Operator(
        name="rms_norm",
        doc="Root mean square normalisation of rows",
        text="x[t..., d] bf16|f16|f32, g[d] bf16|f16|f32, eps=1e-6 -> y[t..., d]",
        formula="`y = x / sqrt(mean(x²) + eps) * g`, in float32, rounded once at the end.",
        source="Zhang and Sennrich, Root Mean Square Layer Normalization, 2019",
        reference=rms_norm,
        implementations=(Implementation("rows", kernels.rms_norm),),
        sizes=SIZES,
        edges={"zeros": zeros, "one row of one": one, **mixed("x", "g")},
        flops=lambda n: 4.0 * n.t * n.d,
        peer=lambda torch, v: torch.nn.functional.rms_norm(v.x, (v.x.shape[1],), v.g, 1e-6),
        items="t",
        gradient=gradients.rms_norm,
    ),
    Operator(
        name="rms_norm_backward",
        doc="Gradients of `rms_norm`",
        text="x[t..., d] bf16|f16|f32, g[d] bf16|f16|f32, dy[t..., d], eps=1e-6 -> dx[t..., d], dg[d] f32",
        formula="With `r = 1 / sqrt(mean(x²) + eps)`, `u = x * r` and `i = dy * g`: `dx = (i - u * mean(i * u)) * r`, "
        "`dg = sum over t of dy * u`, in float32. The sum has up to 64 parts, which are added in one order.",
        source="Zhang and Sennrich, Root Mean Square Layer Normalization, 2019",
        reference=rms_norm_backward,
        implementations=(Implementation("rows", kernels.rms_norm_backward),),
        sizes=SIZES,
        edges={"zeros": zeros_with_gradient, **mixed("x", "g", "dy")},
        tolerance={"dg": Close(1e-4, 1e-4)},
        flops=lambda n: 11.0 * n.t * n.d,
        peer=backward_by_torch,
        gradient=composed(gradients.rms_norm_backward),
    ),
    Operator(
        name="add_rms_norm",
        doc="Sum with the residual, and its root mean square normalisation",
        text="x[t..., d] bf16|f16|f32, residual[t..., d], g[d] bf16|f16|f32, eps=1e-6 -> y[t..., d], total[t..., d]",
        formula=f"`total = x + residual`, `y = rms_norm(total, g, eps)`. {ADDED}",
        source="GLM-4.5 and DeepSeek-V3.2, before each layer",
        reference=add_rms_norm,
        implementations=(Implementation("rows", kernels.add_rms_norm),),
        sizes=SIZES,
        edges=mixed("x", "residual", "g"),
        flops=lambda n: 5.0 * n.t * n.d,
        peer=lambda torch, v: (
            torch.nn.functional.rms_norm(v.x + v.residual, (v.x.shape[1],), v.g, 1e-6),
            v.x + v.residual,
        ),
        items="t",
        gradient=gradients.add_rms_norm,
    ),
    Operator(
        name="layer_norm",
        doc="Layer normalisation of rows",
        text="x[t..., d] bf16|f16|f32, g[d] bf16|f16|f32, b[d] bf16|f16|f32, eps=1e-6 -> y[t..., d]",
        formula="`y = (x - mean(x)) / sqrt(mean((x - mean(x))²) + eps) * g + b`, in float32, rounded once at the end.",
        source="Ba, Kiros and Hinton, Layer Normalization, 2016",
        reference=layer_norm,
        implementations=(Implementation("rows", kernels.layer_norm),),
        sizes=SIZES,
        edges={"no variance": equal, **mixed("x", "g", "b")},
        flops=lambda n: 7.0 * n.t * n.d,
        peer=lambda torch, v: torch.nn.functional.layer_norm(v.x, (v.x.shape[1],), v.g, v.b, 1e-6),
        items="t",
        gradient=gradients.layer_norm,
    ),
    Operator(
        name="add_layer_norm",
        doc="Sum with the residual, and its layer normalisation",
        text="x[t..., d] bf16|f16|f32, residual[t..., d], g[d] bf16|f16|f32, b[d] bf16|f16|f32, eps=1e-6 "
        "-> y[t..., d], total[t..., d]",
        formula=f"`total = x + residual`, `y = layer_norm(total, g, b, eps)`. {ADDED}",
        source="Transformers with normalisation before each layer",
        reference=add_layer_norm,
        implementations=(Implementation("rows", kernels.add_layer_norm),),
        sizes=SIZES,
        edges=mixed("x", "residual", "g", "b"),
        flops=lambda n: 8.0 * n.t * n.d,
        peer=lambda torch, v: (
            torch.nn.functional.layer_norm(v.x + v.residual, (v.x.shape[1],), v.g, v.b, 1e-6),
            v.x + v.residual,
        ),
        items="t",
        gradient=gradients.add_layer_norm,
    ),
)
