"""How far a result may be from its float64 reference."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from pypto.testing.close import as_numpy, assert_close


class Tolerance(Protocol):
    """Says how a result differs too much from what is expected, or nothing."""

    def problem(self, actual: Any, expected: Any) -> str:
        """The text of the difference; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Close:
    """``|x - y| <= atol + rtol * |y|`` for every element; NaN is close to NaN.

    Examples
    --------
    >>> Close(0.0, 1.0).problem([1, 2], [1, 3])
    ''
    """

    rtol: float = 1e-5
    atol: float = 1e-5

    def problem(self, actual: Any, expected: Any) -> str:
        """The text of the difference; empty where there is none."""
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
    """As `Close`, but a small part of the elements may be four times as far off.

    For results behind numbers that were rounded to int8: one that is rounded the other way moves all that follow it.

    Examples
    --------
    >>> MostlyClose(0.0, 1.0, part=0.5).problem([1, 2, 3], [1, 2, 5])
    ''
    """

    rtol: float
    atol: float
    part: float = 1e-4

    def problem(self, actual: Any, expected: Any) -> str:
        """The text of the difference; empty where there is none."""
        found, right = (as_numpy(x).astype(np.float64) for x in (actual, expected))
        far = np.mean(np.abs(found - right) > self.atol + self.rtol * np.abs(right)) if found.size else 0.0
        times = 4 if far <= self.part else 1
        return Close(times * self.rtol, times * self.atol).problem(actual, expected)

    def __str__(self) -> str:
        return f"{Close(self.rtol, self.atol)}; {self.part:.2%} of the elements four times as far"


EXACT: Final = Close(0.0, 0.0)
INT8: Final = Close(0.0, 1.0)
BF16: Final = Close(7.8e-3, 5e-3)
SCALES: Final = Close(2.5e-5, 1e-9)
# By the dtype of a result, where its row says nothing.
TOLERANCES: Final = MappingProxyType(
    {
        "f32": Close(1e-5, 1e-5), "f64": Close(1e-12, 1e-12), "bf16": BF16, "f16": Close(1e-3, 1e-3), "i8": INT8,
        "i32": EXACT, "i64": EXACT, "u8": INT8,
    }
)  # fmt: skip
