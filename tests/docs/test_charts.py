"""The charts of the site: drawn from the measured figures, the same every time, with the machine named."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from benchmarks import charts as drawing
from benchmarks.__main__ import main
from docs import charts

RUN = json.loads(charts.MEASURED.read_text(encoding="utf-8"))
SVG = "{http://www.w3.org/2000/svg}"


def told(svg: str) -> list[str]:
    """What the bars say of themselves."""
    return [str(rect[0].text) for rect in ET.fromstring(svg).iter(f"{SVG}rect") if len(rect)]


@pytest.mark.parametrize("name", drawing.CHARTS)
def test_a_chart_is_what_the_figures_give(name: str) -> None:
    assert (charts.FOLDER / name).read_text(encoding="utf-8") == charts.drawn()[name], "run `make docs`"


@pytest.mark.parametrize("page", charts.PAGES, ids=lambda page: page.stem)
def test_a_page_shows_a_chart_and_names_the_machine(page: Any) -> None:
    text = page.read_text(encoding="utf-8")
    assert charts.marked(text) == text, "run `make docs`"
    assert RUN["machine"]["cpu"] in text
    assert "](charts/speedups.svg)" in text


def test_every_row_has_a_bar_for_each_peer() -> None:
    rows = [row for row in RUN["rows"] if len(row["implementations"]) > 1]
    assert len(rows) >= 8
    assert len(told(drawing.speedups(RUN))) == sum(len(row["implementations"]) - 1 for row in rows)
    assert len(told(drawing.times(RUN))) == sum(len(row["implementations"]) for row in rows)


def test_bars_are_as_long_as_their_figures() -> None:
    row = {
        "name": "a < b",
        "shape": "8",
        "threads": 1,
        "implementations": {"ours": {"minimum_s": 1e-3}, "numpy": {"minimum_s": 4e-3}, "numba": {"minimum_s": 5e-4}},
    }
    machine = {"cpu": "z<4", "cores": 2, "python": "3.11", "load": 3.0, "versions": {"numpy": "2"}}
    run = {"rows": [row], "machine": machine}
    svg = drawing.speedups(run)
    assert told(svg) == ["a < b 8: 4.00 times as fast as numpy", "a < b 8: 0.50 times as fast as numba"]
    bars = (rect for rect in ET.fromstring(drawing.times(run)).iter(f"{SVG}rect") if len(rect))
    ours, numpy, numba = (float(rect.get("width", 0)) for rect in bars)
    assert numpy == pytest.approx(4 * ours, rel=0.01)
    assert ours == pytest.approx(2 * numba, rel=0.01)
    assert "z&lt;4, 1 thread of 2 cores, Python 3.11, numpy 2, with other work on the machine (load 3.0)" in svg


def test_the_runner_writes_them(tmp_path: Any) -> None:
    assert main(["charts", str(charts.MEASURED), str(tmp_path)]) == 0
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == charts.drawn()
