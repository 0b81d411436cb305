"""Rows of matrix products and attention."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from pypto import arrays
from pypto.arrays.operations import product
from pypto.graph.ir.types import is_floating
from pypto.torch.aten.row import NotLowered, Row, as_type, counted


def matmul(a: Any, b: Any) -> Any:
    """Multiply stacks of matrices: narrow floats accumulate in float32, and are rounded once."""
    if a.dtype != b.dtype:
        raise NotLowered("a product of two dtypes")
    if is_floating(a.dtype):
        return product(a, b).astype(a.dtype)
    return np.matmul(a, b)


def addmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    if not is_floating(a.dtype):
        raise NotLowered("a product of integers with a sum")
    result = product(a, b)
    inner = result.dtype
    result = result if alpha == 1 else result * inner.type(alpha)
    if beta != 0:
        x = as_type(x, inner)
        result = result + (x if beta == 1 else x * inner.type(beta))
    return result.astype(a.dtype)


def dot(a: Any, b: Any) -> Any:
    return np.reshape(matmul(np.reshape(a, (1, -1)), np.reshape(b, (-1, 1))), ())


def mv(a: Any, b: Any) -> Any:
    return np.squeeze(matmul(a, np.expand_dims(b, 1)), axis=1)


def grouped(q: Any, k: Any, v: Any, causal: bool, mask: Any, scale: Any) -> Any:
    """Attention in which several heads of queries share one of keys and values."""
    batch, heads, length, width = q.shape
    shared = k.shape[1]
    queries = np.reshape(q, (batch, shared, heads // shared, length, width))
    if mask is not None and mask.ndim == 4:
        split = (batch, shared, heads // shared) if mask.shape[1] == heads else (mask.shape[0], 1, 1)
        mask = np.reshape(mask, (*split, *mask.shape[2:]))
    keys, values = np.expand_dims(k, 2), np.expand_dims(v, 2)
    result, sums = attention(queries, keys, values, 0.0, causal, mask, scale)
    return np.reshape(result, (*q.shape[:3], v.shape[-1])), np.reshape(sums, q.shape[:3])


def attention(
    q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, attn_mask: Any = None, scale: Any = None
) -> Any:
    """Attention with the logarithm of each row's sum, which a backward graph reads."""
    if dropout:
        raise NotLowered("dropout")
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    if q.ndim == 4 and q.shape[1] != k.shape[1]:
        return grouped(q, k, v, causal, attn_mask, scale)
    mask = attn_mask
    if causal:
        rows, columns = counted(q.graph, q.node.shape[-2]), counted(q.graph, k.node.shape[-2])
        mask = np.expand_dims(rows, 1) >= np.expand_dims(columns, 0)
    scores = product(q, np.swapaxes(k, -2, -1))
    scores = scores * scores.dtype.type(factor)
    if mask is not None:
        low = scores.dtype.type(-np.inf)
        scores = np.where(mask, scores, low) if mask.dtype == np.bool_ else scores + mask.astype(scores.dtype)
    weights = arrays.softmax(scores)
    result = product(weights.astype(v.dtype), v).astype(q.dtype)
    return result, arrays.logsumexp(scores)


ROWS: Final = (
    Row("mm", matmul),
    Row("bmm", matmul),
    Row("addmm", addmm),
    Row("baddbmm", addmm),
    Row("dot", dot),
    Row("mv", mv),
    Row("_scaled_dot_product_flash_attention_for_cpu", attention),
)
