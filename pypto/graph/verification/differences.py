"""The difference of two arrays: the largest distance in units of the last place, and the first index that differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.debug.verify import TOLERANCE, spacing
from pypto.errors.graph import ArrayDiffers
from pypto.ir.types import DType, from_numpy
from pypto.loc import Loc

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of a comparison; the default is the one for compiled and interpreted kernels."""

    atol: float | None
    rtol: float | None

    def allowed(self, dtype: DType, expected: Array, steps: int) -> Array:
        """Return the largest allowed difference of each element, which is 0 for integers."""
        usual = TOLERANCE[dtype.bits] * steps if dtype.is_float else 0.0
        size = np.where(np.isfinite(expected), np.abs(expected), 0)
        rtol = usual if self.rtol is None else self.rtol
        atol = usual * np.max(size, initial=0.0) if self.atol is None else self.atol
        return np.asarray(atol + rtol * size)


@dataclass(frozen=True, slots=True)
class Difference:
    """The elementwise difference of two arrays.

    Attributes
    ----------
    total, count : int
        The numbers of all elements, and of those beyond the tolerance.
    largest : float
        The largest difference.
    ulp : float or None
        The largest difference in units of the last place of the largest element; None for integers.
    index, got, expected
        The first element beyond the tolerance.
    in_ulp : float or None
        Its difference in units of its own last place.
    """

    total: int
    count: int
    largest: float
    ulp: float | None
    index: tuple[int, ...] = ()
    got: Any = None
    expected: Any = None
    in_ulp: float | None = None

    @staticmethod
    def of(got: Array, expected: Array, tolerance: Tolerance, steps: int = 1) -> Difference:
        is_complex = got.dtype.kind == "c"
        dtype = from_numpy(got.real.dtype)
        assert dtype is not None
        widened: Any = np.longdouble if dtype.bits == 64 else np.float64
        if is_complex:
            widened = np.result_type(widened, np.complex64)
        with np.errstate(all="ignore"):
            x: Any = got.astype(widened)
            y: Any = expected.astype(widened)
            distance = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y))
            far = ~(distance <= tolerance.allowed(dtype, y, steps))
            in_ulp = distance / spacing(np.abs(y), dtype) if dtype.is_float else None
        largest = float(np.max(distance, initial=0.0))
        size = np.max(np.abs(y), initial=0.0, where=np.isfinite(y))
        ulp = None if in_ulp is None else float(largest / spacing(np.asarray(size), dtype))
        if not far.any():
            return Difference(got.size, 0, largest, ulp)
        index = tuple(map(int, np.argwhere(far)[0]))
        at = None if in_ulp is None else float(in_ulp[index])
        return Difference(got.size, int(far.sum()), largest, ulp, index, got[index], expected[index], at)


def ulp_text(ulp: float | None) -> str:
    return "" if ulp is None else f" ({ulp:.3g} ulp)"


def differs(function: str, loc: Loc | None, what: str, difference: Difference, message: str) -> ArrayDiffers:
    """Return the error for the first element beyond the tolerance."""
    return ArrayDiffers(
        loc,
        function=function,
        array=what,
        index=", ".join(map(str, difference.index)),
        got=f"{difference.got:.9g}",
        expected=f"{difference.expected:.9g}",
        ulp=ulp_text(difference.in_ulp),
        count=difference.count,
        total=difference.total,
        told=message,
    )
