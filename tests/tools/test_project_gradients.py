"""The backward in an operator project: its kernels build and pass their tests, and torch's autograd runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pypto as pto
from pypto.errors.gradients import WrongGradient
from pypto.errors.project import NoOperator
from pypto.tools.project import Interface, write_project
from tests.cli.commands import called
from tests.patience import limit
from tests.runtime.simulated import folder as toolkit
from tests.tools.test_prototype import GUIDE
from tests.tools.torch_extension import DEVICE, built

needs_cmake = pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("g++")), reason="needs cmake and g++")


@pto.jit
def rms_norm(x, weight, bias, out, eps, power):
    row = pto.program_id(0)
    t = x[row, :]
    out[row, :] = power * t * pto.rsqrt(pto.sum(t * t) / t.shape[0] + eps) * weight[:] + bias[:]


def arguments(dtype: Any, rows: int = 4, cols: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((rows, cols)), rng.standard_normal(cols)
    arrays = {"x": x, "weight": weight, "bias": weight, "out": np.zeros_like(x)}
    return {**{name: a.astype(dtype) for name, a in arrays.items()}, "eps": np.float32(2**-10), "power": 2}


def project(folder: Path, *dtypes: Any, adjoint: tuple[str, ...] = ("x", "weight")) -> Path:
    launches = [((4,), arguments(dtype)) for dtype in dtypes]
    interface = Interface("x.shape[0]", {"out": "x.shape[0], x.shape[1]"}, adjoint=adjoint, namespace="op_api")
    write_project(folder, rms_norm, *launches[0][:1], "ascend910b2", launches[0][1], launches[1:], interface)
    return folder


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASCEND_HOME_PATH": str(toolkit()), "ASCSIM_SOC": "Ascend910B2"}
    return subprocess.run(
        [str(x) for x in command], env=environment, capture_output=True, text=True, timeout=limit(300), check=False
    )


@needs_cmake
def test_kernels_of_a_backward_build_and_pass_their_tests(tmp_path: Path) -> None:
    made, build = project(tmp_path / "made", np.float32), tmp_path / "build"
    for command in (
        ["cmake", "-S", made / "test", "-B", tmp_path / "build_test"],  # tests of the operator alone
        ["cmake", "-S", made / "launch", "-B", build],
        ["cmake", "--build", build],
        ["ctest", "--test-dir", build],
    ):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "100% tests passed, 0 tests failed out of 3" in done.stdout  # one adds up partial gradients
    wrong = made / "test" / "data" / "rms_norm_backward_0" / "d_x.expected.bin"
    wrong.write_bytes(bytes(len(wrong.read_bytes())))
    assert run("ctest", "--test-dir", build).returncode != 0


def test_the_extension_has_autograd_where_it_is_asked_for(tmp_path: Path) -> None:
    text = (project(tmp_path / "made", np.float32) / "torch" / "rms_norm.cpp").read_text(encoding="utf-8")
    schema = (
        "backward(Tensor x, Tensor weight, Tensor d_out, float eps, int power, str binaries, int[3] grid) -> Tensor[]"
    )
    assert f'library.def("{schema}")' in text
    assert (
        'TORCH_LIBRARY_IMPL(rms_norm_torch, Autograd, library) { library.impl("launch", &launch_with_gradients); }'
        in text
    )
    assert "the project has no gradient by bias: name it in --adjoint" in text
    made = project(tmp_path / "plain", np.float32, adjoint=())
    plain = (made / "torch" / "rms_norm.cpp").read_text(encoding="utf-8")
    assert "torch::autograd::Function" not in plain
    assert plain.count("the project has no gradient by x: name it in --adjoint") == 2, "an error in both forms"
    unread = (project(tmp_path / "bias", np.float32, adjoint=("bias",)) / "torch" / "rms_norm.cpp").read_text(
        encoding="utf-8"
    )
    assert "d_bias = at::empty({5}, d_out.options()" in unread, "the backward has no `bias`, whose shape it is"


@pytest.mark.parametrize(
    ("adjoint", "error"), [(("y",), WrongGradient), (("out",), NoOperator), (("eps",), WrongGradient)]
)
def test_what_has_no_backward_is_refused(tmp_path: Path, adjoint: tuple[str, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        project(tmp_path / "made", np.float32, adjoint=adjoint)
    assert not (tmp_path / "made").exists()


def test_adjoint_on_the_command_line(tmp_path: Path) -> None:
    source = tmp_path / "kernels.py"
    source.write_text(
        "import pypto as pto\n\n\n@pto.jit\ndef square(x, y):\n    y[:] = x[:] * x[:]\n", encoding="utf-8"
    )
    words = ("compile", f"{source}:square", "x=f32[8]", "y=f32[8]", "--target", "ascend910b2", "--adjoint", "x")
    result = called(*words, "--emit", "project", "-o", tmp_path / "made")
    assert result.exit_code == 0, result.output
    assert "launch/kernel/square_backward_0.asc" in result.output
    assert "Autograd has gradients by `x`" in (tmp_path / "made" / "README.md").read_text(encoding="utf-8")
    assert "--adjoint and --namespace are for --emit project" in called(*words, "--emit", "ascendc").output


GELU: Final = """import pypto as pto


@pto.jit
def gelu(x, y, BLOCK: pto.constexpr = 256):
    i = pto.program_id(0) * BLOCK
    y[i : i + BLOCK] = pto.gelu(x[i : i + BLOCK])
"""


def test_a_definition_of_a_guide_and_a_grid_of_defaults(tmp_path: Path) -> None:
    source, definition = tmp_path / "kernels.py", tmp_path / "gelu_custom.json"
    source.write_text(GELU, encoding="utf-8")
    definition.write_text(GUIDE, encoding="utf-8")
    words = ("compile", f"{source}:gelu", "x=f16[1000]", "y=f16[1000]", "--target", "ascend910b2", "--emit", "project")
    words = (*words, "--prototype", definition, "--adjoint", "x", "-o")
    formulas = ("--grid", "cdiv(x.shape[0], BLOCK)", "--shape", "y=x.shape[0]")
    result = called(*words, tmp_path / "made", *formulas)
    assert result.exit_code == 0, result.output
    assert (
        "GELUCustom: `need_check_supported` is not used" in result.output and "exactly the shapes" not in result.output
    )
    cmake = (tmp_path / "made" / "op_kernel" / "CMakeLists.txt").read_text(encoding="utf-8")
    assert "npu_op_kernel_options(ascendc_kernels ALL OPTIONS -fwrapv)" in cmake
    assert "foreach(VERSION gelu)" in (tmp_path / "made" / "test" / "CMakeLists.txt").read_text(encoding="utf-8")
    result = called(*words, tmp_path / "fixed", "--grid", "4")
    assert "GELUCustom: x, y take exactly the shapes given here" in result.output


TRAINED: Final = """
import ctypes
import os
import sys
import types
import torch
ctypes.CDLL(os.environ["ASCEND_HOME_PATH"] + "/lib64/libascendcl.so", mode=ctypes.RTLD_GLOBAL)  # kernels ask it
torch.utils.rename_privateuse1_backend("npu")
module = types.ModuleType("npu")
module.current_device = lambda: 0
module.device_count = lambda: 1
module.is_available = lambda: True
module._is_in_bad_fork = lambda: False
module.manual_seed_all = lambda seed: None
module.get_rng_state, module.set_rng_state = torch.get_rng_state, lambda state, device=None: None
torch._register_device_module("npu", module)
torch.ops.load_library(sys.argv[1])
library, binaries = torch.ops.rms_norm_torch, sys.argv[2]


def norm(x, weight, bias=None, power=2, rows=4):
    out = torch.empty_like(x)
    bias = torch.zeros_like(weight) if bias is None else bias
    library.launch(x, weight, bias, out, 2**-10, power, binaries, [rows, 1, 1])
    return out


def message(function):
    try:
        function()
    except RuntimeError as error:
        return str(error)


def reference(x, weight):
    return 2 * x * torch.rsqrt((x * x).mean(1, keepdim=True) + 2**-10) * weight


def call(x, weight, power=2):
    return torch.ops.op_api.rms_norm(x, weight, torch.zeros_like(weight), 2**-10, power)


kinds = (torch.float64, 1e-12), (torch.float16, 2e-2)
for function, dtype, tolerance in ((f, *kind) for f in (norm, call) for kind in kinds):
    torch.manual_seed(0)
    xs, ws, g = torch.randn(4, 5, dtype=dtype), torch.randn(5, dtype=dtype), torch.randn(4, 5, dtype=dtype)
    x, weight = xs.to("npu").requires_grad_(), ws.to("npu").requires_grad_()
    out = function(x, weight)
    assert out.requires_grad and (function is call or out._version > 0)
    (out * g.to("npu")).sum().backward()
    x2, w2 = xs.double().requires_grad_(), ws.double().requires_grad_()
    (reference(x2, w2) * g.double()).sum().backward()
    for a, b in ((x, x2), (weight, w2)):
        torch.testing.assert_close(a.grad.cpu().double(), b.grad, rtol=tolerance, atol=tolerance)

x, weight = torch.randn(4, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
for function in (norm, call):
    double = lambda x, weight: function(x.to("npu"), weight.to("npu")).cpu()
    assert torch.autograd.gradcheck(double, (x.requires_grad_(), weight.requires_grad_()))

x, weight = x.detach().to("npu"), weight.detach().to("npu")
with torch.no_grad():
    assert not norm(x, weight).requires_grad
tracked = weight.clone().requires_grad_()
print(message(lambda: norm(x, weight, bias=tracked)))
print(message(lambda: norm(x, tracked, power=3)).splitlines()[-2].split(": ")[-1])
print(message(lambda: norm(x[:3], tracked, rows=3)).splitlines()[-2])
print(message(lambda: norm(x, tracked, rows=3)).splitlines()[-2])
print(message(lambda: torch.autograd.grad(norm(x, tracked).sum(), tracked, create_graph=True)))
print(message(lambda: torch.autograd.grad(call(x, tracked).sum(), tracked, create_graph=True)))
print(message(lambda: call(x, tracked, power=3)).splitlines()[-2].split(": ")[-1])
print(message(lambda: torch.ops.op_api.rms_norm(x, weight, tracked, 2**-10, 2)))
print(message(lambda: call(x[:, :4], weight[:4])).splitlines()[1])
more = torch.randn(9, 5, dtype=torch.float64)
for compiled in (call, torch.compile(call, backend="aot_eager", fullgraph=True, dynamic=True)):
    torch.testing.assert_close(compiled(more.to("npu"), weight).cpu(), reference(more, weight.cpu()))
loss = torch.compile(lambda x, weight: (call(x, weight) ** 2).sum(), backend="aot_eager", fullgraph=True)
(found,) = torch.autograd.grad(loss(x, tracked), tracked)
(wanted,) = torch.autograd.grad((call(x, tracked) ** 2).sum(), tracked)
torch.testing.assert_close(found.cpu(), wanted.cpu())
kinds = "test_schema", "test_faketensor", "test_aot_dispatch_dynamic"  # the fourth knows no devices of plugins
checked = torch.library.opcheck(torch.ops.op_api.rms_norm, (x, tracked, weight, 2**-10, 2), test_utils=kinds)
print(*checked.values())
out = torch.empty_like(x).requires_grad_()
print(message(lambda: library.launch(x, tracked, weight, out, 2**-10, 2, binaries, [4, 1, 1])))
meta = [t.to("meta") for t in (x, weight, weight, x)]
meta[0].requires_grad_()
library.launch(*meta, 2**-10, 2, "/nowhere", [4, 1, 1])
meta[3].sum().backward()
assert meta[0].grad.shape == (4, 5)
"""

SAID: Final = """\
the project has no gradient by bias: name it in --adjoint
- power is not 2
- x has not the sizes 4, 5
- the grid is not 4, 1, 1
the backward of rms_norm has no gradient itself: no create_graph=True
the backward of rms_norm has no gradient itself: no create_graph=True
- power is not 2
the project has no gradient by bias: name it in --adjoint
- it was compiled for x.size(1) == 5
SUCCESS SUCCESS SUCCESS
out is written, so it must not require a gradient before: pass a new tensor
"""


@pytest.mark.slow
@needs_cmake
def test_autograd_runs_the_backward_on_the_simulated_device(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    made, build = project(tmp_path / "made", np.float64, np.float16), tmp_path / "build"
    for command in (["cmake", "-S", made / "launch", "-B", build], ["cmake", "--build", build]):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    extension = built(tmp_path, made, DEVICE)
    for binary in build.glob("*.bin"):
        shutil.copy(binary, extension.parent)
    done = run(sys.executable, "-c", TRAINED, extension, build)
    assert (done.returncode, done.stdout) == (0, SAID), done.stderr
