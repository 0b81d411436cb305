"""Writes the table of Triton's public names and what each is here: ``docs/triton-names.md``.

``triton_names.txt`` lists the names; what they are is asked of the module tree itself.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from pypto import language
from pypto.compat.triton.tree import contents
from pypto.language import libdevice
from pypto.ops.public import Refused

HERE: Final = Path(__file__).parent
TABLE: Final = HERE / "triton-names.md"
OURS: Final = {id(getattr(language, name)): f"`pto.{name}`" for name in sorted(language.__all__, reverse=True)}
MISSING: Final = object()
MODULE: Final = object()


def names() -> list[tuple[str, str, str]]:
    """Module, name, versions of Triton."""
    lines = (HERE / "triton_names.txt").read_text(encoding="utf-8").splitlines()
    return [(m, n, v) for m, n, v in (line.split() for line in lines if not line.startswith("#"))]


def found(tree: dict[str, dict[str, Any]], module: str, name: str) -> Any:
    """What stands under a name: an entry of its module, or a module below it."""
    return tree[module].get(name, MODULE if f"{module}.{name}" in tree else MISSING)


def status(x: Any, name: str) -> tuple[str, str]:
    """A word for the count, and what the table says."""
    if x is MISSING:
        return "missing", "missing"
    if isinstance(x, Refused):
        return "refused", f"refused: {x.way}"
    if x is MODULE:
        return "works", "a module"
    if id(x) in OURS:
        return "works", f"works; the same as {OURS[id(x)]}"
    if getattr(libdevice, name, MISSING) is x:
        return "works", f"works; `pypto.language.libdevice.{name}`"
    return "works", "works; part of `pypto.compat.triton`"


def page() -> str:
    tree, rows, counts = contents(), [], Counter[str]()
    module = ""
    for where, name, versions in names():
        if where != module:
            module = where
            rows += ["", f"## {module}", "", "| name | in Triton | here |", "|---|---|---|"]
        word, text = status(found(tree, where, name), name)
        counts[word] += 1
        rows.append(f"| `{name}` | {versions.replace(',', ', ')} | {text} |")
    told = ", ".join(
        f"{count} {'work' if word == 'works' else word}" for word, count in sorted(counts.items(), reverse=True)
    )
    text = ("Names of Triton 2.1, 3.4 and 3.9, the public ones and those private ones that other code imports, and",
            f"what each is here: {told}. Written by `python -m docs.triton_names`.")  # fmt: skip
    head = ["# Names of Triton", "", *text]
    return "\n".join([*head, *rows]) + "\n"


def main() -> None:
    TABLE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
