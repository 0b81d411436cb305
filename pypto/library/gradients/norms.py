"""Gradients of the rows of normalisation."""

from __future__ import annotations

from typing import Any

from pypto.library.gradients.rule import Tensors, called, described, widened


def rms_norm_backward(torch: Any, v: Any) -> Tensors:
    """Computes both gradients of `rms_norm` with torch operations, as the row of that name."""
    x, dy = widened(torch, v.x), widened(torch, v.dy)
    scale = torch.rsqrt(x.square().mean(1, keepdim=True) + v.eps)
    unit, inner = x * scale, dy * widened(torch, v.g)
    return {"dx": (inner - unit * (inner * unit).mean(1, keepdim=True)) * scale, "dg": (dy * unit).sum(0)}


def of_rms_norm(torch: Any, x: Any, v: Any) -> Any:
    """Returns the gradients of the normalised rows x and of g, by the row `rms_norm_backward` where it takes them."""
    given = {"x": x, "g": v.g, "dy": v.d_y, "eps": v.eps}
    return called(torch, "rms_norm_backward", **given) or rms_norm_backward(torch, type(v)(**given))


@described("by the row `rms_norm_backward`")
def rms_norm(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `rms_norm`."""
    results = of_rms_norm(torch, v.x, v)
    return {"x": results["dx"], "g": results["dg"]}


@described("by the row `rms_norm_backward`, from the rounded sum")
def add_rms_norm(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `add_rms_norm` from the rounded sum."""
    results = of_rms_norm(torch, v.total, v)
    both = widened(torch, results["dx"]) + v.d_total
    return {"x": both, "residual": both, "g": results["dg"]}


def of_layer_norm(torch: Any, x: Any, v: Any) -> Tensors:
    """Returns the gradients of the normalised rows x, of g and of b, by torch's operation for them."""
    t, dy, g, b = (widened(torch, y) for y in (x, v.d_y, v.g, v.b))
    shape = [x.shape[1]]
    _, mean, scale = torch.ops.aten.native_layer_norm(t, shape, None, None, v.eps)
    given = dy, t, shape, mean, scale, g, b, [True] * 3
    return dict(zip("xgb", torch.ops.aten.native_layer_norm_backward(*given), strict=True))


@described("by torch's operation for the gradients of layer normalisation")
def layer_norm(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `layer_norm`."""
    return of_layer_norm(torch, v.x, v)


@described("by torch's operation for the gradients of layer normalisation, from the rounded sum")
def add_layer_norm(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `add_layer_norm` from the rounded sum."""
    gradients = of_layer_norm(torch, v.total, v)
    both = gradients.pop("x") + v.d_total
    return {"x": both, "residual": both, **gradients}
