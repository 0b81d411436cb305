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
    short = set()
    for row in library.measured()["rows"]:
        found = {name: one["minimum_s"] for name, one in row["implementations"].items()}
        if 1.2 * found.pop("ours") > min(found.values()):
            short.add(row["name"].split()[0])
    assert short
    assert [name for name in sorted(short) if not rows[name].limited] == []
