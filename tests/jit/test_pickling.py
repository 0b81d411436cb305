"""Kernels, fused functions and lazy arrays that are pickled and copied."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.graph import NeedsValue
from pypto.errors.launch import NotPickled

X = np.arange(4, dtype=np.float32)


@pto.jit
def double(x: Any, y: Any) -> None:
    y[:] = x[:] * 2


@pto.autotune([pto.Config({"BLOCK": 2}), pto.Config({"BLOCK": 4})])
@pto.jit
def tuned(x: Any, y: Any, BLOCK: pto.constexpr) -> None:
    y[:] = x[:] * 3


@pto.heuristics({"BLOCK": lambda args: 4})
@pto.jit
def ruled(x: Any, y: Any, BLOCK: pto.constexpr) -> None:
    y[:] = x[:] * BLOCK


@pto.fuse
def shifted(x: Any) -> Any:
    return x + 1


@pto.fuse(precision="tf32", overlap=False)
def scaled(x: Any) -> Any:
    return x * 2


class Model:
    def __init__(self) -> None:
        self.kernel = double
        self.w = X.copy()

    @pto.fuse
    def forward(self, x: Any) -> Any:
        return x * self.w


def launched(kernel: Any) -> Any:
    y = np.zeros_like(X)
    kernel[1](X, y)
    return y


NAMED = {"kernel": double, "autotuned": tuned, "heuristics": ruled, "fused": shifted, "options": scaled,
         "method": Model.forward}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_what_a_module_has_is_pickled_by_its_name(name: str, protocol: int) -> None:
    value = NAMED[name]
    if name == "kernel":
        launched(value)  # its class is another one then
    assert pickle.loads(pickle.dumps(value, protocol)) is value
    assert copy.copy(value) is value
    assert copy.deepcopy(value) is value


def test_an_object_that_holds_a_kernel_is_copied() -> None:
    model = Model()
    other = copy.deepcopy(model)
    other.w *= 2
    assert other.kernel is double
    np.testing.assert_array_equal(other.forward(X), 2 * model.forward(X))
    again = pickle.loads(pickle.dumps((model, model.forward)))
    np.testing.assert_array_equal(again[1](X), model.forward(X))


def local_kernel() -> Any:
    @pto.jit
    def inner(x: Any, y: Any) -> None:
        y[:] = x[:]

    return inner


@pytest.mark.parametrize("value", [local_kernel(), pto.fuse(lambda x: x), double.with_options(num_threads=1)])
def test_what_no_module_has_is_refused_with_a_sentence(value: Any) -> None:
    with pytest.raises(NotPickled, match="no such name in the module"):
        pickle.dumps(value)
    assert copy.deepcopy(value) is value


BY_VALUE = """
import sys
import cloudpickle, numpy as np, pypto as pto

def made(n):
    @pto.jit
    def inner(x, y):
        y[:] = x[:] * n
    return inner, pto.fuse(lambda x: x * n, overlap=False)

@pto.jit
def head(x, y):
    y[:] = x[:] + 1

with open(sys.argv[1], "wb") as file:
    cloudpickle.dump((*made(5), head, head.with_options(num_threads=1)), file)
"""
READ = """
import sys, pickle
import numpy as np
with open(sys.argv[1], "rb") as file:
    kernel, fused, *heads = pickle.load(file)
x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
kernel[1](x, y)
assert y.tolist() == [0, 5, 10, 15] == fused(x).tolist(), (y, fused(x))
for head in heads:
    head[1](x, y)
    assert y.tolist() == [1, 2, 3, 4], y
print(fused.overlap, heads[1].options.num_threads)
"""


def test_cloudpickle_takes_them_by_value(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    for name, text in (("write.py", BY_VALUE), ("read.py", READ)):
        program = tmp_path / name
        program.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, program, tmp_path / "value"],
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.split() == ["False", "1"]


POOL = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
import numpy as np, pypto as pto

@pto.fuse
def shifted(x):
    return x + 1

@pto.jit
def double(x, y):
    y[:] = x[:] * 2

def work(kernel, x):
    y = np.zeros_like(x)
    kernel[1](x, y)
    return y

if __name__ == "__main__":
    x = np.arange(4, dtype=np.float32)
    shifted(x), work(double, x)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        print(pool.submit(shifted, x).result().tolist(), pool.submit(work, double, x).result().tolist())
"""


def test_a_pool_of_processes_runs_them(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(POOL, encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout == "[1.0, 2.0, 3.0, 4.0] [0.0, 2.0, 4.0, 6.0]\n"


def test_an_error_is_pickled() -> None:
    with pytest.raises(NeedsValue) as caught:
        pto.fuse(lambda x: x if x > 0 else -x)(X)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.loc) == (NeedsValue, str(caught.value), caught.value.loc)
    assert again.message == caught.value.message


def test_a_lazy_array_is_pickled_as_its_value() -> None:
    y = np.exp(pt.lazy(X)) + 1
    again = pickle.loads(pickle.dumps(y))
    np.testing.assert_array_equal(np.asarray(again), np.asarray(y))
    copied = copy.deepcopy(y)
    copied += 1
    np.testing.assert_array_equal(np.asarray(copied), np.asarray(y) + 1)


def test_a_traced_array_is_copied_and_not_pickled() -> None:
    def f(x: Any) -> Any:
        y = copy.deepcopy(x)
        y += copy.copy(x)
        return y, x

    y, x = pto.fuse(f)(X)
    np.testing.assert_array_equal(y, 2 * X)
    np.testing.assert_array_equal(x, X)
    with pytest.raises(NeedsValue):
        pto.fuse(pickle.dumps)(X)


@pytest.mark.torch
def test_a_module_of_torch_that_holds_a_kernel_is_copied() -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.kernel = double
            self.line = torch.nn.Linear(2, 2)

    net = Net()
    assert copy.deepcopy(net).kernel is double
