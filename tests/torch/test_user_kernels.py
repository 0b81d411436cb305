"""Triton kernels of users inside of torch.compile."""

# mypy: ignore-errors

from __future__ import annotations

import copy
import os
import pickle
import shutil
import subprocess
import sys

import pytest

import pypto as pto
from pypto.compat.triton import compiled, copies, kernels
from pypto.compat.triton.accesses import Module
from pypto.compat.triton.compiler import ASTSource
from pypto.tuning import Autotuner
from tests.house.measure import ROOT
from tests.patience import limit

torch = pytest.importorskip("torch")
needs_cpp = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
PLAIN = (
    "none_and_one", "autotuned", "tuned_heuristic", "imported", "dtypes", "operator_in_place", "in_place_of_view",
    "in_place_of_strided_view",
)  # fmt: skip
POOL = """
import torch
import triton
import triton.language as tl
from torch._inductor.async_compile import AsyncCompile

@triton.jit
def doubled(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)

def function(x):
    y = x.sin()
    out = torch.empty_like(y)
    doubled[(triton.cdiv(y.numel(), 64),)](y, out, y.numel(), BLOCK=64)
    return out + 1

if __name__ == "__main__":
    AsyncCompile.wait_pool_ready()
    x = torch.randn(100)
    torch.testing.assert_close(torch.compile(function)(x), function(x))
    print("right, with other processes:", AsyncCompile.use_process_pool())
"""
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
    assert run(backend, dynamic) == "38 right"


@pytest.mark.slow
@needs_cpp
def test_kinds_of_launches_under_torchs_own_backend():
    """`torch.compile(f)` without a backend writes C++ for the rest, and calls `triton.compile` for users' kernels."""
    assert run("inductor", "static", *PLAIN) == f"{len(PLAIN)} right"


@pytest.mark.slow
@needs_cpp
def test_workers_of_inductor_compile_for_their_parent(tmp_path):
    start = f"import sys; sys.path.insert(0, {str(ROOT / 'distributions/pypto-triton')!r})\nimport pypto_triton\n"
    (tmp_path / "sitecustomize.py").write_text(f"{start}pypto_triton.start()\n")
    (tmp_path / "script.py").write_text(POOL)
    changed = {
        "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT))), "TORCHINDUCTOR_COMPILE_THREADS": "2",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env={**os.environ, **changed},
        capture_output=True, text=True, check=False, timeout=limit(300),
    )  # fmt: skip
    assert done.stdout == "right, with other processes: True\n", done.stderr


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


def test_constants_that_a_launch_omits_are_the_defaults():
    from pypto.torch.inductor import load

    constants = "'constants': {'BLOCK': 16}, 'signature': {'x': '*fp32', 'n': 'i32', 'BLOCK': 'constexpr'}"
    text = TEXT.format(more="").replace(
        "configs=[{'BLOCK': 16, 'num_warps': 4}, {'BLOCK': 64, 'num_warps': 8}]", "configs=[]"
    )
    text = text.replace("'constants': {'bias': None, 'dtype': pto.float32}", constants)
    text = text.replace("(x, bias, n, dtype: tl.constexpr", "(x, n, bias=3, *, dtype: tl.constexpr = tl.float32")
    kernel = load.unlisted("kernel", text.replace("'PrecomputedGrid'", "'FixedGrid', 'fixed_grid': ['7', '1', '1']"))
    x = torch.zeros(100)
    kernel.run(x, 100, 100)
    assert torch.equal(x, torch.full((100,), 4.0))


def calls(x, n):
    fetch(x + n)  # noqa: F821  # given below
    return again(x)  # noqa: F821


def called(x):
    return sine(x) * 2  # noqa: F821  # given below


def test_the_source_of_a_kernel_imports_bare_names_of_triton(monkeypatch, triton_names):
    for name in ("triton.language", "triton.language.extra.libdevice"):
        monkeypatch.setitem(sys.modules, name, triton_names[name])
    names = vars(triton_names["triton.language"])
    inner = kernels.JITFunction(called)
    try:
        calls.__globals__.update(fetch=names["load"], sine=names["sin"], again=inner)
        lines = [kernel.src.splitlines()[-1] for kernel in (kernels.JITFunction(calls), inner)]
    finally:
        for name in ("fetch", "sine", "again"):
            del calls.__globals__[name]
    assert lines == ["from triton.language import load as fetch", "from triton.language import sin as sine"]


def test_types_of_triton_print_as_names_of_triton_and_equal_ours(triton_names):
    named, other = triton_names["triton.language"], copy.deepcopy(triton_names["triton.language"].bfloat16)
    assert repr([pto.float32, pto.int1]) == "[pto.float32, pto.int1]"
    assert repr([named.float32, other]) == "[triton.language.float32, triton.language.bfloat16]"
    assert (named.float32, other) == (pto.float32, pto.bfloat16)
    assert named.float32.expression == "pto.float32"
    assert type(named.float32) is named.dtype  # torch takes constants of this type alone
    assert {pto.float32: 1}[named.float32] == 1


def test_a_kernel_without_its_function_is_pickled_by_its_file(tmp_path):
    """So Inductor's workers send kernels to their parent, in a class that says itself how it is pickled."""
    file = tmp_path / "module.py"
    file.write_text("from pypto.compat.triton.kernels import jit\n\n@jit\ndef kernel(x):\n    x.store(1)\n")
    kernel = kernels.loaded(str(file), "kernel")
    launched = compiled.CompiledKernel.of(kernel, object(), (), {})
    kernel.fn = None
    again = pickle.loads(pickle.dumps((Holder(kernel), vars(launched))))
    assert again[0].fn.fn.__code__.co_filename == again[1]["fn"].fn.__code__.co_filename == str(file)
    with pytest.raises(pickle.PicklingError, match="has none of that name"):
        kernels.loaded(str(file), "other")


class Holder(kernels.KernelInterface):
    def __init__(self, fn):
        self.fn = fn

    def __getstate__(self):
        return vars(self)


def test_a_tuner_of_torch_restores_what_a_kernel_writes():
    fn = kernels.JITFunction(writes)
    tuner = Autotuner(fn, fn.arg_names, None, [], restore_value=["table"])
    assert tuner.restore_idx == [2]
    fn.written = ["out"]
    assert tuner.restore_idx == [1, 2]


def test_a_copy_of_a_view_reads_the_view_alone():
    x = torch.arange(64.0).reshape(8, 8)
    for view in (x, x[2], x[::2, 1:5], x.t(), x[:, :1], x[3:3], x[:1].expand(4, 8)):
        copy = copies.copied(view)
        assert torch.equal(copy, view)
        assert copy.stride() == view.stride()
    assert copies.copied(x[2]).untyped_storage().nbytes() == 32


def test_torch_copies_elements_alone_once_it_asks_what_a_kernel_writes(monkeypatch, triton_names):
    from torch._higher_order_ops import triton_kernel_wrap

    from pypto.torch.inductor.user_kernels import clones

    before = triton_kernel_wrap.clone_preserve_strides
    monkeypatch.setattr(triton_kernel_wrap, "clone_preserve_strides", before)
    with clones(triton_kernel_wrap):
        assert triton_kernel_wrap.clone_preserve_strides is copies.copied
    assert triton_kernel_wrap.clone_preserve_strides is before
    ASTSource(kernels.JITFunction(writes), SIGNATURE, {"tl": triton_names["triton.language"]}).make_ir(None, None)
    assert triton_kernel_wrap.clone_preserve_strides is copies.copied
    monkeypatch.delattr(triton_kernel_wrap, "clone_preserve_strides")
    with pytest.warns(UserWarning, match="have kernels write whole tensors"):
        copies.copy_elements_alone()


SIGNATURE = {"x": "*fp32", "out": "*fp32", "table": "*i64", "n": "i32", "tl": "constexpr"}


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
    module = ASTSource(fn, SIGNATURE, {"tl": triton_names["triton.language"]}).make_ir(None, None)
    assert visited(module) == [
        ("tt.load", [0]), ("tt.load", [2]), ("tt.store", [0]), ("tt.store", [1]), ("tt.return", []), ("tt.func", []),
    ]  # fmt: skip
    assert str(module) == "tt.func @writes { tt.load %0; tt.load %2; tt.store %0; tt.store %1; tt.return }"
