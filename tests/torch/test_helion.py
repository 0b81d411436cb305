"""Helion's kernels on the CPU: it writes Triton, and `pypto.compat.triton` stands for that."""

# mypy: ignore-errors

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.house.measure import ROOT

pytest.importorskip("torch")
pytest.importorskip("helion")
pytestmark = pytest.mark.slow

SCRIPT = """
from pypto.compat.triton import install
install()
import helion
import helion.language as hl
import torch
from torch.testing import assert_close

@helion.kernel(config=helion.Config(block_sizes=[32, 64]))
def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(out.size()):
        out[tile] = torch.sigmoid(x[tile]) * y[tile]
    return out

@helion.kernel(config=helion.Config(block_sizes=[32, 32, 16]))
def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    out = torch.empty([m, y.size(1)], dtype=x.dtype)
    for i, j in hl.tile([m, y.size(1)]):
        acc = hl.zeros([i, j], dtype=torch.float32)
        for at in hl.tile(k):
            acc = torch.addmm(acc, x[i, at], y[at, j])
        out[i, j] = acc
    return out

@helion.kernel(config=helion.Config(block_sizes=[4]))
def normed(x: torch.Tensor) -> torch.Tensor:
    n, _ = x.size()
    out = torch.empty_like(x)
    for rows in hl.tile(n):
        out[rows, :] = torch.nn.functional.softmax(x[rows, :], dim=1)
    return out

@helion.kernel(config=helion.Config(block_sizes=[1, 16, 16]))
def jagged(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    rows, width = offsets.size(0) - 1, values.size(1)
    flat, out = values.view(-1), torch.zeros([rows, width])
    for row in hl.tile(rows):
        first = offsets[row]
        count = offsets[row.index + 1] - first
        for columns in hl.tile(width):
            acc = hl.zeros([row, columns], dtype=torch.float32)
            for at in hl.tile(0, count.amax()):
                index = (first[:, None] + at.index[None, :])[:, :, None] * width + columns.index[None, None, :]
                there = (at.index[None, :] < count[:, None])[:, :, None] & (columns.index < width)[None, None, :]
                acc = acc + hl.load(flat, [index], extra_mask=there).sum(1)
            out[row, columns] = acc
    return out

torch.manual_seed(0)
x, y = torch.randn(70, 90), torch.randn(70, 90)
assert_close(scaled(x, y), x.sigmoid() * y)
assert_close(product(x, y.t().contiguous()), x @ y.t(), rtol=1e-2, atol=1e-2)  # in TF32, by default
assert_close(normed(x), x.softmax(1))
offsets = torch.tensor([0, 5, 5, 30, 70])
assert_close(jagged(x, offsets), torch.stack([x[a:b].sum(0) for a, b in zip(offsets[:-1], offsets[1:])]))
print("right")
"""

TUNED = """
from pypto.compat.helion import install
install()
import helion
import helion.language as hl
import torch
from torch.testing import assert_close

KINDS = ("flat", "persistent_blocked")
CONFIGS = [helion.Config(block_sizes=[n, 32], pid_type=kind) for n in (4, 32) for kind in KINDS]

def search(kernel, args, **_):
    from helion.autotuner import RandomSearch, cache_classes
    return cache_classes[kernel.settings.autotune_cache](RandomSearch(kernel, args, 6))

@helion.kernel(configs=CONFIGS)
def shifted(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(out.size()):
        out[tile] = x[tile] + 1
    return out

@helion.kernel(autotuner_fn=search)
def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(out.size()):
        out[tile] = torch.sigmoid(x[tile]) * y[tile]
    return out

@helion.kernel(config=helion.Config(block_sizes=[32, 32], pid_type="persistent_blocked"))
def two_steps(x: torch.Tensor) -> torch.Tensor:
    half, out = torch.empty_like(x), torch.empty_like(x)
    for rows in hl.tile(x.size(0)):
        half[rows] = x[rows] + 1
    hl.barrier()
    for rows in hl.tile(x.size(0)):
        out[rows] = half[rows] + half[(x.size(0) - 1) - rows.index]
    return out

torch.manual_seed(0)
x, y = torch.randn(70, 90), torch.randn(70, 90)
assert_close(shifted(x), x + 1)
assert_close(scaled(x, y), x.sigmoid() * y)
z = torch.randn(1000)
assert_close(two_steps(z), z + z.flip(0) + 2)
print("right")
"""


def run_script(tmp_path, text, **settings):
    """A process of its own, in which our Triton stands for Triton; Helion reads its kernels from a file."""
    (tmp_path / "script.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **settings}
    command = [sys.executable, "-W", "ignore", tmp_path / "script.py"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["right"], done.stderr
    return done.stderr


def test_kernels_of_helion(tmp_path):
    run_script(tmp_path, SCRIPT)


def test_tuning_of_helion(tmp_path):
    """Each given configuration is tried; a second process finds what a search found. A barrier needs one program."""
    settings = {"HELION_CACHE_DIR": str(tmp_path / "cache")}
    first = run_script(tmp_path, TUNED, **settings)
    assert "after searching 4 configs" in first
    assert first.count("Autotuning complete") == 2
    assert run_script(tmp_path, TUNED, **settings).count("Autotuning complete") == 1
