"""The page of the library's operators is what its rows say."""

from __future__ import annotations

from docs import library
from pypto.library import rows


def test_page_is_what_would_be_written() -> None:
    assert library.PAGE.read_text(encoding="utf-8") == library.text(), "run: python -m docs.library"


def test_every_operator_has_a_section() -> None:
    headings = [line.removeprefix("### ") for line in library.text().splitlines() if line.startswith("### ")]
    assert headings == [row.name for members in rows.families().values() for row in members]


def test_a_measured_row_that_is_not_faster_says_why() -> None:
    measured = [row for run in library.measured() for row in run["rows"]]
    short = {row["name"].split()[0] for row in measured if row["ratio_to_best_peer"] < 1.2}
    assert short
    assert [name for name in sorted(short) if not rows[name].limited] == []
    assert [row["name"] for row in measured if row["failed"]] == []
