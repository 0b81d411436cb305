"""Arrays that no kernel computes with: what they are, and what to pass instead of them."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from pypto.graph.capture.kinds import is_array
from pypto.ir.types import from_numpy

_OFFERED: Final = "bools, integers, and floats of 16 to 64 bits"
_SUBSCRIPTED: Final = "take the parts that are needed, as arrays, before the call"


def objection(value: Any) -> tuple[str, str] | None:
    """Why a value that looks like an array is none of a fused function, and the way out; None of everything else."""
    if is_array(value):
        return of_class(value) or of_dtype(value.dtype)
    if isinstance(value, complex | np.complexfloating):
        return "a complex number", "pass its real and its imaginary part as two numbers"
    return of_library(value, type(value).__module__.partition(".")[0], type(value).__name__)


def of_library(value: Any, root: str, name: str) -> tuple[str, str] | None:
    """Why an array of another library is none of a fused function."""
    if root == "torch" and name in ("Tensor", "Parameter"):
        way = "pass `x.numpy()`, or `x.detach().numpy()`; for models of torch there is `pypto.torch`"
        return f"a tensor of torch, and no gradient would flow through it (device {value.device})", way
    if root == "pypto" and name == "DeviceArray":
        return (
            f"an array on the device {value.device}",
            "pass `x.numpy()`; a fused function runs on the device of `with pto.device(…):`",
        )
    rows = (
        ("jax", "__array__", "an array of jax", "pass `np.asarray(x)` of it"),
        ("jaxlib", "__array__", "an array of jax", "pass `np.asarray(x)` of it"),
        ("pandas", "to_numpy", f"a {name} of pandas", "pass `x.to_numpy(np.float32)` of it"),
        ("scipy", "toarray", f"a sparse matrix ({name})", "pass `x.toarray()` of it"),
        ("datetime", "isoformat", f"a {name}", "pass a number, as `x.timestamp()` gives one"),
    )
    for library, mark, what, way in rows:
        if root == library and hasattr(value, mark):
            return what, way
    if not isinstance(value, np.generic | type) and has_memory(value):
        return f"a {type(value).__module__}.{name}", "pass `np.asarray(x)` of it"
    return None


def has_memory(value: Any) -> bool:
    """Whether a value is an array of another library."""
    kind = type(value)
    return (
        hasattr(kind, "__dlpack__") or hasattr(kind, "__array_interface__") or hasattr(kind, "__cuda_array_interface__")
    )


def of_class(value: Any) -> tuple[str, str] | None:
    """Why an array of a class of its own is none: a plain array would be computed with, without what the class adds."""
    kind = type(value)
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(value, masked.MaskedArray):
        return "a masked array", "pass `x.filled(value)`, or its data and its mask as two arrays"
    if isinstance(value, np.matrix):
        return "a matrix, whose `*` is the product of matrices", "pass `np.asarray(x)`, and write `@` for products"
    if isinstance(value, np.memmap) or kind is np.ndarray:
        return None
    own = (c for c in kind.__mro__ if c not in np.ndarray.__mro__)
    changed = sorted({name for c in own for name in vars(c) if hasattr(np.ndarray, name)} - _ALWAYS)
    if not changed:
        return None
    what = f"a {kind.__name__}, a subclass of ndarray with a `{changed[0]}` of its own"
    return what, "pass `np.asarray(x)` of it, and put back what the class adds (a unit, a mask) behind the call"


_ALWAYS: Final = frozenset(("__module__", "__doc__", "__dict__", "__weakref__", "__slots__", "__firstlineno__"))


def of_dtype(dtype: np.dtype[Any]) -> tuple[str, str] | None:
    """Why arrays of an element type are none."""
    if from_numpy(dtype) is not None:
        return None
    if dtype.kind == "c":
        return f"an array of complex numbers ({dtype})", "pass its real and its imaginary part: `x.real`, `x.imag`"
    if dtype.kind in "Mm":
        return f"an array of times ({dtype})", "pass numbers: `(x - x[0]) / np.timedelta64(1, 's')`"
    if dtype.kind in "USOT":
        what = "objects of Python" if dtype.kind == "O" else f"texts ({dtype})"
        return f"an array of {what}", "pass an array of numbers: `.astype(np.float32)` makes one where they are numbers"
    if dtype.names:
        return f"an array of records ({', '.join(dtype.names)})", "pass its fields as arrays: `x['name']`"
    if not dtype.isnative:
        native = str(dtype.newbyteorder("="))
        return f"an array of {native} with its bytes swapped", f"convert it first: `.astype({native!r})`"
    return f"an array of {dtype}", f"convert it by `.astype(…)`: kernels have {_OFFERED}"
