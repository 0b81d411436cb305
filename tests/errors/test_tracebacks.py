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
from pypto.debug.explain import explain
from pypto.errors import Diagnostic


@pto.jit
def unknown_name(x, n):
    x[0] = n + missing  # noqa: F821


@pto.autotune([pto.Config({"BLOCK": 1}), pto.Config({"BLOCK": 2})])
@pto.jit
def tuned(x, n, BLOCK: pto.constexpr):
    x[0] = n + missing  # noqa: F821


@pto.heuristics({"BLOCK": lambda args: 1})
@pto.jit
def ruled(x, n, BLOCK: pto.constexpr):
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
    "run": lambda: unknown_name.run(X, 4, grid=(1,)),
    "launch by name": lambda: unknown_name.launch((1,), X, 4),
    "warmup": lambda: unknown_name.warmup(X, 4, grid=(1,)),
    "simulate": lambda: pto.simulate(unknown_name, target="ascend910b2")[(1,)](X, 4),
    "explain": lambda: explain(unknown_name, X, 4),
    "autotuned": lambda: tuned[(1,)](X, 4),
    "tune": lambda: tuned.tune(X, 4, grid=(1,)),
    "heuristics": lambda: ruled[(1,)](X, 4),
}


def frames(way: str) -> list[str]:
    """The files of the traceback that a user reads."""
    with pytest.raises(Diagnostic, match="E203") as caught:
        WAYS[way]()
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return [Path(frame.filename).as_posix() for frame in traceback.extract_tb(caught.value.__traceback__)]


@pytest.mark.parametrize("way", WAYS)
def test_a_mistake_shows_no_frame_of_the_package(way: str) -> None:
    found = frames(way)
    assert any(name.endswith("test_tracebacks.py") for name in found)
    assert not [name for name in found if "/pypto/" in name]


PROGRAM = """
import numpy as np
import pypto as pto

@pto.jit
def unknown_name(x):
    x[0] = missing

unknown_name[(1,)](np.zeros(4, np.float32))
"""


def shown(folder: Path, **settings: str) -> str:
    """What a program prints that nobody catches the mistake of."""
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    env = {**os.environ, **settings}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "E203" in done.stderr
    return done.stderr


@pytest.mark.parametrize("launcher", ["native", "python"])
def test_an_uncaught_mistake_shows_the_users_line_alone(launcher: str, tmp_path: Path) -> None:
    text = shown(tmp_path, PYPTO_LAUNCHER=launcher, PYPTO_TRACEBACK="short")
    assert text.count('  File "') == 1
    assert f'File "{tmp_path / "program.py"}", line 9, in <module>' in text


def test_the_full_traceback_can_be_had(tmp_path: Path) -> None:
    assert os.path.join("pypto", "frontend", "build.py") in shown(tmp_path, PYPTO_TRACEBACK="full")


MATRIX = np.ones((2, 8), np.float32)


def traced(x: Any) -> Any:
    return x if x > 0 else -x


def above_arrays() -> dict[str, Callable[[], Any]]:
    """Mistakes in calls of fused functions, of the library and of quantisation."""
    from pypto import arrays, library, quant

    fused = pto.fuse(traced)
    return {
        "fuse": lambda: fused(X),
        "fuse, an argument": lambda: fused(np.ma.masked_array(X)),
        "fuse, a keyword": lambda: fused(X, dim=3),
        "fuse, no function": lambda: pto.fuse(3),  # type: ignore[call-overload]
        "fuse, a decorator": lambda: pto.fuse(precision="")(3),  # type: ignore[arg-type]
        "plan": lambda: fused.plan(X),
        "tune": lambda: fused.tune(X, budget=0),
        "out": lambda: pto.fuse(lambda x: x + 1)(X, out=X),
        "a function on arrays": lambda: arrays.softmax(X, dim=0),
        "lib": lambda: library.rms_norm(MATRIX, X),
        "lib, a keyword": lambda: library.rms_norm(MATRIX, X, outputs=3),
        "quant": lambda: quant.load("no folder"),
        "quant, a scheme": lambda: quant.int8(per="nothing"),
        "quant, a model": lambda: quant.load_bert("no folder"),
        "simulate": lambda: pto.simulate(fused),
        "vjp": lambda: pto.vjp(fused),
        "interpret": lambda: pto.interpret(fused),
    }


@pytest.mark.parametrize("name", above_arrays())
def test_a_mistake_above_kernels_shows_no_frame_of_the_package(name: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        above_arrays()[name]()
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    found = [Path(frame.filename).as_posix() for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert not [name for name in found if "/pypto/" in name]
