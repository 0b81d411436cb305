"""The figures of the performance guide: the versions that are compared compute the same, and each figure is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import guide

TEXT = guide.PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("page")
    return guide.page(folder)


@pytest.mark.parametrize("name", guide.CASES)
def test_both_versions_compute_the_same(name: str, module: Any) -> None:
    guide.check(guide.CASES[name](module, 130))


def test_every_figure_is_on_the_page() -> None:
    assert TEXT.count("<!-- figure:") == TEXT.count("> **Measured:**") == len(guide.CASES)
    for name in guide.CASES:
        assert f"{guide.MARK.format(name)}\n\n> **Measured:** " in TEXT


def test_figures_are_written_over() -> None:
    once = guide.written("a\n<!-- figure: x -->\n\nb\n", "x", "> one")
    assert once == "a\n<!-- figure: x -->\n\n> one\n\nb\n"
    assert guide.written(once, "x", "> two") == "a\n<!-- figure: x -->\n\n> two\n\nb\n"


def test_large_ratios_are_told_with_one_digit() -> None:
    assert [guide.rounded(x) for x in (1.04, 9.94, 10.2, 457)] == ["1.0", "9.9", "about 10", "about 500"]


def test_a_case_is_measured(module: Any) -> None:
    sentence = guide.measured("block size", module, 16, 1)
    assert sentence.startswith("> **Measured:** `add` of 4,096 numbers")
    assert sentence.endswith(" times as long.")
