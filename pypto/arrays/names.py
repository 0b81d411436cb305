"""The names of the array API standard 2024.12 that this namespace offers, which are those that can be traced."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from pypto.options import suggestion

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
    "zeros_like", "empty_like", "sort", "argsort", "take_along_axis", "meshgrid", "tril", "triu", "broadcast_arrays",
    "repeat", "tile", "unstack", "count_nonzero", "searchsorted", "cumulative_prod",
)
OUTSIDE: Final = (  # make arrays, or say something of types: numpy's own, which are constants of a fused function
    "arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros", "astype", "can_cast", "finfo", "iinfo",
    "result_type", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64", "float16", "e", "inf", "nan", "newaxis", "pi", "from_dlpack", "isdtype",
)
COUNTING: Final = ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")  # of arrays of numpy
LINALG: Final = (
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
)
REFUSED: Final = {
    **dict.fromkeys(
        ("real", "imag", "conj", "complex64", "complex128"),
        "complex arrays are numpy's: its names work in fused functions, too",
    ),
    "fft": "its numbers are complex; `np.fft` works in fused functions, too",
}
# fmt: on
_NUMPYS: Final = "arrays are numpy's: `np.asarray(x)`; `pypto.arrays.lazy(x)` makes one that records operations"
# Names of other libraries, with their replacements here.
ELSEWHERE: Final = {"tensor": _NUMPYS, "Tensor": _NUMPYS, "array": _NUMPYS}


def of_name(name: str) -> Any:
    """Return the function of a name of the standard.

    Raises
    ------
    AttributeError
        With the reason, when the name is not offered.
    """
    if name in (*ELEMENTWISE, *OTHERS, *OUTSIDE, *COUNTING):
        return getattr(np, name)
    known = (*sys.modules["pypto.arrays"].__all__, *ELEMENTWISE, *OTHERS, *OUTSIDE, *COUNTING)
    way = REFUSED.get(name) or ELSEWHERE.get(name)
    reason = f": {way}" if way else suggestion(name, known)
    raise AttributeError(f"pypto.arrays has no {name!r}{reason}", name=name)
