"""The files at the root, and the page of settings: complete, and as the package has it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import pypto as pto
from docs import settings
from pypto.options import INTERNAL, KernelOptions, Settings
from tests.house.measure import ROOT, python_files

TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")}


def test_the_page_of_settings() -> None:
    text = settings.PAGE.read_text(encoding="utf-8")
    assert text == settings.page(), "run `make docs`"
    for row in fields(Settings):
        assert f"| `{row.metadata['env']}` |" in text
    for row in fields(KernelOptions):
        assert (f"| `{row.name}` |" in text) == (row.name not in INTERNAL)


def test_every_variable_that_is_asked_for_is_on_the_page() -> None:
    """Outside of `pypto.options`, whose table is the page, and of what stands in for Triton's own settings."""
    left_out = (
        "pypto/options.py",
        "pypto/compat/triton/knobs.py",
        "pypto/compat/triton/testing_helpers/internal_testing.py",
    )
    files = [path for path in python_files("pypto") if path.relative_to(ROOT).as_posix() not in left_out]
    asked = {name for path in files for name in variables(path)}
    for path in (ROOT / "runtime").rglob("*.cpp"):
        asked |= set(re.findall(r'getenv\("(\w+)"\)', path.read_text(encoding="utf-8")))
    for path in (ROOT / "runtime").rglob("*.py"):
        asked |= variables(path)
    asked -= {"PROCESSOR_ARCHITECTURE"}  # Windows' own
    assert {"CC", "ASCSIM_SEED", "CI"} <= asked <= settings.OTHERS.keys()


def variables(path: Path) -> set[str]:
    """Names that a file asks the environment for."""
    text = path.read_text(encoding="utf-8")
    nodes = ast.walk(ast.parse(text)) if "environ" in text else ()
    return {name for node in nodes for name in asked_by(node)}


def asked_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Attribute(value=environ, attr="get"), args=[ast.Constant(value=str(name)), *_]):
            yield from [name] if ast.unparse(environ) == "os.environ" else []
        case ast.Subscript(value=environ, slice=ast.Constant(value=str(name)), ctx=ast.Load()):
            yield from [name] if ast.unparse(environ) == "os.environ" else []


def test_variables_of_the_toolkit_are_on_the_page() -> None:
    from pypto.backends.ascend.toolchain.toolchain import VARIABLES

    assert set(VARIABLES) <= settings.OTHERS.keys()


def test_the_readme_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = TEXTS["README.md"].split("### Extras")[1].split("\n**")[0]
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))) == set(
        project["optional-dependencies"]
    )


def test_the_citation_is_of_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    found = dict(re.findall(r"^([\w-]+): (\S.*)$", text, re.MULTILINE))
    assert (found["cff-version"], found["version"], found["license"]) == ("1.2.0", pto.__version__, "Apache-2.0")
    assert "  - name: The PyPTO authors" in text


@pytest.mark.parametrize("name", TEXTS)
def test_no_address_is_invented(name: str) -> None:
    assert not re.search(r"[\w.+-]@\w+\.\w+", TEXTS[name])


def test_where_vulnerabilities_are_reported() -> None:
    text = " ".join(TEXTS["SECURITY.md"].split())
    assert "private vulnerability reporting" in text
    assert "Who can write the disk cache can run code as you" in text
    assert "SECURITY.md" in TEXTS["README.md"] and "SECURITY.md" in TEXTS["CONTRIBUTING.md"]
