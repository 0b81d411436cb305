"""Functions of neural networks on arrays, written in numpy, so that a fused function fuses them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pypto.arrays.operations import argtopk, erf, operation, product, rounded_once, sigmoid

Array = Any


@operation
@rounded_once
def softmax(x: Array, axis: int = -1) -> Array:
    """Normalise an axis to probabilities: exponentials divided by their sum.

    Examples
    --------
    >>> softmax(np.float32([0, 0]))
    array([0.5, 0.5], dtype=float32)
    """
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@operation
@rounded_once
def log_softmax(x: Array, axis: int = -1) -> Array:
    """Compute the logarithm of `softmax`, which stays accurate for tiny probabilities."""
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@operation
@rounded_once
def logsumexp(x: Array, axis: int = -1, keepdims: bool = False) -> Array:
    """Compute the logarithm of the sum of exponentials along an axis."""
    most = x.max(axis=axis, keepdims=True)
    result = np.log(np.exp(x - most).sum(axis=axis, keepdims=True)) + most
    return result if keepdims else result.squeeze(axis)


@operation
def relu(x: Array) -> Array:
    """Replace negative elements by 0."""
    return np.maximum(x, 0)


@operation
@rounded_once
def silu(x: Array) -> Array:
    """Multiply x by its sigmoid, ``x * sigmoid(x)``."""
    return x * sigmoid(x)


@operation
@rounded_once
def softplus(x: Array) -> Array:
    """Compute ``log(1 + exp(x))`` without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@operation
@rounded_once
def gelu(x: Array, approximate: str = "none") -> Array:
    """Multiply x by its normal distribution function; ``approximate="tanh"`` uses a hyperbolic tangent.

    Examples
    --------
    >>> gelu(np.float64([0, 1])).round(4)
    array([0.    , 0.8413])
    """
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


@operation
@rounded_once
def layer_norm(x: Array, weight: Array = None, bias: Array = None, axis: int = -1, eps: float = 1e-5) -> Array:
    """Normalise an axis to mean 0 and variance 1, then apply a scale and a shift if given."""
    centred = x - x.mean(axis=axis, keepdims=True)
    y = centred / np.sqrt((centred * centred).mean(axis=axis, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@operation
@rounded_once
def rms_norm(x: Array, weight: Array = None, axis: int = -1, eps: float = 1e-6) -> Array:
    """Normalise an axis to mean square 1, then apply a scale if given."""
    y = x / np.sqrt((x * x).mean(axis=axis, keepdims=True) + eps)
    return y if weight is None else y * weight


@operation
def attention(q: Array, k: Array, v: Array, mask: Array = None, scale: float | None = None) -> Array:
    """Compute attention, ``softmax(q kᵀ * scale) v``, over stacks of matrices; a False in `mask` excludes a key.

    For float16 and bfloat16, scores and weights are float32; weights are rounded to the type of `v` for the product.

    Parameters
    ----------
    q : array of shape (…, queries, width)
    k : array of shape (…, keys, width)
    v : array of shape (…, keys, values)
    mask : array of bool, optional
        Broadcasts to (…, queries, keys).
    scale : float, optional
        The factor of the scores; the default is one over the root of the width.
    """
    scores = product(q, np.swapaxes(k, -1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    total = weights.sum(axis=-1, keepdims=True)
    result = product(weights.astype(v.dtype), v) / total
    return result.astype(np.result_type(q.dtype, k.dtype, v.dtype))


@operation
def topk(x: Array, k: int, axis: int = -1) -> tuple[Array, Array]:
    """Return the `k` greatest elements along an axis, in descending order, and their indices; NaN counts as least.

    Examples
    --------
    >>> topk(np.float32([3, 1, 2]), 2)
    (array([3., 2.], dtype=float32), array([0, 2]))
    """
    at = axis % x.ndim
    if not 0 <= k <= x.shape[at]:
        raise ValueError(f"there are no {k} elements along an axis of size {x.shape[at]}")
    places = argtopk(x, k, at)
    return np.take_along_axis(x, places, at), places


@operation
def one_hot(x: Array, count: int, dtype: Any = np.float32) -> Array:
    """Encode indices along a new last axis: 1 at the index, and 0 elsewhere."""
    return (x[..., None] == np.arange(count)).astype(dtype)
