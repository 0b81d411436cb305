"""What a kernel shows of its inside, as text and as a page."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pypto as pto
from pypto.debug.inspection import Inspection
from tests.patience import limit

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")


@pto.jit
def softmax(x, y, n, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    v = x[row, :]
    e = pto.exp(v - pto.max(v, 0))
    total = pto.sum(e, 0)
    for k in range(n):
        total += k * 0
    y[row, :] = e / total
    offsets = pto.arange(0, BLOCK)
    pto.store(y + offsets, pto.load(y + offsets) + 0.0)


@pto.jit
def product_of_parts(x, w, y):
    total = pto.zeros((1, 64), pto.float32)
    for k in range(0, 32, 16):
        part = pto.dot(x[k : k + 16][None, :], (w[k : k + 16, :] & 15).to(pto.float32))
        part = pto.dot(x[k : k + 16][None, :], (w[k : k + 16, :] >> 4).to(pto.float32), part)
        total = total + part * x[k]
    y[:, :] = total


@pytest.fixture(scope="module")
def found() -> Inspection:
    x = np.ones((8, 64), np.float32)
    made: Inspection = softmax.inspect(x, x.copy(), 3, BLOCK=4)
    return made


def test_every_line_tells_the_types_that_it_makes(found: Inspection) -> None:
    first = softmax.kernel_source.node.lineno
    types = {line.number - first: line.types for line in found.source}
    assert types[0] == ("x: array<f32, 2>", "y: array<f32, 2>", "n: i32")
    assert [types[n] for n in range(1, 8)] == [
        ("row: i32",), ("v: tile<64xf32>",), ("e: tile<64xf32>",), ("total: f32",), ("k: i32",), ("total: f32",),
        ("stores tile<1x64xf32>",),
    ]  # fmt: skip
    assert types[8] == ("offsets: tile<4xi32>",)
    assert types[9] == ("stores tile<4xf32>",)
    assert "e: tile<64xf32>" in str(found)


def test_levels_are_linked_with_the_lines_of_the_source(found: Inspection) -> None:
    lines = {line.number for line in found.source}
    linked = {level.name: {number for number, _ in level.lines} & lines for level in found.levels}
    assert [level.name for level in found.levels] == ["tile-ir", "optimized-ir", "loop-ir", "llvm-ir", "assembly"]
    first = min(lines)
    assert {first + n for n in (2, 3, 4, 7)} <= linked["tile-ir"]
    assert {first + n for n in (3, 4, 7)} <= linked["loop-ir"]
    assert "loc(" not in found["tile-ir"]
    assert "kernel @softmax" in found["optimized-ir"]
    assert "define" in found["llvm-ir"]
    with pytest.raises(KeyError, match="there is no level 'ptx'"):
        found["ptx"]


def test_the_page_escapes_what_it_shows_and_needs_nothing_from_elsewhere(found: Inspection) -> None:
    page = found.html()
    assert "array&lt;f32, 2&gt;" in page
    assert "array<f32" not in page
    assert not re.search(r"https?://|src=|@import", page)
    assert page == found.html()
    other = softmax.inspect(np.ones((8, 32), np.float32), np.ones((8, 32), np.float32), 3, BLOCK=4)
    ids = [re.findall(r'<div id="(\w+)"', x._repr_html_()) for x in (found, other)]
    assert len({i for (i,) in ids}) == 2


@pytest.mark.skipif(not BROWSER, reason="no browser to look at the page with")
def test_a_browser_shows_the_page_and_its_script_runs(found: Inspection, tmp_path: Path) -> None:
    """The script presses the button of a level and points at a line: what is lit is what comes from that line."""
    line = softmax.kernel_source.node.lineno + 3
    press = f"""<script>addEventListener("load",()=>{{
      [...document.querySelectorAll("button")].find(b=>b.textContent==="tile-ir").click();
      const at=document.querySelector('.source [data-line="{line}"]');
      at.dispatchEvent(new MouseEvent("mouseover",{{bubbles:true}}));
      document.title="lit "+document.querySelectorAll("[data-level]:not([hidden]) .lit").length}})</script>"""
    path = tmp_path / "page.html"
    path.write_text(found.html().replace("</body>", press + "</body>"), encoding="utf-8")
    shown = browsed("--dump-dom", path)
    lit = sum(number == line for number, _ in found.levels[0].lines)
    assert f"<title>lit {lit}</title>" in shown
    assert lit > 2
    picture = tmp_path / "page.png"
    browsed(f"--screenshot={picture}", path)
    assert picture.stat().st_size > 10_000


def browsed(what: str, path: Path) -> str:
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,600")
    command = [BROWSER, *flags, f"--user-data-dir={path.parent}/profile", what, path.as_uri()]
    return subprocess.run(command, check=True, text=True, capture_output=True, timeout=limit(120)).stdout


def test_copies_that_no_line_asked_for_have_no_line() -> None:
    w = np.ones((32, 64), np.uint8)
    text = product_of_parts.inspect(np.ones(32, np.float32), w, np.ones((1, 64), np.float32))["loop-ir"]
    assert re.search(r"copy .*(?<!# \d)$", text, re.M)
