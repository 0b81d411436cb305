"""Rows of int8 convolutions."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.gradients import products as gradients
from pypto.library.gradients.rule import INTEGERS, composed
from pypto.library.kernels.quantized import int8_convolution as kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import Close

WINDOWS: Final = "A window begins at `(h * stride_h, w * stride_w)` of an image that has its padding."


def quantize_image(x: Any, scale: Any, top: int, left: int, bottom: int, right: int) -> Any:
    """Reference implementation of `quantize_image` in numpy."""
    codes = np.clip(np.rint(np.asarray(x, np.float32) * scale[0]), -127, 127)
    return np.pad(codes, ((0, 0), (0, 0), (top, bottom), (left, right))).transpose(0, 2, 3, 1)


def windows(x: Any, size: tuple[int, int], stride_h: int, stride_w: int) -> Any:
    """Views all windows of an image (n, h, w, c) as (n, rows, columns, c, kh, kw)."""
    return np.lib.stride_tricks.sliding_window_view(x, size, (1, 2))[:, ::stride_h, ::stride_w]


def shifted(total: Any, scale: Any, bias: Any) -> Any:
    """Scales sums (n, h, w, o), adds the bias, and moves the channels to axis 1."""
    y = total * f64(scale)
    return (y if bias is None else y + f64(bias)).transpose(0, 3, 1, 2)


def conv_int8(x: Any, weight: Any, scale: Any, bias: Any, stride_h: int, stride_w: int) -> Any:
    """Reference implementation of `conv_int8` in numpy."""
    rows = windows(f64(x), weight.shape[:2], stride_h, stride_w)
    return shifted(np.einsum("nhwcij,ijco->nhwo", rows, f64(weight), optimize=True), scale, bias)


def depthwise_conv_int8(x: Any, weight: Any, scale: Any, bias: Any, stride_h: int, stride_w: int) -> Any:
    """Reference implementation of `depthwise_conv_int8` in numpy."""
    rows = windows(f64(x), weight.shape[:2], stride_h, stride_w)
    return shifted(np.einsum("nhwcij,ijc->nhwc", rows, f64(weight), optimize=True), scale, bias)


def image(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples normal numbers, few of which are out of range."""
    x = rng.standard_normal((n.n, n.c, n.h, n.w), np.float32).astype(dtype.numpy)
    return {"x": x, "scale": np.full(1, 48, np.float32)}


def saturating(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: numbers beyond both ends of int8, halves, and borders of different widths."""
    x = np.array([-1e6, -127.5, -0.5, 0.5, 1.5, 1e6], np.float32).reshape(1, 2, 1, 3)
    return {"x": x, "scale": np.ones(1, np.float32), "top": 1, "left": 2, "bottom": 3, "right": 0}


def codes(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples all codes, and scales that give results near 1."""
    weight = rng.integers(-127, 128, (n.kh, n.kw, n.c, *([n.o] if hasattr(n, "o") else [])), np.int8)
    outputs = weight.shape[-1]
    size = 5000 * weight[..., 0].size ** 0.5
    return {
        "x": rng.integers(-127, 128, (n.n, n.h, n.w, n.c), dtype.numpy),
        "weight": weight,
        "scale": rng.uniform(1 / size, 2 / size, outputs).astype(np.float32),
    }


def strided(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: windows of one row and three columns, stride 2, with a bias and the largest products."""
    weight, scale = np.full((1, 3, 5, 7), 127, np.int8), np.full(7, 1e-5, np.float32)
    x = rng.integers(-127, 128, (1, 3, 9, 5), np.int8)
    x[0, 0] = -127
    bias = rng.standard_normal(7).astype(np.float32)
    return {"x": x, "weight": weight, "scale": scale, "bias": bias, "stride_w": 2}


def strided_depthwise(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a depthwise convolution with a stride of two rows."""
    inputs = strided(rng)
    return inputs | {"weight": inputs["weight"][..., :5, 0], "scale": inputs["scale"][:5], "bias": None, "stride_h": 2}


PADDED: Final = "x[n..., h, w, c] i8"
RESULT: Final = (
    "(h - kh) // stride_h + 1, (w - kw) // stride_w + 1] f32 where kh <= h, kw <= w, 1 <= stride_h, 1 <= stride_w"
)


def image_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    codes = (v.x.float() * v.scale).round().clamp(-127, 127).to(torch.int8)
    return torch.nn.functional.pad(codes, (v.left, v.right, v.top, v.bottom)).permute(0, 2, 3, 1).contiguous()


def channels_last(torch: Any, v: Any) -> dict[str, Any]:
    """Converts the weights to float32, because torch has no int8 convolution with such a result."""
    weight = v.weight.float().permute(3, 2, 0, 1) if v.weight.ndim == 4 else v.weight.float().permute(2, 0, 1)[:, None]
    return {"filters": (weight * v.scale[:, None, None, None]).contiguous(memory_format=torch.channels_last)}


def conv_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch: a float32 convolution of the channels-last image."""
    x, groups = v.x.float().permute(0, 3, 1, 2), v.x.shape[3] // v.filters.shape[1]
    return torch.nn.functional.conv2d(x, v.filters, v.bias, (v.stride_h, v.stride_w), groups=groups)


ROWS: Final = (
    Operator(
        "quantize_image", "Int8 codes of an image with its channels last, and zeros around it",
        "x[n..., c, h, w] bf16|f32, scale[1] f32, top=0, left=0, bottom=0, right=0 "
        "-> q[n..., top + h + bottom, left + w + right, c] i8 "
        "where 0 <= top, 0 <= left, 0 <= bottom, 0 <= right",
        "`q = clamp(round(x * scale), -127, 127)`, halves to even. NaN is an error.",
        "Static quantisation of convolutional networks",
        quantize_image, (Implementation("rows", kernels.quantize_image),),
        {"small": {"n": 2, "c": 5, "h": 3, "w": 7}, "model": {"n": 1, "c": 64, "h": 184, "w": 184}}, image,
        {"saturating": saturating}, flops=lambda n: 3.0 * n.n * n.c * n.h * n.w, peer=image_by_torch,
        no_gradient=INTEGERS,
    ),
    Operator(
        "conv_int8", "Convolution of int8 images and weights, with scales of the outputs and a float32 bias",
        f"{PADDED}, weight[kh, kw, c, o] i8, scale[o] f32, bias[o]? f32, stride_h=1, stride_w=1 -> y[n..., o, "
        f"{RESULT}, "
        "128*128*kh*kw*c < 2**31, any(x, weight), contiguous(x)",
        f"`y = conv(x, weight) * scale + bias`, the sum in int32. {WINDOWS}", "Jacob et al., 2018", conv_int8,
        (Implementation("rows", kernels.conv_int8),),
        {"small": {"n": 2, "h": 5, "w": 7, "c": 8, "kh": 3, "kw": 3, "o": 16},
         "model": {"n": 1, "h": 58, "w": 58, "c": 64, "kh": 3, "kw": 3, "o": 64}},
        codes, {"one row, two columns apart": strided}, {"y": Close(1e-6, 1e-5)},
        flops=lambda n: 2.0 * n.n * (n.h - n.kh + 1) * (n.w - n.kw + 1) * n.kh * n.kw * n.c * n.o, items="o",
        peer=conv_by_torch, prepared=channels_last,
        gradient=composed(gradients.conv_int8, "for the scale and the bias"),
    ),
    Operator(
        "depthwise_conv_int8", "Convolution of each channel of an int8 image with a window of its own",
        f"{PADDED}, weight[kh, kw, c] i8, scale[c] f32, bias[c]? f32, stride_h=1, stride_w=1 -> y[n..., c, {RESULT}, "
        "128*128*kh*kw < 2**31, any(x, weight), contiguous(x)",
        f"`y = conv(x, weight) * scale + bias` for each channel, the sum in int32. {WINDOWS}", "MobileNets",
        depthwise_conv_int8,
        (
            Implementation("buffers", partial(kernels.depthwise_conv_int8, pixels=16, channels=64), ("ascend",)),
            Implementation("registers", kernels.depthwise_conv_int8),
        ),
        {"small": {"n": 2, "h": 5, "w": 7, "c": 8, "kh": 3, "kw": 3},
         "model": {"n": 1, "h": 60, "w": 60, "c": 96, "kh": 5, "kw": 5}},
        codes, {"two rows and columns apart": strided_depthwise}, {"y": Close(1e-6, 1e-5)},
        flops=lambda n: 2.0 * n.n * (n.h - n.kh + 1) * (n.w - n.kw + 1) * n.kh * n.kw * n.c, items="c",
        peer=conv_by_torch, prepared=channels_last,
        limited="int8 codes become int32 for each of the 25 windows; torch's convolution gets weights in float32, "
        "with scales in them, and converts the image once.",
        gradient=composed(gradients.conv_int8, "for the scale and the bias"),
    ),
)  # fmt: skip
