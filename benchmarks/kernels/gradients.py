# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Backward kernels by hand, as a reader of the forward kernels would write them."""

from __future__ import annotations

import pypto as pto
from benchmarks.kernels.elementwise import BLOCK, CUBIC, LINEAR


@pto.jit
def softmax_backward_kernel(x, d_y, d_x):
    row = pto.program_id(0)
    t, g = x[row, :], d_y[row, :]
    e = pto.exp(t - pto.max(t))
    y = e / pto.sum(e)
    d_x[row, :] = y * (g - pto.sum(g * y))


def softmax_backward(x, d_y, d_x):
    """d_x from the gradient of softmax of the rows of x, shape (m, n)."""
    softmax_backward_kernel[(x.shape[0],)](x, d_y, d_x)


@pto.jit
def layer_norm_backward_kernel(x, weight, d_y, d_x, partial_weight, partial_bias, eps, ROWS: pto.constexpr):
    block = pto.program_id(0)
    n = x.shape[1]
    scales = weight[:]
    sum_weight = pto.zeros((n,), pto.float32)
    sum_bias = pto.zeros((n,), pto.float32)
    for row in range(block * ROWS, min(block * ROWS + ROWS, x.shape[0])):
        t, g = x[row, :], d_y[row, :]
        centred = t - pto.sum(t) / n
        scale = 1 / pto.sqrt(pto.sum(centred * centred) / n + eps)
        normed = centred * scale
        sum_weight += g * normed
        sum_bias += g
        g = g * scales
        d_x[row, :] = (g - pto.sum(g) / n - normed * (pto.sum(g * normed) / n)) * scale
    partial_weight[block, :] = sum_weight
    partial_bias[block, :] = sum_bias


def layer_norm_backward(x, weight, d_y, d_x, d_weight, d_bias, partial, eps):
    """Gradients of layer norm of the rows of x, shape (m, n); partial is room of shape (2, blocks, n)."""
    blocks = partial.shape[1]
    rows = pto.cdiv(x.shape[0], blocks)
    layer_norm_backward_kernel[(blocks,)](x, weight, d_y, d_x, partial[0], partial[1], eps, ROWS=rows)
    partial[0].sum(0, out=d_weight)
    partial[1].sum(0, out=d_bias)


@pto.jit
def rms_norm_backward_kernel(x, weight, d_y, d_x, partial_weight, eps, ROWS: pto.constexpr):
    block = pto.program_id(0)
    n = x.shape[1]
    scales = weight[:]
    sum_weight = pto.zeros((n,), pto.float32)
    for row in range(block * ROWS, min(block * ROWS + ROWS, x.shape[0])):
        t, g = x[row, :], d_y[row, :]
        scale = pto.rsqrt(pto.sum(t * t) / n + eps)
        normed = t * scale
        sum_weight += g * normed
        g = g * scales
        d_x[row, :] = (g - normed * (pto.sum(g * normed) / n)) * scale
    partial_weight[block, :] = sum_weight


def rms_norm_backward(x, weight, d_y, d_x, d_weight, partial, eps):
    """Gradients of rms norm of the rows of x, shape (m, n); partial is room of shape (blocks, n)."""
    blocks = partial.shape[0]
    rows = pto.cdiv(x.shape[0], blocks)
    rms_norm_backward_kernel[(blocks,)](x, weight, d_y, d_x, partial, eps, ROWS=rows)
    partial.sum(0, out=d_weight)


@pto.jit
def gelu_backward_kernel(x, d_y, d_x, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    t = x[i : i + BLOCK]
    square = t * t
    p = 1 / (1 + pto.exp(t * (LINEAR + CUBIC * square)))
    slope = p - t * p * (1 - p) * (LINEAR + 3 * CUBIC * square)
    d_x[i : i + BLOCK] = d_y[i : i + BLOCK] * slope


def gelu_backward(x, d_y, d_x, block=BLOCK):
    """d_x from the gradient of gelu of x with tanh, shape (n,)."""
    gelu_backward_kernel[(pto.cdiv(x.shape[0], block),)](x, d_y, d_x, BLOCK=block)


@pto.jit
def cross_entropy_backward_kernel(logits, labels, d_loss, d_logits):
    row = pto.program_id(0)
    t = logits[row, :]
    e = pto.exp(t - pto.max(t))
    p = e / pto.sum(e)
    label = labels[row]
    hit = pto.arange(0, t.shape[0]) == label
    d_logits[row, :] = pto.where(hit, p - 1, p) * d_loss[row]


def cross_entropy_backward(logits, labels, d_loss, d_logits):
    """d_logits from the gradient of the losses of the rows of logits, shape (m, n)."""
    cross_entropy_backward_kernel[(logits.shape[0],)](logits, labels, d_loss, d_logits)
