"""`np.fft` on traced arrays: products with matrices of roots of unity where these are faster than numpy's transform.

The discrete Fourier transform of a few elements is a product with the matrix ``exp(-2 pi i j k / n)``, which fuses with
what makes its operand and with what reads its result. Of more elements it is two such products (the four-step form):
with ``n = a * b``, a transform of each of `b` columns, a factor for each element, and a transform of each of `a` rows::

    X[k1 + a * k2] = sum_j2 ( W_n^(j2 * k1) * sum_j1 x[b * j1 + j2] W_a^(j1 * k1) ) W_b^(j2 * k2)

It does more arithmetic than numpy's transform, at the speed of products, and needs no step between kernels. `LIMITS`
says, as measured, where it is faster; other sizes, and sizes with a prime factor above 7, are a step of numpy. The
error is a few units in the last place of the greatest element, as that of numpy's transform.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.ir.dims import is_fixed
from pypto.graph.tracing.complex_numbers.pairs import joined, parts_of
from pypto.graph.tracing.numpy_steps import by_numpy
from pypto.graph.tracing.tensor import Tensor, graph_of, place_of
from pypto.graph.tracing.ufuncs import lift

DIRECT: Final = 64  # elements that one product transforms
PRIMES: Final = (2, 3, 5, 7)


@dataclass(frozen=True, slots=True)
class Limits:
    """Where products are faster than numpy's transform.

    Parameters
    ----------
    size : int
        The greatest size of a transform.
    elements : int
        The most elements of all transforms of a call.
    always : int
        The size up to which any number of transforms is faster.
    """

    size: int
    elements: int
    always: int


LIMITS: Final[Mapping[str, Limits]] = MappingProxyType(  # by the type of the parts
    {"float32": Limits(4096, 1 << 19, 2048), "float64": Limits(2048, 4096, 16)}
)
Signal = tuple[Any, Any]  # real and imaginary part; None is 0


@lru_cache(maxsize=64)
def roots(rows: int, columns: int, size: int, dtype: str) -> tuple[Any, Any]:
    """Return the parts of ``exp(-2 pi i j k / size)``; the exponents are reduced first, so that each is exact."""
    angles = np.outer(np.arange(rows), np.arange(columns)) % size * (-2 * np.pi / size)
    return np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)


def is_smooth(size: int) -> bool:
    """Whether a size is a product of small primes.

    Examples
    --------
    >>> is_smooth(960), is_smooth(22)
    (True, False)
    """
    for prime in PRIMES:
        while size % prime == 0 and size > 1:
            size //= prime
    return size == 1


def factors_of(size: int) -> tuple[int, int]:
    """Return two factors of a size that are as near to each other as can be.

    Examples
    --------
    >>> factors_of(512), factors_of(60)
    ((16, 32), (6, 10))
    """
    small = next(n for n in range(math.isqrt(size), 0, -1) if size % n == 0)
    return small, size // small


def has_kernel(x: Tensor, size: int) -> bool:
    """Whether a transform along an axis is faster as products than as a step of numpy."""
    if not all(map(is_fixed, x.node.shape)) or size < 2 or not x.size or not is_smooth(size):
        return False
    most = LIMITS[part_of(x.dtype).name]
    is_small = size <= most.always or x.size <= most.elements
    return size <= most.size and is_small and max(factors_of(size)) <= DIRECT


def part_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the parts of a transform: float32 for floats of up to 32 bits, as in numpy."""
    is_narrow = dtype in (np.float16, np.float32, np.complex64)
    return np.dtype(np.float32 if is_narrow else np.float64)


def times(a: Signal, b: Signal, product: Callable[[Any, Any], Any]) -> Signal:
    """Multiply two complex arrays as real products of their parts; a part that is 0 has none."""
    if a[1] is None:
        return product(a[0], b[0]), product(a[0], b[1])
    return product(a[0], b[0]) - product(a[1], b[1]), product(a[0], b[1]) + product(a[1], b[0])


def transformed(x: Signal, size: int, dtype: str) -> Signal:
    """Return the transform along the last axis."""
    if size <= DIRECT:
        return times(x, roots(size, size, size, dtype), np.matmul)
    a, b = factors_of(size)
    lead = x[0].shape[:-1]
    columns = x[0].reshape((*lead, a, b)), None if x[1] is None else x[1].reshape((*lead, a, b))
    first = times(columns, roots(a, a, a, dtype), lambda part, root: np.matmul(root, part))
    rotated = times(first, roots(a, b, size, dtype), np.multiply)
    real, imag = times(rotated, roots(b, b, b, dtype), np.matmul)
    return np.swapaxes(real, -1, -2).reshape((*lead, size)), np.swapaxes(imag, -1, -2).reshape((*lead, size))


def fitted(part: Any, size: int) -> Any:
    """Return an array with a size of its last axis: with fewer elements, or with zeros behind them."""
    have = part.shape[-1]
    if have >= size:
        return part[..., :size]
    return np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, size - have)])


def last_axis(x: Tensor, axis: int, size: int) -> list[Any]:
    """Return the parts of a signal, one of a real signal, with so many elements of an axis, which becomes the last."""
    parts: Any = parts_of(x) if x.dtype.kind == "c" else (x.astype(part_of(x.dtype)),)
    return [fitted(np.moveaxis(part, axis, -1), size) for part in parts]


def scale_of(norm: str | None, size: int, is_inverse: bool) -> float:
    """Return the factor of a transform: 1, 1 / size, or 1 / sqrt(size)."""
    if norm == "ortho":
        return 1 / math.sqrt(size)
    return 1 / size if is_inverse == (norm in (None, "backward")) else 1.0


def along(x: Tensor, size: int, axis: int, norm: str | None, is_inverse: bool, count: int | None = None) -> Tensor:
    """Transform along an axis; an inverse is the conjugate of the transform of the conjugate."""
    dtype = part_of(x.dtype)
    is_real = x.dtype.kind != "c"
    last = last_axis(x, axis, size)
    signal = None if is_real else -last[1] if is_inverse else last[1]
    real, imag = transformed((last[0], signal), size, dtype.name)
    return finished(real, -imag if is_inverse else imag, scale_of(norm, size, is_inverse), axis, count)


def finished(real: Any, imag: Any, scale: float, axis: int, count: int | None) -> Tensor:
    """Return a transform with its scale, its first elements, and its axis where it was."""
    parts = []
    for part in (real, imag):
        scaled = part if scale == 1.0 else part * scale
        parts.append(np.moveaxis(scaled if count is None else scaled[..., :count], -1, axis))
    return joined(parts[0], parts[1])


def of_hermitian(x: Tensor, size: int, axis: int, norm: str | None, is_inverse: bool) -> Tensor:
    """Return the real signal of half a spectrum; all elements but the first, and the middle one, count twice."""
    dtype, half = part_of(x.dtype), size // 2 + 1
    last = last_axis(x, axis, half)
    cosines, sines = roots(half, size, size, dtype.name)
    weights = np.full((half, 1), 2 * scale_of(norm, size, is_inverse), dtype)
    weights[0] /= 2
    if size % 2 == 0:
        weights[-1] /= 2
    result = last[0] @ (cosines * weights)
    if len(last) == 2:
        other = last[1] @ (sines * weights)
        result = result + other if is_inverse else result - other
    moved: Any = np.moveaxis(result, -1, axis)
    return lift(x.graph, moved)


# --- numpy's functions -----------------------------------------------------------------------------------------------


def one_axis(name: str, is_inverse: bool, form: str = "") -> Callable[..., Any]:
    """Return the tracer of a transform along one axis, of a complex or a real signal, or of half a spectrum."""

    def transform(a: Any, n: Any = None, axis: int = -1, norm: str | None = None, out: Any = None) -> Any:
        x = lift(graph_of(a), a)
        given = x.shape[place_of(axis, x.ndim)]
        size = int(n) if n is not None else 2 * (given - 1) if form == "hermitian" else given
        offered = out is None and norm in (None, "backward", "ortho", "forward") and has_kernel(x, size)
        if (form == "hermitian" and size > DIRECT) or (form == "real" and x.dtype.kind == "c") or not offered:
            return by_numpy(getattr(np.fft, name), f"np.fft.{name}")(a, n, axis, norm, out)
        at = place_of(axis, x.ndim)
        if form == "hermitian":
            return of_hermitian(x, size, at, norm, is_inverse)
        return along(x, size, at, norm, is_inverse, size // 2 + 1 if form == "real" else None)

    return transform


def several_axes(name: str, first: str, other: str, count: int | None = None) -> Callable[..., Any]:
    """Return the tracer of a transform along several axes: one after the other, or one step of numpy.

    `first` transforms the last axis, before the others for a real signal, and behind them for half a spectrum.
    """

    def transform(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: Any = None) -> Any:
        x = lift(graph_of(a), a)
        along_axes = list(range(-count, 0) if count and axes is None else range(x.ndim) if axes is None else axes)
        is_plain = s is None and out is None and all(has_kernel(x, x.shape[axis]) for axis in along_axes)
        if not is_plain or (first == "irfft" and 2 * (x.shape[along_axes[-1]] - 1) > DIRECT):
            how = {} if axes is None else {"axes": axes}
            return by_numpy(getattr(np.fft, name), f"np.fft.{name}")(a, s, norm=norm, out=out, **how)
        last, others = along_axes[-1], along_axes[:-1][::-1]
        order = [*((axis, other) for axis in others), (last, first)]
        for axis, function in order if first == "irfft" else order[::-1][:1] + order[:-1]:
            x = TRANSFORMS[f"fft.{function}"](x, axis=axis, norm=norm)
        return x

    return transform


TRANSFORMS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "fft.fft": one_axis("fft", False), "fft.ifft": one_axis("ifft", True),
        "fft.rfft": one_axis("rfft", False, "real"), "fft.irfft": one_axis("irfft", True, "hermitian"),
        "fft.hfft": one_axis("hfft", False, "hermitian"), "fft.ihfft": one_axis("ihfft", True, "real"),
        **{f"fft.{d}fft{n}": several_axes(f"{d}fft{n}", f"{d}fft", f"{d}fft", 2 if n == "2" else None)
           for d in ("", "i") for n in ("2", "n")},
        **{f"fft.rfft{n}": several_axes(f"rfft{n}", "rfft", "fft", 2 if n == "2" else None) for n in ("2", "n")},
        **{f"fft.irfft{n}": several_axes(f"irfft{n}", "irfft", "ifft", 2 if n == "2" else None) for n in ("2", "n")},
    }
)  # fmt: skip
