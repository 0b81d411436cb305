"""The reference in `docs` is what the op table and the docstrings say today."""

from __future__ import annotations

import pytest

import pypto as pto
from docs import array_api, errors, numpy_names, triton_names, triton_packages
from docs.reference import BESIDE, FOLDER, pages

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_page(name: str) -> None:
    path = FOLDER / name
    assert path.is_file(), "run `make docs`"
    assert path.read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_no_page_is_left_over() -> None:
    assert {path.name for path in FOLDER.glob("*.md")} == PAGES.keys()


def test_every_public_op_has_a_page() -> None:
    from pypto.ops.table import ROWS

    assert {f"{row.name}.md" for row in ROWS if row.public} <= PAGES.keys()
    beside = {path.rsplit(".", 1)[1] for path in BESIDE}
    assert all(hasattr(pto, name) for name in {page.removesuffix(".md") for page in PAGES} - {"index", *beside})


def test_table_of_triton_names() -> None:
    assert triton_names.TABLE.read_text(encoding="utf-8") == triton_names.page(), "run `make docs`"
    assert " missing" not in triton_names.page()
    assert len(triton_names.names()) == 888


@pytest.mark.slow
def test_table_of_names_of_numpy() -> None:
    """Nothing of numpy is something else in a fused function."""
    rows = numpy_names.outcomes()
    assert [row for row in rows if row[2] == "differs"] == []
    assert numpy_names.PAGE.read_text(encoding="utf-8") == numpy_names.page(rows), "run `make docs`"


def test_the_table_has_all_names_of_numpy() -> None:
    text = numpy_names.PAGE.read_text(encoding="utf-8")
    assert [name for _, name, _ in numpy_names.calls() if f"`{name}`" not in text] == []


def test_what_was_tried_of_packages_with_triton() -> None:
    assert triton_packages.PAGE.read_text(encoding="utf-8") == triton_packages.page(), "run `make docs`"
    right = {
        name: sum(r == "right" for r in results.values()) for (name, _), results in triton_packages.packages().items()
    }
    least = {"sglang": 15, "flash-linear-attention": 40, "liger-kernel": 60, "flag-gems": 60, "unsloth": 10}
    assert {name: right[name] >= count for name, count in least.items()} == dict.fromkeys(least, True)


def test_official_tests_of_the_array_api_standard() -> None:
    assert array_api.PAGE.read_text(encoding="utf-8") == array_api.page(), "run `make docs`"
    found = array_api.results()
    assert [name for name in found["failed"] if array_api.reason(name) is None] == []
    passed = found["tests"] - len(found["failed"]) - len(found["skipped"])
    assert found["tests"] >= 1380 and passed >= 0.98 * found["tests"]


def test_list_of_errors() -> None:
    assert errors.PAGE.read_text(encoding="utf-8") == errors.page(), "run `make docs`"
    assert "| E203 | `UndefinedName`, a `NameError` |" in errors.page()
