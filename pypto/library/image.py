"""Rows of image operators."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, float32
from pypto.library.gradients import image as gradients
from pypto.library.kernels import image as kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.signature import Pair
from pypto.library.tolerance import Close

SIZES: Final = {"small": {"n": 2, "h": 5, "w": 7}, "model": {"n": 4, "h": 224, "w": 224}}
TONES: Final = np.array(kernels.TONES)


def sepia(x: Any) -> Any:
    """Reference implementation of `sepia` in numpy."""
    return np.clip(np.einsum("ck,nkhw->nchw", TONES, f64(x)), 0, 1)


def sepia_backward(x: Any, dy: Any) -> Any:
    """Reference implementation of `sepia_backward` in numpy."""
    total = np.einsum("ck,nkhw->nchw", TONES, f64(x))
    return np.einsum("ck,nchw->nkhw", TONES, np.where((total >= 0) & (total <= 1), f64(dy), 0))


def conv_bn_relu(
    x: Any, weight: Any, gain: Any, bias: Any, stride: Pair, padding: Pair, groups: int, dilation: Pair
) -> Any:  # fmt: skip
    """Reference implementation of `conv_bn_relu` in numpy."""
    (kh, kw, o, k), x = weight.shape, np.pad(f64(x), ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    h, w = (
        (size - d * (width - 1) - 1) // step + 1
        for size, width, step, d in zip(x.shape[2:], (kh, kw), stride, dilation, strict=True)
    )
    filters, total = f64(weight).reshape(kh, kw, groups, o // groups, k), np.zeros((len(x), o, h, w))
    for i in range(kh):
        for j in range(kw):
            window = x[:, :, i * dilation[0] :: stride[0], j * dilation[1] :: stride[1]][:, :, :h, :w]
            parts = window.reshape(len(x), groups, k, h, w)
            total += np.einsum("gok,ngkhw->ngohw", filters[i, j], parts).reshape(total.shape)
    return np.maximum(total * f64(gain)[:, None, None] + f64(bias)[:, None, None], 0)


def pixels(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples colours between 0 and 1."""
    return {"x": rng.random((n.n, 3, n.h, n.w), np.float32).astype(dtype.numpy)}


def filters(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples weights that keep activations in range."""
    weight = rng.standard_normal((n.kh, n.kw, n.o, n.k), np.float32) / np.float32((n.kh * n.kw * n.k) ** 0.5)
    return {"weight": weight.astype(dtype.numpy)}


def convolution(sizes: tuple[int, ...], **more: Any) -> Callable[[np.random.Generator], dict[str, Any]]:
    """Returns an edge case of filters of these sizes: height, width, outputs, inputs of a group."""

    def sample(rng: np.random.Generator) -> dict[str, Any]:
        n = SimpleNamespace(**dict(zip(("kh", "kw", "o", "k"), sizes, strict=True)))
        x = rng.standard_normal((2, n.k * more.get("groups", 1), 11, 14), np.float32)
        gain, bias = rng.standard_normal((2, n.o), np.float32)
        return {"x": x, **filters(rng, n, float32), "gain": gain, "bias": bias, **more}

    return sample


def sepia_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    tones = torch.tensor(kernels.TONES, dtype=v.x.dtype)
    return torch.einsum("ck,nkhw->nchw", tones, v.x).clamp(0, 1)


def conv_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    filters = v.weight.permute(2, 3, 0, 1).contiguous()
    convolved = torch.nn.functional.conv2d(v.x, filters, None, v.stride, v.padding, v.dilation, v.groups)
    return torch.relu(convolved * v.gain[:, None, None] + v.bias[:, None, None])


ROWS: Final = (
    Operator(
        "sepia", "Tones of brown of images", "x[n..., 3, h, w] f32|bf16 -> y[n..., 3, h, w]",
        "`R' = 0.393 R + 0.769 G + 0.189 B`, `G' = 0.349 R + 0.686 G + 0.168 B`, `B' = 0.272 R + 0.534 G + 0.131 B`, "
        "between 0 and 1.", "A filter of image editors", sepia, (Implementation("pixels", kernels.sepia),), SIZES,
        pixels, flops=lambda n: 18.0 * n.n * n.h * n.w, peer=sepia_by_torch,
        gradient=gradients.sepia,
    ),
    Operator(
        "sepia_backward", "Gradient of `sepia`", "x[n..., 3, h, w] f32, dy[n..., 3, h, w] -> dx[n..., 3, h, w]",
        "The transposed map of `dy`, where the sum was between 0 and 1; elsewhere 0.", "A filter of image editors",
        sepia_backward, (Implementation("pixels", kernels.sepia_backward),), SIZES, pixels,
        flops=lambda n: 36.0 * n.n * n.h * n.w,
        peer=lambda torch, v: gradients.of_sepia(torch, v.x, v.dy),
        gradient=gradients.sepia_backward,
    ),
    Operator(
        "conv_bn_relu", "Convolution, batch normalisation as an affine map, and relu",
        "x[n..., c, h, w] f32|bf16, weight[kh, kw, o, k], gain[o], bias[o], stride=(1,1), padding=(1,1), groups=1, "
        "dilation=(1,1) -> y[n..., o, (h + 2*padding_h - dilation_h*(kh - 1) - 1) // stride_h + 1, "
        "(w + 2*padding_w - dilation_w*(kw - 1) - 1) // stride_w + 1] "
        "where 1 <= k, 1 <= stride_h, 1 <= stride_w, 0 <= padding_h, 0 <= padding_w, 1 <= dilation_h, 1 <= dilation_w, "
        "1 <= groups, k * groups == c, o % groups == 0, 1 <= kh, 1 <= kw, "
        "dilation_h*(kh - 1) + 1 <= h + 2*padding_h, dilation_w*(kw - 1) + 1 <= w + 2*padding_w",
        "`y = relu(conv(x, weight) * gain + bias)`, summed in float32, where the strides of x may be any, as those of "
        "channels last; `gain` and `bias` hold mean, variance, scale "
        "and shift of the normalisation.", "Convolutional networks", conv_bn_relu,
        (
            Implementation("padded", kernels.padded_conv_bn_relu, ("ascend",)),
            Implementation("rows", kernels.conv_bn_relu),
        ),
        {
            "small": {"n": 1, "c": 8, "h": 4, "w": 9, "o": 16, "k": 8, "kh": 3, "kw": 3},
            "model": {"n": 8, "c": 64, "h": 56, "w": 56, "o": 64, "k": 64, "kh": 3, "kw": 3},
        },
        filters,
        edges={
            "stride 2": convolution((7, 5, 6, 3), stride=2, padding=3),
            "groups": convolution((3, 3, 8, 2), groups=4, padding=0),
            "each channel by itself": convolution((5, 3, 6, 1), groups=6, stride=3, padding=2),
            "a stride, padding and dilation for each axis": convolution(
                (3, 2, 6, 3), stride=(2, 1), padding=(1, 3), dilation=(1, 4)
            ),
            "one pixel": convolution((1, 1, 5, 7), padding=0),
        },
        tolerance={"y": Close(7.8e-3, 5e-3)}, flops=lambda n: 2.0 * n.n * n.kh * n.kw * n.k * n.h * n.w * n.o,
        peer=conv_by_torch,
        limited="products in IEEE float32, at 0.6 of the rate of multiply-adds, as oneDNN's are in torch.",
        items="o",
        gradient=gradients.conv_bn_relu,
    ),
)  # fmt: skip
