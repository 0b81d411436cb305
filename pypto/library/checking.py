"""A row against its float64 reference: in the interpreter, on the CPU, or on a simulated Ascend device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.backends.registry import HOST, plugin_of
from pypto.devices import device
from pypto.errors.library import ReferenceDiffers
from pypto.ir.types import DType
from pypto.process import interpreter
from pypto.runtime.arrays import array_info

if TYPE_CHECKING:
    from pypto.library.row import Implementation, Operator

INTERPRETER: Final = "interpreter"
PLATFORMS: Final = (INTERPRETER, HOST, "ascend-sim")


@dataclass(frozen=True, slots=True)
class Checked:
    """A case that was compared, with the largest difference of each result."""

    operator: str
    platform: str
    version: str
    case: str
    dtype: str
    errors: dict[str, float]


def on(platform: str) -> AbstractContextManager[Any]:
    """Launches run there: ``"interpreter"``, or a device by its name."""
    if platform == INTERPRETER:
        return interpreter()
    found: AbstractContextManager[Any] = device(platform)
    return found


def check(
    row: Operator, platform: str = HOST, case: str = "", dtype: str = "", version: str = "", seed: int = 0
) -> list[Checked]:
    """Compare a row with its reference.

    Parameters
    ----------
    row : Operator
    platform : str
        ``"interpreter"``, ``"cpu"``, ``"ascend-sim"`` or another device.
    case : str
        A size or an edge case; without, the small size and all edge cases.
    dtype : str
        Of the first array; without, all that the signature allows. Edge cases have their own.
    version : str
        An implementation; without, all that run there.
    seed : int
        Of the random arguments.

    Raises
    ------
    ReferenceDiffers
        At the first result that is not within its tolerance.
    """
    return [
        check_case(row, platform, implementation.version, name, first, seed)
        for name in ((case,) if case else row.cases)
        for first in dtypes_of(row, name)
        if dtype in ("", first) or not first
        for implementation in fitting(row, platform, first, version)
    ]


def dtypes_of(row: Operator, case: str) -> tuple[str, ...]:
    """The dtypes that a case is run with; an edge case has its own."""
    return ("",) if case in row.edges else tuple(map(str, row.signature.main_dtypes))


def fitting(row: Operator, platform: str, dtype: str, version: str) -> Iterator[Implementation]:
    """Implementations that run on a platform and dtype."""
    plugin = plugin_of(HOST if platform == INTERPRETER else platform)
    first = DType(dtype) if dtype else row.signature.main_dtypes[0]
    for found in row.implementations:
        if found.fits(plugin, first) and version in ("", found.version):
            yield found


def check_case(row: Operator, platform: str, version: str, case: str, dtype: str, seed: int) -> Checked:
    """Compare one case."""
    values = row.sample(np.random.default_rng(seed), case, dtype)
    expected = row.expected(values)
    with on(platform):
        actual = row.results(values, version)
    errors = {}
    for name, right in expected.items():
        info = array_info(actual[name], row.name, name)
        problem = row.tolerance_of(name, info.dtype).problem(actual[name], right) if info else "it is no array"
        if problem:
            raise ReferenceDiffers(
                operator=row.name, platform=platform, case=f"{case} {dtype}".strip(), output=name,
                difference=problem, version=version,
            )  # fmt: skip
        errors[name] = largest(actual[name], right)
    return Checked(row.name, platform, version, case, dtype, errors)


def largest(actual: Any, expected: Any) -> float:
    """The largest absolute difference of finite elements."""
    found, right = np.asarray(actual).astype(np.float64), np.asarray(expected, np.float64)
    finite = np.isfinite(found) & np.isfinite(right)
    return float(np.max(np.abs(found[finite] - right[finite]), initial=0.0))
