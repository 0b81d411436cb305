"""Functions of `libdevice` that round towards zero, down and up, judged in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from tests.conftest import ALL_LEVELS
from tests.ops.samples import assert_same
from tests.ops.test_math_libdevice import COUNT, DTYPES, run

Array = np.ndarray[Any, Any]
Sign = Callable[[Fraction], Any]  # whether a number is above what is exact (positive), below it, or equal (0)
MODES: Final = ("rn", "rz", "rd", "ru")


def minus(exact: Callable[..., Fraction]) -> Callable[..., Sign]:
    def compare(*xs: Fraction) -> Sign:
        value = exact(*xs)
        return lambda candidate: candidate - value

    return compare


def root(x: Fraction) -> Sign:
    return lambda candidate: candidate * candidate - x if candidate >= 0 else -1


ARITHMETIC: Final[dict[str, tuple[int, Callable[..., Any], Callable[..., Sign]]]] = {
    "add": (2, np.add, minus(lambda x, y: x + y)),
    "sub": (2, np.subtract, minus(lambda x, y: x - y)),
    "mul": (2, np.multiply, minus(lambda x, y: x * y)),
    "div": (2, np.divide, minus(lambda x, y: x / y)),
    "rcp": (1, lambda x: 1 / x, minus(lambda x: 1 / x)),
    "sqrt": (1, np.sqrt, root),
    "fma": (3, lambda x, y, z: (x.astype(np.float64) * y + z).astype(x.dtype), minus(lambda x, y, z: x * y + z)),
}


def beside(near: Any, mode: str, compare: Sign) -> Any:
    """The float that a mode rounds to: the nearest one or its neighbour."""
    dtype = type(near)
    over = math.inf * float(near) if np.isinf(near) else compare(Fraction(float(near)))
    if mode == "rz":
        mode = "rd" if near > 0 or (near == 0 and over < 0) else "ru"
    to = -math.inf if mode == "rd" and over > 0 else math.inf if mode == "ru" and over < 0 else near
    with np.errstate(all="ignore"):
        return np.nextafter(near, dtype(to))


def rounded(mode: str, near: Array, operands: list[Array], compare: Callable[..., Sign]) -> Array:
    """What is right: exactly rounded where all is finite, else the nearest."""
    right = near.copy()
    for i, xs in enumerate(zip(*operands, strict=True)):
        usual = all(map(np.isfinite, xs)) and not np.isnan(near[i])
        if usual and not (np.isinf(near[i]) and is_pole(xs, compare)):
            right[i] = beside(near[i], mode, compare(*(Fraction(float(x)) for x in xs)))
    return right


def is_pole(xs: tuple[Any, ...], compare: Callable[..., Sign]) -> bool:
    try:
        compare(*(Fraction(float(x)) for x in xs))
    except ZeroDivisionError:
        return True
    return False


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("level", ALL_LEVELS, indirect=True)
@pytest.mark.parametrize("code", ["f", "d"])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_directed_arithmetic(name: str, code: str, level: str) -> None:
    arity, nearest, compare = ARITHMETIC[name]
    if name == "fma" and code == "d":
        pytest.skip("fma of float64 is refused")
    names = [f"{name}_{mode}" for mode in MODES[1:]]
    arrays, results = run(names, code * arity, code, level)
    with np.errstate(all="ignore"):
        near = nearest(*arrays)
    for mode, found in zip(MODES[1:], results, strict=True):
        assert_same(found, rounded(mode, near, arrays, compare), f"{name}_{mode}", zeros=False)


@pytest.mark.parametrize(("name", "source", "result"), [
    *((f"{start}2float", code, "f") for start, code in (("int", "i"), ("uint", "u"), ("ll", "l"), ("ull", "m"))),
    ("ll2double", "l", "d"), ("ull2double", "m", "d"),
])  # fmt: skip
def test_integers_to_floats(name: str, source: str, result: str) -> None:
    (x,), results = run([f"{name}_{mode}" for mode in MODES], source, result)
    for mode, found in zip(MODES, results, strict=True):
        right = [beside(DTYPES[result](v), mode, exactly(int(v))) for v in x]
        assert_same(found, np.array(right, DTYPES[result]), f"{name}_{mode}")


def exactly(value: Any) -> Sign:
    return lambda candidate: candidate - value


def test_float64_to_float32() -> None:
    (x,), results = run([f"double2float_{mode}" for mode in MODES], "d", "f")
    with np.errstate(all="ignore"):
        near = x.astype(np.float32)
    for mode, found in zip(MODES, results, strict=True):
        assert_same(found, rounded(mode, near, [x], minus(lambda v: v)), f"double2float_{mode}", zeros=False)


@pytest.mark.parametrize("start", ["float", "double"])
@pytest.mark.parametrize(("kind", "low", "high", "result"), [
    ("int", -(2**31), 2**31 - 1, "i"), ("uint", 0, 2**32 - 1, "i"),
    ("ll", -(2**63), 2**63 - 1, "l"), ("ull", 0, 2**64 - 1, "l"),
])  # fmt: skip
def test_floats_to_integers(start: str, kind: str, low: int, high: int, result: str) -> None:
    (x,), results = run([f"{start}2{kind}_{mode}" for mode in MODES], start[0], result)
    assert len(x) == COUNT
    for mode, found in zip(MODES, results, strict=True):
        right = [0 if math.isnan(v) else integer(float(v), mode, low, high) for v in x]
        assert found.tolist() == wrapped(right, found), f"{start}2{kind}_{mode}"


def integer(x: float, mode: str, low: int, high: int) -> int:
    """Rounded, and limited to what the type holds."""
    if math.isinf(x):
        return high if x > 0 else low
    whole = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}[mode](x)
    return min(max(whole, low), high)


def wrapped(values: list[int], like: Array) -> list[int]:
    """Integers in the bits of a signed type."""
    bits = like.itemsize * 8
    return [(v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for v in values]
