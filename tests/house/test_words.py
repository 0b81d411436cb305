"""Private names that may not come back, entries of the changelog of one idea, and folders that say what they are."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.house.measure import python_files, relative, syntax

ROOT = Path(__file__).resolve().parents[2]
ENTRY_WORDS = 40
RATIO = re.compile(r"\b\d+(\.\d+)? times as\b|\b0\.\d+ of\b|\d µs\b|\d ms\b")  # belongs to docs/performance.md
INIT_LINES = 10
# Names of ours for what the field has a word for; the word stands behind each.
PRIVATE = {
    "askew": "permuted",
    "asked_to": "prefetch_level",
    "crosswise": "register transpose",
    "early": "pipelined",
    "handed": "carried",
    "landed": "destination",
    "landing": "destination",
    "parted": "split",
    "restep": "k_blocking",
    "seldom": "cold",
    "stagger": "software pipeline",
    "stay": "invariant, or persistent",
    "stays": "invariant, or persistent",
    "trusted": "speculated",
    "trusting": "speculative",
    "turns": "iterations",
    "woven": "interleaved",
}
# Words that say nothing of a value, or have a term of the compiler in their place: not in its rooms.
VAGUE = {
    "again": "the second version",
    "apart": "single, or a distance",
    "asked": "requested, or prefetched",
    "found": "what it is",
    "held": "what it is",
    "home": "owner",
    "kept": "materialized, or live",
    "made": "result",
    "near": "limited, or the level of a cache",
    "odd": "remainder, or unsupported",
    "own": "private, or the part of this program",
    "rest": "remainder, or residual",
    "taken": "used",
    "there": "validity",
    "told": "reported, or the text of a message",
    "turn": "iteration",
    "turned": "transposed",
    "whole": "full, or in bounds",
    "wide": "widened",
}
ASCEND = "pypto/backends/ascend/"
PUBLIC = {
    ("pypto/backends/plugin.py", "found"),  # a key of `pypto doctor --json`
    ("pypto/graph/tune/tune_report.py", "kept"),  # a public field of what `tune` returns
    ("pypto/library/moe.py", "kept"),  # a parameter of the operator `select_experts`
    ("pypto/library/kernels/moe.py", "kept"),  # the same parameter, where it reaches the kernel
    ("pypto/runtime/disk_cache/cache.py", "made"),  # a public field of the cache's counters
}
STILL_IN_ASCEND = {"again", "found", "held", "kept", "made", "odd", "own", "rest", "taken", "told", "whole", "wide"}
PASSES = sorted(
    path for folder in ("", "analysis", "rules") for path in (ROOT / "pypto" / "passes" / folder).glob("*.py")
)
NO_IR = {"__init__", "manager", "optimizing", "preparing", "target_facts"}
FOLDERS = sorted(path.parent for path in (ROOT / "pypto").rglob("__init__.py") if path.parent.name != "pypto")
TEMPLATE = "template"  # files for users, which are no modules
# Phrases of docstrings that only their writer understands; the plain words stand behind each.
HARD_PROSE = {
    re.compile(r"\AThe same\b"): "the first sentence says what it does, without its neighbour",
    re.compile(r"\bwhat is none\b"): "name the thing",
    re.compile(r"\bby parts\b"): "in parts, or partial",
    re.compile(r"\A(?:.|\n(?!\n))*[^.:](?:\n\n|\Z)"): "the first paragraph ends with a period or a colon",
}


@cache
def names(path: Path) -> dict[str, int]:
    """The names that a file gives to functions, classes, parameters, variables and attributes, with a line of each."""
    found: dict[str, int] = {path.stem: 1}
    for node in ast.walk(syntax(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                found[name] = node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found[name] = node.lineno
    return found


def test_private_words_do_not_come_back() -> None:
    found = [
        f"{relative(path)}:{line}: `{name}` is called {PRIVATE[name.strip('_')]}"
        for path in python_files("pypto")
        for name, line in names(path).items()
        if name.strip("_") in PRIVATE
    ]
    assert found == []


def test_vague_words_do_not_come_back() -> None:
    found = [
        (relative(path), line, name)
        for path in python_files("pypto")
        for name, line in names(path).items()
        if name.strip("_") in VAGUE and (relative(path), name) not in PUBLIC
    ]
    left = [row for row in found if not row[0].startswith(ASCEND) or is_gone(row)]
    assert left == [], "\n".join(f"{file}:{line}: `{name}` is {VAGUE[name.strip('_')]}" for file, line, name in left)
    assert {name.strip("_") for file, _, name in found if file.startswith(ASCEND)} == STILL_IN_ASCEND, (
        "take it off the list"
    )


def is_gone(row: tuple[str, int, str]) -> bool:
    """Whether a name in the Ascend backend is one of the words that have gone from it."""
    return row[0].startswith(ASCEND) and row[2].strip("_") not in STILL_IN_ASCEND


def test_names_are_seen(tmp_path: Path) -> None:
    file = tmp_path / "stagger.py"
    file.write_text("class A:\n    def f(self, restep):\n        self.woven = askew = restep\n")
    assert names(file).keys() >= {"stagger", "A", "f", "restep", "woven", "askew"}


def is_pass(node: ast.AST) -> bool:
    """Whether a function takes Tile IR and gives Tile IR."""
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.returns is None:
        return False
    first = next(iter(node.args.args), None)
    takes_ir = first is not None and first.annotation is not None and ast.unparse(first.annotation) == "Function"
    return takes_ir and ast.unparse(node.returns) in ("Function", "list[Function]")


@pytest.mark.parametrize("path", [path for path in PASSES if path.stem not in NO_IR], ids=relative)
def test_a_module_of_passes_shows_ir_and_a_pass_says_when_it_is_legal(path: Path) -> None:
    tree = syntax(path)
    text = ast.get_docstring(tree)
    assert text is not None
    assert re.search(r"\n\n    \S", text), "an example in IR is missing"
    if any(map(is_pass, tree.body)):
        assert "Legality: " in text, "it does not say when the pass is legal"
        assert "->" in text, "the IR before and after the pass is missing"


@pytest.mark.parametrize("folder", FOLDERS, ids=relative)
def test_a_folder_says_what_it_is(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert text is not None
    assert 1 <= len(text.splitlines()) <= INIT_LINES
    named = set(re.findall(r"`([a-z_0-9]+)`", text))
    modules = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert modules - {"__init__", "__main__"} <= named, "a module that the folder does not name"
    if relative(folder).startswith("pypto/backends/"):
        assert {name for name in named if "_" in name} <= modules, "a name of a module that has gone"


def test_the_architecture_page_names_all_rooms() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = {folder.name for folder in (ROOT / "pypto").iterdir() if (folder / "__init__.py").exists()}
    assert {room for room in rooms if not re.search(rf"\b{room}\b", text)} == set()


def test_an_entry_of_the_changelog_is_one_idea_without_ratios() -> None:
    entries = re.split(r"\n(?=- |#)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert [entry for entry in entries if entry.startswith("- ") and len(entry.split()) > ENTRY_WORDS] == []
    assert [entry for entry in entries if RATIO.search(entry)] == []
    assert sum(entry.startswith("- ") for entry in entries) > 40


def docstrings(path: Path) -> dict[int, str]:
    """The docstrings of a file's module, classes and functions, by their lines."""
    found: dict[int, str] = {}
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                found[node.body[0].lineno] = text
    return found


def hard_prose(text: str) -> list[str]:
    """The plain words for each hard phrase of a docstring."""
    return [plain for phrase, plain in HARD_PROSE.items() if phrase.search(text)]


def test_docstrings_are_plain_sentences() -> None:
    found = [
        f"{relative(path)}:{line}: {'; '.join(problems)}"
        for path in python_files("pypto")
        for line, text in docstrings(path).items()
        if (problems := hard_prose(text))
    ]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    "text, count",
    [
        ("Adds two arrays.", 0),
        ("Adds two arrays:\n\n    a + b", 0),
        ("Adds two arrays,\nelement by element.\n\nParameters\n----------\na : array", 0),
        ("The same for arrays.", 1),
        ("A sum by parts.", 1),
        ("A view, or what is none", 2),
        ("An array\n\nIt is stored.", 1),
    ],
)
def test_hard_prose_is_seen(text: str, count: int) -> None:
    assert len(hard_prose(text)) == count
