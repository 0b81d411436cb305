"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.ir.core import Op, Value
from pypto.ir.types import DType, TileType, Type, float32, float64, int32
from pypto.ops import adjoint_tiles, dims
from pypto.ops.row import STRUCTURAL, OpRow, Param
from pypto.ops.rules import tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

Array = np.ndarray[Any, Any]
# How many numbers of bfloat16 may stand for one of float32: two have 16 bits, more than tf32 has, three have all 24.
PRECISIONS: Mapping[str, int] = MappingProxyType({"ieee": 1, "tf32": 2, "tf32x3": 3, "bf16x3": 2, "bf16x6": 3})


def dot_result(a: DType) -> DType:
    """float64 accumulates in float64, every other float in float32, integers in int32."""
    if a.is_float:
        return float64 if a == float64 else float32
    return int32


def infer_dot(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    a, b = tile(types[0]), tile(types[1])
    if (
        len(a.shape) != len(b.shape)
        or len(a.shape) not in (2, 3)
        or a.shape[-1] != b.shape[-2]
        or a.shape[:-2] != b.shape[:-2]
    ):
        is_transposed = len(a.shape) == len(b.shape) == 2 and a.shape[1] == b.shape[1]
        way = "; transpose the second one with `.T`" if is_transposed else ""
        raise TypeError(f"takes (M, K) and (K, N), or stacks of them, not {a.shape} and {b.shape}{way}")
    if a.elem != b.elem or a.dtype.kind not in ("int", "uint", "float"):
        raise TypeError(f"takes two operands of one number type, not {a.dtype} and {b.dtype}; cast one of them")
    result = TileType((*a.shape[:-1], b.shape[-1]), dot_result(a.dtype))
    if len(types) > 2 and types[2] != result:
        raise TypeError(f"the accumulator is {types[2]}, but the product is {result}")
    return (result,)


def bind_dot(
    b: OpBuilder,
    input: Value,
    other: Value,
    acc: Any,
    input_precision: str | None,
    allow_tf32: Any,
    out_dtype: DType | None,
    **hints: Any,
) -> Value:
    """The product, accumulated in the type that its operands ask for and then cast to the one that is asked for."""
    if input_precision is not None and input_precision not in PRECISIONS:
        raise TypeError(f"input_precision is one of {', '.join(PRECISIONS)}, not {input_precision!r}")
    if input_precision is not None and allow_tf32 is not None:
        raise TypeError("input_precision and allow_tf32 mean the same; give one of them")
    x, y = b.value(input), b.value(other)
    if is_eight(x) and is_eight(y) and (x.dtype != y.dtype or x.dtype.kind == "bits"):
        x, y = b.cast(x, float32), b.cast(y, float32)
    shape = (*x.shape[:-1], *y.shape[-1:]) if len(y.shape) > 1 else x.shape[:-1]
    x = b.emit("reshape", x, shape=(1, *x.shape)) if len(x.shape) == 1 else x
    y = b.emit("reshape", y, shape=(*y.shape, 1)) if len(y.shape) == 1 else y
    if len(x.shape) > 3 and x.shape[:-2] == y.shape[:-2]:
        x, y = (b.emit("reshape", v, shape=(math.prod(v.shape[:-2]), *v.shape[-2:])) for v in (x, y))
    result_dtype = dot_result(x.dtype)
    final = (out_dtype if x.dtype.is_float else None) or (acc.dtype if isinstance(acc, Value) else result_dtype)
    more = [] if acc is None else [fitted(b, b.value(acc), result_dtype, (*x.shape[:-1], y.shape[-1]))]
    terms = PRECISIONS[input_precision or ("tf32" if allow_tf32 else "ieee")] if x.dtype == float32 else 1
    product = b.cast(b.emit("dot", x, y, *more, **({"parts": terms} if terms > 1 else {})), final)
    return product if product.shape == shape else b.emit("reshape", product, shape=shape)


def check_dot(op: Op) -> None:
    parts = op.attrs.get("parts", 2)
    if parts not in PRECISIONS.values() or parts == 1 or ("parts" in op.attrs and op.operands[0].dtype != float32):
        raise TypeError("numbers of float32, and no others, have two parts or three")


def is_eight(v: Value) -> bool:
    """Whether these are floats of 8 bits; two types of them meet in float32."""
    return not v.tile.is_ptr and v.dtype.bits == 8 and v.dtype.kind in ("float", "bits")


def fitted(b: OpBuilder, acc: Value, dtype: DType, shape: tuple[int, ...]) -> Value:
    """An accumulator in the type and shape of the product: vectors have been given a dimension."""
    acc = b.cast(acc, dtype)
    if acc.shape and acc.shape != shape and acc.tile.size == TileType(shape, dtype).size:
        return b.emit("reshape", acc, shape=shape)
    return b.broadcast(acc, shape) if not acc.shape else acc


def dot_reference(op: Op, a: Array, b: Array, acc: Array | None = None) -> Array:
    kind = np.float64 if a.dtype.kind not in "iu" else np.int64
    with np.errstate(all="ignore"):
        product = np.matmul(a.astype(kind), b.astype(kind))
        return np.asarray(product if acc is None else product + acc.astype(kind))


_PRECISION = (
    "how exact products of float32 are, at least: ieee (the default); tf32 and bf16x3, 16 of 24 bits; tf32x3 and bf16x6, all of them. "
    "With the latter four, where tiles of bfloat16 are multiplied (AMX), infinite numbers may give NaN, and what is below 1e-38 counts as 0"
)
_DOT = (
    Param("input", doc="tile of shape (M, K), or (…, M, K), or (K,)"),
    Param("other", doc="tile of shape (K, N), or (…, K, N), or (K,)"),
    Param("acc", default=None, doc="added to the product"),
    Param("input_precision", "str", None, _PRECISION),
    Param("allow_tf32", "any", None, "True asks for tf32"),
    Param("max_num_imprecise_acc", "any", None, "accepted, without meaning here"),
    Param(
        "out_dtype",
        "dtype",
        None,
        "element type of the result, of floats; by default that of acc, else float32 (float64, int32)",
    ),
)

ROWS = (
    OpRow(
        "dot",
        params=_DOT,
        infer=infer_dot,
        reference=dot_reference,
        lane_rule=STRUCTURAL,
        bind_arguments=bind_dot,
        check=check_dot,
        attrs=(),
        options=("parts",),
        dtypes="number",
        dims=dims.dot,
        doc="Matrix product, accumulated in float32; of float64 in float64, of integers in int32.",
        example="dot(a, b, acc)",
        adjoint=adjoint_tiles.dot,
    ),
)
