"""Tolerances: how far a result may differ from its float64 reference."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from pypto.testing.close import as_numpy, assert_close


class Tolerance(Protocol):
    """Describes the difference of a result from what is expected, if it is too large."""

    def problem(self, actual: Any, expected: Any) -> str:
        """Describes the difference; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Close:
    """Tolerance ``|x - y| <= atol + rtol * |y|`` for every element; NaN is close to NaN.

    Examples
    --------
    >>> Close(0.0, 1.0).problem([1, 2], [1, 3])
    ''
    """

    rtol: float = 1e-5
    atol: float = 1e-5

    def problem(self, actual: Any, expected: Any) -> str:
        """Describes the difference; empty if there is none."""
        try:
            assert_close(actual, expected, self.atol, self.rtol)
        except AssertionError as error:
            return str(error)
        return ""

    def __str__(self) -> str:
        if self.rtol == self.atol == 0:
            return "equal"
        return f"rtol {self.rtol:g}, atol {self.atol:g}"


@dataclass(frozen=True, slots=True)
class MostlyClose:
    """Tolerance like `Close`, but a small fraction of the elements may differ by four times as much.

    It suits results that depend on int8 rounding: a number that is rounded the other way changes everything after it.

    Examples
    --------
    >>> MostlyClose(0.0, 1.0, part=0.5).problem([1, 2, 3], [1, 2, 5])
    ''
    """

    rtol: float
    atol: float
    part: float = 1e-4

    def problem(self, actual: Any, expected: Any) -> str:
        """Describes the difference; empty if there is none."""
        got, right = (as_numpy(x).astype(np.float64) for x in (actual, expected))
        far = np.mean(np.abs(got - right) > self.atol + self.rtol * np.abs(right)) if got.size else 0.0
        times = 4 if far <= self.part else 1
        return Close(times * self.rtol, times * self.atol).problem(actual, expected)

    def __str__(self) -> str:
        return f"{Close(self.rtol, self.atol)}; {self.part:.2%} of the elements four times as far"


EXACT: Final = Close(0.0, 0.0)
INT8: Final = Close(0.0, 1.0)
BF16: Final = Close(7.8e-3, 5e-3)
SCALES: Final = Close(2.5e-5, 1e-9)
# Default tolerance of a result, by its dtype.
TOLERANCES: Final = MappingProxyType(
    {
        "f32": Close(1e-5, 1e-5), "f64": Close(1e-12, 1e-12), "bf16": BF16, "f16": Close(1e-3, 1e-3), "i8": INT8,
        "i32": EXACT, "i64": EXACT, "u8": INT8,
    }
)  # fmt: skip
