"""Writes the comparison with other tools, ``docs/features.md``, from ``docs/features.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
TABLE: Final = HERE / "features.toml"
PAGE: Final = HERE / "features.md"
OURS: Final = "pypto"
HEAD: Final = """# Comparison of kernel languages

What pypto and other kernel languages for Python offer, including what pypto lacks. Functions on arrays are compared
with compilers of arrays. The list at the end names the test behind each yes of pypto. Each entry for another tool links
to the public source that it is taken from, as of {read}; links into a repository name the commit. The sources for
Triton are those of its CPU fork, which contains upstream's files.

`·` means that the documentation and source that we read do not mention the feature. The tool may have it all the same.

This page is written by `python -m docs.features` from `docs/features.toml`; corrections belong there.
"""


def table() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def url(source: str, tools: dict[str, Any]) -> str:
    """A source in full: a line of a tool's repository, or an address as it is."""
    tool, _, rest = source.partition(":")
    return tools[tool]["source"] + rest if tool in tools else source


def word(cell: dict[str, str] | None, tools: dict[str, Any]) -> str:
    if cell is None:
        return "·"
    return f"[{cell['is']}]({url(cell['source'], tools)})" if "source" in cell else cell["is"]


def compared(part: str, data: dict[str, Any]) -> list[str]:
    """The tools that a part is compared with: its own, or all that no part has for itself alone."""
    parts = data["parts"]
    if part in parts:
        return list(parts[part])
    used = {name for row in data["row"] if row["part"] not in parts for name in row}
    return [name for name in data["tools"] if name in used]


def lines(part: str, data: dict[str, Any]) -> Iterator[str]:
    """The table of one part, and what its cells have to add."""
    tools = data["tools"]
    others = compared(part, data)
    names = [OURS, *others]
    rows = [row for row in data["row"] if row["part"] == part]
    yield f"\n## {part}\n"
    yield f"| | {OURS} | {' | '.join(tools[name]['name'] for name in others)} |"
    yield f"|---|{'---|' * len(names)}"
    for row in rows:
        yield f"| {row['feature']} | {' | '.join(word(row.get(name), tools) for name in names)} |"
    yield ""
    for row in rows:
        found = [f"{tools.get(n, {'name': OURS})['name']}: {row[n]['note']}" for n in names if "note" in row.get(n, {})]
        if found:
            yield f"- *{row['feature']}.* {'; '.join(found)}."


def shown_tests(cell: dict[str, str]) -> str:
    return ", ".join(f"`{test}`" for test in cell["test"].split(", "))


def page() -> str:
    data = table()
    parts = [line for part in dict.fromkeys(row["part"] for row in data["row"]) for line in lines(part, data)]
    tests = [f"| {row['feature']} | {shown_tests(row[OURS])} |" for row in data["row"] if "test" in row[OURS]]
    shown = ["\n## The tests behind our column\n", "| | |", "|---|---|", *tests]
    return "\n".join([HEAD.format(read=data["read"]), *parts, *shown]) + "\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
