"""Names of the array API standard 2024.12, as numpy has them; what is not traced is not offered."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

# fmt: off
ELEMENTWISE: Final = (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_left_shift",
    "bitwise_invert", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "copysign", "cos", "cosh",
    "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "isfinite",
    "isinf", "isnan", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal", "positive",
    "pow", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "square", "sqrt", "subtract", "tan",
    "tanh", "trunc",
)
OTHERS: Final = (
    "all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var", "cumulative_sum", "matmul",
    "matrix_transpose", "tensordot", "vecdot", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis",
    "permute_dims", "reshape", "roll", "squeeze", "stack", "where", "take", "diff", "full_like", "ones_like",
    "zeros_like", "empty_like", "sort", "argsort", "take_along_axis",
)
OUTSIDE: Final = (  # make arrays, or say something of types: numpy's own, which are constants of a fused function
    "arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros", "astype", "can_cast", "finfo", "iinfo",
    "result_type", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64", "float16", "e", "inf", "nan", "newaxis", "pi",
)
REFUSED: Final = {
    "nonzero": "how many elements there are depends on their values",
    "unique_all": "how many elements there are depends on their values",
    "unique_counts": "how many elements there are depends on their values",
    "unique_inverse": "how many elements there are depends on their values",
    "unique_values": "how many elements there are depends on their values",
    "real": "complex numbers are not offered", "imag": "complex numbers are not offered",
    "conj": "complex numbers are not offered", "complex64": "complex numbers are not offered",
    "complex128": "complex numbers are not offered",
}
# fmt: on


def of_name(name: str) -> Any:
    """The function of a name of the standard.

    Raises
    ------
    AttributeError
        With the reason, where it is not offered.
    """
    if name in (*ELEMENTWISE, *OTHERS, *OUTSIDE):
        return getattr(np, name)
    reason = f": {REFUSED[name]}" if name in REFUSED else ""
    raise AttributeError(f"pypto.arrays has no {name!r}{reason}")
