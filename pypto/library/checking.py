"""A row against its float64 reference: in the interpreter, on the CPU, or on a simulated Ascend device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.backends.registry import HOST, plugin_of
from pypto.devices import device
from pypto.errors.library import ReferenceDiffers
from pypto.ir.types import DType
from pypto.library.items import sample_items
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
    row: Operator, platform: str = HOST, case: str = "", dtype: str = "", version: str = "", seed: int = 0,
    items: int = 0,
) -> list[Checked]:  # fmt: skip
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
    items : int
        How many items of the results are compared, of a row whose items are independent (`Operator.items`): the
        kernels compute all of them, the reference only these. 0, all items.

    Raises
    ------
    ReferenceDiffers
        At the first result that is not within its tolerance.
    NoSuchCase, OperandDtype, NoImplementation
        Where there is no such case, dtype or version.
    """
    if dtype:
        dtype = str(row.first_dtype(dtype))
    if version:
        row.implementation(plugin_of(HOST if platform == INTERPRETER else platform), row.first_dtype(dtype), version)
    return [
        one
        for name in ((case,) if case else row.cases)
        for first in dtypes_of(row, name)
        if dtype in ("", first) or not first
        for one in check_case(row, platform, version, name, first, seed, items)
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


def check_case(  # what names a case
    row: Operator, platform: str, version: str, case: str, dtype: str, seed: int, items: int
) -> Iterator[Checked]:
    """Compare all versions, or one, in one case."""
    found = [implementation.version for implementation in fitting(row, platform, dtype, version)]
    if not found:
        return
    rng = np.random.default_rng(seed)
    values = row.sample(rng, case, dtype)
    sample = sample_items(row, values, items, rng)
    expected = row.expected(sample.of(row.signature.inputs, values) if sample else values)
    for one in found:
        with on(platform):
            actual = row.results(values, one)
        if sample:
            actual = sample.of((*row.signature.outputs, *row.signature.inputs), actual)
        yield compared(Checked(row.name, platform, one, case, dtype, {}), row, actual, expected)


def compared(case: Checked, row: Operator, actual: Mapping[str, Any], expected: Mapping[str, Any]) -> Checked:
    """A case with the largest difference of each result; an error where one is not within its tolerance."""
    errors = {}
    for name, right in expected.items():
        info = array_info(actual[name], row.name, name)
        problem = row.tolerance_of(name, info.dtype).problem(actual[name], right) if info else "it is no array"
        if problem:
            raise ReferenceDiffers(
                operator=row.name, platform=case.platform, case=f"{case.case} {case.dtype}".strip(), output=name,
                difference=problem, version=case.version,
            )  # fmt: skip
        errors[name] = largest(actual[name], right)
    return replace(case, errors=errors)


def largest(actual: Any, expected: Any) -> float:
    """The largest absolute difference of finite elements."""
    found, right = np.asarray(actual).astype(np.float64), np.asarray(expected, np.float64)
    finite = np.isfinite(found) & np.isfinite(right)
    return float(np.max(np.abs(found[finite] - right[finite]), initial=0.0))
