"""Triton kernels of users inside of torch.compile."""

# mypy: ignore-errors

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pypto.compat.triton import kernels
from pypto.compat.triton.accesses import Module
from pypto.compat.triton.compiler import ASTSource
from tests.house.measure import ROOT
from tests.patience import limit

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
IN_CPP = ("plain", "none_and_one", "autotuned", "dtypes", "imported", "in_place")
TEXT = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics

@triton_heuristics.user_autotune(
    configs=[{{'BLOCK': 16, 'num_warps': 4}}, {{'BLOCK': 64, 'num_warps': 8}}],
    inductor_meta={{'grid_type': 'PrecomputedGrid', 'extra_launcher_args': ['_launcher_s0'], 'precomputed_grids': [
        {{'config': {{'BLOCK': 16, 'num_warps': 4}}, 'python': ['(15 + _launcher_s0) // 16', '1', '1']}},
        {{'config': {{'BLOCK': 64, 'num_warps': 8}}, 'python': ['(63 + _launcher_s0) // 64', '1', '1']}}]}},
    triton_meta={{'constants': {{'bias': None, 'dtype': pto.float32}}{more}}},
)
@triton.jit
def kernel(x, bias, n, dtype: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    if bias is not None:
        value += bias
    tl.store(x + i, value.to(dtype) + 1, i < n)
"""


def run(*arguments):
    """The output of a comparison, in a process in which `triton` is pypto."""
    command = [sys.executable, "-m", "pypto.compat.triton", "tests/torch/user_kernels.py", *arguments]
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=limit(300)
    )
    return done.stdout.strip() or done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", ["static", "dynamic"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "pypto-inductor"])
def test_every_kind_of_launch(backend, dynamic):
    assert run(backend, dynamic) == "36 right"


@pytest.mark.slow
def test_kinds_of_launches_in_cpp():
    assert run("pypto-inductor+cpp", "static", *IN_CPP) == f"{len(IN_CPP)} right"


@pytest.mark.parametrize("more", ["", ", 'restore_value': ['x']"])
def test_the_first_launch_chooses_a_configuration(more):
    from pypto.torch.inductor import load

    kernel = load.unlisted("kernel", TEXT.format(more=more))
    x = torch.zeros(100)
    for launches in (1, 2, 3):
        kernel.run(x, -1, 100, 100)
        assert torch.equal(x, torch.full((100,), float(launches)))
    assert kernel.blocks["BLOCK"] in (16, 64)
    assert kernel.run != kernel.measured


@pytest.fixture
def triton_names():
    from pypto.torch.inductor.load import modules

    return modules()


def calls(x, n):
    fetch(x + n)  # noqa: F821  # given below
    return again(x)  # noqa: F821


def called(x):
    return sine(x) * 2  # noqa: F821  # given below


def test_imports_of_names_of_triton(triton_names):
    from pypto.torch.inductor.user_kernels import imports

    names = vars(triton_names["triton.language"])
    inner = kernels.JITFunction(type(calls)(called.__code__, {"sine": names["sin"]}))
    calls.__globals__.update(fetch=names["load"], again=inner)
    try:
        found = imports(kernels.JITFunction(calls), triton_names)
    finally:
        del calls.__globals__["fetch"], calls.__globals__["again"]
    assert found == ["from triton.language import load as fetch", "from triton.language import sin as sine"]


def test_a_copy_of_a_view_reads_the_view_alone():
    from torch._higher_order_ops import triton_kernel_wrap

    from pypto.torch.inductor.user_kernels import clones

    before, x = triton_kernel_wrap.clone_preserve_strides, torch.arange(10.0)
    with clones(triton_kernel_wrap):
        copy = triton_kernel_wrap.clone_preserve_strides(x[3:7])
        gaps = triton_kernel_wrap.clone_preserve_strides(x[3:7:2])
    assert copy.untyped_storage().nbytes() == 16
    assert torch.equal(copy, x[3:7])
    assert gaps.stride() == (2,)
    assert triton_kernel_wrap.clone_preserve_strides is before


def writes(x, out, table, n, tl):
    i = tl.arange(0, 16)
    place = tl.load(table + i)
    tl.store(out + place, tl.load(x + i, mask=i < n))
    tl.atomic_add(x + i, 1.0)


def visited(module: Module) -> list[tuple[str, list[int]]]:
    found: list[tuple[str, list[int]]] = []
    module.walk(
        lambda op: found.append((op.get_name(), [op.get_operand(n).id() for n in range(op.get_num_operands())]))
    )
    return found


def test_a_module_says_what_a_kernel_accesses(triton_names):
    fn = kernels.JITFunction(writes)
    signature = {"x": "*fp32", "out": "*fp32", "table": "*i64", "n": "i32", "tl": "constexpr"}
    module = ASTSource(fn, signature, {"tl": triton_names["triton.language"]}).make_ir(None, None)
    assert visited(module) == [
        ("tt.load", [0]), ("tt.load", [2]), ("tt.store", [0]), ("tt.store", [1]), ("tt.return", []), ("tt.func", []),
    ]  # fmt: skip
    assert str(module) == "tt.func @writes { tt.load %0; tt.load %2; tt.store %0; tt.store %1; tt.return }"
