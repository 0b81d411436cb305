# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Image operators: a colour filter, and convolution fused with batch norm and relu."""

from __future__ import annotations

import pypto as pto
from pypto.library.binding import empty
from pypto.runtime.arrays import dtype_of

BLOCK = 4096
PIXELS = 64  # pixels of a row in a program
TONES = ((0.393, 0.769, 0.189), (0.349, 0.686, 0.168), (0.272, 0.534, 0.131))


@pto.jit
def sepia_kernel(x, y, BLOCK: pto.constexpr):
    n, i = pto.program_id(0), pto.program_id(1) * BLOCK
    r, g, b = x[n, 0, i : i + BLOCK], x[n, 1, i : i + BLOCK], x[n, 2, i : i + BLOCK]
    for c in pto.static_range(3):
        total = r.to(pto.float32) * TONES[c][0] + g.to(pto.float32) * TONES[c][1] + b.to(pto.float32) * TONES[c][2]
        y[n, c, i : i + BLOCK] = pto.clamp(total, 0.0, 1.0, propagate_nan=True).to(y.dtype)


@pto.jit
def sepia_backward_kernel(x, dy, dx, BLOCK: pto.constexpr):
    """Computes the gradient; clamped values pass none."""
    n, i = pto.program_id(0), pto.program_id(1) * BLOCK
    r, g, b = x[n, 0, i : i + BLOCK], x[n, 1, i : i + BLOCK], x[n, 2, i : i + BLOCK]
    dr = pto.zeros((BLOCK,), pto.float32)
    dg = pto.zeros((BLOCK,), pto.float32)
    db = pto.zeros((BLOCK,), pto.float32)
    for c in pto.static_range(3):
        total = r.to(pto.float32) * TONES[c][0] + g.to(pto.float32) * TONES[c][1] + b.to(pto.float32) * TONES[c][2]
        up = pto.where((total >= 0) & (total <= 1), dy[n, c, i : i + BLOCK].to(pto.float32), 0.0)
        dr += up * TONES[c][0]
        dg += up * TONES[c][1]
        db += up * TONES[c][2]
    dx[n, 0, i : i + BLOCK] = dr.to(dx.dtype)
    dx[n, 1, i : i + BLOCK] = dg.to(dx.dtype)
    dx[n, 2, i : i + BLOCK] = db.to(dx.dtype)


@pto.jit
def conv_bn_relu_kernel(x, weight, gain, bias, out, BORDER: pto.constexpr, BW: pto.constexpr):
    """A 3 x 3 convolution with padding 1, an affine map and relu; BORDER is the padding that x does not contain."""
    n, h, left = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BW
    acc = pto.zeros((out.shape[1], BW), pto.float32)
    for i in pto.static_range(3):
        for j in pto.static_range(3):
            window = pto.load(x, (n, 0, h + i - BORDER, left + j - BORDER), (1, x.shape[1], 1, BW))
            acc = pto.dot(weight[i, j, :, :], pto.reshape(window, (x.shape[1], BW)), acc)
    scaled = acc * gain[:].to(pto.float32)[:, None] + bias[:].to(pto.float32)[:, None]
    out[n, :, h, left : left + BW] = pto.maximum(scaled, 0.0, propagate_nan=True).to(out.dtype)


@pto.jit
def strided_conv_bn_relu_kernel(
    x: pto.dynamic, weight, gain, bias, out, STRIDE: pto.constexpr, PADDING: pto.constexpr, DILATION: pto.constexpr,
    GROUPS: pto.constexpr, BW: pto.constexpr,
):  # fmt: skip
    """A convolution of any size, stride and groups; a program computes pixels of a row for the channels of a group."""
    height, width = out.shape[1] // GROUPS, weight.shape[3]
    n, g, h = pto.program_id(0) // GROUPS, pto.program_id(0) % GROUPS, pto.program_id(1)
    left = pto.program_id(2) * BW
    columns = left + pto.arange(0, BW)
    first = n.to(pto.int64) * x.strides[0] + g * width * x.strides[1]
    channels = first + pto.arange(0, width) * x.strides[1]
    acc = pto.zeros((height, BW), pto.float32)
    for i in range(weight.shape[0]):
        row = h * STRIDE[0] + i * DILATION[0] - PADDING[0]
        for j in range(weight.shape[1]):
            places = columns * STRIDE[1] + j * DILATION[1] - PADDING[1]
            inside = (places >= 0) & (places < x.shape[3]) & (row >= 0) & (row < x.shape[2])
            at = channels[:, None] + (row * x.strides[2] + places * x.strides[3])[None, :]
            window = pto.load(x + at, mask=inside[None, :], other=0)
            acc = pto.dot(weight[i, j, g * height : g * height + height, :], window, acc)
    slope = gain[g * height : g * height + height].to(pto.float32)[:, None]
    scaled = acc * slope + bias[g * height : g * height + height].to(pto.float32)[:, None]
    y = pto.maximum(scaled, 0.0, propagate_nan=True).to(out.dtype)
    out[n, g * height : g * height + height, h, left : left + BW] = y


@pto.jit
def pad_kernel(x, y, BW: pto.constexpr):
    """Copies a row of pixels of all channels, with zeros around the image."""
    n, h, left = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BW
    row = pto.reshape(pto.load(x, (n, 0, max(h - 1, 0), left), (1, x.shape[1], 1, BW)), (x.shape[1], BW))
    inside = (h > 0) & (h <= x.shape[2])
    y[n, :, h, left + 1 : left + 1 + BW] = pto.where(inside, row, pto.zeros_like(row))
    if left == 0:
        y[n, :, h, 0:1] = pto.zeros((x.shape[1], 1), x.dtype)


def planes(x):
    """Views an image as one row of pixels per colour."""
    return x.reshape(x.shape[0], x.shape[1], -1)


def sepia(x, y):
    """Applies the sepia filter; results lie between 0 and 1."""
    grid = (x.shape[0], pto.cdiv(x.shape[2] * x.shape[3], BLOCK))
    sepia_kernel[grid](planes(x), planes(y), BLOCK=BLOCK)


def sepia_backward(x, dy, dx):
    """Computes the gradient of sepia."""
    grid = (x.shape[0], pto.cdiv(x.shape[2] * x.shape[3], BLOCK))
    sepia_backward_kernel[grid](planes(x), planes(dy), planes(dx), BLOCK=BLOCK)


def is_plain(weight, stride, padding, groups, dilation):
    """Says whether a convolution is 3 x 3 with padding 1, for which there are kernels of their own."""
    return tuple(weight.shape[:2]) == (3, 3) and stride == padding == dilation == (1, 1) and groups == 1


def strided_conv_bn_relu(x, weight, gain, bias, stride, padding, groups, dilation, y):
    """Computes relu(conv(x) * gain + bias) for any size, stride and groups."""
    n, _, h, w = y.shape
    sizes = {"STRIDE": stride, "PADDING": padding, "DILATION": dilation, "GROUPS": groups, "BW": PIXELS}
    strided_conv_bn_relu_kernel[(n * groups, h, pto.cdiv(w, PIXELS))](x, weight, gain, bias, y, **sizes)


def conv_bn_relu(x, weight, gain, bias, stride, padding, groups, dilation, y):
    """Computes relu(conv(x) * gain + bias)."""
    if not is_plain(weight, stride, padding, groups, dilation):
        strided_conv_bn_relu(x, weight, gain, bias, stride, padding, groups, dilation, y)
        return
    n, _, h, w = x.shape
    conv_bn_relu_kernel[(n, h, pto.cdiv(w, PIXELS))](x, weight, gain, bias, y, BORDER=1, BW=PIXELS)


def padded_conv_bn_relu(x, weight, gain, bias, stride, padding, groups, dilation, y):
    """Pads x first, for a matrix unit whose operands cannot begin before an array."""
    if not is_plain(weight, stride, padding, groups, dilation):
        strided_conv_bn_relu(x, weight, gain, bias, stride, padding, groups, dilation, y)
        return
    n, c, h, w = x.shape
    padded = empty(x, (n, c, h + 2, w + 2), dtype_of(x.dtype))
    pad_kernel[(n, h + 2, pto.cdiv(w + 1, PIXELS))](x, padded, BW=PIXELS)
    conv_bn_relu_kernel[(n, h, pto.cdiv(w, PIXELS))](padded, weight, gain, bias, y, BORDER=0, BW=PIXELS)
