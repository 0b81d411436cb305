"""The search for a blocking takes what is faster and leaves out what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.blocking import product_ratio, search, table
from benchmarks.runner import Pace
from pypto.blocking import Blocking
from pypto.errors.launch import WrongBlocking
from pypto.loc import UNKNOWN


def test_the_fastest_value_of_each_field_is_found() -> None:
    speed = {("mr", 4): 1.1, ("mr", 6): 1.3, ("kc", 256): 1.01, ("kc", 128): 0.5, ("k_unroll", 8): 1.05}

    def rate(b: Blocking) -> float:
        rates = [speed.get(item, 1.0) for item in b.overrides]
        product = 1.0
        for r in rates:
            product *= r
        return product

    values = {"mr": (4, 6), "kc": (128, 256), "k_unroll": (4, 8)}
    assert search(lambda a, b: rate(a) / rate(b), values) == Blocking(mr=6, k_unroll=8)
    assert search(lambda _a, _b: 1.0, values) == Blocking()


def test_what_is_refused_is_no_candidate() -> None:
    def ratio(one: Blocking, _other: Blocking) -> float:
        if one.mr == 14:
            raise WrongBlocking(UNKNOWN, field="mr", value=14, problem="", way="")
        return 1.5

    assert search(ratio, {"mr": (4, 14)}) == Blocking(mr=4)


def test_products_are_compared_and_impossible_ones_refused() -> None:
    ratio = product_ratio(128, Pace(rounds=1, seconds=1e-4, gap=0.0))
    assert ratio(Blocking(mr=4, kc=64), Blocking()) > 0
    with pytest.raises(WrongBlocking):
        ratio(Blocking(mr=64), Blocking())


def test_the_page_about_the_compiler_has_the_table() -> None:
    page = Path(__file__, "..", "..", "..", "docs", "compiler.md").resolve()
    assert table() in page.read_text(encoding="utf-8")
