"""Kernels whose gradients are tested, and what they compute in numpy, with the arrays in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pypto as pto
from pypto.language import libdevice

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A kernel with its launch: shapes of what it reads and stores, other arguments, and its meaning."""

    kernel: Any
    grid: Any
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    meaning: Callable[..., Any]  # the inputs to the outputs that count: an array, or a tuple of them
    others: Mapping[str, Any] = field(default_factory=dict)
    wrt: tuple[str, ...] = ()
    dtype: Any = np.float32
    tolerance: float = 2e-6  # of the largest gradient


@pto.jit
def softmax_of_pointers(x, y, n, stride, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    columns = pto.arange(0, BLOCK)
    inside = columns < n
    v = pto.load(x + row * stride + columns, mask=inside, other=-float("inf"))
    e = pto.exp(v - pto.max(v, 0))
    pto.store(y + row * stride + columns, e / pto.sum(e, 0), mask=inside)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


@pto.jit
def layer_norm(x, weight, bias, y, mean, rstd, eps):
    row = pto.program_id(0)
    t = x[row, :]
    n = x.shape[1]
    average = pto.sum(t) / n
    centred = t - average
    scale = 1 / pto.sqrt(pto.sum(centred * centred) / n + eps)
    y[row, :] = centred * scale * weight[:] + bias[:]
    mean[row] = average
    rstd[row] = scale


def layer_norm_numpy(x: Array, weight: Array, bias: Array) -> tuple[Array, Array, Array]:
    mean = x.mean(1)
    centred = x - mean[:, None]
    scale = 1 / np.sqrt((centred * centred).mean(1) + 1e-5)
    return centred * scale[:, None] * weight + bias, mean, scale


@pto.jit
def matmul(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def attention(q, k, v, out, CAUSAL: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr):
    h, i = pto.program_id(0), pto.program_id(1) * BM
    n, d = q.shape[1], q.shape[2]
    queries = q[h, i : i + BM, :] * (1 / math.sqrt(d))
    rows = i + pto.arange(0, BM)
    m = pto.full((BM,), -float("inf"), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, d), pto.float32)
    for j in range(0, min(n, i + BM) if CAUSAL else n, BN):
        s = pto.dot(queries, pto.trans(k[h, j : j + BN, :]))
        cols = j + pto.arange(0, BN)
        seen = cols[None, :] < n
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        s = pto.where(seen, s, -float("inf"))
        new = pto.maximum(m, pto.max(s, axis=1))
        p = pto.exp(s - new[:, None])
        scale = pto.exp(m - new)
        total = total * scale + pto.sum(p, axis=1)
        acc = pto.dot(p, v[h, j : j + BN, :], acc * scale[:, None])
        m = new
    out[h, i : i + BM, :] = acc / total[:, None]


def attention_numpy(causal: bool) -> Callable[..., Array]:
    def meaning(q: Array, k: Array, v: Array) -> Array:
        scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tri(scores.shape[-1]) > 0, scores, -np.inf)
        return np.asarray(softmax(scores) @ v)

    return meaning


@pto.jit
def activation(x, y, BLOCK: pto.constexpr):
    """gelu, with a branch that depends on the program and one that depends on a number that was loaded."""
    i = pto.program_id(0) * BLOCK
    t = x[i : i + BLOCK]
    if pto.program_id(0) == 1:
        t = t * 2.0
    y[i : i + BLOCK] = 0.5 * t * (1 + pto.erf(t * 0.7071067811865476))


def activation_numpy(x: Array) -> Array:
    from math import erf

    t = np.where(np.arange(x.size) // 8 == 1, 2 * x, x)
    return 0.5 * t * (1 + np.vectorize(erf)(t / math.sqrt(2)))


@pto.jit
def embedding(table, rows, out):
    """Rows of a table, of which several programs take the same."""
    i = pto.program_id(0)
    line = rows[i]
    out[i, :] = pto.load(table + line * table.shape[1] + pto.arange(0, table.shape[1]))


@pto.jit
def stencil(x, y, BLOCK: pto.constexpr):
    """Neighbouring programs read the same elements."""
    at = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    inside = at < y.shape[0]
    left, right = pto.load(x + at, mask=inside), pto.load(x + at + 2, mask=inside)
    pto.store(y + at, left * right, mask=inside)


@pto.jit
def scan(x, y):
    """A recurrence along the rows, carried by a loop, and running sums within a row."""
    state = pto.zeros((x.shape[1],), pto.float32)
    for row in range(x.shape[0]):
        state = pto.tanh(state * 0.5 + x[row, :])
        y[row, :] = pto.cumsum(state, 0)


def scan_numpy(x: Array) -> Array:
    state, rows = np.zeros(x.shape[1]), []
    for row in x:
        state = np.tanh(state * 0.5 + row)
        rows.append(np.cumsum(state))
    return np.stack(rows)


@pto.jit
def cross_entropy(logits, labels, losses, BLOCK: pto.constexpr):
    """By an online maximum and sum, in two loops over the same row."""
    row = pto.program_id(0)
    n = logits.shape[1]
    m = pto.full((), -float("inf"), pto.float32)
    total = pto.full((), 0.0, pto.float32)
    for j in range(0, n, BLOCK):
        inside = j + pto.arange(0, BLOCK) < n
        t = pto.where(inside, logits[row, j : j + BLOCK], -float("inf"))
        new = pto.maximum(m, pto.max(t))
        total = total * pto.exp(m - new) + pto.sum(pto.exp(t - new))
        m = new
    chosen = pto.full((), 0.0, pto.float32)
    for j in range(0, n, BLOCK):
        hit = j + pto.arange(0, BLOCK) == labels[row]
        chosen += pto.sum(pto.where(hit, logits[row, j : j + BLOCK], 0.0))
    losses[row] = pto.log(total) + m - chosen


LABELS = np.array([3, 0, 10, 7, 3], np.int32)


def cross_entropy_numpy(logits: Array) -> Array:
    m = logits.max(1)
    return np.log(np.exp(logits - m[:, None]).sum(1)) + m - logits[np.arange(5), LABELS]


@pto.jit
def loss_of_labels(logits, labels, losses):
    """Cross-entropy that reads a row, and in it one element at a place that is data."""
    row = pto.program_id(0)
    t = logits[row, :]
    m = pto.max(t)
    losses[row] = pto.log(pto.sum(pto.exp(t - m))) + m - logits[row, labels[row]]


@pto.jit
def below_the_maximum(x, y, z):
    """Results that depend on the maximum of a row: its gradient is not 0."""
    row = pto.program_id(0)
    t = x[row, :]
    m = pto.max(t)
    y[row, :] = pto.exp(t - m)
    z[row] = pto.log(pto.sum(pto.exp(t - m))) + 2 * m


def below_the_maximum_numpy(x: Array) -> tuple[Array, Array]:
    m = x.max(1)
    e = np.exp(x - m[:, None])
    return e, np.log(e.sum(1)) + 2 * m


@pto.jit
def largest(x, y, z):
    """The largest elements of a row, with and without their indices, and the row in order, in both directions."""
    row = pto.program_id(0)
    t = x[row, :]
    values, _ = pto.topk(t, 3, return_indices=True)
    y[row, :] = libdevice.sinh(values) * pto.topk(pto.exp(t), 3)
    in_order = pto.sort(pto.sin(t)) * pto.sort(t, descending=True)
    z[row, :] = pto.gather(t, pto.argsort(t), 0) * pto.cumsum(t, 0) + in_order


def largest_numpy(x: Array) -> tuple[Array, Array]:
    top = np.sort(x)[:, :-4:-1]
    in_order = np.sort(np.sin(x)) * np.sort(x)[:, ::-1]
    return np.sinh(top) * np.exp(top), np.sort(x) * np.cumsum(x, 1) + in_order


@pto.jit
def swiglu(gate, up, y, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    g = gate[i : i + BLOCK]
    y[i : i + BLOCK] = g * pto.sigmoid(g) * up[i : i + BLOCK]


@pto.jit
def rotary(x, cos, sin, y, HALF: pto.constexpr):
    """Both halves of a row, stored by two statements."""
    row = pto.program_id(0)
    a, b = x[row, 0:HALF], x[row, HALF : 2 * HALF]
    c, s = cos[row, :], sin[row, :]
    y[row, 0:HALF] = a * c - b * s
    y[row, HALF : 2 * HALF] = b * c + a * s


def rotary_numpy(x: Array, cos: Array, sin: Array) -> Array:
    a, b = x[:, :6], x[:, 6:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], 1)


@pto.jit
def rms_norm_of_pointers(x, weight, y, n, eps, BLOCK: pto.constexpr):
    row, columns = pto.program_id(0), pto.arange(0, BLOCK)
    inside = columns < n
    t = pto.load(x + row * n + columns, mask=inside, other=0.0)
    w = pto.load(weight + columns, mask=inside)
    pto.store(y + row * n + columns, t * pto.rsqrt(pto.sum(t * t, 0) / n + eps) * w, mask=inside)


@pto.jit
def divergence(p_logits, q_logits, losses):
    """The Kullback-Leibler divergence of two softmax distributions, row by row."""
    row = pto.program_id(0)
    a, b = p_logits[row, :], q_logits[row, :]
    a, b = a - pto.max(a), b - pto.max(b)
    log_p, log_q = a - pto.log(pto.sum(pto.exp(a))), b - pto.log(pto.sum(pto.exp(b)))
    losses[row] = pto.sum(pto.exp(log_p) * (log_p - log_q))


def divergence_numpy(p_logits: Array, q_logits: Array) -> Array:
    log_p, log_q = (np.log(softmax(x)) for x in (p_logits, q_logits))
    return (np.exp(log_p) * (log_p - log_q)).sum(1)


@pto.jit
def group_norm(x, weight, bias, y, eps, GROUP: pto.constexpr):
    """Images as (n, channels, pixels); the statistics are those of a group of channels."""
    image, c = pto.program_id(0), pto.program_id(1) * GROUP
    t = x[image, c : c + GROUP, :]
    n = GROUP * x.shape[2]
    centred = t - pto.sum(t) / n
    scale = pto.rsqrt(pto.sum(centred * centred) / n + eps)
    y[image, c : c + GROUP, :] = centred * scale * weight[c : c + GROUP][:, None] + bias[c : c + GROUP][:, None]


def group_norm_numpy(x: Array, weight: Array, bias: Array) -> Array:
    t = x.reshape(3, 2, 2, 5)
    centred = t - t.mean((2, 3), keepdims=True)
    t = centred / np.sqrt((centred**2).mean((2, 3), keepdims=True) + 1e-5)
    return t.reshape(x.shape) * weight[:, None] + bias[:, None]


@pto.jit
def convolution(x, w, y, KERNEL: pto.constexpr):
    """A row of pixels of all output channels; x is padded: (channels, height, width); w: (out, channels · k · k)."""
    row, width = pto.program_id(0), y.shape[2]
    out = pto.zeros((y.shape[0], width), pto.float32)
    for i in range(KERNEL):
        for j in range(KERNEL):
            for c in range(x.shape[0]):
                line = x[c, row + i, j : j + width]
                out += w[:, c * KERNEL * KERNEL + i * KERNEL + j][:, None] * line[None, :]
    y[:, row, :] = out


def convolution_numpy(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    return np.einsum("cijab,ocab->oij", windows, w.reshape(4, 2, 3, 3))


ROWS = np.array([2, 0, 2, 2, 5], np.int64)
CASES = {
    "softmax": Case(
        softmax_of_pointers, 5, {"x": (5, 11)}, {"y": (5, 11)}, softmax, {"n": 11, "stride": 11, "BLOCK": 16}
    ),
    "layer norm": Case(
        layer_norm,
        7,
        {"x": (7, 13), "weight": (13,), "bias": (13,)},
        {"y": (7, 13), "mean": (7,), "rstd": (7,)},
        layer_norm_numpy,
        {"eps": 1e-5},
    ),
    "matmul": Case(
        matmul,
        (3, 2),
        {"a": (20, 17), "b": (17, 11)},
        {"c": (20, 11)},
        lambda a, b: a @ b,
        {"BM": 8, "BN": 8, "BK": 4},
    ),
    "attention": Case(
        attention,
        (2, 3),
        dict.fromkeys("qkv", (2, 11, 4)),
        {"out": (2, 11, 4)},
        attention_numpy(False),
        {"CAUSAL": False, "BM": 4, "BN": 4},
    ),
    "causal attention": Case(
        attention,
        (2, 3),
        dict.fromkeys("qkv", (2, 11, 4)),
        {"out": (2, 11, 4)},
        attention_numpy(True),
        {"CAUSAL": True, "BM": 4, "BN": 4},
    ),
    "gelu": Case(activation, 3, {"x": (20,)}, {"y": (20,)}, activation_numpy, {"BLOCK": 8}),
    "embedding": Case(embedding, 5, {"table": (6, 4)}, {"out": (5, 4)}, lambda table: table[ROWS], {"rows": ROWS}),
    "stencil": Case(stencil, 3, {"x": (22,)}, {"y": (20,)}, lambda x: x[:-2] * x[2:], {"BLOCK": 8}),
    "scan": Case(scan, 1, {"x": (6, 5)}, {"y": (6, 5)}, scan_numpy),
    "cross-entropy": Case(
        cross_entropy,
        5,
        {"logits": (5, 11)},
        {"losses": (5,)},
        cross_entropy_numpy,
        {"labels": LABELS, "BLOCK": 4},
    ),
    "below the maximum": Case(below_the_maximum, 5, {"x": (5, 11)}, {"y": (5, 11), "z": (5,)}, below_the_maximum_numpy),
    "largest": Case(largest, 5, {"x": (5, 11)}, {"y": (5, 3), "z": (5, 11)}, largest_numpy),
    "swiglu": Case(
        swiglu,
        3,
        {"gate": (20,), "up": (20,)},
        {"y": (20,)},
        lambda gate, up: gate / (1 + np.exp(-gate)) * up,
        {"BLOCK": 8},
    ),
    "rotary": Case(rotary, 5, {"x": (5, 12), "cos": (5, 6), "sin": (5, 6)}, {"y": (5, 12)}, rotary_numpy, {"HALF": 6}),
    "rms norm": Case(
        rms_norm_of_pointers,
        5,
        {"x": (5, 11), "weight": (11,)},
        {"y": (5, 11)},
        lambda x, weight: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * weight,
        {"n": 11, "eps": 1e-5, "BLOCK": 16},
    ),
    "divergence": Case(
        divergence, 5, dict.fromkeys(("p_logits", "q_logits"), (5, 11)), {"losses": (5,)}, divergence_numpy
    ),
    "group norm": Case(
        group_norm,
        (3, 2),
        {"x": (3, 4, 5), "weight": (4,), "bias": (4,)},
        {"y": (3, 4, 5)},
        group_norm_numpy,
        {"eps": 1e-5, "GROUP": 2},
    ),
    "convolution": Case(
        convolution, 5, {"x": (2, 7, 9), "w": (4, 18)}, {"y": (4, 5, 7)}, convolution_numpy, {"KERNEL": 3}
    ),
    "loss of labels": Case(
        loss_of_labels, 5, {"logits": (5, 11)}, {"losses": (5,)}, cross_entropy_numpy, {"labels": LABELS}
    ),
}
