"""The guides: every block of code runs and prints what the page shows, and every link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pypto as pto
from docs import notebooks, site
from docs.blocks import LANGUAGES, blocks, check, commands, needs, run_page

ROOT = site.ROOT
GUIDES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PAGES = [*site.sources(), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
LONG = ("command-line", "arrays", "attention-layer", "library", "quantisation")  # to run


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in; what a page sets is put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    threads = pto.get_num_threads()
    with np.printoptions():
        yield tmp_path
    pto.set_num_threads(threads)


def has_code(path: Path) -> bool:
    return any(b.language in ("python", "console") for b in blocks(path.read_text(encoding="utf-8")))


def marks(path: Path) -> list[pytest.MarkDecorator]:
    """What runs commands starts a process for each, and some compile many kernels; a page may need torch."""
    slow = [pytest.mark.slow] * (path.stem in LONG)
    return slow + ([pytest.mark.torch] if "torch" in needs(path.read_text(encoding="utf-8")) else [])


@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem, marks=marks(p)) for p in GUIDES if has_code(p)])
def test_blocks_run(path: Path, alone: Path) -> None:
    for library in needs(path.read_text(encoding="utf-8")):
        pytest.importorskip(library)
    assert run_page(path, alone) > 0


@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.stem)
def test_code_is_in_blocks(path: Path) -> None:
    """What is indented is neither run nor coloured."""
    text = path.read_text(encoding="utf-8")
    assert {b.language for b in blocks(text)} <= set(LANGUAGES)
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"\n\n {4,}\S", outside)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in site.links(prose(path)):
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{target} in {path.name}"
        if anchor:
            assert anchor[1:] in anchors(file), f"{target}{anchor} in {path.name}"


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "docs/compiler.md", "docs/contributing.md"])
def test_files_that_are_named_exist(name: str) -> None:
    known = [path.relative_to(ROOT).as_posix() for path in (ROOT / "pypto").rglob("*.*")]
    known += [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.*")]
    known += [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.*")]
    named = re.findall(r"`([\w./]+\.(?:py|ll|h|toml|json|gz))`", (ROOT / name).read_text(encoding="utf-8"))
    assert named
    lost = [n for n in named if not (ROOT / n).exists() and not any(f"/{path}".endswith(f"/{n}") for path in known)]
    assert lost == []


def prose(path: Path) -> str:
    """A page without code: of a tutorial, its comments."""
    text = path.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^#.*$", text, re.MULTILINE)) if path.suffix == ".py" else text


def anchors(path: Path) -> set[str]:
    """Names of a page's headings, as hosts of repositories and MyST make them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", t.lower().replace("`", "")).strip().replace(" ", "-") for t in titles}


def test_every_page_is_in_the_sidebar() -> None:
    shown = site.contents({ROOT / "docs" / f"{name}.md": f"{name}.md" for name in ("index", "new", "language")})
    named = re.findall(r"^([\w/-]+)$", shown, re.MULTILINE)
    assert named == ["tutorials/index", "language", "new"]


def test_links_of_the_site() -> None:
    pages = {ROOT / "docs" / "index.md": "index.md", ROOT / "ARCHITECTURE.md": "architecture.md"}
    rest = "[web](https://example.org/a#b) `a[0](b)` ``a[0](b)``\n```text\na[0](b)\n```\n"
    text = f"[how](../ARCHITECTURE.md#rooms) [who](../LICENSE) {rest}"
    assert site.relinked(text, ROOT / "docs" / "index.md", pages) == f"[how](architecture.md#rooms) who {rest}"


def test_the_source_of_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pages are there, and every name in the sidebar is one."""
    monkeypatch.setattr(site, "notebook", lambda path, executed: "{}")
    (tmp_path / "old.md").write_text("gone", encoding="utf-8")
    site.assemble(tmp_path)
    there = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.*") if p.is_file()}
    assert there == {*site.sources().values(), *site.pictures().values(), "tutorials/index.md"}
    assert [p for p, name in site.pictures().items() if (tmp_path / name).read_bytes() != p.read_bytes()] == []
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    named = re.findall(r"^([\w/-]+)$", index.split("{toctree}", 1)[1], re.MULTILINE)
    assert named
    assert {f"{name}.md" for name in named} <= there


def test_a_tutorial_that_fails_stops_neither_the_others_nor_the_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, seen = [tmp_path / f"{n}.py" for n in "abc"], list[str]()

    def run(path: Path, folder: Path) -> None:
        seen.append(path.stem)
        if path.stem == "b":
            raise ValueError("no such number")

    for path in paths:
        path.write_text("", encoding="utf-8")
    assert notebooks.convert_all(paths, tmp_path, run) == ["b"]
    assert seen == ["a", "b", "c"]
    assert "b: failed: ValueError: no such number" in capsys.readouterr().err


def test_the_site_is_built_and_the_exit_code_tells_of_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built: list[object] = []
    monkeypatch.setattr(site, "assemble", built.append)
    assert site.main([], lambda command: 0, lambda paths, folder: ["03_matrix_multiplication"]) == 1
    assert site.main([], lambda command: 0, lambda paths, folder: []) == 0
    assert len(built) == 4
    assert "tutorials that failed: 03_matrix_multiplication" in capsys.readouterr().err


def test_the_pages_are_built_before_the_tutorials_run(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    codes = iter((1, 0))
    monkeypatch.setattr(site, "assemble", lambda folder: done.append("assembled"))

    def run(command: list[str]) -> int:
        done.append("built")
        return next(codes)

    def execute(paths: list[Path], folder: Path) -> list[str]:
        done.append("executed")
        return []

    assert site.main([], run, execute) == 1, "what the first build warned of"
    assert done == ["assembled", "built", "executed", "assembled", "built"]
    assert site.main(["--no-execute"], lambda command: 0, execute) == 0
    assert done[5:] == ["assembled"]


def test_a_tutorial_is_shown_with_its_outputs_as_long_as_it_is_the_same(tmp_path: Path) -> None:
    path = site.tutorials()[0]
    plain = site.notebook(path, tmp_path)
    done = tmp_path / f"{path.stem}.ipynb"
    done.write_text(plain.replace('"outputs": []', '"outputs": ["said"]', 1), encoding="utf-8")
    assert "said" in site.notebook(path, tmp_path)
    done.write_text(done.read_text(encoding="utf-8").replace("import pypto", "import numpy", 1), encoding="utf-8")
    assert site.notebook(path, tmp_path) == plain


def test_a_page_is_held_to_what_it_shows(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    first, second = "```python\nx = 2\nprint(x)  # 2\n```\n", "```python\nprint(x + 1)\n```\n\n```text\n4\n```\n"
    page.write_text(f"{first}\n{second}", encoding="utf-8")
    with pytest.raises(AssertionError, match="line 6 prints"):
        run_page(page, tmp_path)
    page.write_text(page.read_text(encoding="utf-8").replace("4", "…3"), encoding="utf-8")
    assert run_page(page, tmp_path) == 2


def test_commands_of_a_page() -> None:
    assert commands("$ pypto a \\\n  b\nsaid\nmore\n$ pypto c\n") == [("pypto a    b", "said\nmore\n"), ("pypto c", "")]
    with pytest.raises(AssertionError):
        check("one\ntwo", "one\n…\nthree", "here", True)
