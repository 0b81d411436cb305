# numba comes without types.
# mypy: ignore-errors
"""The rows as numba's users write them: parallel loops over rows, fast arithmetic. Imported only where numba is."""

from __future__ import annotations

import numba
import numpy as np

ONE = np.float32(1)
jit = numba.njit(parallel=True, fastmath=True)


@jit
def add(x, y, out):
    for i in numba.prange(x.size):
        out[i] = x[i] + y[i]


@jit
def gelu(x, out):
    for i in numba.prange(x.size):
        t = x[i]
        inner = np.float32(0.7978845608) * (t + np.float32(0.044715) * t * t * t)
        out[i] = np.float32(0.5) * t * (ONE + np.tanh(inner))


@jit
def swiglu(gate, up, out):
    for i in numba.prange(gate.size):
        out[i] = gate[i] / (ONE + np.exp(-gate[i])) * up[i]


@jit
def chain(x, y, z, scale, out):
    for i in numba.prange(x.size):
        a, b, c = x[i], y[i], z[i]
        t = max(a * scale + b, np.float32(0)) - abs(c)
        t = t * t + a * c
        t = min(max(t, np.float32(-6)), np.float32(6))
        out[i] = np.exp(-t * t) + t / (ONE + abs(b))


@jit
def adamw(param, grad, first, second, rate, step):
    for i in numba.prange(param.size):
        g = grad[i]
        m = np.float32(0.9) * first[i] + np.float32(0.1) * g
        v = np.float32(0.999) * second[i] + np.float32(0.001) * g * g
        first[i] = m
        second[i] = v
        param[i] = param[i] * (ONE - rate * np.float32(0.01)) - step * m / (np.sqrt(v) + np.float32(1e-8))


@jit
def softmax(x, out):
    for i in numba.prange(x.shape[0]):
        row = x[i]
        most = row[0]
        for j in range(row.size):
            most = max(most, row[j])
        total = np.float32(0)
        for j in range(row.size):
            e = np.exp(row[j] - most)
            out[i, j] = e
            total += e
        for j in range(row.size):
            out[i, j] *= ONE / total


@jit
def layer_norm(x, weight, bias, eps, out):
    n = x.shape[1]
    for i in numba.prange(x.shape[0]):
        total = np.float32(0)
        for j in range(n):
            total += x[i, j]
        mean = total / np.float32(n)
        square = np.float32(0)
        for j in range(n):
            square += (x[i, j] - mean) * (x[i, j] - mean)
        scale = ONE / np.sqrt(square / np.float32(n) + eps)
        for j in range(n):
            out[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]


@jit
def rms_norm(x, weight, eps, out):
    n = x.shape[1]
    for i in numba.prange(x.shape[0]):
        square = np.float32(0)
        for j in range(n):
            square += x[i, j] * x[i, j]
        scale = ONE / np.sqrt(square / np.float32(n) + eps)
        for j in range(n):
            out[i, j] = x[i, j] * scale * weight[j]


@jit
def residual_rms_norm(x, residual, weight, eps, out, total):
    n = x.shape[1]
    for i in numba.prange(x.shape[0]):
        square = np.float32(0)
        for j in range(n):
            t = x[i, j] + residual[i, j]
            total[i, j] = t
            square += t * t
        scale = ONE / np.sqrt(square / np.float32(n) + eps)
        for j in range(n):
            out[i, j] = total[i, j] * scale * weight[j]


@jit
def cross_entropy(logits, labels, loss):
    for i in numba.prange(logits.shape[0]):
        row = logits[i]
        most = row[0]
        for j in range(row.size):
            most = max(most, row[j])
        total = np.float32(0)
        for j in range(row.size):
            total += np.exp(row[j] - most)
        loss[i] = np.log(total) + most - row[labels[i]]


@jit
def quantise(x, q, scales):
    n = x.shape[1]
    for i in numba.prange(x.shape[0]):
        most = np.float32(0)
        for j in range(n):
            most = max(most, abs(x[i, j]))
        scales[i] = most / np.float32(127)
        for j in range(n):
            q[i, j] = np.int8(np.rint(x[i, j] * (np.float32(127) / most)))


@jit
def cumsum(x, out):
    for i in numba.prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
            out[i, j] = total


@numba.njit(parallel=True)
def sort(x, out):
    for i in numba.prange(x.shape[0]):
        out[i] = np.sort(x[i])


@numba.njit(parallel=True)
def argsort(x, out):
    for i in numba.prange(x.shape[0]):
        out[i] = np.argsort(x[i])


@numba.njit(parallel=True)
def histogram(x, out):
    parts = numba.get_num_threads()
    counts, step = np.zeros((parts, out.size), np.int32), (x.size + parts - 1) // parts
    for p in numba.prange(parts):
        for i in range(p * step, min(x.size, p * step + step)):
            counts[p, x[i]] += 1
    out[:] = counts.sum(0)


@jit
def column_sum(x, out):
    for b in numba.prange((x.shape[1] + 255) // 256):
        low, high = 256 * b, min(256 * b + 256, x.shape[1])
        out[low:high] = np.float32(0)
        for i in range(x.shape[0]):
            for j in range(low, high):
                out[j] += x[i, j]


@jit
def transpose(x, out):
    m, n = x.shape
    for b in numba.prange((m + 31) // 32):
        for c in range((n + 31) // 32):
            for i in range(32 * b, min(32 * b + 32, m)):
                for j in range(32 * c, min(32 * c + 32, n)):
                    out[j, i] = x[i, j]


@jit
def embedding(ids, words, out):
    for t in numba.prange(ids.size):
        out[t, :] = words[ids[t], :]


@jit
def take(index, x, out):
    for t in numba.prange(index.size):
        out[t] = x[index[t]]


@numba.njit
def add_serial(x, y, out):
    for i in range(x.size):
        out[i] = x[i] + y[i]


@numba.njit
def many(a, b, c, d, e, f, g, out, p, q, r, s):  # noqa: PLR0913, PLR0917
    for i in range(out.size):
        out[i] = a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + g[i] + p + q + r + s


@jit
def shift(x, by, out):
    for i in numba.prange(x.size):
        out[i] = x[i - by] if i >= by else np.float32(0)


@numba.njit
def padded(x):
    """Zeros around the matrix."""
    found = np.zeros((x.shape[0] + 2, x.shape[1] + 2), x.dtype)
    found[1:-1, 1:-1] = x
    return found


@jit
def five_point(x, out):
    p = padded(x)
    for i in numba.prange(x.shape[0]):
        for j in range(x.shape[1]):
            t = p[i, j + 1] + p[i + 2, j + 1] + p[i + 1, j] + p[i + 1, j + 2]
            out[i, j] = t * np.float32(0.125) + x[i, j] * np.float32(0.5)


@jit
def convolution(x, w, out):
    p = padded(x)
    for i in numba.prange(x.shape[0]):
        for j in range(x.shape[1]):
            t = p[i, j] * w[0, 0] + p[i, j + 1] * w[0, 1] + p[i, j + 2] * w[0, 2]
            t += p[i + 1, j] * w[1, 0] + p[i + 1, j + 1] * w[1, 1] + p[i + 1, j + 2] * w[1, 2]
            t += p[i + 2, j] * w[2, 0] + p[i + 2, j + 1] * w[2, 1] + p[i + 2, j + 2] * w[2, 2]
            out[i, j] = t


@jit
def life(x, out):
    p = padded(x)
    for i in numba.prange(x.shape[0]):
        for j in range(x.shape[1]):
            n = p[i, j] + p[i, j + 1] + p[i, j + 2] + p[i + 1, j] + p[i + 1, j + 2]
            n += p[i + 2, j] + p[i + 2, j + 1] + p[i + 2, j + 2]
            out[i, j] = np.uint8(n == 3 or (n == 2 and x[i, j] == 1))
