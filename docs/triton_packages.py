"""Writes the part of ``docs/triton.md`` that says which entry points of which packages were tried.

``python -m docs.triton_packages`` writes it, and a test holds the page to what it would write. What was found is in
``docs/triton-packages.json``, which ``python -m tests.compat.packages.outcomes`` writes where they are installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "triton.md"
FOUND: Final = HERE / "triton-packages.json"
RIGHT: Final = "right"
PART: Final = re.compile(r"(?<=<!-- tried -->\n).*?(?=<!-- end of tried -->)", re.DOTALL)


def packages() -> dict[tuple[str, str], dict[str, str]]:
    """Results by package and version; a package may have several tables."""
    merged: dict[tuple[str, str], dict[str, str]] = {}
    tables: dict[str, dict[str, Any]] = json.loads(FOUND.read_text(encoding="utf-8"))
    for table in tables.values():
        merged.setdefault((table["package"], table["version"]), {}).update(table["results"])
    return dict(sorted(merged.items()))


def lines() -> Iterator[str]:
    """A table of all packages, then the names of each."""
    found = packages()
    yield from ("| package | version | right | tried |", "|---|---|---|---|")
    for (package, version), results in found.items():
        right = sum(result == RIGHT for result in results.values())
        yield f"| {package} | {version} | {right} | {len(results)} |"
    for (package, _), results in found.items():
        right_names = [name for name, result in results.items() if result == RIGHT]
        yield from ("", f"### {package}", "", f"Right: {', '.join(f'`{name}`' for name in right_names)}.")
        others = {name: result for name, result in results.items() if result != RIGHT}
        if others:
            yield from ("", "| not right | what it says |", "|---|---|")
            yield from (f"| `{name}` | {result.replace('|', chr(92) + '|')} |" for name, result in others.items())
    yield ""


def page() -> str:
    """The page as it stands, with that part written anew."""
    part = "\n".join(["", *lines(), ""])
    return PART.sub(lambda _: part, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
