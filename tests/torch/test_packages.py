"""Packages of AOTInductor with Triton kernels of users: a process without pypto loads them."""

# mypy: ignore-errors

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.house.measure import ROOT
from tests.patience import limit

codecache = pytest.importorskip("torch._inductor.codecache")
has_libraries = shutil.which("g++") is not None and hasattr(codecache, "CpuTritonKernelCache")  # torch 2.13
MODEL = """
import sys
import torch
import triton
import triton.language as tl
from torch.library import wrap_triton

@triton.jit
def scaled_sum(x, y, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor + tl.load(y + i, i < n), i < n)

@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=[], restore_value=["x"])
@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * 2, i < n)

class Model(torch.nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        wrap_triton(scaled_sum)[(triton.cdiv(n, 64),)](x.sin(), y, out, n, 0.1, BLOCK=64)
        wrap_triton(double)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](out, n)
        return out + 1

sizes = {0: torch.export.Dim("n", min=2)}
x, y = torch.randn(100), torch.randn(100)
exported = torch.export.export(Model(), (x, y), dynamic_shapes={"x": sizes, "y": sizes})
torch._inductor.aoti_compile_and_package(exported, package_path=sys.argv[1])
"""
USE = """
import sys
import torch
run = torch._inductor.aoti_load_package(sys.argv[1])
for n in (100, 333):
    x, y = torch.randn(n), torch.randn(n)
    torch.testing.assert_close(run(x, y), (x.sin() * 0.1 + y) * 2 + 1)
print("right; modules of pypto:", [name for name in sys.modules if name.startswith("pypto.")])
"""


@pytest.mark.slow
@pytest.mark.skipif(not has_libraries, reason="needs g++")
def test_a_package_needs_no_pypto(tmp_path):
    for name, text in (("model.py", MODEL), ("use.py", USE)):
        (tmp_path / name).write_text(text)
    cache = tmp_path / "cache"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    for command in (["-m", "pypto.compat.triton", "model.py"], ["use.py"]):
        done = subprocess.run(
            [sys.executable, *command, str(tmp_path / "model.pt2")], cwd=tmp_path, env=environment,
            capture_output=True, text=True, check=False, timeout=limit(300),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        shutil.rmtree(cache, ignore_errors=True)
        environment["PYTHONPATH"] = ""
    assert done.stdout == "right; modules of pypto: []\n"
