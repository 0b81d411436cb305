"""What numpy refuses inside of a compiled loop is refused at its line, and the arguments stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import IndexOutside, IntegerOutside, NotTraced
from pypto.graph.tracing.launches import launch_of
from tests.graph.loop_programs import averaged
from tests.graph.test_loops import compare

Array = np.ndarray[Any, Any]


def gathered(x: Array, where: Array) -> Any:
    total = 0.0
    for i in range(where.size):
        total += x[where[i]]  # refused
    return total


def scattered(x: Array, where: Array) -> Array:
    for i in range(where.size):
        x[i % 3] += 1
        x[where[i]] += 1  # refused
    return x


def searched(x: Array) -> Any:
    i = 0
    while x[i] > 0:  # refused
        i += 1
    return i + np.int64(0)


def shifted(x: Array) -> Array:
    for i in range(x.size):
        x[i + 1] = x[i]  # refused
    return x


def picked(x: Array, where: Array) -> Array:
    for i in range(20):
        x[: where.size] = x[where] + i  # refused
    return x


def element(x: Array, i: int) -> Any:
    return x[i * 2]  # refused


def called(x: Array) -> Any:
    total = 0.0
    for i in range(x.size):
        total += element(x, i)
    return total


def numbered(x: Array) -> Array:
    for i in range(x.size):
        x[i] = i  # refused
    return x


def increased(x: Array) -> Array:
    for i in range(x.size):
        x[i] = x[i] + (i - 10)  # refused
    return x


def bytes_of(size: int) -> Array:
    return np.zeros(size, np.uint8)


WRONG: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "above": (gathered, (np.ones(50), np.arange(51)), "index 50 is out of bounds for axis 0 with size 50"),
    "below": (gathered, (np.ones(50), np.full(30, -51)), "index -51 is out of bounds for axis 0 with size 50"),
    "few iterations": (gathered, (np.ones(5), np.arange(6)), "index 5 is out of bounds"),
    "store": (scattered, (np.zeros(9), np.arange(24)), "index 9 is out of bounds"),
    "second axis": (lambda x: gathered(x[0], np.arange(40)), (np.ones((2, 39)),), "index 39 is out of bounds"),
    "while": (searched, (np.ones(40),), "index 40 is out of bounds"),
    "affine": (shifted, (np.ones(30),), "index 30 is out of bounds"),
    "array of indices": (picked, (np.arange(30.0), np.arange(26, 31)), "index 30 is out of bounds"),
    "negative indices": (picked, (np.arange(30.0), np.arange(-31, -25)), "index -31 is out of bounds"),
    "call": (called, (np.ones(30),), "index 30 is out of bounds"),
    "stored": (numbered, (bytes_of(300),), "Python integer 256 out of bounds for uint8"),
    "unsigned": (increased, (bytes_of(100),), "Python integer -10 out of bounds for uint8"),
    "signed": (increased, (np.zeros(300, np.int8),), "Python integer 128 out of bounds for int8"),
    "wide": (increased, (np.zeros(100, np.uint64),), "Python integer -10 out of bounds for uint64"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_numpy_refuses_is_refused_at_its_line(name: str) -> None:
    function, arguments, text = WRONG[name]
    with pytest.raises((IndexError, OverflowError), match=text) as of_numpy:
        function(*(x.copy() for x in arguments))
    fused = pto.fuse(function)
    for _ in range(2):
        given = [x.copy() for x in arguments]
        with pytest.raises((IndexOutside, IntegerOutside), match=text) as caught:
            fused(*given)
        assert isinstance(caught.value, of_numpy.type)
        with open(caught.value.loc.file, encoding="utf-8") as file:
            assert "# refused" in file.readlines()[caught.value.loc.line - 1]
        for array, old in zip(given, arguments, strict=True):
            np.testing.assert_array_equal(array, old)


def test_a_refused_call_does_not_disturb_the_next_one() -> None:
    fused = pto.fuse(scattered)
    good, wrong = np.arange(24) % 9 - 4, np.arange(24)
    for where in (good, wrong, good):
        if where is wrong:
            with pytest.raises(IndexOutside):
                fused(np.zeros(9), where)
        else:
            np.testing.assert_array_equal(fused(np.zeros(9), where), scattered(np.zeros(9), where))


def test_an_argument_is_written_only_after_all_checks_also_into_out() -> None:
    out = np.full(9, 7.0)
    with pytest.raises(IndexOutside):
        pto.fuse(scattered)(np.zeros(9), np.arange(24), out=out)
    np.testing.assert_array_equal(out, np.full(9, 7.0))


def under_conditions(x: Array) -> Any:
    count = 0
    for i in range(x.size):
        if i + 1 < x.size and x[i + 1] > x[i]:
            count += 1
        if i - 3 >= 0 and 0 < x[i - 3] < x[i] and (i < 5 or x[i - 5] < 0.5):
            count += 1
        x[i] = x[i + 1] if i + 1 < x.size else 0.0
        while count < x.size and x[count] > 0.8:
            count += 1
    return count, x


def wrapped(x: Array, where: Array) -> Array:
    for i in range(x.size):
        x[i - x.size] = x[i - 1] + x[-i] + x[where[i]]
    return x


def in_bounds(x: Array) -> Array:
    for i in range(x.size):
        x[i] = (i * 7) % 256
        x[i] ^= i & 15
    return x


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (under_conditions, (np.linspace(0, 1, 40) ** 2,)),
        (wrapped, (np.arange(30.0), np.arange(-30, 0))),
        (in_bounds, (bytes_of(300),)),
        (numbered, (bytes_of(256),)),
        (increased, (np.zeros(100, np.int8),)),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_what_python_does_not_evaluate_is_not_refused(function: Callable[..., Any], arguments: Any) -> None:
    assert f"launch of {function.__name__}_loop_" in str(compare(function, arguments))


@pytest.mark.parametrize("name", ["in_bounds", "averaged"])
def test_a_proven_index_costs_no_check(name: str) -> None:
    function, arguments = {"in_bounds": (in_bounds, (bytes_of(300),)), "averaged": (averaged, (np.ones(99), 0.5))}[name]
    plan = pto.fuse(function).plan(*arguments)
    (launch,) = filter(None, (launch_of(s.nodes[-1]) for s in plan.steps))
    assert not launch.may_raise


def rounded(x: Array, y: Array) -> Array:
    for i in range(x.size):
        x[i] = y[i] * 2
    return x


def added(x: Array, y: Array) -> Array:
    for _ in range(20):
        x[1:] += y[1:]
    return x


def test_floats_are_stored_in_integers_as_numpy_stores_them() -> None:
    compare(rounded, (np.zeros(20, np.int32), np.linspace(-3, 3, 20)))
    for dtype, other in ((np.int32, np.float64), (np.uint8, np.int64)):
        with pytest.raises(NotTraced, match="not cast to"):
            pto.fuse(added)(np.zeros(20, dtype), np.ones(20, other))
