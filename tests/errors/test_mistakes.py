"""Twenty programs with a mistake, and what somebody made of them who had read nothing but the message.

In `mistakes.txt`, per section: the program, then the mended one. Messages were mended after that trial; it is worth
repeating, with other people, when they change.
"""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from pypto.errors import Diagnostic

PATH = Path(__file__).with_name("mistakes.txt")
PRELUDE = "import numpy as np\nimport pypto as pto\n\n"


def programs() -> dict[str, tuple[str, str]]:
    """The program with its mistake and the mended one, by name."""
    parts = (part.split("\n", 1) for part in PATH.read_text(encoding="utf-8").split("=== ")[1:])
    halves = ((name, text.split("\n---\n")) for name, text in parts)
    return {name: (given, mended) for name, (given, mended) in halves}


def run(name: str, program: str) -> None:
    file, text = f"{name}.py", PRELUDE + program
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), {"__name__": name})


@pytest.mark.parametrize("name", programs())
def test_the_mistake_is_told_with_its_place(name: str) -> None:
    given, _ = programs()[name]
    with pytest.raises(Diagnostic) as caught:
        run(name, given)
    assert f"--> {name}.py:" in str(caught.value)


@pytest.mark.parametrize("name", programs())
def test_the_mended_program_is_right(name: str) -> None:
    """Each ends with an assertion of its own."""
    _, mended = programs()[name]
    assert mended.rstrip().splitlines()[-1].startswith("assert ")
    run(name, mended)


def test_there_are_twenty() -> None:
    assert len(programs()) == 20
    assert all(given != mended for given, mended in programs().values())
