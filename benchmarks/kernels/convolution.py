"""Convolutions of images whose channels come last: by products, with any window and stride, and one channel at a time.

A pixel is a row of channels, so that pixels are the rows of a product, whatever lies between them; a stride takes the
columns apart as dimensions, without a copy. What lies beside the image reads as 0.
"""

from __future__ import annotations

import numpy as np

import pypto as pto

FEW_CHANNELS = 4  # up to which neighbouring pixels are columns of one product


@pto.jit
def pointwise_kernel(x, weight, out, BW: pto.constexpr, BO: pto.constexpr):
    """A window of one pixel: the images are a matrix of pixels by channels."""
    w, o = pto.program_id(0) * BW, pto.program_id(1) * BO
    out[w : w + BW, o : o + BO] = pto.dot(x[w : w + BW, :], weight[:, o : o + BO])


@pto.jit
def convolution_kernel(x, weight, out, BW: pto.constexpr, BO: pto.constexpr):
    """A program makes BW pixels of a row, in BO channels; x is (n, h, w / stride, stride, c)."""
    SIZE: pto.constexpr = weight.shape[0]
    STRIDE: pto.constexpr = x.shape[3]
    h, n, o = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BO
    acc = pto.zeros((BW, BO), pto.float32)
    for ky in pto.static_range(SIZE):
        for kx in pto.static_range(SIZE):
            row, left = h * STRIDE + ky - SIZE // 2, (kx - SIZE // 2) // STRIDE
            pixels = x[n, row, left : left + BW, (kx - SIZE // 2) % STRIDE, :]
            acc = pto.dot(pixels, weight[ky, kx, :, o : o + BO], acc)
    out[n, h, 0:BW, o : o + BO] = acc


@pto.jit
def padded_kernel(x, out, PAD: pto.constexpr):
    """Rows with PAD numbers of zero at both ends, and rows of zeros; x is (n, h, w * c)."""
    n, h = pto.program_id(1), pto.program_id(0)
    rows = (out.shape[1] - x.shape[1]) // 2
    out[n, h, :] = x[n, h - rows, -PAD : out.shape[2] - PAD]


@pto.jit
def windows_kernel(x, weight, out, BW: pto.constexpr, ROWS: pto.constexpr):
    """A product for each ROWS rows of a window; x is (n, h, w, size, size * c), whose windows overlap."""
    DEPTH: pto.constexpr = ROWS * x.shape[4]
    w, h, n = pto.program_id(0) * BW, pto.program_id(1), pto.program_id(2)
    acc = pto.zeros((BW, weight.shape[1]), pto.float32)
    for part in pto.static_range(x.shape[3] // ROWS):
        windows = x[n, h, w : w + BW, part * ROWS : (part + 1) * ROWS, :].reshape(BW, DEPTH)
        acc = pto.dot(windows, weight[part * DEPTH : (part + 1) * DEPTH, :], acc)
    out[n, h, w : w + BW, :] = acc


@pto.jit
def depthwise_kernel(x, weight, out, SIZE: pto.constexpr, BW: pto.constexpr):
    """BW pixels of a row; x is (n, h, w / stride, stride, c). Sums of a window's rows do not wait for each other."""
    STRIDE: pto.constexpr = x.shape[3]
    C: pto.constexpr = x.shape[4]
    w, h, n = pto.program_id(0) * BW, pto.program_id(1), pto.program_id(2)
    acc = pto.zeros((BW, C), pto.float32)
    for ky in pto.static_range(SIZE):
        total = pto.zeros((BW, C), pto.float32)
        for kx in pto.static_range(SIZE):
            row, left, tap = h * STRIDE + ky - SIZE // 2, w + (kx - SIZE // 2) // STRIDE, ky * SIZE + kx
            pixels = x[n, row, left : left + BW, (kx - SIZE // 2) % STRIDE, :]
            total = pto.fma(pixels, weight[tap * C : (tap + 1) * C], total)
        acc += total
    out[n, h, w : w + BW, :] = acc


def by_columns(x, stride):
    """The image with its columns by their remainder, where it lies."""
    n, height, width, c = x.shape
    return x.reshape(n, height, width // stride, stride, c)


def convolution(x, weight, out, stride=1, workspace=None):
    """Padding of half a window; x (n, h, w, c), weight (size, size, c, o), out (n, h / stride, w / stride, o).

    With up to `FEW_CHANNELS` channels, the workspace has the shape that `padded_shape` gives.
    """
    n, _, width, c = x.shape
    size, filters = weight.shape[0], weight.shape[3]
    if size == 1 and stride == 1:
        pixels, block = x.reshape(-1, c), min(filters, 256)
        grid = (pto.cdiv(len(pixels), 96), pto.cdiv(filters, block))
        pointwise_kernel[grid](pixels, weight[0, 0], out.reshape(-1, filters), BW=96, BO=block)
    elif c <= FEW_CHANNELS:
        padded_kernel[workspace.shape[1], n](x.reshape(n, -1, width * c), workspace, PAD=size // 2 * c)
        image, row, number = workspace.strides
        shape = (*out.shape[:3], size, size * c)
        windows = np.ndarray(shape, x.dtype, workspace, 0, (image, row * stride, number * c * stride, row, number))
        grid = (pto.cdiv(out.shape[2], 56), out.shape[1], n)
        rows = size if size * c < 16 else 1  # long rows are read where they lie
        windows_kernel[grid](windows, weight.reshape(-1, filters), out, BW=56, ROWS=rows)
    else:
        block = min(filters, 128)
        grid = (out.shape[1], n, pto.cdiv(filters, block))
        convolution_kernel[grid](by_columns(x, stride), weight, out, BW=out.shape[2], BO=block)


def padded_shape(x_shape, size):
    """The shape of an image with half a window of zeros around it, its rows without channels apart."""
    n, height, width, c = x_shape
    return n, height + 2 * (size // 2), (width + 2 * (size // 2)) * c


def depthwise(x, weight, out, stride=1, block=14):
    """The same of every channel on its own; x (n, h, w, c), weight (size, size, c)."""
    grid = (pto.cdiv(out.shape[2], block), out.shape[1], x.shape[0])
    depthwise_kernel[grid](by_columns(x, stride), weight.reshape(-1), out, SIZE=len(weight), BW=block)
