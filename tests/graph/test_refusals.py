"""Refusals during a trace: none is hidden by the function's own handlers, and each is at the user's line."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import NeedsValue, NotTraced

X = np.array([1.0, 1.0, 3.0])
NUMBERS: dict[str, float] = {}
Function = Callable[[Any], Any]


def line_of(error: Any) -> int:
    line: int = error.loc.line
    return line


def condition_handled(x: Any) -> Any:
    try:
        if x > 0:
            return x
    except Exception:
        return x * 0
    return x * 3


def number_handled(x: Any) -> Any:
    try:
        return float(x[0]) * x
    except TypeError:
        return x * 0


def function_handled(x: Any) -> Any:
    try:
        return np.unique(x)
    except TypeError:
        return x * 0


@pytest.mark.parametrize(
    ("function", "kind"), [(condition_handled, NeedsValue), (number_handled, NeedsValue), (function_handled, NotTraced)]
)
def test_a_refusal_that_the_function_handles_is_raised(function: Function, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        pto.fuse(function)(X)
    assert line_of(caught.value) == function.__code__.co_firstlineno + 2


def test_numpys_own_errors_are_handled_as_in_numpy() -> None:
    def function(x: Any) -> Any:
        try:
            return x + np.ones(7)
        except ValueError:
            return x * 2

    np.testing.assert_array_equal(pto.fuse(function)(X), X * 2)


@pytest.mark.parametrize("function", [lambda x: {x[0]: 1}.get(x[1], 0) + x, lambda x: x * len(set(x))])
def test_a_number_that_is_hashed_needs_its_value(function: Function) -> None:
    with pytest.raises(NeedsValue, match="a hash needs the value"):
        pto.fuse(function)(X)


def test_an_array_has_no_hash() -> None:
    def function(x: Any) -> Any:
        try:
            return {x: 1}
        except TypeError:
            return x * 2

    np.testing.assert_array_equal(pto.fuse(function)(X), X * 2)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x: x * np.matrix([[1.0, 2.0, 3.0]]), "a matrix"),
        (lambda x: x * np.asmatrix([[1.0, 2.0, 3.0]]), "a matrix"),
        (lambda x: x + np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]), "a masked array"),
        (lambda x: np.maximum(np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]), x), "a masked array"),
        (lambda x: np.where(x > 1, x, np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False])), "a masked array"),
    ],
)
def test_subclasses_that_the_function_makes_are_named(function: Function, what: str) -> None:
    with pytest.raises(NotTraced, match=what) as caught:
        pto.fuse(function)(X)
    assert line_of(caught.value) == function.__code__.co_firstlineno


def test_errors_of_floats_that_are_asked_for_are_refused() -> None:
    def function(x: Any) -> Any:
        with np.errstate(divide="raise"):
            return 1 / x

    with pytest.raises(NotTraced, match=r"`np\.errstate\(divide='raise'\)`"):
        pto.fuse(function)(X)


def test_errors_of_floats_that_are_ignored_stay_so() -> None:
    def function(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return 1 / (x - 1)

    assert np.isinf(pto.fuse(function)(X)[0])


def test_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    (tmp_path / "x.txt").write_text("3")
    for function in (
        lambda x: x + np.load(path),
        lambda x: x + np.loadtxt(tmp_path / "x.txt"),
        lambda x: x + np.fromfile(path, np.uint8, 1),
        lambda x: x + float((tmp_path / "x.txt").read_text()),
    ):
        with pytest.raises(NotTraced, match="its value would be that of the first call") as caught:
            pto.fuse(function)(X)
        assert line_of(caught.value) == function.__code__.co_firstlineno


def test_rounding() -> None:
    np.testing.assert_array_equal(pto.fuse(lambda x: round(x[0] / 3, 1) + x)(X), 0.3 + X)
    with pytest.raises(NeedsValue, match="`round"):
        pto.fuse(lambda x: x * round(x[0]))(X)


def test_an_error_of_the_function_itself_shows_no_frame_of_ours() -> None:
    def function(x: Any) -> Any:
        return x + NUMBERS["scale"]

    with pytest.raises(KeyError) as caught:
        pto.fuse(function)(X)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files == [__file__, __file__]
