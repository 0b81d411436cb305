"""Mistakes of habit: of those who come from numpy, from Triton, from other decorators. The exact text of each.

In `habits.txt`, per section: the end of a program, then what its author reads. `python -m tests.errors.test_habits`
writes the texts anew; review the difference before it is committed.
"""

from __future__ import annotations

import linecache
import re
import traceback
from pathlib import Path

import pytest

from pypto.errors import Diagnostic
from tests.errors.test_messages import sections

PATH = Path(__file__).with_name("habits.txt")
PRELUDE = """\
import numpy as np
import pypto as pto

x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)

"""
FILE = "program.py"


def mistake(code: str) -> Diagnostic:
    """What the program's end raises. It shows no frame of the package, and nothing was written."""
    text = PRELUDE + code
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    names = {"__name__": "program"}
    with pytest.raises(Diagnostic) as caught:
        exec(compile(text, FILE, "exec"), names)
    frames = [Path(frame.filename).as_posix() for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert FILE in frames and not any("/pypto/" in name for name in frames)
    assert not names["y"].any()  # type: ignore[attr-defined]  # an array of the program
    return caught.value


@pytest.mark.parametrize(("name", "code", "text"), [(n, *case) for n, case in sections(PATH).items()])
def test_text(name: str, code: str, text: str) -> None:
    assert str(mistake(code)) == text


def test_each_has_a_place_a_cause_and_a_way_out() -> None:
    texts = [text for _, text in sections(PATH).values()]
    assert len(texts) >= 50
    for text in texts:
        assert re.match(r"\[E\d{3}\] .{8,}\n  --> program\.py:\d+:\d+", text), text
        assert "^" in text and re.search(r"\n  help: .{12,}$", text), text
        assert "pypto/" not in text and "Traceback" not in text


if __name__ == "__main__":
    written = [f"=== {name}\n{code}---\n{mistake(code)}\n\n" for name, (code, _) in sections(PATH).items()]
    PATH.write_text("".join(written), encoding="utf-8")
