"""Writes the list of diagnostics from their classes: ``docs/errors.md``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pypto.debug.codes import Code, codes
from pypto.errors.examples import PRELUDE

PAGE: Final = Path(__file__).with_name("errors.md")
HEAD: Final = """# Errors

Every error of kernels and launches, by its code. Text in braces depends on the place. `pypto explain CODE` shows the
same in a terminal; [Debugging](debugging.md) says how to go on.

Written by `python -m docs.errors` from the classes of the errors.

| code | error | says | help |
|---|---|---|---|
"""

MIDDLE: Final = f"""
Each has a program below that gives it, and one that runs. All begin with

```text
{PRELUDE}```

"""


def row(code: Code) -> str:
    kind = f"`{code.name}`{f', a `{code.builtin}`' if code.builtin else ''}"
    way = "" if code.hint == "{way}" else code.hint
    return f"| {code.code} | {kind} | {cell(code.message)} | {cell(way)} |"


def cell(text: str) -> str:
    """Text in a table: what stands outside of spans of code is meant as it stands."""
    parts = text.replace("|", "\\|").replace("\n", " ").split("`")
    return "`".join(part if n % 2 else re.sub(r"([*\[\]])", r"\\\1", part) for n, part in enumerate(parts))


def page() -> str:
    rows = "\n".join(row(code) for code in codes().values())
    return f"{HEAD}{rows}\n{MIDDLE}" + "\n".join(examples(code) for code in codes().values())


def examples(code: Code) -> str:
    """What is wrong, and how it is right, below the table."""
    wrong, right = (f"```text\n{program}```" for program in (code.example.wrong, code.example.right))
    return f"## {code.code}: {code.name}\n\nWrong:\n\n{wrong}\n\nRight:\n\n{right}\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
