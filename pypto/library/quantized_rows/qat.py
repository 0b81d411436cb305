"""Rows of fake quantisation, with which a model is trained for weights of few bits (quantisation-aware training)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.gradients import quantization as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels.quantized import quant as kernels
from pypto.library.quantized_rows.quant import SIZES
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import Close

STEP: Final = 1e-4  # smallest scale


def steps(w: Any, scale: Any) -> tuple[Any, Any]:
    """Returns the quotients by the scales, rounded to float32, and the scales."""
    s = np.maximum(scale, np.float32(STEP))[:, None]
    return f64(np.asarray(w, np.float32) / s), f64(s)


def fake_quantize(w: Any, scale: Any) -> Any:
    """Reference implementation of `fake_quantize`, with float32 quotients as in the kernel."""
    u, s = steps(w, scale)
    return np.clip(np.rint(u), -128, 127) * s


def fake_quantize_backward(w: Any, scale: Any, g: Any) -> tuple[Any, Any]:
    """Reference implementation of `fake_quantize_backward`, with float32 quotients as in the kernel."""
    u, _ = steps(w, scale)
    r, grad = np.rint(u), f64(g)
    inside = (r >= -128) & (r <= 127)
    total = (grad * (np.clip(r, -128, 127) - u * inside)).sum(axis=1)
    return grad * inside, np.where(f64(scale) <= STEP, 0, total)


def fake_quantize_groups(w: Any, scale: Any, offset: Any, bits: int) -> Any:
    """Reference implementation of `fake_quantize_groups`, with float32 quotients as in the kernel."""
    levels, groups = np.float32(2 ** (bits - 1)), scale.shape[1]
    reach = np.maximum(scale, np.float32(STEP))[..., None] * levels
    t = np.asarray(w, np.float32).reshape(len(w), groups, -1)
    u = np.clip((t - offset[..., None]) / reach, np.float32(-0.99), np.float32(0.99)) * levels - np.float32(0.5)
    return ((np.rint(f64(u)) + 0.5) / float(levels) * f64(reach) + f64(offset)[..., None]).reshape(w.shape)


def scales(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples positive scales with which all int8 codes occur."""
    w = rng.standard_normal((n.t, n.d)).astype(dtype.numpy)
    return {"w": w, "scale": (0.01 + 0.02 * rng.random(n.t)).astype(np.float32)}


def group_scales(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples steps that keep most numbers in range, and offsets near zero."""
    scale = (0.1 + 0.4 * rng.random((n.t, n.g))).astype(np.float32)
    return {"scale": scale, "offset": (0.2 * rng.standard_normal((n.t, n.g))).astype(np.float32)}


def outside(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: numbers beyond both ends, a scale below the least one, and two bits."""
    w = np.array([[-9, 9, 0, 0.3, 1e-4, -1e-4, 0, 1]], np.float32)
    scale, offset = np.array([[0.5, 0.0]], np.float32), np.array([[0.25, 0.0]], np.float32)
    return {"w": w, "scale": scale, "offset": offset, "bits": 2}


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    s = v.scale.clamp(min=STEP)[:, None]
    return ((v.w.float() / s).round().clamp(-128, 127) * s).to(v.w.dtype)


def backward_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    dw, ds = gradients.fake_quantize_backward(torch, v).values()
    return dw.to(v.w.dtype), ds


def groups_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    levels, offset = 2.0 ** (v.bits - 1), v.offset[..., None]
    reach = v.scale.clamp(min=STEP)[..., None] * levels
    u = ((v.w.float().view(*v.scale.shape, -1) - offset) / reach).clamp(-0.99, 0.99) * levels - 0.5
    return ((u.round() + 0.5) / levels * reach + offset).to(v.w.dtype).view(v.w.shape)


ROWS: Final = (
    Operator(
        "fake_quantize", "Rows rounded to what int8 can hold, for training",
        "w[t..., d] bf16|f32, scale[t...] f32 -> y[t..., d]",
        f"`s = max(scale, {STEP:g})`, `y = clamp(round(w / s), -128, 127) * s`, the quotient in float32.",
        "Quantisation-aware training", fake_quantize, (Implementation("rows", kernels.fake_quantize),), SIZES,
        sampler=scales, flops=lambda n: 5.0 * n.t * n.d, items="t", peer=by_torch,
        gradient=gradients.fake_quantize,
    ),
    Operator(
        "fake_quantize_backward", "Gradient of `fake_quantize`, which passes through the rounding",
        "w[t..., d] bf16|f32, scale[t...] f32, g[t..., d] -> dw[t..., d], ds[t...] f32 where 1 <= d",
        "With `u = w / s` in float32, `r = round(u)`, inside where `-128 <= r <= 127`: `dw = g * inside`, "
        "`ds = sum(g * (clamp(r) - u * inside))`, 0 where `scale` is not above the least one.",
        "Quantisation-aware training", fake_quantize_backward,
        (Implementation("rows", kernels.fake_quantize_backward),), SIZES, sampler=scales,
        flops=lambda n: 8.0 * n.t * n.d, tolerance={"ds": Close(1e-4, 5e-3)}, items="t", peer=backward_by_torch,
        gradient=composed(gradients.fake_quantize_backward, "in which rounding has none"),
    ),
    Operator(
        "fake_quantize_groups", "Rows rounded to what two to four bits can hold, with an offset for each group",
        "w[t..., d] bf16|f32, scale[t..., g] f32, offset[t..., g] f32, bits=4 -> y[t..., d] "
        "where d % g == 0, 1 <= bits <= 24",
        f"A row has g groups. With `n = 2^(bits-1)`, `s = max(scale, {STEP:g})`: `u = clamp((w - offset) / (s*n), "
        "-0.99, 0.99) * n - 0.5`, `y = (round(u) + 0.5) * s + offset`, halves to even, in float32. The steps lie "
        "symmetrically around the offset, and none on it.",
        "Quantisation-aware training", fake_quantize_groups, (Implementation("rows", kernels.fake_quantize_groups),),
        {"small": {"t": 5, "d": 96, "g": 3}, "model": {"t": 4096, "d": 4096, "g": 32}},
        sampler=group_scales, edges={"outside": outside}, flops=lambda n: 9.0 * n.t * n.d, items="t",
        peer=groups_by_torch,
        gradient=gradients.fake_quantize_groups,
    ),
)  # fmt: skip
