"""A wrong and a right program for every diagnostic; each stands in its class."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent, indent
from typing import Final

PRELUDE: Final = """\
import numpy as np
import pypto as pto

x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
"""


@dataclass(frozen=True, slots=True)
class Example:
    """A program with a mistake and the program without it; both come after `PRELUDE`."""

    wrong: str
    right: str


def programs(wrong: str, right: str) -> Example:
    """Whole programs."""
    return Example(dedent(wrong).strip("\n") + "\n", dedent(right).strip("\n") + "\n")


def bodies(wrong: str, right: str, launch: str = "f[(1,)](x, y, 8)") -> Example:
    """Bodies of a kernel, and its launch."""
    heads = (f"@pto.jit\ndef f(x, y, n):\n{indent(body, '    ')}\n\n" for body in (wrong, right))
    return Example(*(f"{head}{launch}\n" for head in heads))


def launches(wrong: str, right: str) -> Example:
    """Launches of a kernel."""
    head = "@pto.jit\ndef f(x, y, n):\n    y[:] = x[:] * n\n\n"
    return Example(f"{head}{wrong}\n", f"{head}{right}\n")


CHECKED: Final = "with pto.checked():\n    f[(1,)](x, y, 8)"
INTERPRETED: Final = "pto.interpret(f)[(1,)](x, y, 8)"


def libraries(wrong: str, right: str) -> Example:
    """What is done with a library of a kernel, which is built first."""
    head = (
        "import os, pathlib, pypto.aot, tempfile\nfrom pypto.tools.aot import build\n\n"
        "@pto.jit\ndef f(x, y):\n    y[:] = x[:] * 2\n\n"
        "path = pathlib.Path(tempfile.mkdtemp(), 'libf.so')\n"
    )
    return Example(f"{head}{wrong}\n", f"{head}{right}\n")
