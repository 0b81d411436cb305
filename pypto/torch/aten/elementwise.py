"""Rows of elementwise ops: arithmetic, functions, comparisons, casts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import ml_dtypes
import numpy as np

from pypto import arrays
from pypto.graph.ir.types import is_floating
from pypto.torch.aten.row import (
    NotLowered,
    Result,
    Row,
    as_type,
    computed,
    is_tensor,
    numpy_dtype,
    opmath,
    promoted,
)

FLOAT32: Final = np.dtype(np.float32)


def same(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a row whose result has the promoted dtype of its operands."""

    def lower(*operands: Any) -> Any:
        return computed(promoted(*operands), function, *operands)

    return lower


def floating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a row whose result is a float: integers are computed in float32."""

    def lower(*operands: Any) -> Any:
        dtype = promoted(*operands)
        return computed(dtype if is_floating(dtype) or dtype.kind == "c" else FLOAT32, function, *operands)

    return lower


def truth(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a row of a comparison, which compares in the promoted dtype."""

    def lower(*operands: Any) -> Any:
        dtype = promoted(*operands)
        return function(*(as_type(x, dtype) for x in operands))

    return lower


def logical(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: function(*(x.astype(np.bool_) if is_tensor(x) else x for x in operands))


def scaled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a row of a sum or difference, whose second operand has the factor `alpha`."""

    def lower(a: Any, b: Any, alpha: Any = 1) -> Any:
        dtype = promoted(a, b)
        if alpha == 1:
            return computed(dtype, function, a, b)
        return computed(dtype, lambda x, y, by: function(x, y * by), a, b, alpha)

    return lower


def div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    dtype = promoted(a, b)
    if rounding_mode is None:
        return floating(np.true_divide)(a, b)
    if is_floating(dtype):
        rounds = np.trunc if rounding_mode == "trunc" else None
        return computed(dtype, (lambda x, y: rounds(x / y)) if rounds else np.floor_divide, a, b)
    if rounding_mode == "floor":
        return computed(dtype, np.floor_divide, a, b)
    return computed(dtype, truncated, a, b)


def truncated(a: Any, b: Any) -> Any:
    """Divide integers, and round towards zero."""
    floor = np.floor_divide(a, b)
    exact = floor * b == a
    return np.where(exact | (floor >= 0), floor, floor + floor.dtype.type(1))


def power(a: Any, b: Any) -> Any:
    dtype = promoted(a, b)
    if not is_tensor(b) and is_tensor(a):
        for number, function in _POWERS:
            if b == number and (is_floating(dtype) or isinstance(b, int)):
                return computed(dtype, function, a)
    if dtype.kind in "iu" and not (isinstance(b, int) and b >= 0):
        raise NotLowered("integers to a power that is known at run time")
    return computed(dtype, np.power, a, b)


_POWERS: Final[tuple[tuple[float, Callable[..., Any]], ...]] = (
    (0.5, np.sqrt),
    (1, np.positive),
    (2, np.square),
    (3, lambda x: x * x * x),
    (-0.5, arrays.rsqrt),
    (-1, np.reciprocal),
    (-2, lambda x: np.square(np.reciprocal(x))),
)


def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    dtype = promoted(*(v for v in (x, low, high) if v is not None))

    def bounded(value: Any, *limits: Any) -> Any:
        at = iter(limits)
        if low is not None:
            value = np.maximum(value, next(at))
        return value if high is None else np.minimum(value, next(at))

    return computed(dtype, bounded, x, *(v for v in (low, high) if v is not None))


def where(condition: Any, a: Any, b: Any) -> Any:
    dtype = promoted(a, b)
    return np.where(condition, as_type(a, dtype), as_type(b, dtype))


def cast(x: Any, dtype: Any = None, results: tuple[Result, ...] = (), **layout: Any) -> Any:
    """Cast to another dtype; arguments of memory are those of a new array, which every result is."""
    if set(layout) - {"layout", "device", "pin_memory", "non_blocking", "memory_format", "copy"}:
        raise NotLowered(f"the argument {min(layout)}")
    wanted = results[0].dtype
    if wanted.kind in "iu" and is_floating(x.dtype):
        x = np.trunc(x.astype(opmath(x.dtype)))
    return x.astype(wanted)


def convert(x: Any, dtype: Any) -> Any:
    wanted = numpy_dtype(dtype)
    return cast(x, results=(Result(wanted, ()),))


def gelu(x: Any, approximate: str = "none") -> Any:
    return arrays.gelu(x, approximate=approximate)


def elu(x: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Any:
    def of(v: Any) -> Any:
        dtype = v.dtype.type
        below = dtype(alpha * scale) * np.expm1(v * dtype(input_scale))
        return np.where(v > 0, v * dtype(scale), below)

    return computed(x.dtype, of, x)


def leaky_relu(x: Any, slope: Any = 0.01) -> Any:
    return computed(x.dtype, lambda v: np.where(v > 0, v, v * v.dtype.type(slope)), x)


def softplus(x: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
    def of(v: Any) -> Any:
        dtype = v.dtype.type
        inner = v * dtype(beta)
        return np.where(inner > threshold, v, np.log1p(np.exp(np.minimum(inner, dtype(threshold)))) / dtype(beta))

    return computed(x.dtype, of, x)


def sign(x: Any) -> Any:
    return np.sign(x) if x.dtype != np.bool_ else x


def rounded(x: Any, decimals: int = 0) -> Any:
    if decimals:
        raise NotLowered("round to decimals")
    return computed(x.dtype, np.rint, x) if is_floating(x.dtype) else x


def remainder(a: Any, b: Any) -> Any:
    return same(np.remainder)(a, b)


def magnitude(x: Any) -> Any:
    return x if x.dtype == np.bool_ else np.abs(x)


def bitwise(logic: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def lower(*operands: Any) -> Any:
        dtype = promoted(*operands)
        return (logic if dtype == np.bool_ else function)(*(as_type(x, dtype) for x in operands))

    return lower


def nan_to_num(x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    if not is_floating(x.dtype):
        return x
    info: Any = ml_dtypes.finfo(x.dtype)  # type: ignore[no-untyped-call]
    high, low = (float(info.max) if posinf is None else posinf), (float(info.min) if neginf is None else neginf)
    kind = x.dtype.type
    x = np.where(np.isnan(x), kind(nan or 0.0), x)
    x = np.where(x == kind(math.inf), kind(high), x)
    return np.where(x == kind(-math.inf), kind(low), x)


def fmod(a: Any, b: Any) -> Any:
    return same(np.fmod)(a, b)


def addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return computed(promoted(x, a, b), lambda p, q, r: p + q * r * p.dtype.type(value), x, a, b)


def addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return computed(promoted(x, a, b), lambda p, q, r: p + q / r * p.dtype.type(value), x, a, b)


def lerp(a: Any, b: Any, weight: Any) -> Any:
    def between(p: Any, q: Any, w: Any) -> Any:
        low = p + w * (q - p)
        high = q - (q - p) * (w.dtype.type(1) - w)
        return np.where(np.abs(w) < w.dtype.type(0.5), low, high)

    if not is_tensor(weight):
        return computed(a.dtype, lambda p, q: p + p.dtype.type(weight) * (q - p), a, b)
    return computed(promoted(a, b), between, a, b, weight)


def threshold_backward(gradient: Any, x: Any, threshold: Any) -> Any:
    zero = gradient.dtype.type(0)
    return np.where(x <= threshold, zero, gradient)


_SAME: Final[Mapping[str, Callable[..., Any]]] = {
    "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "neg": np.negative, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "remainder": np.remainder, "fmod": np.fmod, "square": np.square,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)), "hypot": np.hypot, "copysign": np.copysign,
}  # fmt: skip
_FLOATING: Final[Mapping[str, Callable[..., Any]]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": arrays.rsqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "atan2": np.arctan2, "erf": arrays.erf,
    "erfc": arrays.erfc, "sigmoid": arrays.sigmoid, "reciprocal": np.reciprocal, "silu": arrays.silu,
    "logaddexp": np.logaddexp,
}  # fmt: skip
_COMPARISONS: Final[Mapping[str, Callable[..., Any]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_LOGICAL: Final[Mapping[str, Callable[..., Any]]] = {
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
}  # fmt: skip
_BITWISE: Final = {
    "bitwise_and": (np.logical_and, np.bitwise_and), "bitwise_or": (np.logical_or, np.bitwise_or),
    "bitwise_xor": (np.not_equal, np.bitwise_xor), "bitwise_not": (np.logical_not, np.invert),
    "bitwise_left_shift": (np.left_shift, np.left_shift), "bitwise_right_shift": (np.right_shift, np.right_shift),
}  # fmt: skip
_OTHERS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": scaled(np.add), "sub": scaled(np.subtract), "rsub": lambda a, b, alpha=1: scaled(np.subtract)(b, a, alpha),
    "div": div, "pow": power, "clamp": clamp, "clamp_min": clamp,
    "clamp_max": lambda x, high: clamp(x, None, high), "hardtanh": lambda x, low=-1, high=1: clamp(x, low, high),
    "where": where, "gelu": gelu, "elu": elu, "leaky_relu": leaky_relu, "softplus": softplus, "sign": sign,
    "round": rounded, "abs": magnitude, "nan_to_num": nan_to_num, "addcmul": addcmul, "addcdiv": addcdiv,
    "lerp": lerp, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit,
    "floor_divide": partial(div, rounding_mode="floor"), "threshold_backward": threshold_backward,
    "convert_element_type": convert,
}  # fmt: skip
_ROWS: Final = (
    *(Row(name, same(function)) for name, function in _SAME.items()),
    *(Row(name, floating(function)) for name, function in _FLOATING.items()),
    *(Row(name, truth(function)) for name, function in _COMPARISONS.items()),
    *(Row(name, logical(function)) for name, function in _LOGICAL.items()),
    *(Row(name, bitwise(*functions)) for name, functions in _BITWISE.items()),
    *(Row(name, function) for name, function in _OTHERS.items()),
    Row("_to_copy", cast, wants=("results",)),
    Row("clone", cast, wants=("results",)),
    Row("alias", lambda x: x),
    Row("detach", lambda x: x),
    Row("lift_fresh_copy", cast, wants=("results",)),
)
ROWS: Final = tuple(replace(row, is_elementwise=True) for row in _ROWS)
