"""Examples in public docstrings run, and every public name has a docstring."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from importlib.util import find_spec
from typing import Any

import pytest

import pypto as pto
from tests.conformance.processes import ROOT

QUANT_WITH_TORCH = ("attention", "deployed", "linear", "calibration")
NEED_TORCH = ("pypto.torch.", *(f"pypto.quant.torch_modules.{name}" for name in QUANT_WITH_TORCH))
WITHOUT = () if find_spec("torch") else NEED_TORCH  # begins names of modules that need what is not installed
MODULES = sorted(m.name for m in pkgutil.walk_packages(pto.__path__, "pypto.") if not m.name.startswith(WITHOUT))
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PUBLIC = sorted(pto.__all__)


def examples(module: Any) -> list[doctest.DocTest]:
    """Doctests of what a module itself defines, with its globals and `pto`."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for test in finder.find(module, extraglobs={"pto": pto}) if test.examples]


def with_torch(test: doctest.DocTest) -> Any:
    """A test of a module that needs torch runs where torch is."""
    marks = [pytest.mark.torch] if test.name.startswith(NEED_TORCH) else []
    return pytest.param(test, id=test.name, marks=marks)


FOUND = [test for name in MODULES for test in examples(importlib.import_module(name))]


@pytest.mark.parametrize("test", [with_torch(test) for test in FOUND])
def test_docstring(test: doctest.DocTest) -> None:
    output: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    result = runner.run(test, out=output.append, clear_globs=False)
    assert result.attempted > 0
    assert result.failed == 0, "".join(output)


def test_there_are_examples() -> None:
    assert {"pypto.jit.kernel.Kernel", "pypto.loc.Loc", "pypto.language.standard.cdiv"} <= {test.name for test in FOUND}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name: str) -> None:
    value = getattr(pto, name)
    if type(value).__name__ == "DType":
        assert getattr(pto, repr(value).removeprefix("pto.")) is value  # some have Triton's name, too
        return
    first = (inspect.getdoc(value) or "").split("\n\n")[0]
    assert len(first.split()) >= 2, "a sentence says what it is"
    assert first.endswith((".", ")"))


@pytest.mark.parametrize("target", ["ARCHITECTURE.md", "LICENSE", "CHANGELOG.md", "tutorials", "Makefile"])
def test_readme_names_what_exists(target: str) -> None:
    assert (ROOT / target).exists()
