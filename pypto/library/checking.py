"""Checks a row against its float64 reference: in the interpreter, on the CPU, or on a simulated Ascend device."""

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
    """Runs launches on a platform: ``"interpreter"``, or a device by its name."""
    if platform == INTERPRETER:
        return interpreter()
    context: AbstractContextManager[Any] = device(platform)
    return context


def check(
    row: Operator, platform: str = HOST, case: str = "", dtype: str = "", version: str = "", seed: int = 0,
    items: int = 0,
) -> list[Checked]:  # fmt: skip
    """Compares a row with its reference.

    Parameters
    ----------
    row : Operator
    platform : str
        ``"interpreter"``, ``"cpu"``, ``"ascend-sim"`` or another device.
    case : str
        A size or an edge case. By default, the small size and all edge cases are compared.
    dtype : str
        The dtype of the first array; by default, each that the signature allows. Edge cases have their own.
    version : str
        The version of an implementation; by default, all that run on the platform.
    seed : int
        The seed of the random arguments.
    items : int
        The number of items that are compared, for a row with independent items (`Operator.items`). The kernels
        compute all items, and the reference only these. With 0, all items are compared.

    Raises
    ------
    ReferenceDiffers
        If a result is not within its tolerance.
    NoSuchCase, OperandDtype, NoImplementation
        If there is no such case, dtype or version.
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
    """Returns the dtypes with which a case runs; an edge case defines its own."""
    return ("",) if case in row.edges else tuple(map(str, row.signature.main_dtypes))


def fitting(row: Operator, platform: str, dtype: str, version: str) -> Iterator[Implementation]:
    """Yields the implementations that run on a platform with a dtype."""
    plugin = plugin_of(HOST if platform == INTERPRETER else platform)
    first = DType(dtype) if dtype else row.signature.main_dtypes[0]
    for implementation in row.implementations:
        if implementation.fits(plugin, first) and version in ("", implementation.version):
            yield implementation


def check_case(  # arguments that identify a case
    row: Operator, platform: str, version: str, case: str, dtype: str, seed: int, items: int
) -> Iterator[Checked]:
    """Compares one case, with all versions or one."""
    versions = [implementation.version for implementation in fitting(row, platform, dtype, version)]
    if not versions:
        return
    rng = np.random.default_rng(seed)
    values = row.sample(rng, case, dtype)
    sample = sample_items(row, values, items, rng)
    expected = row.expected(sample.of(row.signature.inputs, values) if sample else values)
    for one in versions:
        with on(platform):
            actual = row.results(values, one)
        if sample:
            actual = sample.of((*row.signature.outputs, *row.signature.inputs), actual)
        yield compared(Checked(row.name, platform, one, case, dtype, {}), row, actual, expected)


def compared(case: Checked, row: Operator, actual: Mapping[str, Any], expected: Mapping[str, Any]) -> Checked:
    """Returns a case with the largest difference of each result; raises an error if one exceeds its tolerance."""
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
    """Returns the largest absolute difference of finite elements."""
    got, right = np.asarray(actual).astype(np.float64), np.asarray(expected, np.float64)
    finite = np.isfinite(got) & np.isfinite(right)
    return float(np.max(np.abs(got[finite] - right[finite]), initial=0.0))
