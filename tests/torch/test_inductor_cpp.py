"""Inductor's C++ wrapper with kernels of ours, which are compiled ahead of time and linked into it."""

# mypy: ignore-errors

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.house.measure import ROOT

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("g++"), reason="needs g++"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]


def compiled(function, **options):
    from pypto.torch.inductor.backend import pypto_inductor

    return torch.compile(function, backend=pypto_inductor, fullgraph=True, **options)


def block(x, w):
    return (torch.nn.functional.layer_norm(x @ w, (w.shape[1],)).softmax(-1) * 3).sum(0)


def test_training_with_two_sizes_is_as_with_the_python_wrapper():
    import pypto.torch

    ours = compiled(block, dynamic=True, options={"cpp_wrapper": True})
    plain = compiled(block, dynamic=True)
    for rows, columns in ((5, 33), (40, 7)):
        pairs = [torch.randn(rows, columns), torch.randn(columns, 70)]
        pairs = [(x.clone().requires_grad_(), x.clone().requires_grad_()) for x in pairs]
        mine, theirs = (f(*xs) for f, xs in zip((ours, plain), zip(*pairs, strict=True), strict=True))
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)
        mine.square().sum().backward()
        theirs.square().sum().backward()
        for x, y in pairs:
            torch.testing.assert_close(x.grad, y.grad, rtol=1e-5, atol=1e-5)
    names = [[kernel.name for kernel in pypto.torch.kernels(f)] for f in (ours, plain)]
    assert names[0] == names[1]
    assert len(names[0]) > 1
    assert pypto.torch.kernels(ours)[0].lines


def test_what_calls_pass_and_write():
    """A number that is a tensor, an input that is written and may share memory, a condition, no elements."""

    def several(x, y, factor, nothing):
        y.copy_(x.flip(0).cos() * factor)
        picked = torch.cond(x.sum() > 0, lambda z: z.sin() + 1, lambda z: z.cos() * 2, (x,))
        return picked, (x.flatten() - y.flatten()).relu(), nothing + 1, x.argmax(-1), x > y

    fast = compiled(several, options={"cpp_wrapper": True})
    for factor in (torch.tensor(2.5), torch.tensor(-1.0)):
        x, y, nothing = torch.randn(30, 40), torch.zeros(30, 40), torch.empty(0, 3)
        z = y.clone()
        for mine, theirs in zip(fast(x, y, factor, nothing), several(x, z, factor, nothing), strict=True):
            torch.testing.assert_close(mine, theirs)
        torch.testing.assert_close(y, z)


SCRIPT = """
import torch
from pypto.torch.inductor.backend import pypto_inductor

torch._inductor.config.cpp_wrapper = True
fast = torch.compile(lambda x: (x.softmax(-1) * 2).relu(), backend=pypto_inductor, fullgraph=True)
x = torch.linspace(0, 1, 2000).reshape(4, 500)
torch.testing.assert_close(fast(x), x.softmax(-1) * 2)
print(torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"])
"""


def test_from_the_cache(tmp_path):
    """A second process finds the graph in torch's cache; the object is made of it anew where it is gone."""
    paths = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    env = {**os.environ, "PYTHONPATH": paths, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    outputs = []
    for _ in range(2):
        outputs.append(subprocess.run(command, env=env, capture_output=True, text=True, check=False))
        for made in tmp_path.glob("pypto-*.o"):
            made.unlink()
    assert [run.stdout for run in outputs] == ["0\n", "1\n"], outputs[0].stderr + outputs[1].stderr
