"""Where sources come from, where positions point, and what is captured."""

from __future__ import annotations

import linecache
import math
import textwrap
from typing import Any

import pytest

import pypto.language as pto
from pypto.errors import Diagnostic
from pypto.errors.frontend import NoSource, UndefinedName
from pypto.frontend import ConstSpec, KernelSource
from pypto.ir.types import ArrayType, scalar
from tests.frontend.evaluate import built

ARRAY = ArrayType(pto.float32, 1)
SCALE = 3.0


def position(function: Any, **args: Any) -> tuple[int, int, int]:
    """Line and columns of the error that a kernel has."""
    with pytest.raises(Diagnostic) as caught:
        built(function, **args)
    loc = caught.value.loc
    assert loc is not None
    return loc.line - function.__code__.co_firstlineno, loc.col, loc.end_col


def test_positions_in_an_indented_function() -> None:
    def kernel(x):
        """A text
            of two lines, one of them not indented:
        here."""
        x[0] = unknown  # noqa: F821

    assert position(kernel, x=ARRAY) == (4, 15, 22)


def test_columns_count_characters() -> None:
    def kernel(x):
        x[0] = len("äöü€") + unknown  # noqa: F821

    assert position(kernel, x=ARRAY) == (1, 29, 36)


def test_a_library_function_points_at_its_call() -> None:
    def kernel(x, n):
        x[0:4] = pto.zeros((n,), pto.float32)

    assert position(kernel, x=ARRAY, n=1)[:2] == (1, 17)


def helper(x):
    return x + unknown  # noqa: F821


def test_an_inlined_function_names_its_call_site() -> None:
    def kernel(n):
        helper(n)

    with pytest.raises(UndefinedName) as caught:
        built(kernel, n=1)
    loc = caught.value.loc
    assert loc is not None and loc.function == "helper"
    assert loc.call_site is not None and loc.call_site.function == "kernel"


def test_every_op_has_a_place() -> None:
    def kernel(x, n):
        for i in range(n):
            x[i] = i if n > 2 else 0

    function = built(kernel, x=ARRAY, n=1).function
    assert all(op.loc.file == __file__ for op in function.walk())


def test_lambdas_on_one_line_are_told_apart() -> None:
    first, second = (lambda v: v + 1), (lambda v: v * unknown)  # noqa: F821

    def kernel(x, n):
        x[0] = first(n)

    def broken(x, n):
        x[0] = second(n)

    assert built(kernel, x=ARRAY, n=1).function.name == "kernel"
    with pytest.raises(UndefinedName):
        built(broken, x=ARRAY, n=1)


def test_exec_with_linecache_and_without() -> None:
    text = "def kernel(n):\n    unknown\n"
    names: dict[str, Any] = {}
    exec(compile(text, "<cell 1>", "exec"), names)
    with pytest.raises(NoSource, match="cannot be had"):
        KernelSource.of(names["kernel"])
    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(keepends=True), "<cell 1>")
    assert position(names["kernel"], n=1) == (1, 4, 11)


@pytest.mark.parametrize("thing", [math.sqrt, int, 3, math])
def test_what_is_no_function_says_so(thing: Any) -> None:
    with pytest.raises(NoSource, match="it is no Python function"):
        KernelSource.of(thing)


def test_a_changed_file_is_noticed(tmp_path: Any) -> None:
    file = tmp_path / "changing.py"
    file.write_text("def kernel(n):\n    pass\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    file.write_text(
        textwrap.dedent("""
        import os


        def other(n):
            pass
        """)
    )
    linecache.checkcache(str(file))
    with pytest.raises(NoSource, match="has changed"):
        KernelSource.of(names["kernel"])


def test_captures_are_what_was_read() -> None:
    local = 2

    def kernel(x, n):
        x[0] = n * SCALE + local + math.pi

    captures = {c.name: c for c in built(kernel, x=ARRAY, n=1).captures}
    assert {name: c.value for name, c in captures.items()} == {"SCALE": SCALE, "local": 2, "math": math, "pi": math.pi}
    assert all(c.read() is c.value for c in captures.values())
    local = 5
    assert captures["local"].read() == 5


def test_a_kernel_is_read_once() -> None:
    def kernel(n):
        pass

    assert KernelSource.of(kernel).node is KernelSource.of(kernel).node


def test_arguments_keep_their_names_and_order() -> None:
    def kernel(x, size: pto.constexpr, n):
        x[0] = n + size

    function = built(kernel, x=ARRAY, size=ConstSpec(7), n=scalar(pto.int64)).function
    assert [(a.hint, str(a.type)) for a in function.args] == [("x", "array<f32, 1>"), ("n", "i64")]
