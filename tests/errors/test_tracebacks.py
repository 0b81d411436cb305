"""What stands above the message of a mistake: the caller's line, and none of the compiler's own frames."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic


@pto.jit
def unknown_name(x, n):
    x[0] = n + missing  # noqa: F821


def bound() -> None:
    unknown_name.bind(X, 4, grid=(1,))()


X = np.zeros(4, np.float32)
WAYS: dict[str, Callable[[], Any]] = {
    "launch": lambda: unknown_name[(1,)](X, 4),
    "compile": lambda: unknown_name.compile(X, 4),
    "bind": bound,
    "interpret": lambda: pto.interpret(unknown_name)[(1,)](X, 4),
    "verify": lambda: pto.verify(unknown_name)[(1,)](X, 4),
    "inspect": lambda: unknown_name.inspect(X, 4),
}


def frames(way: str) -> list[str]:
    """The files of the traceback that a user reads."""
    with pytest.raises(Diagnostic, match="E203") as caught:
        WAYS[way]()
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return [Path(frame.filename).as_posix() for frame in traceback.extract_tb(caught.value.__traceback__)]


@pytest.mark.parametrize("way", WAYS)
def test_a_mistake_shows_no_frame_of_the_compiler(way: str) -> None:
    found = frames(way)
    assert any(name.endswith("test_tracebacks.py") for name in found)
    assert not any("pypto/frontend" in name or "pypto/passes" in name or "pypto/compile.py" in name for name in found)
    assert len([name for name in found if "/pypto/" in name]) <= 4


PROGRAM = """
import numpy as np
import pypto as pto

@pto.jit
def unknown_name(x):
    x[0] = missing

unknown_name[(1,)](np.zeros(4, np.float32))
"""


def test_the_full_traceback_can_be_had(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    env = {**os.environ, "PYPTO_TRACEBACK": "full"}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "E203" in done.stderr
    assert os.path.join("pypto", "frontend", "build.py") in done.stderr
