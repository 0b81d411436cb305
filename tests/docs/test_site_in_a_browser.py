"""Pages of the site in a headless browser: charts drawn, tables filled, outputs of a tutorial, no script error."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs import site
from tests.browser import asked, needs_browser
from tests.patience import limit

HAS_SPHINX = all(importlib.util.find_spec(name) for name in ("sphinx", "myst_nb", "furo"))
pytestmark = [pytest.mark.slow, needs_browser, pytest.mark.skipif(not HAS_SPHINX, reason="needs the extra `docs`")]
# The other pages would take most of the time; links to them are warnings here, and errors in `make docs`.
PAGES = ("index.md", "performance.md", "features.md", "reference/index.md", "reference/load.md")
TUTORIAL = "01_vector_add"
QUESTIONS = """
const images=[...document.images].filter(i=>i.closest("article"))
  .map(i=>({name:i.src.split("/").pop(),drawn:i.complete&&i.naturalWidth>100&&i.getBoundingClientRect().height>100}));
const tables=[...document.querySelectorAll("article table")].map(t=>t.querySelectorAll("tbody tr").length);
return {title:document.title,images,tables,
  headings:[...document.querySelectorAll("article h1,article h2")].map(h=>h.firstChild.textContent),
  sidebar:document.querySelectorAll(".sidebar-tree a").length,
  code:document.querySelectorAll("article .highlight span[class]").length,
  outputs:document.querySelectorAll("article .cell_output").length,
  inputs:[...document.querySelectorAll("article .cell_input")].map(c=>c.textContent)}
"""


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with few pages, and a tutorial with an output."""
    folder = tmp_path_factory.mktemp("site")
    source, done = folder / "source", folder / "executed"
    book = json.loads(site.notebook(next(p for p in site.tutorials() if p.stem == TUTORIAL), done))
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    code[-1]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": ["equal to numpy"]}]
    done.mkdir()
    (done / f"{TUTORIAL}.ipynb").write_text(json.dumps(book), encoding="utf-8")
    site.assemble(source, done)
    kept = {source / page for page in (*PAGES, f"tutorials/{TUTORIAL}.ipynb")}
    for path in (p for p in source.rglob("*.*") if p.is_file() and p.suffix in (".md", ".ipynb")):
        if path not in kept:
            path.unlink()
    command = [sys.executable, "-m", "sphinx", "-c", str(site.ROOT / "docs"), "-q", str(source), str(folder / "html")]
    subprocess.run(command, check=True, capture_output=True, timeout=limit(300))
    return folder / "html"


def looked_at(html: Path, page: str) -> dict[str, Any]:
    found = asked(html / page, QUESTIONS)
    assert found["errors"] == []
    assert found["headings"]
    return found


def test_the_landing_page_shows_its_chart_and_where_to_go(html: Path) -> None:
    found = looked_at(html, "index.html")
    assert [image["name"] for image in found["images"]] == ["speedups.svg"]
    assert all(image["drawn"] for image in found["images"])
    assert found["code"] > 20
    assert found["sidebar"] >= 4


def test_the_page_on_performance_shows_both_charts(html: Path) -> None:
    found = looked_at(html, "performance.html")
    assert [image["name"] for image in found["images"]] == ["speedups.svg", "times.svg"]
    assert all(image["drawn"] for image in found["images"])
    assert "Do more per pass over memory" in found["headings"]


def test_tables_have_their_rows(html: Path) -> None:
    found = looked_at(html, "features.html")
    assert len(found["tables"]) >= 4
    assert all(rows > 2 for rows in found["tables"])
    assert looked_at(html, "reference/load.html")["tables"][0] == 8


def test_a_tutorial_is_shown_with_its_outputs_and_plain_cells(html: Path) -> None:
    found = looked_at(html, f"tutorials/{TUTORIAL}.html")
    assert found["outputs"] == 1
    assert len(found["inputs"]) > 3
    assert not any("__name__" in text or "noqa" in text for text in found["inputs"])
