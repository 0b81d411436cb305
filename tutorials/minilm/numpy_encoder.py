"""The encoder in plain numpy: in float64 the reference, in float32 what a numpy user would write."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minilm.model import EPS, HEADS, Array, Batch, Layer, Linear, Norm, Weights


def embed(weights: Weights, batch: Batch, dtype: Any = np.float32) -> Array:
    """Embed sentences.

    Parameters
    ----------
    weights : Weights
    batch : Batch
        `ids` and `mask` of shape (batch, length).
    dtype : numpy dtype
        float32 or float64; all arithmetic is done in it.

    Returns
    -------
    ndarray of shape (batch, 384)
        Unit vectors of the dtype.
    """
    embedded = weights.words[batch.ids] + weights.positions[: batch.ids.shape[1]].astype(dtype) + weights.segment
    x = layer_norm(embedded, weights.norm)
    bias = np.where(batch.mask != 0, 0, -np.inf).astype(dtype)[:, None, None, :]
    for layer in weights.layers:
        x = transform(x, layer, bias)
    return pool(x, batch.mask)


def transform(x: Array, layer: Layer, bias: Array) -> Array:
    """One layer over x of shape (batch, length, width); `bias` (batch, 1, 1, length) is -inf at padding."""
    attended = linear(attention(linear(x, layer.qkv), bias), layer.output)
    attended += x
    x = layer_norm(attended, layer.attention_norm)
    hidden = linear(gelu(linear(x, layer.up)), layer.down)
    hidden += x
    return layer_norm(hidden, layer.norm)


def linear(x: Array, layer: Linear) -> Array:
    # One large matrix product: numpy runs a stack of small ones far slower.
    y = x.reshape(-1, x.shape[-1]) @ layer.weight.astype(x.dtype, copy=False)
    y += layer.bias
    return y.reshape(*x.shape[:-1], -1)


def attention(qkv: Array, bias: Array) -> Array:
    """Softmax attention; `qkv` is (batch, length, 3 * width), the result (batch, length, width)."""
    batch, length, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = qkv.reshape(batch, length, 3, HEADS, width // HEADS).transpose(2, 0, 3, 1, 4)
    scores = q @ k.transpose(0, 1, 3, 2)
    scores *= 1 / math.sqrt(width // HEADS)
    scores += bias
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return (scores @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)


def layer_norm(x: Array, norm: Norm) -> Array:
    """Normalises x in place over its last dimension."""
    x -= x.mean(axis=-1, keepdims=True)
    variance = np.einsum("bti,bti->bt", x, x)[:, :, None] / x.shape[-1]
    x /= np.sqrt(variance + EPS)
    x *= norm.weight
    x += norm.bias
    return x


def gelu(x: Array) -> Array:
    """``x * (1 + erf(x / sqrt(2))) / 2`` in place."""
    scaled = x * math.sqrt(0.5)
    e = erf_exact(scaled) if x.dtype == np.float64 else erf_fast(scaled)
    e += 1
    e *= 0.5
    x *= e
    return x


def erf_exact(x: Array) -> Array:
    """erf to the last bit or so; numpy has none, so this is the C library's, element by element."""
    return np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def erf_fast(x: Array) -> Array:
    """erf with an absolute error of 1.5e-7: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    y = 1.061405429 * t
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        y += coefficient
        y *= t
    y *= np.exp(-x * x)
    return np.copysign(1 - y, x)


def pool(x: Array, mask: Array) -> Array:
    """Mean over the tokens that are no padding, as unit vectors: (batch, length, width) to (batch, width)."""
    kept = mask.astype(x.dtype)
    mean = np.einsum("btw,bt->bw", x, kept) / kept.sum(axis=1, keepdims=True)
    return mean / np.sqrt((mean * mean).sum(axis=1, keepdims=True))
