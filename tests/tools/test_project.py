"""A kernel's project: it builds with a toolkit alone, and its test finds what is right and what is wrong."""

from __future__ import annotations

import linecache
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import pypto as pto
from pypto.backends.ascend.blockir.reserved import WORDS, symbol
from pypto.errors import OptionError
from pypto.errors.project import NoOperator
from pypto.tools.project import Interface, write_project
from pypto.tools.project_fields import free_names, template_words
from tests.cli.commands import called, kernels
from tests.patience import limit
from tests.runtime.simulated import folder as toolkit
from tests.tools.torch_extension import built

needs_cmake = pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("g++")), reason="needs cmake and g++")


@pto.jit
def blend(a, x, y, out, flag, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    mixed = a * x[i : i + BLOCK] + y[i : i + BLOCK].to(pto.float32)
    if flag:
        mixed = mixed + n
    out[i : i + BLOCK] = mixed.to(out.dtype)


def run(*command: str | Path, soc: str = "Ascend910B2") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASCEND_HOME_PATH": str(toolkit()), "ASCSIM_SOC": soc}
    return subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True,
        timeout=limit(300), check=False)  # fmt: skip


@needs_cmake
@pytest.mark.parametrize(
    "out", [np.float16, pytest.param(bfloat16, marks=pytest.mark.slow), pytest.param(np.int32, marks=pytest.mark.slow)]
)
def test_a_project_builds_and_passes_its_test(tmp_path: Path, out: type) -> None:
    rng, project = np.random.default_rng(0), tmp_path / "project"
    x, y = rng.normal(size=(2, 700)).astype(np.float32)
    zeros = np.zeros(700, out)
    arguments = {"a": 2.5, "x": x, "y": y.astype(np.float16), "out": zeros, "flag": True, "n": 7, "BLOCK": 256}
    files = write_project(project, blend, (3,), "ascend910b2", arguments)
    assert {p.relative_to(project).as_posix() for p in project.rglob("*") if p.is_file()} == set(files)
    assert not zeros.any(), "the arguments are as they were"
    build = project / "build"
    for command in (["cmake", "-S", project / "launch", "-B", build], ["cmake", "--build", build]):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    test = [build / "test_blend", project / "test" / "data" / "blend", build / "blend.bin"]
    done = run(*test)
    assert (done.returncode, done.stdout) == (0, "out: 0 of 700 elements are wrong\n")
    assert run(*test, soc="Ascend910_9362").returncode == 0, "on a device with fewer cores, which it is asked for"
    data = project / "test" / "data" / "blend" / "out.expected.bin"
    wrong = np.frombuffer(data.read_bytes(), out).copy()
    wrong[3] += 1
    data.write_bytes(wrong.tobytes())
    done = run(*test)
    assert done.returncode == 1
    assert done.stdout.startswith("out[3] is ")


@pto.jit
def row_sums(x, y, step):
    pto.store(y + pto.program_id(0) * step, pto.sum(x[pto.program_id(0), :]))


def test_the_torch_extension_takes_only_what_the_kernel_was_compiled_for(tmp_path: Path) -> None:
    arguments = {"x": np.ones((4, 33), np.float16), "y": np.zeros(4, np.float16), "step": 1}
    write_project(tmp_path / "made", row_sums, (4,), "ascend910b2", arguments)
    text = (tmp_path / "made" / "torch" / "row_sums.cpp").read_text(encoding="utf-8")
    types = "x.scalar_type() == at::kHalf && x.dim() == 2", "y.scalar_type() == at::kHalf && y.dim() == 1"
    launch = text[: text.index("// The kernel of a binary")]
    for check in (*types, "x.sym_size(1) == 33", "x.sym_size(1) == 1 || x.sym_stride(1) == 1"):
        assert f"if (!({check})) return " in launch
    assert "x.sym_size(0) ==" not in launch
    schema = "launch(Tensor x, Tensor(a1!) y, str binaries, int[3] grid) -> ()"
    assert f'TORCH_LIBRARY(row_sums_torch, library) {{ library.def("{schema}"); }}' in text
    call = 'row_sums(Tensor x, *, str binaries=\\"\\") -> Tensor'
    assert f'TORCH_LIBRARY_FRAGMENT(row_sums_torch, library) {{ library.def("{call}"); }}' in text
    for name, function in (("launch", "check"), ("row_sums", "computed_on_meta")):
        assert f'TORCH_LIBRARY_IMPL(row_sums_torch, Meta, library) {{ library.impl("{name}", &{function}); }}' in text


@pytest.mark.parametrize("space", ["op-api", 'a"', "a*/", "../a", "aten", "1a"])
def test_what_is_no_namespace(tmp_path: Path, space: str) -> None:
    arguments = {"x": np.ones((4, 33), np.float16), "y": np.zeros(4, np.float16), "step": 1}
    with pytest.raises(NoOperator, match="can be no namespace of operators of torch"):
        write_project(tmp_path / "made", row_sums, (4,), "ascend910b2", arguments, (), Interface(namespace=space))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("chip", ["ascend310p", "ascend310p3", "Ascend310P3", "310P"])
def test_a_chip_of_another_generation(tmp_path: Path, chip: str) -> None:
    words = ("x=f32[100]", "y=f32[100]", "out=f32[100]", "BLOCK=64", "--grid", "2", "--target", chip)
    result = called("compile", f"{kernels(tmp_path)}:add", *words, "--emit", "project", "-o", tmp_path / "made")
    assert f"no kernel can be compiled for {chip}: its cube and vector units share one core" in result.output
    assert not (tmp_path / "made").exists()


@pto.jit
def fills(y, value):
    y[:] = value


def test_an_operator_without_inputs_has_the_launch_in_place_alone(tmp_path: Path) -> None:
    write_project(tmp_path / "made", fills, (1,), "ascend910b2", {"y": np.zeros(4, np.float32), "value": 1.0})
    text = (tmp_path / "made" / "torch" / "fills.cpp").read_text(encoding="utf-8")
    assert "FRAGMENT" not in text
    assert "there is no form that gives new tensors" in (tmp_path / "made" / "README.md").read_text(encoding="utf-8")


HOSTILE = ("stream", "stream_", "kernel", "wrong", "folder", "int", "register", "unix", "errno", "main", "größe", "__x",
           "Packed", "packed", "grid_x", "workspace", "out_shape0", "ACL_SUCCESS", "binaries", "Bytes")  # fmt: skip


@needs_cmake
def test_names_that_mean_something_in_cxx(tmp_path: Path) -> None:
    """A kernel named as a target of CMake, with arguments named as C++, macros or the project's own code."""
    lines = "\n".join(f"    total = total + {name}[i : i + 32]" for name in HOSTILE)
    text = f"def test({', '.join(HOSTILE)}, out):\n    i = pto.program_id(0) * 32\n    total = 0.0\n{lines}\n"
    text += "    out[i : i + 32] = total\n"
    linecache.cache["hostile.py"] = (len(text), None, text.splitlines(keepends=True), "hostile.py")
    space: dict[str, Any] = {"pto": pto}
    exec(compile(text, "hostile.py", "exec"), space)
    arguments = {name: np.full(64, n, np.float32) for n, name in enumerate(HOSTILE)} | {"out": np.zeros(64, np.float32)}
    project = tmp_path / "made"
    write_project(project, pto.jit(space["test"]), (2,), "ascend910b2", arguments)
    build = project / "build"
    for command in (["cmake", "-S", project / "launch", "-B", build], ["cmake", "--build", build]):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    done = run(build / "test_test", project / "test" / "data" / "test", build / "test.bin")
    assert (done.returncode, done.stdout) == (0, "out: 0 of 64 elements are wrong\n")
    check = ("g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-D__NPU_ARCH__=2201", "-DTILING_KEY_VAR=1")
    for source in ("op_host", "op_kernel"):
        done = run(*check, f"-I{toolkit() / 'include'}", project / source / "test.cpp")
        assert done.returncode == 0, done.stderr


def test_names_stay_apart() -> None:
    names = free_names(HOSTILE, symbol)
    assert len(set(names.values())) == len(HOSTILE)
    assert not set(names.values()) & (template_words() | WORDS)
    assert all(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) for name in names.values())
    assert free_names(["x", "out", "scale"], symbol) == {"x": "x", "out": "out", "scale": "scale"}


@needs_cmake
def test_versions_for_dtypes_and_shapes(tmp_path: Path) -> None:
    words = ("x=f16[100]", "y=f16[100]", "out=f16[100]", "BLOCK=64", "--grid", "2", "--target", "ascend910b2")
    more = ("--also", "x=f32[100] y=f32[100] out=f32[100]", "--also", "x=f16[40] y=f16[40] out=f16[40] BLOCK=32")
    project = tmp_path / "made"
    result = called("compile", f"{kernels(tmp_path)}:add", *words, *more, "--emit", "project", "-o", project)
    assert result.exit_code == 0, result.output
    build = project / "build"
    for command in (
        ["cmake", "-S", project / "launch", "-B", build],
        ["cmake", "--build", build],
        ["ctest", "--test-dir", build],
    ):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "100% tests passed, 0 tests failed out of 3" in done.stdout
    text = (project / "torch" / "add.cpp").read_text(encoding="utf-8")
    for version in ("add", "add_1", "add_2"):
        assert f"refusal_{version}(x, y, out) == nullptr" in text
        assert f'folder_of(binaries) + "/{version}.bin"' in text


def test_versions_with_other_parameters_are_refused(tmp_path: Path) -> None:
    x, one = np.zeros(64, np.float32), {"a": 1.0, "flag": True, "BLOCK": 64}
    arguments = {**one, "x": x, "y": x, "out": x, "n": 1}
    other = {**arguments, "n": 1.5}
    with pytest.raises(OptionError, match="take the same arrays and numbers"):
        write_project(tmp_path / "made", blend, (1,), "ascend910b2", arguments, [((1,), other)])
    assert not (tmp_path / "made").exists()


META = """
import sys
import torch
torch.ops.load_library(sys.argv[1])
launch = torch.ops.row_sums_torch.launch
x, y = torch.empty(4, 33, dtype=torch.float16, device="meta"), torch.empty(4, dtype=torch.float16, device="meta")
assert launch(x, y, "/nowhere", [4, 1, 1]) is None
assert launch.default._schema.is_mutable
launch(x.float(), y.float(), "/nowhere", [4, 1, 1])
call = torch.ops.row_sums_torch.row_sums
assert (call(x.t().contiguous().t()).shape, call(x.float()).dtype) == ((4,), torch.float32)
try:
    call(x[:3])
except RuntimeError as error:
    print(*str(error).splitlines()[:2])
try:
    call(x.requires_grad_())
except RuntimeError as error:
    print(str(error).splitlines()[0])
x = x.detach()
for wrong in ((x.double(), y), (x[:, :30], y), (x.t(), y)):
    try:
        launch(*wrong, "/nowhere", [4, 1, 1])
    except RuntimeError as error:
        print(str(error).splitlines()[0])
"""


@pytest.mark.slow
@needs_cmake
def test_the_torch_extension_compiles_and_has_a_meta_kernel(tmp_path: Path) -> None:
    """Against torch's own headers, and the one of torch_npu's that it needs, in short."""
    pytest.importorskip("torch")
    project = tmp_path / "made"
    versions = [
        {"x": np.ones((4, 33), dtype), "y": np.zeros(4, dtype), "step": 1} for dtype in (np.float16, np.float32)
    ]
    write_project(project, row_sums, (4,), "ascend910b2", versions[0], [((4,), versions[1])])
    extension = built(tmp_path, project)
    done = run(sys.executable, "-c", META, extension)
    refused = "no version of row_sums takes these arguments:"
    said = f"{refused} - it was compiled for x.size(0) == 4\nthe project has no gradient by x: name it in --adjoint\n"
    assert (done.returncode, done.stdout) == (0, said + 3 * f"{refused}\n"), done.stderr


def test_a_project_from_the_command_line(tmp_path: Path) -> None:
    words = ("x=f32[100]", "y=f32[100]", "out=f32[100]", "BLOCK=64", "--grid", "2", "--target", "ascend910b2")
    command = ("compile", f"{kernels(tmp_path)}:add", *words, "--emit", "project", "-o", tmp_path / "made")
    result = called(*command)
    assert result.exit_code == 0, result.output
    assert "launch/kernel/add.asc" in result.output
    assert "GlobalTensor<float>" in (tmp_path / "made" / "op_kernel" / "add.h").read_text(encoding="utf-8")
    assert "is there already" in called(*command).output


def test_the_text_from_the_command_line(tmp_path: Path) -> None:
    words = ("x=f32[100]", "y=f32[100]", "out=f32[100]", "BLOCK=64", "--emit", "ascendc")
    result = called("compile", f"{kernels(tmp_path)}:add", *words, "--target", "ascend910b2")
    assert '#include "kernel_operator.h"' in result.output
    result = called("compile", f"{kernels(tmp_path)}:add", *words[:-1], "block-ir", "--target", "ascend910b2")
    assert "\ndef add(" in result.output
    assert "it needs --target ascend910b2" in called("compile", f"{kernels(tmp_path)}:add", *words).output
    assert "unknown target" in called("compile", f"{kernels(tmp_path)}:add", *words, "--target", "none").output
