"""A small convolutional network for digits, whose layers are kernels and whose backward is derived.

image (28, 28) -> patches (144, 25) -> dense 25 x 12, norm, gelu -> dense 1728 x 96, norm, gelu -> dense 96 x 10
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import pypto as pto

Array = Any
PATCH: Final = 5
STRIDE: Final = 2
PLACES: Final = 12  # of patches, along a side
SHAPES: Final = ((PATCH * PATCH, 12), (PLACES * PLACES * 12, 96), (96, 10))
EPS: Final = 1e-5


@pto.jit
def dense(x, w, b, y, BM: pto.constexpr):  # type: ignore[no-untyped-def]
    i = pto.program_id(0) * BM
    y[i : i + BM, :] = pto.dot(x[i : i + BM, :], w[:, :]) + b[:]


@pto.jit
def norm_gelu(x, weight, bias, y, eps):  # type: ignore[no-untyped-def]
    """gelu of the layer norm of each row."""
    row = pto.program_id(0)
    t = x[row, :]
    centred = t - pto.sum(t) / x.shape[1]
    scale = pto.rsqrt(pto.sum(centred * centred) / x.shape[1] + eps)
    t = centred * scale * weight[:] + bias[:]
    y[row, :] = 0.5 * t * (1 + pto.erf(t * 0.7071067811865476))


@pto.jit
def cross_entropy(logits, labels, losses):  # type: ignore[no-untyped-def]
    row = pto.program_id(0)
    t = logits[row, :]
    m = pto.max(t)
    losses[row] = pto.log(pto.sum(pto.exp(t - m))) + m - logits[row, labels[row]]


dense_back = pto.adjoint(dense, wrt=["x", "w", "b"])
first_back = pto.adjoint(dense, wrt=["w", "b"])  # the images need no gradient
norm_gelu_back = pto.adjoint(norm_gelu, wrt=["x", "weight", "bias"])
cross_entropy_back = pto.adjoint(cross_entropy, wrt=["logits"])


def patches(images: Array) -> Array:
    """The patches of images, shape (n, 28, 28), as rows: (n · 144, 25)."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (PATCH, PATCH), axis=(1, 2))
    return np.ascontiguousarray(windows[:, ::STRIDE, ::STRIDE]).reshape(-1, PATCH * PATCH)


class Network:
    """The parameters, and memory for a batch. `parameters` are, for each layer, weight, bias, and those of the norm."""

    def __init__(self, rng: np.random.Generator, batch: int) -> None:
        self.batch = batch
        self.parameters: list[Array] = []
        for m, n in SHAPES:
            self.parameters += [(rng.standard_normal((m, n)) / np.sqrt(m)).astype(np.float32), np.zeros(n, np.float32)]
            self.parameters += [np.ones(n, np.float32), np.zeros(n, np.float32)]
        del self.parameters[-2:]  # nothing follows the last layer
        self.gradients = [np.empty_like(p) for p in self.parameters]
        self.momentum = [np.zeros_like(p) for p in self.parameters]
        rows = (batch * PLACES * PLACES, batch, batch)
        self.sums = [np.empty((m, n), np.float32) for m, (_, n) in zip(rows, SHAPES, strict=True)]
        self.outputs = [np.empty_like(s) for s in self.sums[:-1]]
        self.d_sums = [np.empty_like(s) for s in self.sums]
        self.d_outputs = [np.empty_like(s) for s in self.outputs]
        self.losses = np.empty(batch, np.float32)

    def inputs(self, x: Array) -> list[Array]:
        """What each dense layer reads."""
        return [x, self.outputs[0].reshape(self.batch, -1), self.outputs[1]]

    def forward(self, x: Array, labels: Array) -> float:
        """The mean loss of a batch of patches."""
        p = self.parameters
        for n, given in enumerate(self.inputs(x)):
            rows = len(given)
            dense[pto.cdiv(rows, 64)](given, p[4 * n], p[4 * n + 1], self.sums[n], BM=64)
            if n < 2:
                norm_gelu[rows](self.sums[n], p[4 * n + 2], p[4 * n + 3], self.outputs[n], EPS)
        cross_entropy[self.batch](self.sums[2], labels, self.losses)
        return float(self.losses.mean())

    def backward(self, x: Array, labels: Array) -> None:
        """The gradients of the mean loss, after `forward` of the same batch."""
        p, g = self.parameters, self.gradients
        each = np.full(self.batch, 1 / self.batch, np.float32)
        logits = self.sums[2]
        cross_entropy_back[self.batch](logits, labels, self.losses, d_losses=each, d_logits=self.d_sums[2])
        given = self.inputs(x)
        into = [None, self.d_outputs[0].reshape(self.batch, -1), self.d_outputs[1]]
        for n in (2, 1, 0):
            rows, w, b = len(given[n]), p[4 * n], p[4 * n + 1]
            if n < 2:
                norm = {"d_y": self.d_outputs[n], "d_x": self.d_sums[n]}
                norm |= {"d_weight": g[4 * n + 2], "d_bias": g[4 * n + 3]}
                norm_gelu_back[rows](self.sums[n], p[4 * n + 2], p[4 * n + 3], self.outputs[n], EPS, **norm)
            back, gradients = (dense_back, {"d_x": into[n]}) if n else (first_back, {})
            gradients |= {"d_y": self.d_sums[n], "d_w": g[4 * n], "d_b": g[4 * n + 1]}
            back[pto.cdiv(rows, 64)](given[n], w, b, self.sums[n], BM=64, **gradients)

    def step(self, rate: float) -> None:
        """Gradient descent with momentum."""
        for parameter, momentum, gradient in zip(self.parameters, self.momentum, self.gradients, strict=True):
            momentum[...] = 0.9 * momentum - rate * gradient
            parameter[...] = parameter + momentum

    def right(self, images: Array, labels: Array) -> float:
        """The part of images whose digit is found; their number is a multiple of the batch."""
        hits = 0
        for i in range(0, len(images), self.batch):
            self.forward(patches(images[i : i + self.batch]), labels[i : i + self.batch])
            hits += int((self.sums[2].argmax(1) == labels[i : i + self.batch]).sum())
        return hits / len(images)
