"""print and breakpoint in kernels, and the three ways to choose the interpreter."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import OptionError
from pypto.options import Settings
from tests.conformance.processes import python


@pto.jit
def double(x, y):
    i = pto.program_id(0)
    t = x[i, :]
    print("row", i, "is", t)
    y[i, :] = t * 2


@pto.jit
def stops(x, y):
    t = x[0, :]
    total = pto.sum(t)
    breakpoint()
    y[0, :] = t * total


def arrays() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.array([[1, 2], [3, 4]], np.int32), np.zeros((2, 2), np.int32)


def is_compiled(kernel: Any) -> bool:
    return bool(kernel.specializations)


def test_print_in_the_interpreter(capsys: pytest.CaptureFixture[str]) -> None:
    pto.interpret(double)[2](*arrays())
    assert capsys.readouterr().out.splitlines() == [
        "program (0, 0, 0): row 0",
        "program (0, 0, 0): is [1 2]",
        "program (1, 0, 0): row 1",
        "program (1, 0, 0): is [3 4]",
    ]


def test_static_print_says_types_once(capsys: pytest.CaptureFixture[str]) -> None:
    @pto.jit
    def kernel(x, N: pto.constexpr):
        pto.static_print("x", x.ndim, N + 1, x[0, :])

    kernel[4](arrays()[0], 3)
    assert capsys.readouterr().out == "x 2 4 tile<2xi32>\n"


def test_breakpoint_hands_over_the_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def hook() -> None:
        frame = sys._getframe(1)
        seen.append(dict(frame.f_locals))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    x, y = arrays()
    pto.interpret(stops)[1](x, y)
    assert y.tolist() == [[3, 6], [0, 0]]
    assert len(seen) == 1 and seen[0]["program"] == (0, 0, 0)
    assert seen[0]["tiles"]["t"].tolist() == [1, 2]
    assert seen[0]["tiles"]["total"] == 3


def test_compiled_code_goes_on_at_breakpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "breakpointhook", lambda: pytest.fail("compiled code does not stop"))
    x, y = arrays()
    stops[1](x, y)
    assert y.tolist() == [[3, 6], [0, 0]]


def test_chosen_for_a_call() -> None:
    kernel = pto.jit(double.function)
    x, y = arrays()
    pto.interpret(kernel)[2](x, y)
    np.testing.assert_array_equal(y, 2 * x)
    assert not is_compiled(kernel)


def test_chosen_for_a_block(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = pto.jit(double.function)
    with pto.interpreter():
        kernel[1](*arrays())
        with pto.interpreter():
            pass
        kernel[1](*arrays())
    assert capsys.readouterr().out.count("row 0") == 2
    assert not is_compiled(kernel)
    kernel[1](*arrays())
    assert is_compiled(kernel)


def test_a_block_ends_with_an_error() -> None:
    kernel = pto.jit(double.function)
    with pytest.raises(ZeroDivisionError), pto.interpreter():
        raise ZeroDivisionError
    kernel[1](*arrays())
    assert is_compiled(kernel)


def test_a_block_is_of_its_own_thread() -> None:
    kernel = pto.jit(double.function)
    with pto.interpreter():
        other = threading.Thread(target=lambda: kernel[1](*arrays()))
        other.start()
        other.join()
    assert is_compiled(kernel)


def test_chosen_for_a_kernel() -> None:
    kernel = pto.jit(interpret=True)(double.function)
    kernel[1](*arrays())
    assert not is_compiled(kernel)


SCRIPT = """
import numpy as np
import pypto as pto

@pto.jit
def kernel(x):
    print("value", x[0])

kernel[1](np.ones(1, np.int8))
print("compiled", len(kernel.specializations))
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [(value, f"program (0, 0, 0): value 1\ncompiled {n}\n") for value, n in (("1", 0), ("0", 1), ("", 1))],
)
def test_chosen_by_the_environment(value: str, expected: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    assert python(script, PYPTO_INTERPRET=value) == expected


def test_an_environment_without_meaning_is_an_error() -> None:
    with pytest.raises(OptionError, match="PYPTO_INTERPRET='maybe' is neither on nor off; use 1 or 0"):
        Settings.from_env({"PYPTO_INTERPRET": "maybe"})


def test_the_interpreter_runs_programs_in_order() -> None:
    """Each program reads what the one before it wrote."""

    @pto.jit
    def kernel(x, out):
        i = pto.program_id(0) + 2 * pto.program_id(1) + 6 * pto.program_id(2)
        out[i] = x[i] + 1
        x[i + 1] = out[i]

    x, out = np.zeros(13, np.int32), np.zeros(12, np.int32)
    pto.interpret(kernel)[2, 3, 2](x, out)
    assert out.tolist() == list(range(1, 13))
