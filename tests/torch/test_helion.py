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
assert_close(product(x, y.t().contiguous()), x @ y.t(), rtol=1e-4, atol=1e-4)
assert_close(normed(x), x.softmax(1))
offsets = torch.tensor([0, 5, 5, 30, 70])
assert_close(jagged(x, offsets), torch.stack([x[a:b].sum(0) for a, b in zip(offsets[:-1], offsets[1:])]))
print("right")
"""


def test_kernels_of_helion(tmp_path):
    """A process of its own, in which our Triton stands for Triton; Helion reads its kernels from a file."""
    (tmp_path / "script.py").write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", tmp_path / "script.py"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["right"], done.stderr
