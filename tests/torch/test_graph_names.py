"""Launches in saved graphs: another process runs the kernel that was traced, or says why it cannot."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pypto as pto
from pypto.errors.launch import UnknownLaunch

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

KERNELS = """
import pypto as pto

FACTOR = 3.0

def power(t, n: pto.constexpr):
    return t * t * t if n == 3 else t * t

@pto.jit
def cube(x, out):
    out[:] = power(x[:], max(2, 3))

@pto.jit
def swish(x, out, dtype: pto.constexpr = pto.float32):
    out[:] = x[:] * pto.sigmoid(x[:]) * FACTOR
"""


@pytest.fixture
def other_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Forgets what was traced, as a process that begins has nothing."""
    from pypto.torch.graph.operator import launches

    known = launches()

    def begin() -> None:
        for name, empty in (("kernels", {}), ("process_names", {}), ("calls", {}), ("plans", {}), ("constants", [])):
            monkeypatch.setattr(known, name, empty)
        monkeypatch.setattr(known, "process", "process-2")

    begin()
    yield begin


def imported(folder: Path, text: str, name: str = "saved_kernels") -> ModuleType:
    """A module of a text."""
    path = folder / f"{name}_{len(list(folder.iterdir()))}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[ModuleType]:
    yield imported(tmp_path, KERNELS)
    sys.modules.pop("saved_kernels", None)


def program(kernel: Any) -> bytes:
    """A program that launches a kernel, as it is saved."""

    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            out = torch.empty_like(x)
            kernel[1](x, out)
            return out

    file = io.BytesIO()
    torch.export.save(torch.export.export(Module(), (torch.ones(4),)), file)
    return file.getvalue()


def run(saved: bytes, x: Any) -> Any:
    return torch.export.load(io.BytesIO(saved)).module()(x)


def test_the_kernel_that_was_traced_runs(kernels: ModuleType, other_process: Any) -> None:
    """Whatever this process traced before it: names count nothing."""
    x = torch.linspace(-1, 1, 4)
    saved = program(kernels.swish)
    other_process()
    program(kernels.cube)
    torch.testing.assert_close(run(saved, x), 3 * torch.nn.functional.silu(x))
    other_process()
    torch.testing.assert_close(run(saved, x), 3 * torch.nn.functional.silu(x))


CHANGES = {
    "source": (KERNELS.replace("* pto.sigmoid(x[:])", "- pto.sigmoid(x[:])"), "source, options or constants"),
    "a global": (KERNELS.replace("FACTOR = 3.0", "FACTOR = 4.0"), "source, options or constants"),
    "options": (KERNELS.replace("@pto.jit", "@pto.jit(fast_math=True)"), "source, options or constants"),
    "its name": (KERNELS.replace("def swish", "def swish2"), "has no kernel of that name"),
    "not imported": ("", "is not imported here"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_kernel_is_refused(change: str, kernels: ModuleType, other_process: Any, tmp_path: Path) -> None:
    saved = program(kernels.swish)
    other_process()
    text, words = CHANGES[change]
    if text:
        imported(tmp_path, text)
    else:
        del sys.modules["saved_kernels"]
    with pytest.raises(UnknownLaunch, match=words):
        run(saved, torch.ones(4))


def test_helpers_count(kernels: ModuleType, other_process: Any, tmp_path: Path) -> None:
    saved = program(kernels.cube)
    other_process()
    imported(tmp_path, KERNELS.replace("t * t * t if", "t + t * t if"))
    with pytest.raises(UnknownLaunch, match="source, options or constants"):
        run(saved, torch.ones(4))


def test_kernels_of_functions_run_where_they_were_traced(other_process: Any) -> None:
    """Two closures of one source are two kernels, and no other process has them."""

    def scaled(factor: float) -> Any:
        @pto.jit
        def kernel(x, out):
            out[:] = x[:] * factor

        return kernel

    two, three = program(scaled(2.0)), program(scaled(3.0))
    assert run(two, torch.ones(4)).tolist() == [2.0] * 4
    assert run(three, torch.ones(4)).tolist() == [3.0] * 4
    other_process()
    with pytest.raises(UnknownLaunch, match="no other process can find"):
        run(two, torch.ones(4))


SAVE = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import kernels

def function(x):
    out = torch.empty_like(x)
    kernels.swish[1](x, out)
    return out

compiled = torch.compile(function, fullgraph=True, backend="inductor").aot_compile(((torch.ones(4),), {}))
compiled.save_compiled_function(sys.argv[1] + "/function")
"""

LOAD = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import kernels, pypto.torch

x, out = torch.linspace(-1, 1, 4), torch.empty(4)
torch.compile(lambda x, out: kernels.cube[1](x, out), backend="eager", fullgraph=True)(x, out)  # the first launch
with open(sys.argv[1] + "/function", "rb") as file:
    function = torch.compiler.load_compiled_function(file)
torch.testing.assert_close(function(x), 3 * torch.nn.functional.silu(x))
"""


@pytest.mark.slow
def test_a_compiled_function_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(textwrap.dedent(KERNELS))
    for text in (SAVE, LOAD):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", text, str(tmp_path)], capture_output=True, text=True, check=False
        )
        if "InvalidCxxCompiler" in done.stderr:
            pytest.skip("inductor finds no compiler here")
        assert done.returncode == 0, done.stderr
