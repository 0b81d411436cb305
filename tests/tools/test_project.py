"""A kernel's project: it builds with a toolkit alone, and its test finds what is right and what is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

import pypto as pto
from pypto.tools.project import write_project
from tests.cli.commands import called, kernels
from tests.runtime.simulated import folder as toolkit

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
        timeout=300, check=False)  # fmt: skip


@needs_cmake
@pytest.mark.parametrize("out", [np.float16, bfloat16, np.int32])
def test_a_project_builds_and_passes_its_test(tmp_path: Path, out: type) -> None:
    rng, project = np.random.default_rng(0), tmp_path / "project"
    x, y = rng.normal(size=(2, 700)).astype(np.float32)
    zeros = np.zeros(700, out)
    arguments = {"a": 2.5, "x": x, "y": y.astype(np.float16), "out": zeros, "flag": True, "n": 7, "BLOCK": 256}
    files = write_project(project, blend, (3,), "ascend910b2", arguments)
    assert {p.relative_to(project).as_posix() for p in project.rglob("*") if p.is_file()} == set(files)
    assert not zeros.any(), "the arguments are as they were"
    build = project / "build"
    for command in (["cmake", "-S", project, "-B", build], ["cmake", "--build", build]):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    test = [build / "test_blend", project / "test" / "data", build / "blend.bin"]
    done = run(*test)
    assert (done.returncode, done.stdout) == (0, "out: 0 of 700 elements are wrong\n")
    assert run(*test, soc="Ascend910_9362").returncode == 0, "on a device with fewer cores, which it is asked for"
    data = project / "test" / "data" / "out.expected.bin"
    wrong = np.frombuffer(data.read_bytes(), out).copy()
    wrong[3] += 1
    data.write_bytes(wrong.tobytes())
    done = run(*test)
    assert done.returncode == 1
    assert done.stdout.startswith("out[3] is ")


STREAM = """
#include "acl/acl.h"
namespace c10_npu {
struct NPUStream { aclrtStream stream(bool) const { return nullptr; } };
inline NPUStream getCurrentNPUStream() { return {}; }
}
"""


@pto.jit
def row_sums(x, y, step):
    pto.store(y + pto.program_id(0) * step, pto.sum(x[pto.program_id(0), :]))


def test_the_torch_extension_takes_only_what_the_kernel_was_compiled_for(tmp_path: Path) -> None:
    arguments = {"x": np.ones((4, 33), np.float16), "y": np.zeros(4, np.float16), "step": 1}
    write_project(tmp_path / "made", row_sums, (4,), "ascend910b2", arguments)
    text = (tmp_path / "made" / "torch" / "row_sums.cpp").read_text(encoding="utf-8")
    types = "x.scalar_type() == at::kHalf && x.dim() == 2", "y.scalar_type() == at::kHalf && y.dim() == 1"
    for check in (*types, "x.size(1) == 33", "x.size(1) == 1 || x.stride(1) == 1"):
        assert f"TORCH_CHECK({check}, " in text
    assert "x.size(0) ==" not in text


@pytest.mark.slow
@needs_cmake
def test_the_torch_extension_compiles(tmp_path: Path) -> None:
    """Against torch's own headers, and the one of torch_npu's that it needs, in short."""
    pytest.importorskip("torch")
    import sysconfig

    from torch.utils.cpp_extension import include_paths

    arguments = {"x": np.ones((4, 33), np.float16), "y": np.zeros(4, np.float16), "step": 1}
    write_project(tmp_path / "made", row_sums, (4,), "ascend910b2", arguments)
    stub = tmp_path / "torch_npu" / "csrc" / "core" / "npu" / "NPUStream.h"
    stub.parent.mkdir(parents=True)
    stub.write_text(STREAM, encoding="utf-8")
    folders = (tmp_path / "made" / "host", toolkit() / "include", tmp_path)
    system = [f"-isystem{path}" for path in (*include_paths(), sysconfig.get_paths()["include"])]
    done = run("g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DTORCH_EXTENSION_NAME=made",
               *system, *(f"-I{path}" for path in folders), tmp_path / "made" / "torch" / "row_sums.cpp")  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_project_from_the_command_line(tmp_path: Path) -> None:
    words = ("x=f32[100]", "y=f32[100]", "out=f32[100]", "BLOCK=64", "--grid", "2", "--target", "ascend910b2")
    command = ("compile", f"{kernels(tmp_path)}:add", *words, "--emit", "project", "-o", tmp_path / "made")
    result = called(*command)
    assert result.exit_code == 0, result.output
    assert "kernel/add.asc" in result.output
    assert "GlobalTensor<float>" in (tmp_path / "made" / "kernel" / "add.asc").read_text(encoding="utf-8")
    assert "is there already" in called(*command).output


def test_the_text_from_the_command_line(tmp_path: Path) -> None:
    words = ("x=f32[100]", "y=f32[100]", "out=f32[100]", "BLOCK=64", "--emit", "ascendc")
    result = called("compile", f"{kernels(tmp_path)}:add", *words, "--target", "ascend910b2")
    assert '#include "kernel_operator.h"' in result.output
    result = called("compile", f"{kernels(tmp_path)}:add", *words[:-1], "block-ir", "--target", "ascend910b2")
    assert "\ndef add(" in result.output
    assert "it needs --target ascend910b2" in called("compile", f"{kernels(tmp_path)}:add", *words).output
    assert "unknown target" in called("compile", f"{kernels(tmp_path)}:add", *words, "--target", "none").output
