"""What objects show of themselves in a notebook: whole, escaped, in one style."""

from __future__ import annotations

import ast
import linecache
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from pypto.markup import Markup, Shown, bar, card, cells, table, tag, text
from pypto.markup.colours import coloured
from pypto.markup.style import STYLE
from tests.house.measure import python_files, relative
from tests.notebook.objects import HEAD, OBJECTS


@pytest.fixture(scope="module")
def space() -> dict[str, Any]:
    """The names of the cells, once they have run."""
    file = "<cell of the tests>"
    linecache.cache[file] = (len(HEAD), None, HEAD.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(HEAD, file, "exec"), names)
    return names


class Balanced(HTMLParser):
    """Fails where an element is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        self.open += [] if tag == "meta" else [tag]

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


class Indented(HTMLParser):
    """Texts of code that begin with an indentation, within `pre` and outside."""

    def __init__(self) -> None:
        super().__init__()
        self.within, self.kept, self.lost = list[str](), list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.within += [] if tag == "meta" else [tag]

    def handle_endtag(self, tag: str) -> None:
        self.within.pop()

    def handle_data(self, data: str) -> None:
        if re.search(r"(^|\n)  +\S", data) and not {"style", "script", "text"} & {*self.within}:
            (self.kept if "pre" in self.within else self.lost).append(data)


def parsed(html: str) -> Balanced:
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return parser


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_shows_itself(name: str, space: dict[str, Any]) -> None:
    code, words = OBJECTS[name]
    shown = eval(code, space)._repr_html_()
    plain = re.sub(r"</?(?:span|code)[^>]*>", "", shown)
    for word in words:
        assert word in plain
    seen = parsed(shown).seen
    assert "script" not in seen[: seen.index("table")] if "table" in seen else "script" not in seen
    assert not {"b", "button"} & set(seen) or name.startswith(("inspect", "plan"))
    assert "<script>alert" not in shown
    assert "<i>label" not in shown
    assert f"<style>{STYLE}</style>" in shown
    assert shown.count("<style>") == 1
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|src=|@import", shown)


@pytest.mark.parametrize("name", ["inspect", "inspect for a chip", "plan", "adjoint", "kernel"])
def test_indentation_needs_no_style(name: str, space: dict[str, Any]) -> None:
    """Exports that leave style sheets out, and pages with others, keep the spaces of `pre` alone."""
    found = Indented()
    found.feed(eval(OBJECTS[name][0], space)._repr_html_())
    assert found.kept
    assert found.lost == []


def test_an_object_is_its_own_text_in_a_terminal(space: dict[str, Any]) -> None:
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    said = formatter.format(eval(OBJECTS["verify"][0], space))[0]["text/plain"]
    assert said.startswith("softmax: 64 programs, compiled as interpreted")
    said = formatter.format(space["softmax"].specializations)[0]["text/plain"]
    assert re.match(r"softmax: \d+ compiled versions?\n  1: \(x: ", said)


def test_what_is_tuned_and_not_tuned_yet(space: dict[str, Any]) -> None:
    import pypto as pto

    fresh = pto.autotune([pto.Config({"BLOCK": 4})], key=["x"])(space["twice"].fn)
    assert "Not tuned yet" in fresh._repr_html_()
    assert "nothing was tried yet" in fresh.tuning_report()._repr_html_()
    assert repr(fresh) == "<autotuner of twice(x, out, BLOCK): 1 configurations>"


def test_a_plot_of_tuning_is_a_picture_in_a_notebook(space: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    figure = space["twice"].tuning_report().plot()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_time_of_a_line_is_that_of_the_profile(space: dict[str, Any]) -> None:
    found = eval(OBJECTS["inspect"][0], space)
    shares = [facts.share for facts in found.facts.values() if facts.share is not None]
    lines = [row for row in space["prof"].rows if row.level == "line" and row.lines]
    whole = next(row for row in space["prof"].rows if row.level == "kernel").total_ns
    assert sum(shares) == pytest.approx(sum(row.total_ns for row in lines) / whole)
    assert any("in line" in facts.time for facts in found.facts.values())
    untimed = space["softmax"].inspect(space["x"], space["y"])
    assert all(facts.share is None for facts in untimed.facts.values())
    assert "No times yet" in untimed._repr_html_()


def test_the_width_of_a_line_is_that_of_its_vectors(space: dict[str, Any]) -> None:
    found = space["softmax"].inspect(space["x"], space["y"])
    wide = [n for n, facts in found.facts.items() if "float32 in" in facts.width]
    for number in wide:
        count = re.match(r"\d+", found.facts[number].width)
        assert count is not None
        assert any(f"<{count[0]} x float>" in line for n, line in found.levels[3].lines if n == number)
    assert wide


def test_there_is_one_place_for_the_style() -> None:
    """Neither style sheets nor colours of pages stand elsewhere; pictures and plots have colours of their own."""
    drawings = ("pypto/markup/", "pypto/backends/ascend/explain/pictures.py", "pypto/tuning/report.py")
    for path in python_files("pypto"):
        if not relative(path).startswith(drawings):
            source = path.read_text(encoding="utf-8")
            assert not re.search(r"<style|#[0-9a-f]{6}\b|html\.escape", source), relative(path)


def test_light_and_dark_have_the_same_colours() -> None:
    sets = [set(re.findall(r"(--\w+):", rule)) for rule in re.findall(r"\{(--[^}]*)\}", STYLE)]
    assert len(sets) == 4
    assert all(names == sets[0] for names in sets)
    assert set(re.findall(r"var\((--\w+)\)", STYLE)) <= sets[0]


def test_text_is_escaped_unless_it_is_markup() -> None:
    assert tag("td", "<b>", Markup("<i></i>"), title='"') == '<td title="&quot;">&lt;b&gt;<i></i></td>'
    assert text(text("<")) == "&lt;"
    assert "&lt;one&gt;" in card("<one>", note="<two>")
    assert "&lt;two&gt;" in card("<one>", note="<two>")
    assert table(("<a>",), [("<b>",), cells("td", ["<c>"])]).count("&lt;") == 3
    assert "width:100.0%" in bar(7.0, "x")
    with pytest.raises(NotImplementedError, match="Shown has no HTML"):
        Shown()._repr_html_()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x = 'a < b'  # why", ('<span class="s">&#x27;a &lt; b&#x27;</span>', '<span class="c"># why</span>')),
        ("%v: tile<4xf32> = exp %e", ('<span class="f">%v</span>', '<span class="t">tile&lt;4xf32&gt;</span>')),
        ("  %1 = fadd <16 x float> %a, %b ; note", ('<span class="t">&lt;16 x float&gt;</span>', "; note</span>")),
    ],
)
def test_colours(line: str, words: tuple[str, ...]) -> None:
    found = coloured(line)
    for word in words:
        assert word in found
    assert re.sub(r"<[^>]*>", "", found) == text(line)


def test_nothing_of_the_package_shows_its_arrays(space: dict[str, Any]) -> None:
    """A repr has element types and shapes, whatever a record holds."""
    import numpy as np

    from pypto import quant

    layer = quant.Layer("up", np.zeros((8, 64), np.float32))
    statistics = quant.Statistics("up", 64)
    statistics.add(np.ones((3, 64), np.float32))
    weight = quant.quantize(layer.weight)
    held = [
        layer,
        statistics,
        weight,
        quant.QuantizedLayer("up", weight),
        quant.GroupedWeight(weight.codes, weight.scales, 8),
    ]
    for x in held:
        assert len(repr(x)) < 500, repr(x)
        assert "array(" not in repr(x) and "..." not in repr(x)
        assert repr(x).startswith(type(x).__name__)
    assert "codes=int8[8, 64], scales=float32[8, 1], scheme=int8 symmetric, per channel" in repr(weight)
    assert repr(eval("lib.rms_norm", space)).startswith("<operator rms_norm: x[t..., d]")
    assert len(repr(eval("lib.rows", space))) < 3000


def test_every_record_of_arrays_has_a_summary() -> None:
    """The dataclasses with a field of arrays, of the rooms whose objects a user holds."""
    files = [path for room in ("quant", "library") for path in python_files(f"pypto/{room}")]
    classes = [(path, node) for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
               if isinstance(node, ast.ClassDef) and has_arrays(node)]  # fmt: skip
    assert len(classes) > 15
    assert not [f"{relative(path)}: {n.name}" for path, n in classes if "Summary" not in map(ast.unparse, n.bases)]


def has_arrays(node: ast.ClassDef) -> bool:
    fields = [ast.unparse(item.annotation) for item in node.body if isinstance(item, ast.AnnAssign)]
    is_record = any("dataclass" in ast.unparse(d) for d in node.decorator_list)
    return is_record and any(re.search(r"\bArray\b", kind) for kind in fields)
