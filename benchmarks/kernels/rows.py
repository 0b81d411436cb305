# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""One program per row: what numpy does in many passes over memory happens in one."""

from __future__ import annotations

import pypto as pto


@pto.jit
def softmax_kernel(x, y):
    row = pto.program_id(0)
    t = x[row, :]
    e = pto.exp(t - pto.max(t))
    y[row, :] = e / pto.sum(e)


def softmax(x, out):
    """out = softmax of the rows of x, shape (m, n)."""
    softmax_kernel[(x.shape[0],)](x, out)


@pto.jit
def persistent_softmax_kernel(x, y, stride, rows, columns, BLOCK: pto.constexpr):
    """Few programs, each of which takes row after row, in blocks of the next power of two."""
    offsets = pto.arange(0, BLOCK)
    for row in range(pto.program_id(0), rows, pto.num_programs(0)):
        t = pto.load(x + row * stride + offsets, mask=offsets < columns, other=-float("inf"))
        e = pto.exp(t - pto.max(t, axis=0))
        pto.store(y + row * stride + offsets, e / pto.sum(e, axis=0), mask=offsets < columns)


def persistent_softmax(x, out):
    """out = softmax of the rows of x, shape (m, n), in Triton's style."""
    rows, columns = x.shape
    persistent_softmax_kernel[(16,)](x, out, columns, rows, columns, BLOCK=pto.next_power_of_2(columns))


@pto.jit
def gated_kernel(x, gate, y, stride, columns, BLOCK: pto.constexpr):
    row, offsets = pto.program_id(0), pto.arange(0, BLOCK)
    t = pto.load(x + row * stride + offsets, mask=offsets < columns)
    g = pto.load(gate + row * stride + offsets, mask=offsets < columns)
    pto.store(y + row * stride + offsets, t * g * pto.sigmoid(g), mask=offsets < columns)


def gated(x, gate, out):
    """out = x · silu(gate), shape (m, n), in Triton's style."""
    gated_kernel[(x.shape[0],)](x, gate, out, x.shape[1], x.shape[1], BLOCK=pto.next_power_of_2(x.shape[1]))


@pto.jit
def layer_norm_kernel(x, weight, bias, y, eps):
    row = pto.program_id(0)
    t = x[row, :]
    n = x.shape[1]
    centred = t - pto.sum(t) / n
    scale = 1 / pto.sqrt(pto.sum(centred * centred) / n + eps)
    y[row, :] = centred * scale * weight[:] + bias[:]


def layer_norm(x, weight, bias, out, eps):
    """out = layer norm of the rows of x, shape (m, n)."""
    layer_norm_kernel[(x.shape[0],)](x, weight, bias, out, eps)


@pto.jit
def rms_norm_kernel(x, weight, y, eps):
    row = pto.program_id(0)
    t = x[row, :]
    y[row, :] = t * pto.rsqrt(pto.sum(t * t) / x.shape[1] + eps) * weight[:]


def rms_norm(x, weight, out, eps):
    """out = rms norm of the rows of x, shape (m, n)."""
    rms_norm_kernel[(x.shape[0],)](x, weight, out, eps)


@pto.jit
def residual_rms_norm_kernel(x, residual, weight, y, total, eps):
    row = pto.program_id(0)
    t = x[row, :] + residual[row, :]
    total[row, :] = t
    y[row, :] = t * pto.rsqrt(pto.sum(t * t) / x.shape[1] + eps) * weight[:]


def residual_rms_norm(x, residual, weight, out, total, eps):
    """total = x + residual, and out = rms norm of its rows, shape (m, n)."""
    residual_rms_norm_kernel[(x.shape[0],)](x, residual, weight, out, total, eps)


@pto.jit
def cross_entropy_kernel(logits, labels, loss):
    row = pto.program_id(0)
    t = logits[row, :]
    m = pto.max(t)
    loss[row] = pto.log(pto.sum(pto.exp(t - m))) + m - logits[row, labels[row]]


def cross_entropy(logits, labels, loss):
    """loss = -log softmax of the rows of logits, shape (m, n), at their labels, shape (m,)."""
    cross_entropy_kernel[(logits.shape[0],)](logits, labels, loss)


@pto.jit
def quantise_kernel(x, q, scales):
    row = pto.program_id(0)
    t = x[row, :]
    most = pto.max(pto.abs(t))
    scales[row] = most / 127
    q[row, :] = pto.cast(pto.round(t * (127 / most)), pto.int8)


def quantise(x, q, scales):
    """q · scales = x about, with q as int8, shape (m, n), and one scale per row, shape (m,)."""
    quantise_kernel[(x.shape[0],)](x, q, scales)


@pto.jit
def cumsum_kernel(x, out):
    row = pto.program_id(0)
    out[row, :] = pto.cumsum(x[row, :], 0)


def cumsum(x, out):
    """out = running sums along the rows of x, shape (m, n)."""
    cumsum_kernel[(x.shape[0],)](x, out)


@pto.jit
def sort_kernel(x, out):
    row = pto.program_id(0)
    out[row, :] = pto.sort(x[row, :])


def sort(x, out):
    """out = the rows of x in order, shape (m, n)."""
    sort_kernel[(x.shape[0],)](x, out)


@pto.jit
def argsort_kernel(x, out):
    row = pto.program_id(0)
    out[row, :] = pto.argsort(x[row, :])


def argsort(x, out):
    """out = where the elements of the sorted rows of x are, shape (m, n)."""
    argsort_kernel[(x.shape[0],)](x, out)


@pto.jit
def histogram_kernel(x, counts, BINS: pto.constexpr, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    inside = offs < x.shape[0]
    found = pto.histogram(pto.load(x + offs, mask=inside), BINS, mask=inside)
    pto.atomic_add(counts + pto.arange(0, BINS), found)


def histogram(x, counts, block=1 << 16):
    """counts = how often each number from 0 on is in x, shape (n,)."""
    counts[:] = 0
    histogram_kernel[(pto.cdiv(x.shape[0], block),)](x, counts, BINS=counts.shape[0], BLOCK=block)


@pto.jit
def topk_kernel(x, out, K: pto.constexpr):
    row = pto.program_id(0)
    out[row, :] = pto.topk(x[row, :], K)


def topk(x, out):
    """out = the k greatest of each row of x, greatest first; shapes (m, n) and (m, k)."""
    topk_kernel[(x.shape[0],)](x, out, K=out.shape[1])


@pto.jit
def column_sum_kernel(x, out, ROWS: pto.constexpr, BLOCK: pto.constexpr):
    j = pto.program_id(0) * BLOCK
    total = pto.zeros((BLOCK,), pto.float32)
    for i in range(0, x.shape[0], ROWS):
        total += pto.sum(x[i : i + ROWS, j : j + BLOCK], axis=0)
    out[j : j + BLOCK] = total


def column_sum(x, out, rows=16, block=1024):
    """out = sums over the columns of x; shapes (m, n) and (n,)."""
    column_sum_kernel[(pto.cdiv(x.shape[1], block),)](x, out, ROWS=rows, BLOCK=block)
