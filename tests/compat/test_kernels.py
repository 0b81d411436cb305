"""Kernels in Triton's style, and all that is asked of `triton` around them, with numpy alone."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.compat.triton import install, installed, uninstall
from pypto.errors import Diagnostic

rng = np.random.default_rng(0)


@pytest.fixture(scope="module")
def kernels(triton: ModuleType) -> Any:
    return importlib.import_module("tests.compat.kernels_triton")


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def test_add_takes_options_of_gpus(kernels: Any, triton: Any) -> None:
    x, y, out = normal(1000), normal(1000), np.zeros(1000, np.float32)
    handle = kernels.add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](
        x, y, out, 1000, BLOCK=128, num_warps=8, num_stages=4, enable_fp_fusion=False, waves_per_eu=2
    )
    np.testing.assert_array_equal(out, x + y)
    assert handle.n_regs > 0
    assert handle.metadata.shared > 0


def test_a_cooperative_launch_has_one_program(kernels: Any) -> None:
    """Its programs may wait for each other, and those of a launch do not all run at once."""
    x, out = normal(100), np.zeros(100, np.float32)
    kernels.add[(1,)](x, x, out, 100, BLOCK=128, launch_cooperative_grid=True)
    np.testing.assert_array_equal(out, x + x)
    for grid in ((2,), lambda meta: (256 // meta["BLOCK"],)):
        with pytest.raises(NotImplementedError, match=r"add: launch_cooperative_grid with 2 programs"):
            kernels.add[grid](x, x, out, 100, BLOCK=128, launch_cooperative_grid=True)


def test_unknown_keyword_is_an_error(kernels: Any) -> None:
    with pytest.raises(Diagnostic, match=r"(?s)no parameter `BLOK`.*did you mean `BLOCK`"):
        kernels.add[(1,)](normal(4), normal(4), normal(4), 4, BLOK=4)


@pytest.mark.parametrize("n", [64, 70])
def test_heuristics(kernels: Any, n: int) -> None:
    x = normal(n)
    expected = x * np.float32(3)
    kernels.scaled[(math.ceil(n / 32),)](x, n, 3.0, BLOCK=32)
    np.testing.assert_array_equal(x, expected)


def test_tuning_leaves_arrays_as_one_run_does(kernels: Any) -> None:
    x, sums = normal(200), np.zeros(1, np.float32)
    before = x.copy()
    kernels.tuned[lambda meta: (math.ceil(200 / meta["BLOCK"]),)](x, sums, 200)
    np.testing.assert_array_equal(x, before + 1)
    np.testing.assert_allclose(sums, before.sum(), rtol=1e-5)
    assert kernels.tuned.best_config.kwargs["BLOCK"] in (32, 64)
    assert len(kernels.tuned.configs_timings) == 2  # what differs for GPUs alone is tried once
    assert len(kernels.tuned.cache) == 1


def test_matmul(kernels: Any) -> None:
    a, b, c = normal(70, 50), normal(50, 90), np.zeros((70, 90), np.float16)
    kernels.matmul[(3 * 3,)](
        a, b, c, 70, 90, 50, 50, 1, 90, 1, 90, 1,
        BLOCK_M=32, BLOCK_N=32, BLOCK_K=16, GROUP_M=2, ACTIVATION="leaky_relu",
    )  # fmt: skip
    product = a.astype(np.float64) @ b
    np.testing.assert_allclose(c, np.where(product >= 0, product, 0.01 * product), rtol=1e-3, atol=1e-2)


def test_attention(kernels: Any) -> None:
    q, k, v = normal(96, 32) * np.float32(0.3), normal(96, 32), normal(96, 32)
    out = np.zeros_like(q)
    kernels.attention[(3,)](q, k, v, out, 96, BLOCK=32, SIZE=32)
    scores = np.where(np.tri(96, dtype=bool), q.astype(np.float64) @ k.T, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out, weights / weights.sum(1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)


def test_locks(kernels: Any) -> None:
    x, total, lock = normal(64 * 40), np.zeros(1, np.float32), np.zeros(1, np.int32)
    kernels.locked_sum[(40,)](x, total, lock, BLOCK=64)
    np.testing.assert_allclose(total, x.sum(dtype=np.float64), rtol=1e-4, atol=1e-4)


def test_pointers_from_integers(kernels: Any) -> None:
    arrays = [normal(16) for _ in range(5)]
    addresses = np.array([x.ctypes.data for x in arrays], np.int64)
    out = np.zeros(5, np.float32)
    kernels.grouped[(1,)](addresses, out, 5, BLOCK=16)
    np.testing.assert_allclose(out, [x.sum() for x in arrays], rtol=1e-5, atol=1e-5)


def test_logic_of_tiles_is_elementwise(kernels: Any) -> None:
    x = np.linspace(-4, 4, 50, dtype=np.float32)
    out = np.zeros_like(x)
    kernels.functions[(1,)](x, out, 50)
    near = np.array([math.tanh(t) + 1 / (1 + math.exp(-t)) + math.erf(t) for t in x.tolist()])
    np.testing.assert_allclose(out, np.where(np.abs(x) < 2, near, 7), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", [pto.checked, pto.profile, pto.interpreter])
def test_it_is_read_so_whatever_runs_it(kernels: Any, mode: Any) -> None:
    with mode():
        test_logic_of_tiles_is_elementwise(kernels)


def test_refusal_names_the_line(kernels: Any, triton: Any) -> None:
    with pytest.raises(triton.CompilationError, match=r"(?s)`tl.async_task` cannot be used.*\|     tl.async_task"):
        kernels.refused[(1,)](normal(4))


def test_what_libraries_ask_of_a_kernel(kernels: Any, triton: Any) -> None:
    add = kernels.add
    assert isinstance(add, triton.JITFunction)
    assert add.arg_names == ["x_ptr", "y_ptr", "out_ptr", "n", "BLOCK"]
    assert [(p.num, p.name, p.is_constexpr) for p in add.params][-1] == (4, "BLOCK", True)
    assert add.constexprs == [4]
    assert add.fn.__name__ == add.__name__ == "add"
    assert add.__module__ == "tests.compat.kernels_triton"
    assert add.src.startswith("def add(x_ptr, y_ptr")
    assert len(add.cache_key) == 64
    assert kernels.tuned.fn.fn is kernels.tuned.base_fn
    with pytest.raises(Diagnostic, match="launched over a grid"):
        add(1, 2)


def test_compiling_ahead(kernels: Any, triton: Any) -> None:
    warm = kernels.add.warmup(np.float32, np.float32, np.float32, 7, BLOCK=16, grid=(1,))
    x, out = normal(16), np.zeros(16, np.float32)
    warm[(1, 1, 1)](x, x, out, 16)
    np.testing.assert_array_equal(out, 2 * x)
    source = triton.compiler.ASTSource(
        kernels.add, {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        constexprs={(4,): 32},
    )  # fmt: skip
    assert triton.compile(source).specialization is not None


def test_reinterpret(kernels: Any, triton: Any) -> None:
    bits = np.array([1.0, 2.0, -3.0, 0.5], np.float32).view(np.int32)
    wrapped = triton.reinterpret(bits, triton.language.float32)
    out = np.zeros(4, np.float32)
    kernels.add[(1,)](wrapped, wrapped, out, 4, BLOCK=4)
    np.testing.assert_array_equal(out, [2, 4, -6, 1])


def test_device(triton: Any) -> None:
    active = triton.runtime.driver.active
    assert active.get_current_target().backend == "cpu"
    figures = active.utils.get_device_properties(0)
    assert figures["multiprocessor_count"] >= 1
    assert figures["max_shared_mem"] > 100_000
    start, end = (active.get_device_interface().Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    assert start.elapsed_time(end) >= 0
    testing = importlib.import_module("triton.testing")
    assert testing._summarize_statistics([3.0, 1.0, 2.0], None, "median") == 2
    assert testing._summarize_statistics([3.0, 1.0, 2.0], [0.0, 1.0], "mean") == [1, 3]


def test_install_and_uninstall() -> None:
    was = installed()
    module = install()
    assert install() is module
    assert importlib.import_module("triton.language").load is not None
    uninstall()
    assert not installed()
    assert "triton.language" not in sys.modules
    if was:
        install()


@pytest.mark.parametrize("how", ["script", "module", "code"])
def test_command_line(how: str, tmp_path: Path) -> None:
    text = """
import sys
import numpy as np
import triton
import triton.language as tl

@triton.jit
def double(x, BLOCK: tl.constexpr):
    at = x + tl.arange(0, BLOCK)
    tl.store(at, tl.load(at) * 2)

x = np.arange(4, dtype=np.float32)
double[(1,)](x, BLOCK=4)
print(x.tolist(), sys.argv[1:])
"""
    (tmp_path / "twice.py").write_text(text, encoding="utf-8")
    options = {"script": ["twice.py"], "module": ["-m", "twice"], "code": ["-c", text]}[how]
    command = [sys.executable, "-m", "pypto.compat.triton", *options, "--size", "4"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0.0, 2.0, 4.0, 6.0] ['--size', '4']"


@pytest.mark.parametrize(("first", "wanted"), [(0, 7), (1, 7)])
def test_const_pointers_meet(kernels: Any, first: int, wanted: float) -> None:
    out = normal(1)
    kernels.either_const[(1,)](out, np.array([3], np.float32), np.array([7], np.float32), first)
    assert out[0] == wanted


def test_const_and_other_pointers_do_not(kernels: Any) -> None:
    with pytest.raises(Diagnostic, match=r"array<const f32, 1> on one path and array<f32, 1> on another"):
        kernels.mixed_const[(1,)](normal(1), normal(1), 3)


@pytest.mark.parametrize("x", [41, 42])
def test_a_tile_of_one_element_is_a_condition(kernels: Any, x: int) -> None:
    out = np.zeros(1, np.int32)
    kernels.one_element[(1,)](np.array([x], np.int32), out)
    assert out[0] == (x if x > 41 else 0)


@pytest.mark.parametrize(("name", "wanted"), [("maximum", 5), ("minimum", 3), ("no_such", 0)])
def test_functions_by_name(kernels: Any, name: str, wanted: float) -> None:
    out = np.zeros(1, np.float32)
    kernels.by_name[(1,)](np.array([5, 3], np.float32), out, name)
    assert out[0] == wanted


def test_products_of_integers_are_int32(kernels: Any, triton: Any) -> None:
    x, out = rng.integers(-128, 128, (16, 16), np.int8), np.zeros((16, 16), np.int32)
    for dtype in (triton.language.int8, triton.language.float32):
        kernels.bytes_product[(1,)](x, out, dtype)
        np.testing.assert_array_equal(out, x.astype(np.int32) @ x.astype(np.int32))


def test_numbers_interleave(kernels: Any) -> None:
    out = np.zeros(2, np.float32)
    kernels.interleaved[(1,)](10, 20, out)
    assert out.tolist() == [10, 20]
