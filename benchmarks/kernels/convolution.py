"""Convolutions of images by channels: by products, with any window and stride, and one channel at a time."""

from __future__ import annotations

import pypto as pto


@pto.jit
def phases_kernel(x, out):
    """Every column by its remainder: x (n, c, h, w / stride, stride), out (n, c, stride, h, w / stride)."""
    n, c = pto.program_id(0), pto.program_id(1)
    for phase in pto.static_range(x.shape[4]):
        out[n, c, phase, :, :] = x[n, c, :, :, phase]


@pto.jit
def convolution_kernel(x, weight, out, SIZE: pto.constexpr, STRIDE: pto.constexpr, BW: pto.constexpr):
    """A program makes BW pixels of a row, in all of its channels; x as `phases_kernel` makes it."""
    n, h, w = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BW
    acc = pto.zeros((weight.shape[2], BW), pto.float32)
    for ky in pto.static_range(SIZE):
        for kx in pto.static_range(SIZE):
            row = h * STRIDE + ky - SIZE // 2
            left = w + (kx - SIZE // 2) // STRIDE  # what lies beside the image reads as 0
            pixels = x[n, :, (kx - SIZE // 2) % STRIDE, row, left : left + BW]
            acc = pto.dot(weight[ky, kx, :, :], pixels, acc)
    out[n, :, h, w : w + BW] = acc


@pto.jit
def pointwise_kernel(x, weight, out, BW: pto.constexpr):
    """A window of one pixel: the image is a matrix of channels by pixels."""
    n, w = pto.program_id(0), pto.program_id(1) * BW
    out[n, :, w : w + BW] = pto.dot(weight[:, :], x[n, :, w : w + BW])


@pto.jit
def depthwise_kernel(x, weight, out, SIZE: pto.constexpr, STRIDE: pto.constexpr, W: pto.constexpr):
    """A program makes a channel, row by row; x as `phases_kernel` makes it."""
    n, c = pto.program_id(0), pto.program_id(1)
    for h in range(out.shape[2]):
        acc = pto.zeros((W,), pto.float32)
        for ky in pto.static_range(SIZE):
            for kx in pto.static_range(SIZE):
                row, left = h * STRIDE + ky - SIZE // 2, (kx - SIZE // 2) // STRIDE
                acc += weight[c, ky, kx] * x[n, c, (kx - SIZE // 2) % STRIDE, row, left : left + W]
        out[n, c, h, 0:W] = acc


def phases(x, stride, workspace):
    """The image with its columns by their remainder; of stride 1, itself."""
    n, c, height, width = x.shape
    if stride == 1:
        return x.reshape(n, c, 1, height, width)
    phases_kernel[n, c](x.reshape(n, c, height, width // stride, stride), workspace)
    return workspace


def convolution(x, weight, out, stride=1, workspace=None, block=64):
    """Padding of half a window; x (n, c, h, w), weight (size, size, o, c), out (n, o, h / stride, w / stride).

    The workspace has the shape (n, c, stride, h, w / stride); a stride of 1 needs none.
    """
    n, c, height, width = x.shape
    size, pixels = weight.shape[0], height * width
    if size == 1 and stride == 1:
        flat, into = x.reshape(n, c, pixels), out.reshape(n, out.shape[1], pixels)
        pointwise_kernel[n, pto.cdiv(pixels, block)](flat, weight[0, 0], into, BW=block)
        return
    grid = (n, out.shape[2], pto.cdiv(out.shape[3], block))
    columns = phases(x, stride, workspace)
    convolution_kernel[grid](columns, weight, out, SIZE=size, STRIDE=stride, BW=block)


def depthwise(x, weight, out, stride=1, workspace=None):
    """The same of every channel on its own; x (n, c, h, w), weight (c, size, size)."""
    columns = phases(x, stride, workspace)
    depthwise_kernel[x.shape[:2]](columns, weight, out, SIZE=weight.shape[1], STRIDE=stride, W=out.shape[3])
