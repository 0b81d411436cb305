"""A notebook with every object that shows itself, executed, made a page and looked at in a headless browser."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.browser import asked, needs_browser
from tests.house.measure import ROOT
from tests.notebook.objects import HEAD, OBJECTS
from tests.patience import limit

HAS_JUPYTER = all(importlib.util.find_spec(name) for name in ("ipykernel", "nbclient", "nbconvert"))
pytestmark = [
    pytest.mark.slow,
    needs_browser,
    pytest.mark.skipif(not HAS_JUPYTER, reason="needs ipykernel, nbclient and nbconvert"),
]
# Of every card: how large it is drawn, its tables and their rows, bars, pictures, and its colours.
QUESTIONS = """
const cards=[...document.querySelectorAll(".pypto")].map(c=>({
  title:c.querySelector(".pypto-title").textContent, height:c.getBoundingClientRect().height,
  over:[...c.querySelectorAll("td,th")].filter(t=>t.offsetParent!==null&&t.scrollWidth>t.clientWidth+1).length,
  rows:[...c.querySelectorAll("table")].map(t=>t.querySelectorAll("tbody tr").length),
  bars:c.querySelectorAll(".pypto-fill").length,
  shapes:[...c.querySelectorAll("svg rect")].length,
  ink:getComputedStyle(c).color, paper:getComputedStyle(c).backgroundColor}));
const page=[...document.querySelectorAll(".pypto")].find(c=>[...c.querySelectorAll("button")]
  .some(b=>b.textContent==="loop-ir"));
const line=page.querySelector(".source .line:nth-child(5)");
const shown=()=>[...page.querySelectorAll("[data-level]")].filter(t=>t.offsetParent!==null).map(t=>t.dataset.level);
const before=shown();
[...page.querySelectorAll("button")].find(b=>b.textContent==="assembly").click();
line.dispatchEvent(new MouseEvent("mouseover",{bubbles:true}));
return {cards,before,after:shown(),lit:page.querySelectorAll("[data-level]:not([hidden]) .lit").length,
  scripts:document.querySelectorAll(".pypto script, .pypto i:not(.row)").length,
  outputs:document.querySelectorAll(".pypto").length}
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    folder = tmp_path_factory.mktemp("notebook")
    sources = [HEAD, *(code for code, _ in OBJECTS.values())]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYPTO_CACHE_DIR", str(folder / "cache"))
        patch.setenv("PYTHONPATH", str(ROOT))
        at = {"metadata": {"path": str(folder)}}
        NotebookClient(
            notebook, timeout=limit(120), startup_timeout=limit(60), kernel_name="python3", resources=at
        ).execute()
    page = folder / "page.html"
    page.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    return asked(page, QUESTIONS)


def test_every_object_is_drawn(found: dict[str, Any]) -> None:
    assert not [e for e in found["errors"] if "not loaded" not in e], "Jupyter's page asks for MathJax elsewhere"
    assert found["outputs"] == len(OBJECTS)
    assert all(card["height"] > 30 and card["title"] for card in found["cards"])
    assert all(rows for card in found["cards"] for rows in card["rows"])
    assert {card["ink"] != card["paper"] for card in found["cards"]} == {True}


def test_no_cell_of_a_table_lies_over_the_next(found: dict[str, Any]) -> None:
    assert [name for name, card in zip(OBJECTS, found["cards"], strict=True) if card["over"]] == []


def test_charts_are_drawn(found: dict[str, Any]) -> None:
    by_name = dict(zip(OBJECTS, found["cards"], strict=True))
    for name in ("compare", "simulate", "profile", "inspect"):
        assert by_name[name]["bars"] > 1, name
    assert by_name["inspect for a chip"]["shapes"] > 10


def test_what_is_shown_is_never_run(found: dict[str, Any]) -> None:
    assert found["scripts"] == 0


def test_a_level_is_opened_and_its_lines_are_lit(found: dict[str, Any]) -> None:
    assert found["before"] == ["line by line"]
    assert found["after"] == ["assembly"]
    assert found["lit"] > 2
