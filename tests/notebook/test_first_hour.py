"""A new user's first hour, as a notebook: a mistake and its mending, tuning, a look inside, a new process."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jupytext
import pytest

from tests.house.measure import ROOT
from tests.patience import limit

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
HAS_JUPYTER = all(importlib.util.find_spec(name) for name in ("ipykernel", "nbclient", "nbconvert"))
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not HAS_JUPYTER, reason="needs ipykernel, nbclient and nbconvert")]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from nbclient import NotebookClient

    folder, made = tmp_path_factory.mktemp("hour"), jupytext.read(Path(__file__).with_name("first_hour.md"))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CI", raising=False)  # someone looks at it
        patch.setenv("PYPTO_CACHE_DIR", str(folder / "cache"))
        patch.setenv("PYTHONPATH", str(ROOT))
        at = {"metadata": {"path": str(folder)}}
        NotebookClient(
            made, timeout=limit(120), startup_timeout=limit(60), kernel_name="python3", resources=at
        ).execute()
    return made


def said(notebook: Any, begin: str) -> str:
    """All outputs of the cell that begins like this."""
    (cell,) = (c for c in notebook.cells if c.source.startswith(begin))
    parts = []
    for output in cell.outputs:
        data = output.get("data", {})
        parts.append(output.get("text") or data.get("text/html") or data.get("text/plain", ""))
        parts += output.get("traceback", [])
    return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(parts))


def test_the_mistake_is_told_in_its_cell(notebook: Any) -> None:
    text = said(notebook, "%%pto\n")
    assert "[E207] `*` does not take tile<512xf32> and array<f32, 1>" in text
    assert "--> Cell In[2]:6:19, in rms_norm" in text
    assert "load it first: `weight[:]`" in text
    assert "launched from Cell In[2]:8" in text
    assert "Traceback" not in text


def test_what_was_mended_is_compared_and_timed(notebook: Any) -> None:
    text = said(notebook, "%%pto --verify --time")
    assert "2,048 programs ran compiled and interpreted" in text
    assert "launches: least" in text


def test_tuning_leaves_a_table_and_nothing_else(notebook: Any) -> None:
    text = said(notebook, "from kernels import")
    assert text.count("ROWS=") == 4
    assert "chosen" in text
    assert "Warning" not in text


def test_a_new_process_finds_everything_in_the_cache(notebook: Any) -> None:
    assert "tuning of rms_norm" in said(notebook, "import sys")
    text = " ".join(said(notebook, "!{sys.executable} again.py").split())  # the terminal breaks lines
    assert "what earlier processes found needs no search" in text
    assert "stages: cache load" in text  # the source is not even read


@pytest.mark.skipif(not BROWSER, reason="no browser to look at the page with")
def test_the_page_of_the_notebook_shows_both_inspections(notebook: Any, tmp_path: Path) -> None:
    """On each, a level's button is pressed and a line pointed at; both are lit, on their own side only."""
    from nbconvert import HTMLExporter

    page = HTMLExporter().from_notebook_node(notebook)[0]
    press = """<script>addEventListener("load",()=>{const lit=[];
      for(const name of ["assembly","memory plan"]){
        const button=[...document.querySelectorAll("button")].find(b=>b.textContent===name);
        const root=button.closest("div[id^=i]");
        button.click();
        root.querySelector('.source [data-line="5"]').dispatchEvent(new MouseEvent("mouseover",{bubbles:true}));
        lit.push(root.querySelectorAll("[data-level]:not([hidden]) .lit").length>2)}
      document.title="lit "+lit.join(" ")})</script>"""
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", press + "</body>"), encoding="utf-8")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom")
    command = [BROWSER, *flags, path.as_uri()]
    shown = subprocess.run(command, check=True, text=True, capture_output=True, timeout=limit(120)).stdout
    assert "<title>lit true true</title>" in shown
