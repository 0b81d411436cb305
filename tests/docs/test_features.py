"""The comparison with other tools: its page is what its table says, and each yes of ours has a test."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from docs import features
from docs.site import ROOT

DATA = features.table()
TOOLS = DATA["tools"]
ROWS = [pytest.param(row, id=row["feature"]) for row in DATA["row"]]


def test_page() -> None:
    assert features.PAGE.read_text(encoding="utf-8") == features.page(), "run `make docs`"


@pytest.mark.parametrize("row", ROWS)
def test_what_we_say_of_ourselves_is_tested(row: dict[str, Any]) -> None:
    ours = row[features.OURS]
    assert ours["is"] in ("yes", "partly", "no")
    assert ("test" in ours) == (ours["is"] != "no")
    for test in ours.get("test", "").split(", ") if "test" in ours else []:
        file, _, name = test.partition("::")
        assert name in functions(file), f"there is no test {name} in {file}"


def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS)
def test_what_we_say_of_others_has_a_source(row: dict[str, Any]) -> None:
    others = {name: cell for name, cell in row.items() if name not in ("part", "feature", features.OURS)}
    assert others.keys() <= TOOLS.keys()
    for cell in others.values():
        assert cell["is"] in ("yes", "partly", "no", "—")
        assert cell["is"] == "—" or features.url(cell["source"], TOOLS).startswith("https://")


def test_every_row_is_told_once() -> None:
    named = [row["feature"] for row in DATA["row"]]
    assert len(named) == len(set(named))
    assert any(row[features.OURS]["is"] == "no" for row in DATA["row"])
