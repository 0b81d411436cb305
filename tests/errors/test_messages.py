"""The exact text of every mistake in `messages.txt`: per section a kernel's body, then what its author reads.

`python -m tests.errors.test_messages` writes the texts anew; review the difference before it is committed.
"""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import pytest

import pypto.language as pto
from pypto.errors import Diagnostic
from pypto.ir.types import ArrayType, scalar
from tests.frontend.evaluate import built

PATH = Path(__file__).with_name("messages.txt")
PRELUDE = """\
import math
import numpy as np
import pypto.language as pto
TABLE = [1, 2]
WEIGHTS = np.zeros(4)
def endless(k):
    return endless(k + 1)
def partial(value):
    if value > 0:
        return value
def two_types(value):
    if value > 0:
        return pto.zeros((4,), pto.float32)
    return pto.zeros((8,), pto.float32)
def sized(size: pto.constexpr):
    return pto.zeros((size,), pto.float32)
def kernel(x, y, n):
"""


def sections(path: Path = PATH) -> dict[str, tuple[str, str]]:
    """Body and text of each case."""
    parts = path.read_text(encoding="utf-8").split("=== ")[1:]
    cases = (part.split("\n", 1) for part in parts)
    return {name: (rest.split("---\n")[0], rest.split("---\n")[1].rstrip("\n")) for name, rest in cases}


def message(body: str) -> str:
    """What the kernel's author reads."""
    text = PRELUDE + "".join(f"    {line}\n" for line in body.splitlines())
    linecache.cache["kernel.py"] = (len(text), None, text.splitlines(keepends=True), "kernel.py")
    names: dict[str, Any] = {"__name__": "kernel"}
    exec(compile(text, "kernel.py", "exec"), names)
    array = ArrayType(pto.float32, 1)
    try:
        built(names["kernel"], x=array, y=array, n=scalar(pto.int32))
    except Diagnostic as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize(("name", "body", "text"), [(n, *case) for n, case in sections().items()])
def test_text(name: str, body: str, text: str) -> None:
    assert message(body) == text


def test_every_text_has_a_place_and_no_compiler_frame() -> None:
    texts = [text for _, text in sections().values()]
    assert len(texts) >= 40
    assert all("kernel.py:" in text and "pypto/" not in text and "^" in text for text in texts)


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in Diagnostic.__subclasses__()]
    assert len(codes) == len(set(codes))


if __name__ == "__main__":
    written = [f"=== {name}\n{body}---\n{message(body)}\n\n" for name, (body, _) in sections().items()]
    PATH.write_text("".join(written), encoding="utf-8")
