"""The array API standard's namespace of lazy arrays: numpy's functions, whose new arrays are lazy.

`x.__array_namespace__()` of a lazy array is this module. Functions on lazy arrays are numpy's, which record operations;
functions that create arrays return lazy ones. Functions stand here where the standard's parameters or results differ
from numpy's.
"""

from __future__ import annotations

from functools import wraps
from types import SimpleNamespace
from typing import Any

import numpy as np

from pypto.graph.lazy.arrays import as_lazy, computed_in, lazy
from pypto.graph.tracing import ordering
from pypto.graph.tracing.creation import CREATORS
from pypto.graph.tracing.tensor import Tensor

__array_api_version__ = "2025.12"


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a lazy array of an array, a number or nested lists; a lazy array stays one."""
    if type(obj) is Tensor and obj.graph.is_lazy:
        obj.to_device(device or obj.device)
        result: Tensor = obj if dtype is None else obj.astype(dtype, copy=False)
        return result.copy() if copy and result is obj else result
    return lazy(np.asarray(computed_in(obj), dtype=dtype, device=device, copy=copy))


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Limit elements to a range; a missing bound is none."""
    return np.clip(x, min, max)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort along an axis."""
    return ordering.sort(x, axis, descending=descending)


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices that sort along an axis; of equal elements the first one comes first."""
    return ordering.argsort(x, axis, descending=descending)


def unique_values(x: Tensor, /) -> Tensor:
    """Return the distinct elements in ascending order, as libraries that read this namespace expect."""
    return lazy(np.unique(np.asarray(x), equal_nan=False))


def expm1(x: Any, /) -> Any:
    """Return `exp(x) - 1`; numpy's complex one lacks the standard's values for infinities and NaN."""
    result = np.expm1(x)
    if not isinstance(x, Tensor) or x.dtype.kind != "c":
        return result
    re, im = np.asarray(x).real, np.asarray(x).imag
    array: Any = np.array(result)
    keeps_sign = (im == 0) & ((re == 0) | ~np.isfinite(re))
    array.real = np.where(re == 0, re + np.where(im == 0, 0.0, array.real), array.real)
    array.real = np.where(np.isinf(re), np.where(re > 0, re, -1), np.where(np.isnan(re), re, array.real))
    array.imag = np.where(np.isinf(re) & ~np.isfinite(im), np.where(re > 0, np.nan, 0), array.imag)
    array.imag = np.where(keeps_sign, im, array.imag)
    return lazy(array)


def finfo(type: Any, /) -> SimpleNamespace:
    """Return the limits of a floating-point dtype, or of an array's, as Python numbers."""
    info = np.finfo(getattr(type, "dtype", type) if isinstance(type, Tensor) else type)
    limits = {name: float(getattr(info, name)) for name in ("eps", "max", "min", "smallest_normal")}
    return SimpleNamespace(bits=info.bits, dtype=info.dtype, **limits)


def iinfo(type: Any, /) -> Any:
    """Return the limits of an integer dtype, or of an array's."""
    return np.iinfo(type.dtype if isinstance(type, Tensor) else type)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a lazy array of an array that exchanges its memory."""
    return lazy(np.from_dlpack(x, device=device, copy=copy))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the discrete Fourier transform."""
    return asarray(np.fft.fftfreq(n, d, device=device), dtype=dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the discrete Fourier transform of real numbers."""
    return asarray(np.fft.rfftfreq(n, d, device=device), dtype=dtype)


def creating(function: Any) -> Any:
    """Return a function of numpy that creates an array, whose result is lazy."""

    @wraps(function)
    def create(*args: Any, **kwargs: Any) -> Any:
        return as_lazy(function(*computed_in(args), **computed_in(kwargs)))

    return create


def eig(x: Tensor, /) -> Any:
    """Return complex eigenvalues and eigenvectors; numpy's type depends on their values, so they are computed."""
    values, vectors = np.linalg.eig(np.asarray(x))
    dtype = np.result_type(x.dtype, np.complex64)
    result: Any = type(np.linalg.eig(np.eye(1)))
    return result(asarray(values, dtype=dtype), asarray(vectors, dtype=dtype))


def eigvals(x: Tensor, /) -> Tensor:
    """Return complex eigenvalues."""
    values: Tensor = eig(x).eigenvalues
    return values


class Extension:
    """An extension of the standard: numpy's module, with functions that stand in for its own."""

    def __init__(self, module: Any, **functions: Any) -> None:
        self.module = module
        self.__dict__ |= functions

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


fft = Extension(np.fft, fftfreq=fftfreq, rfftfreq=rfftfreq)
linalg = Extension(np.linalg, eig=eig, eigvals=eigvals)


class NamespaceInfo:
    """The inspection of the namespace: numpy's, with the types of the standard."""

    def devices(self) -> tuple[str, ...]:
        """Return the devices of arrays."""
        return tuple(np.__array_namespace_info__().devices())

    def __getattr__(self, name: str) -> Any:
        return getattr(np.__array_namespace_info__(), name)


__array_namespace_info__ = NamespaceInfo


def __getattr__(name: str) -> Any:
    """Return numpy's value of a name; what creates an array creates a lazy one."""
    value = getattr(np, name)
    is_creator = callable(value) and getattr(value, "__hash__", None) is not None and value in CREATORS
    return creating(value) if is_creator and not name.endswith("_like") else value
