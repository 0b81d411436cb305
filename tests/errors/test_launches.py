"""The exact text of every mistake in `launches.txt`: per section what a user runs, then what they read.

`python -m tests.errors.test_launches` writes the texts anew; review the difference before it is committed.
"""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import pytest

from pypto.errors import PyptoError
from tests.errors.test_messages import sections

PATH = Path(__file__).with_name("launches.txt")
PRELUDE = """\
import math
import numpy as np
import pypto as pto
from pypto.options import Settings

@pto.jit
def add(x, y, out, n, BLOCK: pto.constexpr = 16):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    mask = offs < n
    pto.store(out + offs, pto.load(x + offs, mask=mask) + pto.load(y + offs, mask=mask), mask=mask)

@pto.jit
def total(x: pto.dynamic, out):
    out[0] = pto.sum(x[:])

x, y, out = np.ones(8, np.float32), np.ones(8, np.float32), np.zeros(8, np.float32)
"""


def message(code: str) -> str:
    """What the user reads."""
    text = PRELUDE + code
    linecache.cache["launch.py"] = (len(text), None, text.splitlines(keepends=True), "launch.py")
    names: dict[str, Any] = {"__name__": "launch"}
    try:
        exec(compile(text, "launch.py", "exec"), names)
    except PyptoError as error:
        assert not names["out"].any()
        return str(error)
    return "no error"


@pytest.mark.parametrize(("name", "code", "text"), [(n, *case) for n, case in sections(PATH).items()])
def test_text(name: str, code: str, text: str) -> None:
    assert message(code) == text


def test_texts_show_nothing_of_the_compiler() -> None:
    texts = [text for _, text in sections(PATH).values()]
    assert len(texts) >= 30
    assert not any("pypto/" in text or "Traceback" in text or text == "no error" for text in texts)


if __name__ == "__main__":
    written = [f"=== {name}\n{code}---\n{message(code)}\n\n" for name, (code, _) in sections(PATH).items()]
    PATH.write_text("".join(written), encoding="utf-8")
