"""Where sources come from, where positions point, and what is captured."""

from __future__ import annotations

import ast
import linecache
import math
import textwrap
from pathlib import Path
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


def test_exec_with_linecache_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    file = "<a cell that no other test has>"
    text = "def kernel(n):\n    unknown\n"
    names: dict[str, Any] = {}
    exec(compile(text, file, "exec"), names)
    with pytest.raises(NoSource, match="cannot be had"):
        KernelSource.of(names["kernel"])
    monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
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


def defined(file: Any, text: str) -> Any:
    file.write_text(text)
    names: dict[str, Any] = {}
    exec(compile(text, str(file), "exec"), names)
    return names["kernel"]


def test_a_function_that_is_defined_again_is_the_new_one(tmp_path: Any) -> None:
    """Though the lines of its file were read before, as when a module is edited and loaded again."""
    file = tmp_path / "reloaded.py"
    for value in (1, 22):
        function = defined(file, f"def kernel(n):\n    return n * {value}\n")
        assert ast.unparse(KernelSource.of(function).node).endswith(f"n * {value}")


@pytest.mark.parametrize("text", ["def kernel(n):\n    return n * 3\n", "def kernel(n):\n    return m * 2\n",
    "def kernel(n):\n    return n * 2.0\n", "def kernel(n, k=5):\n    return n * 2 + k\n"])  # fmt: skip
def test_a_function_whose_file_was_edited_since_is_refused(tmp_path: Any, text: str) -> None:
    file = tmp_path / "edited.py"
    function = defined(file, "def kernel(n):\n    return n * 2\n")
    file.write_text(f"{text}# and more\n")
    with pytest.raises(NoSource, match="has changed since it was defined"):
        KernelSource.of(function)


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


FORMS = {
    "plain": "def f(x):\n    return x\n",
    "last line without an end": "def f(x):\n    return x",
    "signature over lines": "def f(\n    x,\n):\n    return x\n",
    "result over lines": "def f(x) -> dict[\n    str,\n    int,\n]:\n    return x\n",
    "comment at the margin": "def f(x):\n    y = x\n# a word\n    return y\n",
    "text at the margin": 'def f(x):\n    y = """\nz = 1\n"""\n    return y\n',
    "text at the margin in brackets": "def f(x):\n    y = (\nx\n)\n    return y\n",
    "continued at the margin": "def f(x):\n    y = \\\nx\n    return y\n",
    "empty lines": "def f(x):\n\n\n    y = x\n\n    return y\n\n\n",
    "in one line": "def f(x): return x\n",
    "tabs": "def f(x):\n\tif x:\n\t\tx = 1\n\treturn x\n",
    "decorated": "@same\n@same\ndef f(x):\n    return x\n",
    "decorated over lines": "@given(\n1,\n    f=2,\n)\ndef f(x):\n    return x\n",
    "decorated with a definition in text": '@given("""\ndef f(y): pass\n""")\ndef f(x):\n    return x\n',
    "indented": "if True:\n    def f(x):\n        return x\n",
    "lambda": "f = lambda x: x\n",
    "within a function": "def g():\n    def f(x):\n        return x\n    return f\nf = g()\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", ["", "def f(x):\n    return 7\n\n", "text = 'def f(x):'\n"])
@pytest.mark.parametrize("after", ["", "\n\ndef g(x):\n    return 8\n", "z = [\n1]\n"])
def test_a_function_is_found_with_its_positions(form: str, before: str, after: str, tmp_path: Path) -> None:
    text = before + FORMS[form] + ("\n" if after and not FORMS[form].endswith("\n") else "") + after
    file = str(tmp_path / "file.py")
    Path(file).write_text(text, encoding="utf-8")
    names: dict[str, Any] = {"same": lambda f: f, "given": lambda *_, **__: lambda f: f}
    exec(compile(text, file, "exec"), names)
    node = KernelSource.of(names["f"]).node
    kinds = (ast.FunctionDef, ast.Lambda)
    whole = [n for n in ast.walk(ast.parse(text)) if isinstance(n, kinds) and n.args.args and n.args.args[0].arg == "x"]
    assert ast.dump(node, include_attributes=True) in [ast.dump(n, include_attributes=True) for n in whole]
    assert names["f"].__code__.co_firstlineno in (node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ())))
