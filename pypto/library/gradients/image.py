"""Gradients of the image operators."""

from __future__ import annotations

from typing import Any

from pypto.library.gradients.rule import Tensors, called, described, widened
from pypto.library.kernels.image import TONES
from pypto.library.signature import pair_of


def tones(torch: Any, equation: str, x: Any) -> Any:
    """Multiplies the colours of images by the matrix of tones, or its transpose."""
    return torch.einsum(equation, x.new_tensor(TONES), x)


def inside(torch: Any, x: Any) -> Any:
    """Says which sums are between 0 and 1, both included, because `torch.clamp` passes gradients there."""
    total = tones(torch, "ck,nkhw->nchw", widened(torch, x))
    return (total >= 0) & (total <= 1)


@described("by the row `sepia_backward`, in bfloat16 by operations of torch; sums of 0 and 1 pass, as in `torch.clamp`")
def sepia(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of `sepia`."""
    results = called(torch, "sepia_backward", x=v.x, dy=v.d_y)
    if results:
        return {"x": results["dx"]}
    return {"x": of_sepia(torch, v.x, v.d_y)}


def of_sepia(torch: Any, x: Any, dy: Any) -> Any:
    """Computes `sepia_backward` with torch operations."""
    return tones(torch, "ck,nchw->nkhw", torch.where(inside(torch, x), widened(torch, dy), 0))


@described("by operations of torch; 0 for x, between whose kinks it is constant")
def sepia_backward(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `sepia_backward`, which is linear in dy, and constant in x between its kinks."""
    d = torch.where(inside(torch, v.x), tones(torch, "ck,nkhw->nchw", widened(torch, v.d_dx)), 0)
    return {"dy": d, "x": torch.zeros_like(v.x)}


@described("by torch's operation for the gradients of a convolution; 0 where relu is at 0")
def conv_bn_relu(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `conv_bn_relu`: of the affine map, and by torch's operation of the convolution."""
    x, filters, gain = widened(torch, v.x), widened(torch, v.weight).permute(2, 3, 0, 1), widened(torch, v.gain)
    d = torch.where(v.y > 0, widened(torch, v.d_y), 0)
    gradients = {"bias": d.sum((0, 2, 3))}
    if "gain" in v.wanted:
        gradients["gain"] = (
            d * torch.nn.functional.conv2d(x, filters, None, v.stride, v.padding, v.dilation, v.groups)
        ).sum((0, 2, 3))
    mask = "x" in v.wanted, "weight" in v.wanted, False
    dx, d_filters, _ = torch.ops.aten.convolution_backward(
        d * gain[:, None, None],
        x,
        filters,
        None,
        pair_of(v.stride),
        pair_of(v.padding),
        pair_of(v.dilation),
        False,
        [0, 0],
        v.groups,
        mask,
    )
    gradients |= {"x": dx} if mask[0] else {}
    return gradients | ({"weight": d_filters.permute(2, 3, 0, 1)} if mask[1] else {})
