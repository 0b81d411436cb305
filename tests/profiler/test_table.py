"""The table for people, and the pieces that it is made of."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pypto as pto
from pypto.backends.base import Artifact
from pypto.backends.sites import Site
from pypto.loc import Loc
from pypto.profiler.recording import own_time
from pypto.profiler.rows import label_path, ranges
from pypto.profiler.table import duration
from tests.profiler.test_profile import attend

NAMES = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1, max_size=3)
LABELS = st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), max_size=3, unique=True).map(tuple)
LOCS = st.builds(Loc, st.text(max_size=3), st.integers(0, 9), label=NAMES,
    call_site=st.none() | st.builds(Loc, st.just("a.py"), st.integers(1, 9)))  # fmt: skip
SITES = st.builds(Site, st.sampled_from(["nest", "dot"]), st.integers(-1, 5), LABELS,
    st.lists(LOCS, max_size=3).map(tuple), st.integers(0, 2**40), st.integers(0, 2**40))  # fmt: skip


def test_text_and_html_have_every_row() -> None:
    prof = attend()
    text, page = str(prof), prof._repr_html_()
    for word in ("attention  (kernels.py)", "qk", "softmax", "pv", "100.0%", "GFLOP/s"):
        assert word in text
    assert page.count("<tr") == len(prof.rows) + len(prof.operators) + 2
    assert prof.table().row_count == len(prof.rows)


def test_only_source_is_coloured() -> None:
    page = attend()._repr_html_()
    assert '<span class="k">for</span> j <span class="k">in</span> range(' in page
    assert "scalars, control flow and the timing itself" in page
    assert not re.search(r'<code><span class="n">', page), "numbers of lines are no code"


def test_text_in_a_notebook_is_not_shown_beside_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "100.0%" in str(attend())


def test_a_generated_kernel_names_the_lines_that_it_computes() -> None:
    @pto.jit
    def twice(x, y):
        y[:] = x[:] * 2

    twice.origins = tuple(f"net.py:{n}  y = x[{n}] < 3" for n in range(5))
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    with pto.profile() as prof:
        twice[(1,)](x, y)
    assert [row.origins for row in prof.rows if row.level == "kernel"] == [twice.origins]
    assert not any(row.origins for row in prof.rows if row.level != "kernel")
    text = str(prof)
    assert "of net.py:2  y = x[2] < 3" in text
    assert "of and 2 other lines" not in text
    assert "and 2 other lines" in text
    assert "net.py:2  y = x[2] &lt; 3" in prof._repr_html_()
    assert prof.table().row_count == len(prof.rows)


def test_labels_are_no_markup() -> None:
    @pto.jit
    def kernel(x, y):
        with pto.label("<b>[red]"):
            y[:] = x[:] + 1

    with pto.profile() as prof:
        kernel[1](np.ones(4, np.float32), np.ones(4, np.float32))
    assert "&lt;b&gt;[red]" in prof._repr_html_()
    assert "<b>[red]" in str(prof)


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1000, "1 us"), (999_600, "1000 us"), (2.5e9, "2.5 s"), (7.2e10, "72 s")],
)
def test_duration(ns: float, text: str) -> None:
    assert duration(ns) == text


@pytest.mark.parametrize(
    ("labels", "path"),
    [
        ((), ()),
        (("a",), ("a",)),
        (("a/b",), ("a", "b")),
        (("a", "b"), ("a + b",)),
        (("a/b", "a/c"), ("a", "b + c")),
        (("a", "a/b"), ("a", "b")),
        (("a/b/c", "a/d"), ("a", "b/c + d")),
    ],
)
def test_label_path(labels: tuple[str, ...], path: tuple[str, ...]) -> None:
    assert label_path(labels) == path


@given(st.sets(st.integers(1, 60)).map(sorted))
def test_ranges_name_each_line_once(lines: list[int]) -> None:
    found = []
    for part in filter(None, ranges(lines).split(", ")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    assert found == lines


@given(st.lists(SITES, max_size=3))
def test_sites_are_kept_with_the_code(sites: list[Site]) -> None:
    artifact = Artifact("name", (), 64, 1.0, b"code", sites=tuple(sites))
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact


def test_own_time_is_without_the_sites_inside() -> None:
    sites = (Site("program", -1), Site("loop", 0), Site("nest", 1), Site("nest", 1), Site("nest", 0))
    assert own_time(np.array([100, 60, 25, 30, 10]), sites).tolist() == [30, 5, 25, 30, 10]


def test_a_line_of_our_own_library_is_the_users_call() -> None:
    import pypto.language.standard as library

    call = Loc("user.py", 5)
    assert Loc(str(Path(library.__file__)), 30, call_site=call).user is call
    assert Loc("helper.py", 3, call_site=call).user == Loc("helper.py", 3, call_site=call)
    assert Loc(str(Path(library.__file__)), 30).user.line == 30
