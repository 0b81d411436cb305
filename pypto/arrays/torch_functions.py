"""The functions of torch and of torch.nn.functional in traced functions, as functions of numpy and of this package."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.arrays import convolution, functions
from pypto.arrays.torch_methods import METHODS, Word, dtype_of, sizes_in
from pypto.graph.tracing.tensor import Tensor


def joining(name: str) -> Word:
    return lambda tensors, dim=0: getattr(np, name)(list(tensors), axis=dim)


def einsum(equation: str, *operands: Any) -> Any:
    return np.einsum(equation, *sizes_in(operands))


def like(name: str) -> Word:
    return lambda x, *, dtype=None, **_: getattr(np, name)(x, **({} if dtype is None else {"dtype": dtype_of(dtype)}))


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    y = np.matmul(x, np.swapaxes(weight, -1, -2) if weight.ndim > 1 else weight)
    return y if bias is None else y + bias


def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return functions.layer_norm(x, weight, bias, trailing(normalized_shape), eps)


def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    smallest = float(np.finfo(np.float32 if x.dtype.itemsize < 4 else x.dtype).eps) if eps is None else eps
    return functions.rms_norm(x, weight, trailing(normalized_shape), smallest)


def trailing(shape: Any) -> Any:
    """Return the axes of a normalised shape, which are the last ones."""
    return -1 if isinstance(shape, int) or len(shape) == 1 else tuple(range(-len(shape), 0))


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if dropout_p:
        raise TypeError("`dropout_p` is 0 in a fused function: its numbers would be those of the first call")
    if enable_gqa:
        key, value = (np.repeat(x, query.shape[-3] // x.shape[-3], axis=-3) for x in (key, value))
    if is_causal:
        attn_mask = np.arange(query.shape[-2])[:, None] >= np.arange(key.shape[-2])
    if attn_mask is None or attn_mask.dtype == np.bool_:
        return functions.attention(query, key, value, attn_mask, scale)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = np.matmul(query, np.swapaxes(key, -1, -2)) * factor + attn_mask
    return np.matmul(functions.softmax(scores), value)


def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if training and p:
        raise TypeError("`dropout` in training is not offered: its numbers would be those of the first call")
    return x


def pad(x: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Any:
    pairs = [(pad[n], pad[n + 1]) for n in range(0, len(pad), 2)]
    widths = [*[(0, 0)] * (x.ndim - len(pairs)), *reversed(pairs)]
    if mode != "constant":
        return np.pad(x, widths, mode={"replicate": "edge", "circular": "wrap"}.get(mode, mode))  # type: ignore[call-overload]
    return np.pad(x, widths, constant_values=0 if value is None else value)


def normalize(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    return x / np.maximum(METHODS["norm"](x, p, dim, True), eps)


def mse_loss(x: Any, target: Any, reduction: str = "mean") -> Any:
    return reduced((x - target) ** 2, reduction)


def cross_entropy(x: Any, target: Any, reduction: str = "mean") -> Any:
    scores = functions.log_softmax(x, 1 if x.ndim > 1 else -1)
    picked = np.take_along_axis(scores, np.expand_dims(target, 1), axis=1) if x.ndim > 1 else scores[target]
    return reduced(-picked.squeeze(1) if x.ndim > 1 else -picked, reduction)


def reduced(x: Any, reduction: str) -> Any:
    return x if reduction == "none" else np.mean(x) if reduction == "mean" else np.sum(x)


def convolving(name: str) -> Word:
    def word(
        x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
    ) -> Any:
        function = getattr(convolution, name)
        return function(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)

    return word


def glu(x: Any, dim: int = -1) -> Any:
    first, second = METHODS["chunk"](x, 2, dim)
    return first * METHODS["sigmoid"](second)


def meshgrid(*tensors: Any, indexing: Any = "ij") -> tuple[Any, ...]:
    return tuple(np.meshgrid(*sizes_in(tensors), indexing=indexing))


def where(condition: Any, x: Any = None, other: Any = None) -> Any:
    return np.where(condition) if x is None else np.where(condition, x, other)


FUNCTIONS: Final[Mapping[str, Word]] = MappingProxyType(
    {
        "cat": joining("concatenate"), "concat": joining("concatenate"), "concatenate": joining("concatenate"),
        "stack": joining("stack"), "einsum": einsum, "where": where, "is_tensor": lambda x: isinstance(x, Tensor),
        "hstack": lambda tensors: np.hstack(list(tensors)), "vstack": lambda tensors: np.vstack(list(tensors)),
        **{name: like(name) for name in ("zeros_like", "ones_like", "empty_like")},
        "full_like": lambda x, value, *, dtype=None, **_: np.full_like(x, value, dtype=dtype_of(dtype)),
        "tensordot": lambda x, y, dims=2: np.tensordot(x, y, axes=dims), "numel": lambda x: x.size,
        "meshgrid": meshgrid,
        "broadcast_tensors": lambda *tensors: tuple(np.broadcast_arrays(*tensors)),
        "movedim": np.moveaxis, "logaddexp": np.logaddexp,
        "bincount": lambda x, weights=None, minlength=0: np.bincount(x, weights, minlength),
        "searchsorted": lambda x, values, *, right=False: np.searchsorted(x, values, "right" if right else "left"),
    }
)  # fmt: skip
NEURAL: Final[Mapping[str, Word]] = MappingProxyType(
    {
        **{name: METHODS[name] for name in ("sigmoid", "tanh")},
        "softmax": lambda x, dim=-1, _stacklevel=3, dtype=None: METHODS["softmax"](x, dim, dtype),
        "log_softmax": lambda x, dim=-1, _stacklevel=3, dtype=None: METHODS["log_softmax"](x, dim, dtype),
        "relu": lambda x, inplace=False: functions.relu(x), "silu": lambda x, inplace=False: functions.silu(x),
        "gelu": lambda x, approximate="none": functions.gelu(x, approximate),
        "softplus": functions.softplus, "relu6": lambda x, inplace=False: np.clip(x, 0, 6),
        "leaky_relu": lambda x, negative_slope=0.01, inplace=False: np.where(x >= 0, x, x * negative_slope),
        "elu": lambda x, alpha=1.0, inplace=False: np.where(x > 0, x, alpha * np.expm1(x)),
        "hardtanh": lambda x, min_val=-1.0, max_val=1.0, inplace=False: np.clip(x, min_val, max_val),
        "hardsigmoid": lambda x, inplace=False: np.clip(x / 6 + 0.5, 0, 1),
        "hardswish": lambda x, inplace=False: x * np.clip(x / 6 + 0.5, 0, 1),
        "mish": lambda x, inplace=False: x * np.tanh(functions.softplus(x)), "glu": glu,
        "logsigmoid": lambda x: -functions.softplus(-x),
        "linear": linear, "layer_norm": layer_norm, "rms_norm": rms_norm, "scaled_dot_product_attention": attention,
        "dropout": dropout, "pad": pad, "normalize": normalize, "mse_loss": mse_loss, "cross_entropy": cross_entropy,
        "embedding": lambda x, weight: np.take(weight, x, axis=0),
        "one_hot": lambda x, num_classes: functions.one_hot(x, num_classes, np.int64),
        **{name: convolving(name) for name in ("conv1d", "conv2d", "conv3d")},
    }
)  # fmt: skip
PLAIN: Final = MappingProxyType({"pi": math.pi, "inf": math.inf, "nan": math.nan, "e": math.e})
