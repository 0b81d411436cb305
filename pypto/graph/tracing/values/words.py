"""The words of torch on traced tensors, which a later stage has as rows; and sizes that torch calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Final

from pypto.graph.ir.dims import Size

WORDS: Final = "pypto.arrays.torch_module"  # imported at first use
# What a function for arrays of numpy writes in place of a word of torch.
IN_NUMPY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "unsqueeze": "np.expand_dims(x, axis)", "permute": "x.transpose(axes)", "view": "x.reshape(shape)",
        "masked_fill": "np.where(mask, value, x)", "expand": "np.broadcast_to(x, shape)", "t": "x.T",
        "float": "x.astype(np.float32)", "double": "x.astype(np.float64)", "half": "x.astype(np.float16)",
        "bfloat16": "x.astype(ml_dtypes.bfloat16)", "long": "x.astype(np.int64)", "int": "x.astype(np.int32)",
        "to": "x.astype(dtype)", "numel": "x.size", "dim": "x.ndim", "contiguous": "np.ascontiguousarray(x)",
        "clone": "x.copy()", "detach": "x", "softmax": "pypto.arrays.softmax(x, axis)", "unbind": "tuple(x)",
        "log_softmax": "pypto.arrays.log_softmax(x, axis)", "sigmoid": "pypto.arrays.sigmoid(x)",
        "gather": "np.take_along_axis(x, index, axis)", "index_select": "np.take(x, index, axis)",
        "clamp": "x.clip(low, high)", "amax": "x.max(axis)", "amin": "x.min(axis)", "topk": "pypto.arrays.topk(x, k)",
        "exp": "np.exp(x)", "log": "np.log(x)", "sqrt": "np.sqrt(x)", "abs": "np.abs(x)", "tanh": "np.tanh(x)",
        "relu": "pypto.arrays.relu(x)", "matmul": "x @ y", "mm": "x @ y", "bmm": "x @ y",
        "chunk": "np.split(x, n, axis)",
    }
)  # fmt: skip


class Count(int):
    """The number of elements of a tensor, which torch gives as a method: ``x.size()`` is the shape."""

    shape: tuple[Any, ...]

    def __call__(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]


class NamedCount(Size):
    """The number of elements of a tensor with named dimensions."""

    __slots__ = ("shape",)
    shape: tuple[Any, ...]

    __call__ = Count.__call__


def counted(shape: tuple[Any, ...]) -> Any:
    """Return the number of elements of a tensor as a number, whose call is the shape."""
    total: Any = math.prod(shape)
    count = NamedCount(total.terms, total.guards) if isinstance(total, Size) else Count(total)
    count.shape = shape
    return count


@lru_cache(maxsize=1)
def words() -> Any:
    """Return the module of torch's words."""
    return resolve_name(WORDS)
