"""Gradients of the activation functions and of the Hadamard transform."""

from __future__ import annotations

from typing import Any

from pypto.library.gradients.rule import Tensors, called, described, widened


@described("by torch's operation for the gradient of GELU")
def gelu(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of `gelu` by torch's operation for it."""
    return {"x": torch.ops.aten.gelu_backward(v.d_y, v.x)}


@described("by torch's operation for the gradient of GELU")
def gelu_tanh(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of `gelu_tanh` by torch's operation for it."""
    return {"x": torch.ops.aten.gelu_backward(v.d_y, v.x, approximate="tanh")}


@described("by torch's operation for the gradient of SiLU")
def silu(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of `silu` by torch's operation for it."""
    return {"x": of_silu(torch, v.d_y, v.x)}


def of_silu(torch: Any, dy: Any, x: Any) -> Any:
    """Computes the gradient of SiLU in elementary operations, since torch's own cannot be differentiated."""
    if not torch.is_grad_enabled():
        return torch.ops.aten.silu_backward(dy, x)
    s = torch.sigmoid(x)
    return dy * (s + x * s * (1 - s))


@described("by torch's operation for the gradient of SiLU, and products")
def swiglu(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of both halves of a row of `swiglu`."""
    gate, up = widened(torch, v.x).chunk(2, 1)
    dy = widened(torch, v.d_y)
    return {"x": torch.cat([of_silu(torch, dy * up, gate), dy * torch.nn.functional.silu(gate)], 1)}


@described("by a sum over each row")
def softmax(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of `softmax` from its result."""
    y, dy = widened(torch, v.y), widened(torch, v.d_y)
    return {"x": y * (dy - (y * dy).sum(1, keepdim=True))}


@described("by the row itself, whose matrix is symmetric")
def hadamard(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of `hadamard` by the transform itself, since its matrix is symmetric."""
    results = called(torch, "hadamard", x=v.d_y)
    return {"x": results["y"] if results else transformed(torch, v.d_y)}


def transformed(torch: Any, x: Any) -> Any:
    """Computes the normalised Walsh-Hadamard transform of rows by stages of sums and differences."""
    t, d, half = widened(torch, x), x.shape[1], 1
    while half < d:
        a, b = t.reshape(len(x), -1, 2, half).unbind(2)
        t, half = torch.stack([a + b, a - b], 2), 2 * half
    return t.reshape(x.shape) / d**0.5
