# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Int8 convolutions of images in channels-last layout (NHWC), summed in int32."""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import int32
from pypto.library.binding import empty, refuse_nan

BLOCK = 64  # pixels of a row, and channels; images of at most 16 channels have blocks of 16


@pto.jit
def quantize_image_kernel(
    x: pto.dynamic, scale, q: pto.dynamic, nan: pto.dynamic, top, left, BW: pto.constexpr, BC: pto.constexpr
):  # fmt: skip
    """Quantises BW pixels of a row in BC channels to NHWC codes with zero padding, and notes whether one is NaN."""
    n, h = pto.program_id(0) // q.shape[1], pto.program_id(0) % q.shape[1]
    column, c = pto.program_id(1) * BW, pto.program_id(2) * BC
    pixels = pto.load(x, (n, c, h - top, column - left), (1, BC, 1, BW))
    t = pto.reshape(pixels, (BC, BW)).to(pto.float32) * scale[0]
    codes = pto.clamp(pto.rint(t), -127.0, 127.0, propagate_nan=True)
    nan[pto.program_id(0), pto.program_id(1), pto.program_id(2)] = pto.isnan(pto.sum(codes)).to(pto.int32)
    q[n, h, column : column + BW, c : c + BC] = pto.trans(codes).to(pto.int8)


@pto.jit
def conv_int8_kernel(
    x: pto.dynamic, weight: pto.dynamic, scale: pto.dynamic, bias: pto.dynamic, y: pto.dynamic,
    KH: pto.constexpr, KW: pto.constexpr, SH: pto.constexpr, SW: pto.constexpr,
    BW: pto.constexpr, BO: pto.constexpr, BC: pto.constexpr,
):  # fmt: skip
    """Computes BW pixels of a row in BO channels: one product for each position of the window."""
    n, h = pto.program_id(0) // y.shape[2], pto.program_id(0) % y.shape[2]
    left, j = pto.program_id(1) * BW, pto.program_id(2) * BO
    columns, channels = left + pto.arange(0, BW), pto.arange(0, BC)
    acc = pto.zeros((BW, BO), pto.int32)
    for r in pto.static_range(KH):
        for s in pto.static_range(KW):
            first = (n.to(pto.int64) * x.shape[1] + h * SH + r) * x.shape[2] + s
            pixels = x + (first + columns * SW)[:, None] * x.shape[3]
            for c in range(0, x.shape[3], BC):
                inside = (columns < y.shape[3])[:, None] & (c + channels < x.shape[3])[None, :]
                window = pto.load(pixels + (c + channels)[None, :], mask=inside, other=0)
                acc = pto.dot(window, weight[r, s, c : c + BC, j : j + BO], acc)
    total = acc.to(pto.float32) * scale[j : j + BO][None, :]
    if bias is not None:
        total = total + bias[j : j + BO][None, :]
    y[n, j : j + BO, h, left : left + BW] = pto.trans(total)


@pto.jit
def depthwise_conv_int8_kernel(
    x: pto.dynamic, weight: pto.dynamic, scale: pto.dynamic, bias: pto.dynamic, y: pto.dynamic,
    KH: pto.constexpr, KW: pto.constexpr, SH: pto.constexpr, SW: pto.constexpr, BW: pto.constexpr, BC: pto.constexpr,
):  # fmt: skip
    """Computes BW pixels of a row in BC channels, each with its own window."""
    n, h = pto.program_id(0) // y.shape[2], pto.program_id(0) % y.shape[2]
    left, c = pto.program_id(1) * BW, pto.program_id(2) * BC
    columns, channels = left + pto.arange(0, BW), c + pto.arange(0, BC)
    inside = (columns < y.shape[3])[:, None] & (channels < x.shape[3])[None, :]
    acc = pto.zeros((BW, BC), pto.int32)
    for r in pto.static_range(KH):
        for s in pto.static_range(KW):
            if SW == 1:
                window = x[n, h * SH + r, left + s : left + s + BW, c : c + BC]
            else:
                first = (n.to(pto.int64) * x.shape[1] + h * SH + r) * x.shape[2] + s
                places = (first + columns * SW)[:, None] * x.shape[3] + channels[None, :]
                window = pto.load(x + places, mask=inside, other=0)
            acc += window.to(pto.int32) * weight[r, s, c : c + BC].to(pto.int32)[None, :]
    total = acc.to(pto.float32) * scale[c : c + BC][None, :]
    if bias is not None:
        total = total + bias[c : c + BC][None, :]
    y[n, c : c + BC, h, left : left + BW] = pto.trans(total)


def quantize_image(x, scale, q, top, left, bottom, right):
    """Quantises an image to NHWC codes with zero padding."""
    del bottom, right  # the shape of the result contains them
    bc = 16 if q.shape[3] <= 16 else BLOCK
    grid = (q.shape[0] * q.shape[1], pto.cdiv(q.shape[2], BLOCK), pto.cdiv(q.shape[3], bc))
    nan = empty(x, grid, int32)
    quantize_image_kernel[grid](x, scale, q, nan, top, left, BW=BLOCK, BC=bc)
    refuse_nan("quantize_image", nan)


def conv_int8(x, weight, scale, bias, y, stride_h, stride_w):
    """Convolves an image that is already padded."""
    (kh, kw), bc = weight.shape[:2], 16 if x.shape[3] <= 16 else BLOCK
    grid = (y.shape[0] * y.shape[2], pto.cdiv(y.shape[3], BLOCK), pto.cdiv(y.shape[1], BLOCK))
    sizes = {"KH": kh, "KW": kw, "SH": stride_h, "SW": stride_w, "BW": BLOCK, "BO": BLOCK, "BC": bc}
    conv_int8_kernel[grid](x, weight, scale, bias, y, **sizes)


def depthwise_conv_int8(x, weight, scale, bias, y, stride_h, stride_w, pixels=BLOCK // 8, channels=BLOCK // 2):
    """Convolves each channel by itself, in blocks whose sums fit into registers or a buffer."""
    kh, kw = weight.shape[:2]
    grid = (y.shape[0] * y.shape[2], pto.cdiv(y.shape[3], pixels), pto.cdiv(y.shape[1], channels))
    sizes = {"KH": kh, "KW": kw, "SH": stride_h, "SW": stride_w, "BW": pixels, "BC": channels}
    depthwise_conv_int8_kernel[grid](x, weight, scale, bias, y, **sizes)
