"""The stubs that type checkers read are what the tables say."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pypto as pto
from docs import stubs
from pypto import language
from pypto.library import rows


@pytest.mark.parametrize(("path", "text"), stubs.texts().items(), ids=lambda x: x.name if isinstance(x, Path) else "")
def test_stubs_are_up_to_date(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "run: python -m docs.stubs"
    ast.parse(text)


def test_every_name_of_the_language_and_every_row_has_a_stub() -> None:
    found = {path.parent.name + "/" + path.name: text for path, text in stubs.texts().items()}
    body = ast.parse(found["language/__init__.pyi"]).body
    names = {alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
    names |= {node.name for node in body if isinstance(node, ast.ClassDef)}
    names |= {x.id for node in body if isinstance(node, ast.Assign) for x in node.targets if isinstance(x, ast.Name)}
    assert names >= set(language.__all__)
    assert set(pto.__all__) >= set(language.__all__)
    assert all(f"\n{name}: _" in found["library/__init__.pyi"] for name in rows)
