"""A backend is one folder: nothing outside of it imports it, or compares a name with its name."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from pypto.backends import registry
from pypto.compile import compiler_hash, hash_of_sources, session
from pypto.options import KernelOptions
from tests.house.measure import ROOT, imports, module_name, python_files, relative, syntax

FOLDERS = ("cpu", "ascend")
INSIDE = tuple(f"pypto/backends/{name}/" for name in FOLDERS)
MODULES = frozenset(module_name(path) for path in python_files("pypto"))


def comparisons(tree: ast.Module) -> Iterator[str]:
    """Constants that a file compares something with, or matches it against."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.match_case):
            sides = (node.left, *node.comparators) if isinstance(node, ast.Compare) else (node.pattern,)
            found = (inner for side in sides for inner in ast.walk(side))
            yield from (x.value for x in found if isinstance(x, ast.Constant) and isinstance(x.value, str))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("startswith", "endswith"):
            yield from (x.value for x in node.args if isinstance(x, ast.Constant) and isinstance(x.value, str))


def test_nothing_knows_a_backend() -> None:
    folders = tuple(f"pypto.backends.{name}" for name in FOLDERS)
    outside = [path for path in python_files("pypto") if not relative(path).startswith(INSIDE)]
    imported = {path: [x for x in imports(path, MODULES) if x.module.startswith(folders)] for path in outside}
    compared = {path: {*comparisons(syntax(path))} & {*registry.BUILT_IN} for path in outside}
    assert {path: found for path, found in imported.items() if found} == {}
    assert {path: found for path, found in compared.items() if found} == {}


@pytest.mark.parametrize("code", ["x == 'cpu'", "x.name in ('cpu', 'ascend')", "x.startswith('ascend-sim')",
                                  "match x:\n    case 'ascend':\n        pass"])  # fmt: skip
def test_comparisons_are_found(code: str) -> None:
    assert {*comparisons(ast.parse(code))} & {*registry.BUILT_IN}


def test_built_in_backends_are_entry_points() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"][registry.GROUP] == {**registry.BUILT_IN}


def test_built_in_backends_need_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_: pytest.fail("metadata was read"))
    found = {registry.plugin_of(name) for name in ("cpu", "ascend:1", "ascend-sim")}
    assert found == {*map(registry.built_in, registry.BUILT_IN)}


def test_the_key_of_code_names_the_backend_among_those_of_the_package() -> None:
    """They lie in one folder: the first one that was asked for its sources gave all others its hash."""
    from pypto.backends.ascend.backend import AscendBackend
    from pypto.backends.ascend.target import ascend_target

    for backend in (session().backend(KernelOptions()), AscendBackend(ascend_target("ascend910b2"))):
        assert dict(session().key(backend, ()).parts)["compiler"] == compiler_hash(backend)


def test_the_key_of_code_covers_the_folder_of_its_backend(tmp_path: Path) -> None:
    backend = session().backend(KernelOptions())
    assert compiler_hash(backend) == hash_of_sources(ROOT / "pypto/backends/cpu")
    keys = set()
    for text in ("a = 1", "a = 2"):
        folder = tmp_path / str(len(keys)) / "third"
        folder.mkdir(parents=True)
        (folder / "backend.py").write_text(text, encoding="utf-8")
        keys.add(hash_of_sources(folder))
    assert len(keys) == 2
