"""The page of the library's operators is what its rows say."""

from __future__ import annotations

from docs import library
from pypto.library import rows


def test_page_is_what_would_be_written() -> None:
    assert library.PAGE.read_text(encoding="utf-8") == library.text(), "run: python -m docs.library"


def test_every_operator_has_a_section() -> None:
    headings = [line.removeprefix("### ") for line in library.text().splitlines() if line.startswith("### ")]
    assert headings == [row.name for members in rows.families().values() for row in members]
