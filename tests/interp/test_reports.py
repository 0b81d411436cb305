"""What the interpreter says of accesses that are wrong: the exact text, with line, array, index and program."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import PyptoError
from pypto.errors.interp import KernelAssertion, OutOfBounds, UninitializedRead, WildPointer, WriteRace, ZeroStep
from pypto.interp.memory import index_text
from pypto.runtime.arrays import array_info
from tests.conformance.sources import define


def kernel(body: str, args: str = "x, y, n", uninitialized: tuple[str, ...] = (), helper: str = "") -> Any:
    lines = [helper, f"def kernel({args}):", *(f"    {line}" for line in body.splitlines())]
    return pto.interpret(define("\n".join([*filter(None, lines), ""])), uninitialized)


def report(kind: type[Exception], run: Any, *args: Any, grid: Any = 1) -> str:
    """Text of the error, with a fixed name for the file."""
    with pytest.raises(kind) as caught:
        run[grid](*args)
    return re.sub(r"<generated \w+>", "kernel.py", str(caught.value))


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_load_beyond_the_end() -> None:
    run = kernel("offs = pto.program_id(0) * 4 + pto.arange(0, 4)\npto.store(y + offs, pto.load(x + offs))")
    assert report(OutOfBounds, run, floats(10), floats(12), 10, grid=3) == (
        "[E401] load out of bounds: x[10] in program (2, 0, 0); the shape is (10,)\n"
        "  --> kernel.py:3:25, in kernel\n"
        "  3 |     pto.store(y + offs, pto.load(x + offs))\n"
        "    |                         ^^^^^^^^^^^^^^^^^^\n"
        "  help: mask the access, for instance `mask=offsets < n`, or slice the array, which clips by itself"
    )


def test_store_before_the_beginning() -> None:
    run, y = kernel("pto.store(y + pto.arange(0, 4) - n, 1.0)"), floats(3, 5)
    assert report(OutOfBounds, run, y, y, 2).splitlines()[:2] == [
        "[E401] store out of bounds: y[-1, 3] in program (0, 0, 0); the shape is (3, 5)",
        "  --> kernel.py:2:5, in kernel",
    ]
    np.testing.assert_array_equal(y, floats(3, 5), err_msg="a store is checked before it is made")


def test_the_first_wrong_index_is_named() -> None:
    run = kernel("y[0] = pto.sum(pto.load(x + pto.arange(0, 4) * n, mask=pto.arange(0, 4) != 1))")
    assert "load out of bounds: x[3, 2] in" in report(OutOfBounds, run, floats(3, 4), floats(1), 7)


def test_masked_lanes_touch_nothing() -> None:
    body = "o = pto.arange(0, 8)\npto.store(y + o, pto.load(x + o, mask=o < n, other=-1.0), mask=o < 6)"
    run, y = kernel(body), floats(6)
    run[1](floats(3), y, 3)
    assert y.tolist() == [0, 1, 2, -1, -1, -1]


def test_slices_clip_and_pad() -> None:
    """What of a slice lies beyond an edge does not exist, so there is nothing to report. A row is a slice, too."""
    run, y = kernel("i = n - 2\ny[i : i + 4] = x[i : i + 4] + 1"), np.zeros(10, np.float32)
    run[1](floats(10), y, 0)
    assert y.tolist() == [1, 2, *[0] * 8]
    run[1](floats(10), y, 10)
    assert y.tolist() == [1, 2, *[0] * 6, 9, 10]
    rows, out = kernel("y[:] = x[n, :]"), floats(3)
    rows[1](floats(2, 3), out, 2)
    assert out.tolist() == [0, 0, 0]


def test_a_pointer_of_no_array() -> None:
    run = kernel("far = n\nfor _ in range(60):\n    far = far * 2\ny[0] = pto.load(x + far)")
    assert report(WildPointer, run, floats(4), floats(4), np.int64(1)).splitlines()[0] == (
        "[E402] load through a pointer that belongs to no argument, in program (0, 0, 0)"
    )


def test_inlined_functions_name_their_call() -> None:
    run = kernel("y[0] = read(x, n)", helper="def read(p, at):\n    return pto.load(p + at)\n")
    assert report(OutOfBounds, run, floats(4), floats(4), 4).splitlines()[1:5] == [
        "  --> kernel.py:2:12, in read",
        "  2 |     return pto.load(p + at)",
        "    |            ^^^^^^^^^^^^^^^^",
        "  called from kernel.py:5:12, in kernel",
    ]


def test_read_before_written() -> None:
    body = "pto.store(y + pto.arange(0, n), 1.0)\nx[0] = pto.sum(pto.load(y + pto.arange(0, 5)))"
    run = kernel(body, "x, y, n: pto.constexpr", ("y",))
    assert report(UninitializedRead, run, floats(1), floats(2, 4), 3) == (
        "[E403] read before written: y[0, 3] in program (0, 0, 0)\n"
        "  --> kernel.py:3:20, in kernel\n"
        "  3 |     x[0] = pto.sum(pto.load(y + pto.arange(0, 5)))\n"
        "    |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  help: the array was declared uninitialized; write the element first, or "
        "initialise the array before the launch"
    )


def test_native_read_before_written() -> None:
    run = kernel("y[0, 0:2] = x[0:2]\nx[0:2] = y[pto.program_id(0), 1:3]", uninitialized=("y",))
    text = report(UninitializedRead, run, floats(2), floats(2, 3), 0)
    assert text.splitlines()[:2] == [
        "[E403] read before written: y[0, 2] in program (0, 0, 0)",
        "  --> kernel.py:3:14, in kernel",
    ]


def test_written_elements_may_be_read() -> None:
    run, x = kernel("y[:] = x[:] * 2\nx[:] = y[:] + 1", uninitialized=("y",)), floats(5)
    run[1](x, floats(5), 0)
    assert x.tolist() == [1, 3, 5, 7, 9]


def test_two_programs_write_one_element() -> None:
    run = kernel("i, j = pto.program_id(0), pto.program_id(1)\ny[i * j + 1, 0] = 1.0")
    assert report(WriteRace, run, floats(1), floats(9, 2), 0, grid=(2, 3)) == (
        "[E404] two programs write one element: y[1, 0], program (0, 0, 0) and program (1, 0, 0)\n"
        "  --> kernel.py:3:5, in kernel\n"
        "  3 |     y[i * j + 1, 0] = 1.0\n"
        "    |     ^^^^^^^^^^^^^^^\n"
        "  help: programs run in any order: give each program elements of its own"
    )


def test_pointer_style_race_in_a_grid_of_three_axes() -> None:
    run = kernel("k = pto.program_id(2)\npto.store(y + k // 2 * 4 + pto.arange(0, 4), 1.0)")
    first = report(WriteRace, run, floats(1), floats(8), 0, grid=(1, 1, 4)).splitlines()[0]
    assert first == "[E404] two programs write one element: y[0], program (0, 0, 0) and program (0, 0, 1)"


def test_one_program_may_write_twice() -> None:
    run, y = kernel("i = pto.program_id(0)\ny[i] = 1.0\ny[i] = 2.0"), floats(4)
    run[4](floats(1), y, 0)
    run[4](floats(1), y, 0)
    assert y.tolist() == [2, 2, 2, 2]


def test_races_between_views_of_one_array() -> None:
    """Arguments that overlap are told apart; each has its own record."""
    memory = floats(8)
    run = kernel("if pto.program_id(0) == 0:\n    x[1] = 5.0\nelse:\n    y[3] = 6.0")
    run[2](memory, memory[4:], 0)
    assert memory[[1, 7]].tolist() == [5, 6]


def test_assertions() -> None:
    run = kernel("assert n > pto.program_id(0), f'at most {3 + 4}'")
    run[2](floats(1), floats(1), 2)
    assert report(KernelAssertion, run, floats(1), floats(1), 2, grid=4).splitlines()[:2] == [
        "[E405] assertion failed in program (2, 0, 0): at most 7",
        "  --> kernel.py:2:5, in kernel",
    ]


def test_a_step_of_zero() -> None:
    run = kernel("for i in range(0, 5, n):\n    y[i] = 1.0")
    assert report(ZeroStep, run, floats(1), floats(5), 0).splitlines()[:2] == [
        "[E406] the step of a range is 0 in program (0, 0, 0)",
        "  --> kernel.py:2:14, in kernel",
    ]


@pytest.mark.parametrize(
    ("kind", "base"),
    [(OutOfBounds, IndexError), (WildPointer, IndexError), (KernelAssertion, AssertionError), (ZeroStep, ValueError)],
)
def test_errors_are_what_python_calls_them(kind: type[Exception], base: type[Exception]) -> None:
    assert issubclass(kind, base) and issubclass(kind, PyptoError)


@pytest.mark.parametrize(("distance", "index"), [(4, "2"), (5, "5"), (-2, "-1")])
def test_a_place_between_elements_is_told_flat(distance: int, index: str) -> None:
    info = array_info(floats(8)[::2], "kernel", "x")
    assert info is not None and index_text(info, distance) == index
