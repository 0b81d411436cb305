"""Rows of image operators."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.gradients import image as gradients
from pypto.library.kernels import image as kernels
from pypto.library.row import Implementation, Operator, f64
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


def conv_bn_relu(x: Any, weight: Any, gain: Any, bias: Any) -> Any:
    """Reference implementation of `conv_bn_relu` in numpy."""
    (_, _, h, w), padded = x.shape, np.pad(f64(x), ((0, 0), (0, 0), (1, 1), (1, 1)))
    total = sum(
        np.einsum("oc,nchw->nohw", f64(weight[i, j]), padded[:, :, i : i + h, j : j + w])
        for i in range(3)
        for j in range(3)
    )
    return np.maximum(total * f64(gain)[:, None, None] + f64(bias)[:, None, None], 0)


def pixels(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples colours between 0 and 1."""
    return {"x": rng.random((n.n, 3, n.h, n.w), np.float32).astype(dtype.numpy)}


def filters(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples weights that keep activations in range."""
    weight = rng.standard_normal((3, 3, n.o, n.c), np.float32) / np.float32(3 * n.c**0.5)
    return {"weight": weight.astype(dtype.numpy)}


def sepia_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    tones = torch.tensor(kernels.TONES, dtype=v.x.dtype)
    return torch.einsum("ck,nkhw->nchw", tones, v.x).clamp(0, 1)


def conv_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    convolved = torch.nn.functional.conv2d(v.x, v.weight.permute(2, 3, 0, 1).contiguous(), padding=1)
    return torch.relu(convolved * v.gain[:, None, None] + v.bias[:, None, None])


ROWS: Final = (
    Operator(
        "sepia", "Tones of brown of images", "x[n, 3, h, w] f32|bf16 -> y[n, 3, h, w]",
        "`R' = 0.393 R + 0.769 G + 0.189 B`, `G' = 0.349 R + 0.686 G + 0.168 B`, `B' = 0.272 R + 0.534 G + 0.131 B`, "
        "between 0 and 1.", "A filter of image editors", sepia, (Implementation("pixels", kernels.sepia),), SIZES,
        pixels, flops=lambda n: 18.0 * n.n * n.h * n.w, peer=sepia_by_torch,
        gradient=gradients.sepia,
    ),
    Operator(
        "sepia_backward", "Gradient of `sepia`", "x[n, 3, h, w] f32, dy[n, 3, h, w] -> dx[n, 3, h, w]",
        "The transposed map of `dy`, where the sum was between 0 and 1; elsewhere 0.", "A filter of image editors",
        sepia_backward, (Implementation("pixels", kernels.sepia_backward),), SIZES, pixels,
        flops=lambda n: 36.0 * n.n * n.h * n.w,
        peer=lambda torch, v: gradients.of_sepia(torch, v.x, v.dy),
        gradient=gradients.sepia_backward,
    ),
    Operator(
        "conv_bn_relu", "Convolution 3 x 3 with padding 1, batch normalisation as an affine map, and relu",
        "x[n, c, h, w] f32|bf16, weight[3, 3, o, c], gain[o], bias[o] -> y[n, o, h, w] where 1 <= c",
        "`y = relu(conv(x, weight) * gain + bias)`, summed in float32; `gain` and `bias` hold mean, variance, scale "
        "and shift of the normalisation.", "Convolutional networks", conv_bn_relu,
        (
            Implementation("padded", kernels.padded_conv_bn_relu, ("ascend",)),
            Implementation("rows", kernels.conv_bn_relu),
        ),
        {"small": {"n": 1, "c": 8, "h": 4, "w": 9, "o": 16}, "model": {"n": 8, "c": 64, "h": 56, "w": 56, "o": 64}},
        filters, tolerance={"y": Close(7.8e-3, 5e-3)}, flops=lambda n: 18.0 * n.n * n.c * n.h * n.w * n.o,
        peer=conv_by_torch,
        limited="products in IEEE float32, at 0.6 of the rate of multiply-adds, as oneDNN's are in torch.",
        items="o",
        gradient=gradients.conv_bn_relu,
    ),
)  # fmt: skip
