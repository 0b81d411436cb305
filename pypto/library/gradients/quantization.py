"""Gradients of fake quantisation by the straight-through estimator, and of the conversion from int8."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from pypto.library.gradients.rule import Tensors, called, described, widened

STEP: Final = 1e-4  # smallest scale, as in the rows


def fake_quantize_backward(torch: Any, v: Any) -> Tensors:
    """Computes both gradients of `fake_quantize` with torch operations, as the row of that name."""
    w, g, s = widened(torch, v.w), widened(torch, v.g), widened(torch, v.scale)
    u = w / s.clamp(min=STEP)[:, None]
    r = u.round()
    inside = (r >= -128) & (r <= 127)
    total = (g * (r.clamp(-128, 127) - torch.where(inside, u, 0))).sum(1)
    return {"dw": torch.where(inside, g, 0), "ds": torch.where(s > STEP, total, 0)}


@described("by the row `fake_quantize_backward`, straight through the rounding")
def fake_quantize(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `fake_quantize`."""
    given = {"w": v.w, "scale": v.scale, "g": v.d_y}
    results = called(torch, "fake_quantize_backward", **given) or fake_quantize_backward(
        torch, SimpleNamespace(**given)
    )
    return {"w": results["dw"], "scale": results["ds"]}


@described("by operations of torch, straight through the rounding; the ends of the range pass")
def fake_quantize_groups(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `fake_quantize_groups`."""
    levels, offset = 2.0 ** (v.bits - 1), widened(torch, v.offset)[..., None]
    scale = widened(torch, v.scale)[..., None]
    s, d = scale.clamp(min=STEP), widened(torch, v.d_y).view(*v.scale.shape, -1)
    t = (widened(torch, v.w).view(*v.scale.shape, -1) - offset) / (s * levels)
    inside = t.abs() <= 0.99
    u = t.clamp(-0.99, 0.99) * levels - 0.5
    slope = u.round() + 0.5 - torch.where(inside, t * levels, 0)
    return {
        "w": torch.where(inside, d, 0).flatten(1), "offset": torch.where(inside, 0, d).sum(2),
        "scale": torch.where(scale > STEP, d * slope, 0).sum(2),
    }  # fmt: skip


@described("by a product and a sum")
def dequantize(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of the scales of `dequantize`."""
    return {"scale": (v.d_y * v.q).sum(1)}
