"""Rows that fuse an activation or a norm with the int8 quantisation of its result, for use between int8 products."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from pypto.library import activations, norms
from pypto.library.gradients.rule import ROUNDED
from pypto.library.kernels.activations import gelu_by_tails_tile
from pypto.library.kernels.quantized import quant as kernels
from pypto.library.quantized_rows.quant import Q8, quantize_per_group
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import SCALES

SIZES: Final = {"small": {"t": 5, "d": 96}, "model": {"t": 4096, "d": 4096}}
ENDS: Final = (
    " `q, scale = quantize_per_group({0}, smooth, groups)`: "
    + Q8.format("neighbours of a group")
    + " Groups have `d / groups` columns; with one, a scale serves a row. All is in float32, and rounded once."
)


def gelu_quantize(x: Any, smooth: Any, groups: int) -> tuple[Any, Any]:
    """Reference implementation of `gelu_quantize` in numpy."""
    return quantize_per_group(activations.gelu(x), smooth, groups)


def add_layer_norm_quantize(
    x: Any, residual: Any, g: Any, b: Any, smooth: Any, eps: float, groups: int
) -> tuple[Any, Any, Any]:
    """Reference implementation of `add_layer_norm_quantize` in numpy."""
    y = norms.layer_norm(f64(x) + f64(residual), g, b, eps)
    return (y, *quantize_per_group(y, smooth, groups))


def gelu_of_zeros(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a group of zeros, column factors, and numbers whose GELU is nearly 0 or nearly themselves."""
    x = rng.standard_normal((3, 48)).astype(np.float32)
    x[1, 16:32] = 0
    x[2, [0, 31]] = -9, 30
    return {"x": x, "smooth": rng.random(48, np.float32), "groups": 3}


def no_variance(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: rows without variance, column factors, and a group of zeros."""
    b = rng.standard_normal(50).astype(np.float32)
    b[10:20] = 0
    return {
        "x": np.full((3, 50), 4, np.float32), "residual": np.full((3, 50), -1, np.float32),
        "g": np.ones(50, np.float32), "b": b, "smooth": rng.random(50, np.float32), "groups": 5,
    }  # fmt: skip


def quantized_by_torch(torch: Any, t: Any, v: Any) -> Any:
    """Quantises rows to int8 in torch."""
    parts = (t if v.smooth is None else t * v.smooth).unflatten(1, (v.groups, -1))
    most = parts.abs().amax(2, keepdim=True)
    return (parts * (127 / most)).round().to(torch.int8).flatten(1), (most / 127).squeeze(2)


def gelu_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    return quantized_by_torch(torch, torch.nn.functional.gelu(v.x.float()), v)


def norm_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    t = v.x.float() + v.residual.float()
    y = torch.nn.functional.layer_norm(t, (t.shape[1],), v.g.float(), v.b.float(), v.eps)
    return (y.to(v.x.dtype), *quantized_by_torch(torch, y, v))


ROWS: Final = (
    Operator(
        "gelu_quantize", "GELU, and its rows in int8",
        "x[t..., d] bf16|f16|f32, smooth[d]? f32, groups=1 -> q[t..., d] i8, scale[t..., groups] f32 "
        "where 1 <= d, 1 <= groups, d % groups == 0",
        "`y = x Φ(x)`, with the error function." + ENDS.format("y"),
        "Encoders with int8 products", gelu_quantize,
        (Implementation("tails", partial(kernels.gelu_quantize, function=gelu_by_tails_tile), ("ascend",)),
         Implementation("rows", kernels.gelu_quantize)), SIZES,
        edges={"zero group": gelu_of_zeros}, tolerance={"scale": SCALES}, flops=lambda n: 12.0 * n.t * n.d,
        bytes=lambda n: 3.0 * n.t * n.d, peer=gelu_by_torch, items="t",
        no_gradient=ROUNDED,
    ),
    Operator(
        "add_layer_norm_quantize", "Sum with the residual, its layer normalisation, and that in int8",
        "x[t..., d] bf16|f16|f32, residual[t..., d], g[d], b[d], smooth[d]? f32, eps=1e-6, groups=1 "
        "-> y[t..., d], q[t..., d] i8, scale[t..., groups] f32 where 1 <= d, 1 <= groups, d % groups == 0",
        "`y = layer_norm(x + residual, g, b, eps)`." + ENDS.format("y"),
        "Encoders with int8 products", add_layer_norm_quantize,
        (Implementation("rows", kernels.add_layer_norm_quantize),), SIZES, edges={"no variance": no_variance},
        tolerance={"scale": SCALES}, flops=lambda n: 12.0 * n.t * n.d, bytes=lambda n: 7.0 * n.t * n.d,
        peer=norm_by_torch, items="t",
        no_gradient=ROUNDED,
    ),
)  # fmt: skip
