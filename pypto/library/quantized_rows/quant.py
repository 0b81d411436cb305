"""Rows of int8 quantisation, and of int8 products."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.library.gradients import products as product_gradients
from pypto.library.gradients import quantization as gradients
from pypto.library.gradients.rule import INTEGERS, ROUNDED, composed
from pypto.library.kernels import products
from pypto.library.kernels.quantized import quant as kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import SCALES

SIZES: Final = {"small": {"t": 5, "d": 96}, "model": {"t": 4096, "d": 4096}}
Q8: Final = (
    "`m = max|x|`, `scale = m / 127`, `q = round(x * (127 / m))`, halves to even, where m is the maximum over the {0}. "
    "Where m is 0, `q = 0` and `scale = 0`. Where there is NaN or an infinity, `q = 0`, and the scale is that."
)


def quantize(t: Any, axis: int) -> tuple[Any, Any]:
    """Symmetric int8 quantisation along an axis in float64; returns codes and scales."""
    most = np.abs(t).max(axis=axis, keepdims=True, initial=0)
    usual = (most > 0) & np.isfinite(most)
    q = np.rint(np.divide(127 * t, most, out=np.zeros_like(t), where=usual))
    return q, most.squeeze(axis) / 127


def quantize_per_token(x: Any, smooth: Any) -> tuple[Any, Any]:
    """Reference implementation of `quantize_per_token` in numpy."""
    return quantize(f64(x) * (1.0 if smooth is None else f64(smooth)), 1)


def quantize_per_group(x: Any, smooth: Any, groups: int) -> tuple[Any, Any]:
    """Reference implementation of `quantize_per_group` in numpy."""
    t = f64(x) * (1.0 if smooth is None else f64(smooth))
    q, scale = quantize(t.reshape(len(t), groups, -1), 2)
    return q.reshape(t.shape), scale


def quantize_per_channel(w: Any) -> tuple[Any, Any]:
    """Reference implementation of `quantize_per_channel` in numpy."""
    return quantize(f64(w), 0)


def quantize_static(x: Any, scale: Any, offset: Any) -> Any:
    """Reference implementation of `quantize_static` in numpy."""
    return np.clip(np.rint(f64(x) * f64(scale) + f64(offset)), -128, 127)


def dequantize(q: Any, scale: Any) -> Any:
    """Reference implementation of `dequantize` in numpy."""
    return f64(q) * f64(scale)[:, None]


def w8a8_matmul(a: Any, b: Any, row_scale: Any, column_scale: Any, bias: Any) -> Any:
    """Reference implementation of `w8a8_matmul` in numpy."""
    total = f64(a) @ f64(b) + (0 if bias is None else f64(bias))
    return total * f64(row_scale)[:, None] * f64(column_scale)


def zero_row(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a row of zeros, and rows whose largest magnitude is at either end."""
    x = rng.standard_normal((3, 50)).astype(np.float32)
    x[1] = 0
    x[2, 0] = x[2, -1] = -9
    return {"x": x}


def smooth(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: smoothing factors of the columns."""
    return {"x": rng.standard_normal((3, 64)).astype(np.float32), "smooth": rng.random(64, np.float32)}


def zero_group(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a group of zeros, column factors, and groups whose largest magnitudes are at their ends."""
    x = rng.standard_normal((3, 48)).astype(np.float32)
    x[1, 16:32] = 0
    x[2, [0, 31]] = -9
    return {"x": x, "smooth": rng.random(48, np.float32), "groups": 3}


def saturating(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: numbers beyond both ends of int8, and halves."""
    x = np.array([[-1e6, -128.5, -0.5, 0.5, 1.5, 127.5, 1e6, 3]], np.float32)
    return {"x": x, "scale": np.ones(8, np.float32), "offset": np.zeros(8, np.float32)}


def with_bias(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: odd sizes, the largest products, and a bias."""
    a, b = np.full((3, 70), -127, np.int8), np.full((70, 9), 127, np.int8)
    ones = np.full(3, 0.5, np.float32), np.full(9, 0.25, np.float32)
    return {"a": a, "b": b, "row_scale": ones[0], "column_scale": ones[1], "bias": np.arange(9, dtype=np.int32)}


def quantized_by_torch(torch: Any, x: Any) -> tuple[Any, Any]:
    """Quantises the last axis to int8 in torch; returns codes and scales."""
    t = x.float()
    most = t.abs().amax(-1, keepdim=True)
    return (t * (127 / most)).round().to(torch.int8), (most / 127).squeeze(-1)


def token_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    return quantized_by_torch(torch, v.x.float() * v.smooth)


def group_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    q, scale = quantized_by_torch(torch, (v.x.float() * v.smooth).view(len(v.x), v.groups, -1))
    return q.view(v.x.shape), scale


def static_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    return (v.x.float() * v.scale.float() + v.offset.float()).round().clamp(-128, 127).to(torch.int8)


def channel_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    t = v.w.float()
    most = t.abs().amax(0, keepdim=True)
    return (t * (127 / most)).round().to(torch.int8), (most / 127).squeeze(0)


def product_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, whose int8 product gives int32."""
    total = torch._int_mm(v.a, v.b) + (0 if v.bias is None else v.bias)
    return (total.float() * v.row_scale[:, None] * v.column_scale).to(torch.bfloat16)


ROWS: Final = (
    Operator(
        "quantize_per_token", "Symmetric int8 quantisation with one scale per row",
        "x[t..., d] bf16|f16|f32, smooth[d]? f32 -> q[t..., d] i8, scale[t...] f32 where 1 <= d",
        Q8.format("row") + " With `smooth`, `x * smooth` takes the place of `x`.", "DeepSeek-V3.2's MLA prolog",
        quantize_per_token, (Implementation("rows", kernels.quantize_per_token),), SIZES,
        edges={"zero row": zero_row, "smooth": smooth}, tolerance={"scale": SCALES}, flops=lambda n: 4.0 * n.t * n.d,
        bytes=lambda n: 3.0 * n.t * n.d, peer=token_by_torch, items="t",
        no_gradient=ROUNDED,
    ),
    Operator(
        "quantize_per_group", "Symmetric int8 quantisation with a scale for each group of a row",
        "x[t..., d] bf16|f16|f32, smooth[d]? f32, groups=4 -> q[t..., d] i8, scale[t..., groups] f32 "
        "where 1 <= d, 1 <= groups, d % groups == 0",
        Q8.format("neighbours of a group") + " Groups have `d / groups` columns. With `smooth`, `x * smooth` takes the "
        "place of `x`.", "DeepSeek-V3's inputs", quantize_per_group,
        (Implementation("rows", kernels.quantize_per_group),), SIZES, edges={"zero group": zero_group},
        tolerance={"scale": SCALES}, flops=lambda n: 4.0 * n.t * n.d, bytes=lambda n: 3.0 * n.t * n.d, items="t",
        peer=group_by_torch,
        no_gradient=ROUNDED,
    ),
    Operator(
        "quantize_per_channel", "Symmetric int8 quantisation of weights with one scale per column",
        "w[k, n] bf16|f16|f32 -> q[k, n] i8, scale[n] f32", Q8.format("column"), "DeepSeek-V3.2's weights",
        quantize_per_channel, (Implementation("columns", kernels.quantize_per_channel),),
        {"small": {"k": 48, "n": 70}, "model": {"k": 4096, "n": 4096}}, tolerance={"scale": SCALES},
        flops=lambda n: 4.0 * n.k * n.n, bytes=lambda n: 3.0 * n.k * n.n, peer=channel_by_torch, items="n",
        no_leading="a scale covers all rows of a matrix",
        no_gradient=ROUNDED,
    ),
    Operator(
        "quantize_static", "Int8 quantisation with scales and offsets of columns that are known before",
        "x[t..., d] bf16|f16|f32, scale[d], offset[d] -> q[t..., d] i8",
        "`q = clamp(round(x * scale + offset), -128, 127)`, halves to even. NaN is an error.",
        "GLM-4.5's attention",
        quantize_static, (Implementation("rows", kernels.quantize_static),), SIZES, edges={"saturating": saturating},
        flops=lambda n: 4.0 * n.t * n.d, items="t", peer=static_by_torch,
        no_gradient=INTEGERS,
    ),
    Operator(
        "dequantize", "Int8 rows times their scales", "q[t..., d] i8, scale[t...] f32 -> y[t..., d] f32 where any(q)",
        "`y = q * scale`", "DeepSeek-V3.2's cache", dequantize, (Implementation("rows", kernels.dequantize),), SIZES,
        flops=lambda n: 1.0 * n.t * n.d, peer=lambda torch, v: v.q.float() * v.scale[:, None], items="t",
        gradient=gradients.dequantize,
    ),
    Operator(
        "w8a8_matmul", "Product of int8 activations and weights, with scales of rows and columns",
        "a[t..., k] i8, b[k, n] i8, row_scale[t...] f32, column_scale[n] f32, bias[n]? i32 -> y[t..., n] bf16 "
        "where 128*128*k < 2**31, 128*128*k - 2**31 <= bias < 2**31 - 128*128*k, any(a, b)",
        "`y = (a @ b + bias) * row_scale[:, None] * column_scale`, the sum in int32, which it cannot leave.",
        "DeepSeek-V3.2 and GLM-4.5", w8a8_matmul, (Implementation("tiles", products.dequantize_matmul),),
        {"small": {"t": 5, "k": 96, "n": 70}, "model": {"t": 1024, "k": 4096, "n": 4096}},
        edges={"bias": with_bias}, flops=lambda n: 2.0 * n.t * n.k * n.n, peer=product_by_torch, items="t",
        limited="products of int8, in which torch's take as long where there are no tiles of int8 (AMX).",
        gradient=composed(product_gradients.w8a8_matmul, "for the scales"),
    ),
)  # fmt: skip
