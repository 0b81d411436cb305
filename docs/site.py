"""Builds the site: the pages as they stand here, with the tutorials, the architecture and the changelog beside them.

``python -m docs.site`` puts all pages into ``docs/_build/source``, with links as they are there, and lets Sphinx make
``docs/_build/html`` of them. Then it executes the tutorials, which takes many minutes, and makes their pages again with
what they print. The pages are plain Markdown, and read as well where the repository is browsed. A tutorial that fails
is shown without outputs; the site is built all the same, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from docs.notebooks import convert_all
from pypto.cli.notebooks import notebook as as_notebook

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "docs" / "_build"
# What the sidebar shows, in this order; other pages follow the guides.
PARTS: Final = {
    "Start": ("quickstart", "tutorials/index", "coming-from-numpy", "arrays", "arrays-quickstart", "array-api",
              "attention-layer", "convolution-layer", "coming-from-triton", "triton", "torch", "features"),
    "Guides": ("language", "semantics", "library", "operators", "quantisation",
               "performance", "profiling", "debugging", "checked", "devices", "ascend",
               "timing", "torch", "torch-compile", "vllm", "command-line", "ahead-of-time", "notebooks", "faq"),
    "Lists": ("reference/index", "glossary", "errors", "settings", "triton-names", "triton-kernels"),
    "Contributing": ("contributing", "compiler", "architecture", "stability", "security", "changelog"),
}  # fmt: skip
ELSEWHERE: Final = {"ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
CODE: Final = r"(?P<code>```.*?\n```|(?<!`)(?P<ticks>``?)(?!`).*?(?<!`)(?P=ticks)(?!`))"
LINK: Final = re.compile(CODE + r"|(?<=[^\\]\]\()(?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?(?=\))", re.DOTALL)

IMAGE: Final = re.compile(CODE + r"|!\[(?P<alternative>[^][]*)\]\((?P<file>[^)\s]*)\)", re.DOTALL)


def sources() -> dict[Path, str]:
    """Files of the repository that become pages, and the names that they have in the site."""
    found = {path: str(path.relative_to(ROOT / "docs")) for path in sorted((ROOT / "docs").glob("*.md"))}
    found |= {path: f"reference/{path.name}" for path in sorted((ROOT / "docs" / "reference").glob("*.md"))}
    found |= {ROOT / name: page for name, page in ELSEWHERE.items()}
    return found | {path: f"tutorials/{path.stem}.ipynb" for path in tutorials()}


def pictures() -> dict[Path, str]:
    """Files that pages show, and the names that they have in the site."""
    return {path: f"charts/{path.name}" for path in sorted((ROOT / "docs" / "charts").iterdir())}


def tutorials() -> list[Path]:
    return sorted((ROOT / "tutorials").glob("[0-9]*.py"))


def images(text: str) -> list[tuple[str, str]]:
    """What the pictures on a page say instead of being seen, and their files."""
    found = (m for m in IMAGE.finditer(text) if m["code"] is None)
    return [(m["alternative"], m["file"]) for m in found]


def links(text: str) -> list[tuple[str, str]]:
    """Targets of the links in a page's prose, and the anchors in them."""
    found = (m for m in LINK.finditer(text) if m["code"] is None and "://" not in m["target"])
    return [(m["target"], m["anchor"] or "") for m in found]


def relinked(text: str, path: Path, pages: dict[Path, str]) -> str:
    """A page's text with its links as they are in the site. What has no page there is no link."""
    here = Path(pages[path]).parent

    def target(match: re.Match[str]) -> str:
        if match["code"] is not None or "://" in match["target"] or not match["target"]:
            return match[0]
        page = pages.get((path.parent / match["target"]).resolve())
        return f"{os.path.relpath(page, here)}{match['anchor'] or ''}" if page else "#"

    return re.sub(r"\[([^][]*)\]\(#\)", r"\1", LINK.sub(target, text))


def contents(pages: dict[Path, str]) -> str:
    """The sidebar, for the end of the first page."""
    there = {page.rsplit(".", 1)[0] for page in pages.values() if "/" not in page or page == "reference/index.md"}
    named = {name for names in PARTS.values() for name in names}
    parts = PARTS | {"Guides": (*PARTS["Guides"], *sorted(there - named - {"index"}))}
    shown = there | {"tutorials/index"}
    return "".join(tree(caption, [name for name in names if name in shown]) for caption, names in parts.items())


def tree(caption: str, names: list[str]) -> str:
    title = f":caption: {caption}\n" if caption else ""
    return "\n\n```{toctree}\n:hidden:\n" + title + "\n" + "\n".join(names) + "\n```\n"


def list_of_tutorials() -> str:
    """The page in front of the tutorials."""
    names = [path.stem for path in tutorials()]
    lines = ["| | |", "|---|---|", *(f"| [{title(p)}]({p.stem}.ipynb) | {first_sentence(p)} |" for p in tutorials())]
    text = "Each is a script in notebook form that explains, checks itself against numpy and prints its speed."
    head = f"# Tutorials\n\n{text} `pypto tutorials copy DIR` puts them into a folder.\n\n"
    return head + "\n".join(lines) + tree("", names)


def title(path: Path) -> str:
    found = re.search(r"^# # (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else path.stem


def first_sentence(path: Path) -> str:
    """What a tutorial says first, below its title."""
    found = re.search(r"^# # .+\n#\n((?:# .+\n)+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    text = " ".join(line.removeprefix("# ") for line in found[1].splitlines()) if found else ""
    return re.split(r"(?<=[.:])\s", text)[0].rstrip(":.").replace("|", "\\|")


def notebook(path: Path, executed: Path) -> str:
    """A tutorial as a notebook: with its outputs, if it was executed into a folder and has not changed since."""
    text = as_notebook(path.read_text(encoding="utf-8"))
    done = executed / path.with_suffix(".ipynb").name
    if not done.is_file():
        return text
    found = done.read_text(encoding="utf-8")
    return found if sources_of(found) == sources_of(text) else text


def sources_of(book: str) -> list[str]:
    """The cells of a notebook without their outputs."""
    return ["".join(cell["source"]) for cell in json.loads(book)["cells"]]


def assemble(folder: Path, executed: Path = BUILD / "tutorials") -> None:
    """Write all pages of the site's source; files that are as they were keep their times, for quick second builds."""
    pages, shown = sources(), pictures()
    texts: dict[str, str] = {"tutorials/index.md": list_of_tutorials()}
    for path, page in pages.items():
        text = notebook(path, executed) if path.suffix == ".py" else path.read_text(encoding="utf-8")
        texts[page] = relinked(text, path, pages | shown) if path.suffix == ".md" else text
    texts["index.md"] += contents(pages)
    names = sorted(path.stem for path in pages if path.parent.name == "reference")
    texts["reference/index.md"] += tree("", [name for name in names if name != "index"])
    files = {name: text.encode() for name, text in texts.items()}
    write(folder, files | {name: path.read_bytes() for path, name in shown.items()})


def write(folder: Path, files: dict[str, bytes]) -> None:
    for old in folder.rglob("*.*"):
        if old.is_file() and old.relative_to(folder).as_posix() not in files:
            old.unlink()
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != body:
            path.write_bytes(body)


def build(run: Callable[..., int]) -> int:
    """Make the site of the sources and of the outputs that there are; a second time, of what has changed alone."""
    assemble(BUILD / "source")
    command = [sys.executable, "-m", "sphinx", "-c", str(ROOT / "docs"), "-W", "--keep-going", "-n", "-q", "-j", "auto"]
    return run([*command, str(BUILD / "source"), str(BUILD / "html")])


def main(arguments: Sequence[str] | None = None, run: Callable[..., int] = subprocess.call,
         execute: Callable[..., list[str]] = convert_all) -> int:  # fmt: skip
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("--no-execute", action="store_true", help="take tutorials as they were executed before")
    given = parser.parse_args(arguments)
    status = build(run)
    if given.no_execute:
        return status
    print(f"the pages are there: {BUILD / 'html' / 'index.html'}; the tutorials are executed now", flush=True)
    failed = execute(tutorials(), BUILD / "tutorials")
    status = build(run) or status  # Sphinx warns of a page once, when it reads it
    if failed:
        print(f"the site is there, without the outputs of tutorials that failed: {', '.join(failed)}", file=sys.stderr)
    return status or int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
