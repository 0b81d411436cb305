"""The tutorials' kernels on an Ascend chip: golden listings and Ascend C, which compile without a warning.

Shapes that a kernel's tiles are made of are constants of its text, all others are arguments: there is a kernel of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.tutorials import load_tutorial
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.blockir.parser import parse
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import AscendTarget, ascend_target
from pypto.debug.simulate import function_of
from tests.backends_ascend.test_ascendc import complaints
from tests.sim.device import needs_compiler

GOLDEN = Path(__file__).with_name("golden")
B2, A5 = ascend_target("ascend910b2"), ascend_target("ascend950")


def f32(*shape: int) -> Any:
    return np.empty(shape, np.float32)


def f16(*shape: int) -> Any:
    return np.empty(shape, np.float16)


# The tutorial, its kernel, and its arguments.
Case = tuple[str, str, Callable[[], tuple[Any, ...]], dict[str, Any]]
CASES: dict[str, Case] = {
    "add": ("01_vector_add", "add", lambda: (f32(1000), f32(1000), f32(1000)), {"BLOCK": 4096}),
    "add_half": ("01_vector_add", "add", lambda: (f16(1000), f16(1000), f16(1000)), {"BLOCK": 16384}),
    "add_with_pointers": ("01_vector_add", "add_with_pointers",
                          lambda: (f32(1000), f32(1000), f32(1000), 1000), {"BLOCK": 4096}),
    "softmax": ("02_fused_softmax", "softmax", lambda: (f32(64, 1000), f32(64, 1000)), {}),
    "softmax_with_pointers": ("02_fused_softmax", "softmax_with_pointers",
                              lambda: (f32(64, 1000), f32(64, 1000), 1000, 1000), {"BLOCK": 1024}),
    "layer_norm": ("04_layer_norm", "forward",
                   lambda: (f32(64, 768), f32(768), f32(768), f32(64, 768), f32(64), f32(64), 1e-5), {}),
    "layer_norm_backward": ("04_layer_norm", "backward",
                            lambda: (f32(64, 768), f32(768), f32(64), f32(64), f32(64, 768), f32(64, 768),
                                     f32(2, 4, 768)), {"ROWS": 16}),
    "add_rows": ("04_layer_norm", "add_rows", lambda: (f32(2, 4, 768), f32(768), f32(768)), {"BLOCK": 256}),
}  # fmt: skip


# Cube cores alone, and both kinds of cores.
PRODUCTS: dict[str, Case] = {
    "matmul": ("03_matrix_multiplication", "matmul_blocks",
               lambda: (f32(300, 200), f32(200, 500), f32(300, 500)), {"BM": 128, "BN": 128, "BK": 64}),
    "matmul_on_the_cube": ("08_matmul_on_the_cube", "matmul",
                           lambda: (f16(300, 200), f16(200, 500), f16(300, 500)), {"BM": 128, "BN": 256, "BK": 64}),
    "matmul_on_ascend950": ("08_matmul_on_the_cube", "matmul",
                            lambda: (f16(300, 200), f16(200, 500), f16(300, 500)), {"BM": 128, "BN": 256, "BK": 64}),
    "flash_attention": ("05_flash_attention", "attention", lambda: tuple(f32(2, 200, 64) for _ in range(4)),
                        {"CAUSAL": True, "BM": 64, "BN": 64}),
    "attention": ("09_attention_on_ascend", "attention",
                  lambda: (f16(256, 64), f16(256, 64), f16(256, 64), f32(256, 64)), {"BM": 128, "BN": 128}),
}  # fmt: skip


def chip_of(name: str) -> AscendTarget:
    return A5 if name.endswith(A5.name) else B2


def made(name: str, target: AscendTarget | None = None) -> tuple[BlockKernel, str]:
    tutorial, function, args, constants = (CASES | PRODUCTS)[name]
    kernel = getattr(load_tutorial(tutorial), function)
    block, text = lower_to_text(function_of(kernel, kernel.signature.bind(args(), constants)), target or chip_of(name))
    return replace(block, file=f"{tutorial}.py"), text


@pytest.mark.parametrize("name", CASES | PRODUCTS)
def test_golden_kernels(name: str, update_golden: bool) -> None:
    block, text = made(name)
    assert parse(listing(block)) == block
    for found, file in ((listing(block), GOLDEN / f"{name}.blocks"), (text, GOLDEN / f"{name}.asc")):
        if update_golden:
            file.write_text(found, encoding="utf-8")
        assert found == file.read_text(encoding="utf-8"), "`pytest --update-golden`, then `git diff`, shows the change"


@needs_compiler
@pytest.mark.parametrize("name", CASES | PRODUCTS)
def test_golden_kernels_compile_without_a_warning(name: str, tmp_path: Path) -> None:
    assert complaints((GOLDEN / f"{name}.asc").read_text(encoding="utf-8"), tmp_path, chip_of(name).arch) == ""


@pytest.mark.parametrize("name", PRODUCTS)
def test_kernels_with_products_run_on_cube_cores(name: str) -> None:
    assert made(name)[0].kind == ("cube" if name.startswith("matmul") else "mix")
