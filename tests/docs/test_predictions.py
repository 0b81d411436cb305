"""The tables of predicted times on the page about Ascend are those that the model gives."""

from __future__ import annotations

import pytest

from docs.predictions import PAGE, TABLES, Cell, Table, marked

# By table: rows that are predicted anew here, quick ones; the others are predicted by `python -m docs.predictions`.
SAMPLE = {
    "long rows": ("sum", "softmax"),
    "functions": None,
    "rules": ("`exp2`", "`sigmoid`"),
    "extremes": ("maximum of 1024 float16", "softmax of 1024 float32"),
    "products": ("eight experts of 2048 x 2048 for blocks of 128 of 8192 tokens",),
    "way out": ("2048³",),
    "attention": ("1024", "2048"),
}


def printed(name: str) -> list[list[str]]:
    found = marked(name).search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    lines = found[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def number(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell()


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_tables_of_the_rows(name: str) -> None:
    table: Table = TABLES[name]()
    heads, _, *rows = printed(name)
    assert tuple(heads) == table.heads
    assert len(rows) == len(table.rows)
    for cells, row in zip(rows, table.rows, strict=True):
        assert all(cell == text for cell, text in zip(cells, row, strict=True) if isinstance(text, str))
        assert all(float(cell) > 0 for cell, text in zip(cells, row, strict=True) if not isinstance(text, str))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_figures_are_what_the_model_gives(name: str) -> None:
    table: Table = TABLES[name]()
    names: tuple[str, ...] | None = SAMPLE[name]
    for cells, row in zip(printed(name)[2:], table.rows, strict=True):
        if names is None or row[0] in names:
            for cell, text in zip(cells, row, strict=True):
                assert isinstance(text, str) or float(cell) == pytest.approx(float(number(text)), rel=0.03)
