"""What other code takes from inside of `triton.language.standard`, written in the language."""

from __future__ import annotations

import math
from typing import Any, Final

from pypto.ir.types import DType, int1, int32, uint32
from pypto.language import ops, ordering
from pypto.language.aggregates import constexpr_function
from pypto.ops.public import constexpr

MARK: Final = "__triton_builtin__"  # of functions that speak to Triton's compiler
Tile = Any  # a tile or scalar; annotations in here are for readers


@constexpr_function
def _log2(n: int) -> int:
    """The logarithm of a power of two."""
    return n.bit_length() - 1


@constexpr_function
def _is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


@constexpr_function
def get_int_dtype(bitwidth: int, signed: bool) -> DType:
    """The integer type of a width."""
    return DType(f"{'' if signed else 'u'}int{bitwidth}") if bitwidth > 1 else DType("int1")


@constexpr_function
def _unwrap_if_constexpr(x: Any) -> Any:
    return x.value if isinstance(x, constexpr) else x


@constexpr_function
def _pick_sum_dtype(in_dtype: DType, dtype: DType | None) -> DType:
    """What elements are summed in: integers below 32 bits in 32."""
    if dtype is not None or in_dtype.is_float or in_dtype.bits >= 32:
        return dtype or in_dtype
    return int32 if in_dtype.kind == "int" else uint32


@constexpr_function
def _get_flip_dim(dim: int | None, shape: tuple[int, ...]) -> int:
    """A dimension counted from the first; the last one for None."""
    return len(shape) - 1 if dim is None else dim % len(shape)


# --- functions of two elements ----------------------------------------------------------------------------------------


def _sum_combine(a: Tile, b: Tile) -> Tile:
    return a + b


def _prod_combine(a: Tile, b: Tile) -> Tile:
    return a * b


def _xor_combine(a: Tile, b: Tile) -> Tile:
    return a ^ b


def _or_combine(a: Tile, b: Tile) -> Tile:
    return a | b


def _elementwise_max(a: Tile, b: Tile) -> Tile:
    return ops.maximum(a, b)


def _elementwise_min(a: Tile, b: Tile) -> Tile:
    return ops.minimum(a, b)


def _argmax_combine(value1: Tile, index1: Tile, value2: Tile, index2: Tile, tie_break_left: Any) -> Any:
    first = value1 > value2
    if tie_break_left:
        first = first | ((value1 == value2) & (index1 < index2))
    return ops.where(first, value1, value2), ops.where(first, index1, index2)


def _argmax_combine_tie_break_left(value1: Tile, index1: Tile, value2: Tile, index2: Tile) -> Any:
    return _argmax_combine(value1, index1, value2, index2, True)


def _argmax_combine_tie_break_fast(value1: Tile, index1: Tile, value2: Tile, index2: Tile) -> Any:
    return _argmax_combine(value1, index1, value2, index2, False)


def _argmin_combine(value1: Tile, index1: Tile, value2: Tile, index2: Tile, tie_break_left: Any) -> Any:
    first = value1 < value2
    if tie_break_left:
        first = first | ((value1 == value2) & (index1 < index2))
    return ops.where(first, value1, value2), ops.where(first, index1, index2)


def _argmin_combine_tie_break_left(value1: Tile, index1: Tile, value2: Tile, index2: Tile) -> Any:
    return _argmin_combine(value1, index1, value2, index2, True)


def _argmin_combine_tie_break_fast(value1: Tile, index1: Tile, value2: Tile, index2: Tile) -> Any:
    return _argmin_combine(value1, index1, value2, index2, False)


# --- steps of a bitonic sort ------------------------------------------------------------------------------------------


def _indicator(n_dims: Any, j: Any) -> Tile:
    """0 and 1 along the j-th dimension of size 2, counted from the last."""
    return ops.reshape(ops.arange(0, 2), (1,) * (n_dims - j - 1) + (2,) + (1,) * j)


def _compare_and_swap(x: Tile, flip: Tile, i: Any) -> Tile:
    """Brings pairs along the i-th dimension of size 2, counted from the last, into order; `flip` turns it around."""
    rank = len(x.shape)
    bits = ops.cast(x, get_int_dtype(x.dtype.primitive_bitwidth, True), bitcast=True)
    other = ops.cast(bits ^ ops.xor_sum(bits, rank - 1 - i, True), x.dtype, bitcast=True)
    return ops.where((x > other) != ops.cast(flip ^ _indicator(rank, i), int1), other, x)


def _bitonic_merge_hypercube(x: Tile, stage: Any, order: Any) -> Tile:
    """Steps of one stage on a tile whose sizes are all 2; `order` is 0 (up), 1 (down) or 2 (one after the other)."""
    flip = _indicator(len(x.shape), stage) if order == 2 else order
    for i in ops.static_range(stage):
        x = _compare_and_swap(x, flip, stage - 1 - i)
    return x


def _bitonic_merge(x: Tile, stage: Any, order: Any, n_dims: Any) -> Tile:
    """Steps of one stage along the last dimension."""
    cube = _bitonic_merge_hypercube(ops.reshape(x, (2,) * _log2(x.numel)), stage, order)
    return ops.reshape(cube, x.shape)


def sort_impl(x: Tile, k: Any = None, dim: Any = None, descending: Any = False) -> Tile:
    """All elements in order along the last dimension, or the first k of them."""
    if k is None:
        return ordering.sort(x, dim, descending)
    return ordering.topk(x, k, dim) if descending else -ordering.topk(-x, k, dim)


@constexpr_function
def is_negative_zero(x: Any) -> bool:
    return x == 0.0 and math.copysign(1.0, x) < 0


NAMES: Final = (
    *("_log2", "_is_power_of_two", "get_int_dtype", "_unwrap_if_constexpr", "_pick_sum_dtype", "_get_flip_dim"),
    *("_sum_combine", "_prod_combine", "_xor_combine", "_or_combine", "_elementwise_max", "_elementwise_min"),
    *("_argmax_combine", "_argmax_combine_tie_break_left", "_argmax_combine_tie_break_fast", "_argmin_combine"),
    *("_argmin_combine_tie_break_left", "_argmin_combine_tie_break_fast", "_indicator", "_compare_and_swap"),
    *("_bitonic_merge_hypercube", "_bitonic_merge", "sort_impl", "is_negative_zero"),
)


def names() -> dict[str, Any]:
    """What `triton.language.core` and `triton.language.standard` have beside the language's public names."""
    more = {"_get_int_dtype": get_int_dtype, "builtin_max": max, "builtin_min": min, "TRITON_BUILTIN": MARK}
    return {**{name: globals()[name] for name in NAMES}, **more}
