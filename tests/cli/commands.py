"""The command line, called in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from pypto.cli.app import make_app

KERNELS = """
import numpy as np
import pypto as pto


@pto.jit
def add(x, y, out, BLOCK: pto.constexpr):
    start = pto.program_id(0) * BLOCK
    out[start:start + BLOCK] = x[start:start + BLOCK] + y[start:start + BLOCK]


@pto.jit
def wrong(x, out):
    out[:] = x[:] + missing


@pto.autotune([pto.Config({"BLOCK": 64}), pto.Config({"BLOCK": 128}), pto.Config({"BLOCK": -1})], key=["x"])
@pto.jit
def tuned(x, y, out, BLOCK: pto.constexpr):
    start = pto.program_id(0) * BLOCK
    out[start:start + BLOCK] = x[start:start + BLOCK] + y[start:start + BLOCK]


def tuned_args():
    x = np.ones(1000, np.float32)
    return {"x": x, "y": x, "out": np.zeros_like(x), "grid": lambda meta: (pto.cdiv(1000, meta["BLOCK"]),)}
"""
LEVELS = ("tile-ir", "optimized-ir", "loop-ir", "llvm-ir", "assembly")  # of a kernel on the CPU
ADD = ("x=f32[1000]:ones", "y=f32[1000]:arange", "out=f32[1000]:zeros", "BLOCK=256")


def kernels(folder: Path) -> Path:
    """A file of kernels."""
    path = folder / "kernels.py"
    path.write_text(KERNELS, encoding="utf-8")
    return path


def called(*arguments: object) -> Result:
    return CliRunner().invoke(make_app(), [str(a) for a in arguments])


def answer(*arguments: object) -> Any:
    """What a command says to programs."""
    result = called(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
