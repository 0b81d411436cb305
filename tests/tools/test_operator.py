"""Operator projects as CANN's users know them: definition, inference, tiling keys, and the two-stage interface."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.blockir import reserved
from pypto.errors.project import NoOperator
from pypto.tools.project import Interface, write_project
from pypto.tools.project_formula import Names, NoFormula, translated
from pypto.tools.project_operator import snake, type_of
from tests.patience import limit
from tests.runtime.simulated import folder as toolkit

needs_cmake = pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("g++")), reason="needs cmake and g++")
COLUMNS = 64


@pto.jit
def scaled(x, out, alpha, n, flag, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    result = x[i : i + BLOCK] * alpha
    if flag:
        result = result + n
    out[i : i + BLOCK] = result.to(out.dtype)


@pto.jit
def accumulate(total, rows):
    i = pto.program_id(0)
    total[i, :] = total[i, :] + rows[i, :]


@pto.jit
def product_of_rows(a, b, c, BM: pto.constexpr):
    i = pto.program_id(0) * BM
    c[i : i + BM, :] = pto.exp(pto.dot(a[i : i + BM, :], b[:, :]))


def numbers(dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(0).standard_normal(shape) / 4).astype(dtype)


def scaled_arguments(dtype: Any, size: int, block: int) -> dict[str, Any]:
    x = numbers(dtype, size)
    return {"x": x, "out": np.zeros_like(x), "alpha": 1.5, "n": 3, "flag": True, "BLOCK": block}


FORMULAS = Interface("cdiv(x.shape[0], BLOCK)", {"out": "x.shape[0]"})


def run(*command: str | Path, **environment: str | Path) -> subprocess.CompletedProcess[str]:
    added = {name: str(x) for name, x in environment.items()}
    values = {**os.environ, "ASCEND_HOME_PATH": str(toolkit()), "ASCSIM_SOC": "Ascend910B2", **added}
    words = [str(part) for part in command]
    return subprocess.run(words, env=values, capture_output=True, text=True, timeout=limit(300), check=False)


def installed(project: Path) -> Path:
    """The folder of a package that was built and installed as a user does it."""
    done = run("sh", project / "build.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    package = next((project / "build_out").glob("custom_opp_*.run"))
    done = run("sh", package, f"--install-path={project / 'opp'}")
    assert (done.returncode, done.stdout) == (0, "SUCCESS\n"), done.stderr
    return project / "opp" / "vendors" / "customize"


def outcome(project: Path, opp: Path) -> str:
    """What the project's own tests of the operator say."""
    build = project / "build_test"
    for command in (["cmake", "-S", project / "test", "-B", build, f"-DOPP={opp}"], ["cmake", "--build", build]):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    return run("ctest", "--test-dir", build, "--output-on-failure", **places(opp)).stdout


def places(opp: Path) -> dict[str, str]:
    return {"ASCEND_CUSTOM_OPP_PATH": str(opp), "LD_LIBRARY_PATH": str(toolkit() / "lib64")}


CALLER = """
#include "aclnn/aclnn_base.h"
#include "aclnn_scaled.h"
#include "support.h"

int main(int, char** argv) {
    const int64_t size = std::atoll(argv[1]), given = std::atoll(argv[2]);
    const auto type = static_cast<aclDataType>(std::atoi(argv[3]));
    check(aclInit(nullptr), "aclInit");
    check(aclrtSetDevice(0), "aclrtSetDevice");
    std::vector<float> values(static_cast<size_t>(size) + 1);
    const size_t length = values.size() * sizeof(float);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    void *x = nullptr, *y = nullptr, *memory = nullptr;
    check(aclrtMalloc(&x, length, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    check(aclrtMalloc(&y, length, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    check(aclrtMemcpy(x, length, values.data(), length, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
    aclTensor* from = aclCreateTensor(&size, 1, type, nullptr, 0, ACL_FORMAT_ND, &size, 1, x);
    aclTensor* to = aclCreateTensor(&given, 1, type, nullptr, 0, ACL_FORMAT_ND, &given, 1, y);
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus status = aclnnScaledGetWorkspaceSize(from, 2.0, 5, argv[4][0] == 't', to, &bytes, &executor);
    if (status != ACLNN_SUCCESS) return std::printf("refused %d", status), 0;
    check(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    check(aclnnScaled(memory, bytes, executor, nullptr), "aclnnScaled");
    check(aclrtSynchronizeStream(nullptr), "the kernel");
    check(aclrtMemcpy(values.data(), length, y, length, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
    for (int64_t i = 0; i < size; ++i) std::printf("%g ", static_cast<double>(values[static_cast<size_t>(i)]));
}
"""


@pytest.mark.slow
@needs_cmake
def test_an_operator_with_versions_is_built_and_called(tmp_path: Path) -> None:
    project = tmp_path / "project"
    first, *more = [scaled_arguments(dtype, size, block) for dtype in (np.float16, np.float32)
                    for size, block in ((700, 256), (40, 16))]  # fmt: skip
    write_project(project, scaled, (3,), "ascend910b2", first, [((3,), given) for given in more], FORMULAS)
    opp = installed(project)
    kernels = sorted(path.name for path in opp.rglob("*.bin"))
    assert kernels == [f"Scaled_{key}.bin" for key in (1, 2, 3, 4)]
    assert "100% tests passed, 0 tests failed out of 4" in outcome(project, opp)

    source, program = tmp_path / "caller.cpp", tmp_path / "caller"
    source.write_text(CALLER, encoding="utf-8")
    folders = [f"-I{path}" for path in (toolkit() / "include", opp / "op_api" / "include", project / "test")]
    links = [f"-L{toolkit() / 'lib64'}", f"-L{opp / 'op_api' / 'lib'}", f"-Wl,-rpath,{opp / 'op_api' / 'lib'}"]
    done = run("g++", "-std=c++17", *folders, source, *links, "-lcust_opapi", "-lnnopbase", "-lascendcl", "-o", program)
    assert done.returncode == 0, done.stderr

    def says(size: str, given: str, kind: str = "0", flag: str = "true", **changes: str) -> str:
        return run(program, size, given, kind, flag, **{**places(opp), **changes}).stdout

    count = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(np.array(says("1000", "1000").split(), np.float32), count * 2 + 5)
    np.testing.assert_array_equal(np.array(says("33", "33", flag="false").split(), np.float32), count[:33] * 2)
    assert says("0", "0") == ""
    assert says("33", "32") == "refused 561001", "another shape than inferred"
    assert says("33", "33", "3") == "refused 161002", "another type"
    assert says("33", "33", ASCSIM_SOC="Ascend950PR_9589") == "refused 561003", "no kernels for this chip"
    assert says("33", "33", ASCEND_CUSTOM_OPP_PATH="") == "refused 561112", "no package"


@pytest.mark.slow
@needs_cmake
def test_products_and_arrays_that_are_read_and_written(tmp_path: Path) -> None:
    a, b = numbers(np.float16, 80, 48), numbers(np.float16, 48, COLUMNS)
    product = {"a": a, "b": b, "c": np.zeros((80, COLUMNS), np.float32), "BM": 32}
    total = {"total": numbers(np.float32, 7, 50), "rows": numbers(np.float32, 7, 50)}
    for kernel, grid, given in ((product_of_rows, (3,), product), (accumulate, (7,), total)):
        project = tmp_path / kernel.__name__
        write_project(project, kernel, grid, "ascend910b2", given)
        assert "100% tests passed, 0 tests failed out of 1" in outcome(project, installed(project))
    host = (tmp_path / "accumulate" / "op_host" / "accumulate.cpp").read_text(encoding="utf-8")
    assert 'this->Input("total")' in host
    assert 'this->Output("total")' in host
    kernel_text = (tmp_path / "product_of_rows" / "op_kernel" / "product_of_rows.cpp").read_text(encoding="utf-8")
    assert "KERNEL_TASK_TYPE(1, KERNEL_TYPE_MIX_AIC_1_2);" in kernel_text
    header = (tmp_path / "accumulate" / "build_out" / "autogen" / "aclnn_accumulate.h").read_text(encoding="utf-8")
    assert "(const aclTensor* totalRef, const aclTensor* rows, uint64_t* workspaceSize" in header


@pytest.mark.slow
@needs_cmake
def test_the_walk_through_of_the_guide(tmp_path: Path) -> None:
    """The commands of the guide, as they stand there, with its kernel."""
    guide = (Path(__file__).parents[2] / "docs" / "ascend.md").read_text(encoding="utf-8")
    code = next(
        text for text in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if text.startswith("# kernels.py")
    )
    (tmp_path / "kernels.py").write_text(code, encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", guide, re.DOTALL)
    commands = next(text for text in blocks if "ctest" in text)
    lines = commands.splitlines()
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": programs}
    done = subprocess.run(["sh", "-e", "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True,
                          env=environment, timeout=limit(300), check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "100% tests passed, 0 tests failed out of 2" in done.stdout


def test_the_texts_of_an_operator(tmp_path: Path) -> None:
    versions = [scaled_arguments(dtype, 700, 256) for dtype in (np.float16, np.float32)]
    files = write_project(tmp_path / "made", scaled, (3,), "ascend910b2", versions[0], [((3,), versions[1])], FORMULAS)
    layout = {"CMakeLists.txt", "CMakePresets.json", "build.sh", "op_host/scaled.cpp", "op_host/CMakeLists.txt",
              "op_kernel/scaled.cpp", "op_kernel/scaled_tiling.h", "op_kernel/CMakeLists.txt"}  # fmt: skip
    assert layout <= set(files)
    host = (tmp_path / "made" / "op_host" / "scaled.cpp").read_text(encoding="utf-8")
    for line in ("plan.grid_x = static_cast<int32_t>(ceil_div(x.GetDim(0), 256));", "return {{x.GetDim(0)}};",
                 'this->Attr("flag").AttrType(REQUIRED).Bool();', 'this->Attr("n").AttrType(REQUIRED).Int();',
                 ".DataType({ge::DT_FLOAT16, ge::DT_FLOAT})", '.AddConfig("ascend910b");'):  # fmt: skip
        assert line in host
    kernel = (tmp_path / "made" / "op_kernel" / "scaled.cpp").read_text(encoding="utf-8")
    assert "if (TILING_KEY_IS(1)) {" in kernel
    assert "} else if (TILING_KEY_IS(2)) {" in kernel
    assert "void scaled(GM_ADDR x, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling) {" in kernel
    assert os.access(tmp_path / "made" / "build.sh", os.X_OK)


@pto.jit
def lifted(x, out, alpha=1.5, n=3, BLOCK: pto.constexpr = 32):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] * alpha + n


def test_defaults_of_parameters_are_seen_by_formulas_and_are_those_of_attributes(tmp_path: Path) -> None:
    x = numbers(np.float32, 64)
    given = {"x": x, "out": np.zeros_like(x)}
    interface = Interface("cdiv(x.shape[0] + n, BLOCK)", {"out": "x.shape[0]"})
    write_project(tmp_path / "made", lifted, (3,), "ascend910b2", given, (), interface)
    host = (tmp_path / "made" / "op_host" / "lifted.cpp").read_text(encoding="utf-8")
    assert "ceil_div((x.GetDim(0) + static_cast<int64_t>(n)), 32)" in host
    assert 'this->Attr("alpha").AttrType(OPTIONAL).Float(1.5);' in host
    torch = (tmp_path / "made" / "torch" / "lifted.cpp").read_text(encoding="utf-8")
    assert 'lifted(Tensor x, float alpha=1.5, int n=3, *, str binaries=\\"\\") -> Tensor' in torch
    assert "whole(ceil_div((x.sym_size(0) + static_cast<int64_t>(n)), 32))" in torch


def test_what_is_no_operator(tmp_path: Path) -> None:
    given = scaled_arguments(np.float32, 64, 32)
    cases = [
        ({**given, "x": numbers(np.float32, 128)[::2]}, FORMULAS, "not contiguous"),
        ({**given, "alpha": np.float64(1.5)}, FORMULAS, "64 bits"),
        (given, Interface("cdiv(x.shape[0], BLOCK)"), "does not follow from the inputs"),
        (given, Interface("cdiv(x.shape[0], BLOCK)", {"out": "x.shape[0], 2"}), "has 2 sizes, and the array 1"),
        (given, Interface("cdiv(x.shape[0], BLOCK)", {"out": "out.shape[0]"}), "no formula here"),
        (given, Interface("system('id')", {"out": "x.shape[0]"}), "no formula here"),
    ]
    for arguments, interface, words in cases:
        with pytest.raises(NoOperator, match=words):
            write_project(tmp_path / "made", scaled, (2,), "ascend910b2", arguments, (), interface)
        assert not (tmp_path / "made").exists()


def test_formulas() -> None:
    names = Names({"x": ("x_arg", 2)}, {"n": "n"}, {"BLOCK": 64})
    assert translated("cdiv(n, BLOCK), x.shape[-1] // 2 + 1", names) == [
        "ceil_div(n, 64)", "(floor_div(x_arg.GetDim(1), 2) + 1)"]  # fmt: skip
    assert translated("min(x.size, 8), len(x), x.ndim", names) == [
        "std::min<int64_t>({x_arg.GetShapeSize(), 8})", "x_arg.GetDim(0)", "2"]  # fmt: skip
    for wrong in ("y.shape[0]", "x.shape[2]", "x.shape[n]", "n.real", "f(n)", "n if n else 1", "1.5", "True", "min(n)",
                  "x.shape", "cdiv(n, BLOCK", '__import__("os")'):  # fmt: skip
        with pytest.raises(NoFormula):
            translated(wrong, names)


@pytest.mark.parametrize(
    ("symbol", "kind", "file"),
    [("softmax", "Softmax", "softmax"), ("row_sums", "RowSums", "row_sums"), ("int", "IntOp", "int_op"),
     ("main_", "MainOp", "main_op"), ("_2d", "Op2d", "op2d"), ("gru00f6u00dfe", "Gru00f6u00dfe", "gru00f6u00dfe")],
)  # fmt: skip
def test_names_of_operators(symbol: str, kind: str, file: str) -> None:
    assert type_of(symbol, lambda word: reserved.symbol(word) != word) == kind
    assert snake(kind) == file
