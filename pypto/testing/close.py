"""Comparing results, with a message that says where they differ, how far, and in how many units of the last place.

Without tolerances, those of the element types hold: a few units of the last place for float32 and float64, one or two
for shorter floats, and none for integers. They are the defaults of `torch.testing.assert_close`, so that a test says
the same on arrays and on tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, from_numpy

Array = np.ndarray[Any, Any]
_SHOWN: Final = 4  # of the elements that differ
# atol and rtol by element type, as torch.testing has them. It leaves out floats of 8 bits: they may differ by one unit
# of the last place.
_USUAL: Final = MappingProxyType({
    "float16": (1e-5, 1e-3), "bfloat16": (1e-5, 1.6e-2), "float32": (1e-5, 1.3e-6), "float64": (1e-7, 1e-7),
    "complex64": (1e-5, 1.3e-6), "complex128": (1e-7, 1e-7),
})  # fmt: skip


def assert_close(x: Any, y: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Raise unless two numbers, arrays or tensors are close; NaN is close to NaN, an infinity to itself alone.

    Without tolerances, those of the element types hold, as in `torch.testing`: 1e-5 and 1.3e-6 for float32, 1e-7 for
    float64, 1e-5 and 1e-3 for float16, 1e-5 and 0.016 for bfloat16, none for integers. Of two types, the wider holds.

    Parameters
    ----------
    x, y : array, tensor or number
        What was computed, and what is right.
    atol, rtol : float or function of a dtype, optional
        Largest ``|x - y|`` is ``atol + rtol * |y|``. Give both, or neither.
    err_msg : str
        What the error begins with.

    Raises
    ------
    AssertionError
        With how many elements differ, the worst of them, by how much, and the difference in ulp: in units of the last
        place of the narrower of both dtypes.
    ValueError
        When one tolerance is given without the other.

    Examples
    --------
    >>> assert_close([1.0, 2.0], [1.0, 2.001], atol=0, rtol=1e-3)
    >>> assert_close(np.float32([1, 2]), np.float32([1, 3]))
    Traceback (most recent call last):
    AssertionError: 1 of 2 elements differ (50%); |x - y| <= 1e-05 + 1.3e-06 |y| is asked for
      worst at [1]: 2 is not 3, by 1 (4.19e+06 ulp of float32)
    """
    if (atol is None) != (rtol is None):
        raise ValueError("assert_close takes both `atol` and `rtol`, or neither: then they follow from the dtypes")
    atol, rtol = (t(getattr(x, "dtype", None)) if callable(t) else t for t in (atol, rtol))
    if atol is None:
        atol, rtol = (max(pair) for pair in zip(usual(x), usual(y), strict=True))
    dtype = narrower(x, y)
    got, expected = as_numpy(x), as_numpy(y)
    problem = shapes(got, expected) or Difference.of(got, expected, atol, rtol).report(dtype)
    if problem:
        raise AssertionError(f"{err_msg}\n{problem}" if err_msg else problem)


def usual(x: Any) -> tuple[float, float]:
    """atol and rtol of what has this element type."""
    name = str(x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype).removeprefix("torch.")
    if name in _USUAL or not name.startswith("float8"):
        return _USUAL.get(name, (0.0, 0.0))
    import ml_dtypes

    info: Any = ml_dtypes.finfo(name)  # type: ignore[no-untyped-call]  # it has no types
    return float(info.smallest_subnormal), float(info.eps)


def shapes(got: Array, expected: Array) -> str:
    if not got.shape or not expected.shape or got.shape == expected.shape:
        return ""
    return f"shapes differ: {got.shape} is not {expected.shape}"


def narrower(x: Any, y: Any) -> DType | None:
    """The float type in which differences are counted."""
    types = [t for t in map(dtype_of, (x, y)) if t is not None and t.is_float]
    return min(types, key=lambda t: t.bits, default=None)


def dtype_of(x: Any) -> DType | None:
    if hasattr(x, "detach"):
        try:
            return DType(str(x.dtype).removeprefix("torch."))
        except ValueError:
            return None
    return from_numpy(np.asarray(x).dtype)


def as_numpy(x: Any) -> Any:
    """An array that numpy can compare, of a number, an array or a tensor of any float type."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.double() if x.is_floating_point() else x).numpy()
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype.kind == "V" or x.dtype.itemsize < 4 else x


@dataclass(frozen=True, slots=True)
class Difference:
    """Two arrays of one shape, the elements that are too far apart, and what was asked for."""

    got: Array
    expected: Array
    far: Array
    distance: Array
    rule: str

    @staticmethod
    def of(x: Array, y: Array, atol: float, rtol: float) -> Difference:
        got, expected = np.broadcast_arrays(x, y)
        with np.errstate(all="ignore"):
            distance = distances(got, expected)
            is_close = distance <= atol + rtol * np.abs(as_wide(expected))
        same = (got == expected) | ((got != got) & (expected != expected))  # noqa: PLR0124  # NaN alone is not itself
        finite = np.isfinite(as_wide(got)) & np.isfinite(as_wide(expected))
        rule = f"|x - y| <= {atol:g}" + (f" + {rtol:g} |y|" if rtol else "")
        return Difference(got, expected, ~(same | (is_close & finite)), distance, rule)

    def report(self, dtype: DType | None) -> str:
        """What is wrong, in a few lines; nothing when all is close."""
        places = np.argwhere(self.far)
        if not len(places):
            return ""
        ordered = sorted(map(tuple, places.tolist()), key=lambda p: -rank(float(self.distance[p])))
        share = f"{len(places) / self.far.size:.2g}" if len(places) < self.far.size else "1"
        lines = [f"{len(places)} of {self.far.size} elements differ ({float(share):.0%}); {self.rule} is asked for"]
        lines += [self.text(p, "worst" if p is ordered[0] else "also", dtype) for p in ordered[:_SHOWN]]
        return "\n".join(lines)

    def text(self, place: tuple[int, ...], word: str, dtype: DType | None) -> str:
        x, y = self.got[place], self.expected[place]
        at = f" at [{', '.join(map(str, place))}]" if place else ""
        real = "c" not in (x.dtype.kind, y.dtype.kind)
        units = ulps(float(x), float(y), dtype) if dtype and real else None
        by = "" if not np.isfinite(self.distance[place]) else f", by {self.distance[place]:.6g}"
        counted = f" ({units:.3g} ulp of {dtype.public})" if units and dtype else ""
        return f"  {word}{at}: {x:.9g} is not {y:.9g}{by}{counted}"


def rank(distance: float) -> float:
    """NaN before infinity, before all numbers."""
    return float("inf") if np.isnan(distance) else distance


def distances(x: Array, y: Array) -> Array:
    """``|x - y|``, for integers without rounding: those beyond 2**53 are no numbers of float64."""
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        distance = x.astype(np.uint64) - y.astype(np.uint64)  # modulo 2**64, where every difference has a place
        return np.where(x > y, distance, -distance)
    distance = as_wide(x) - as_wide(y)
    return np.asarray(np.abs(distance))


def as_wide(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind in "iub" else x


def ulps(x: float, y: float, dtype: DType) -> float | None:
    """The distance in units of the last place of the right number; None where that has no meaning."""
    if not (np.isfinite(x) and np.isfinite(y)):
        return None
    import ml_dtypes

    info: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]  # it has no types
    exponent = np.frexp(max(abs(y), float(info.tiny)))[1] - 1
    return abs(x - y) / (float(info.eps) * 2.0 ** int(exponent))
