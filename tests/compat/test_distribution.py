"""The distribution pypto-triton: `import triton` gives pypto, and a Triton that is installed stays what it is."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pypto.compat.triton.tree import VERSION
from tests.compat.environments import FOLDER, site_of
from tests.house.test_wheel import CLEAN, run
from tests.patience import limit

pytestmark = pytest.mark.slow

KERNEL = """
import triton
import triton.language as tl
import numpy as np


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


def total(size):
    x, out = np.arange(size, dtype=np.float32), np.empty(size, np.float32)
    add[(triton.cdiv(size, 64),)](x, x, out, size, BLOCK=64)
    return float(out.sum())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNEL, encoding="utf-8")
    return tmp_path


def said(python: Path, folder: Path, code: str) -> str:
    return run(python, "-W", "error", "-c", code, cwd=folder, XDG_CACHE_HOME=str(folder / "cache"))


def test_a_kernel_and_what_packages_ask_for(python: Path, folder: Path) -> None:
    code = """
import importlib.util, importlib.metadata, sys
assert "pypto" not in sys.modules, "a process that does not import triton loads nothing"
assert importlib.util.find_spec("triton").loader is not None
assert "pypto" not in sys.modules
listed = [d.version for d in importlib.metadata.distributions() if d.name == "triton"]
assert listed == [importlib.metadata.version("triton")]
assert importlib.metadata.packages_distributions()["triton"] == ["triton"]
print(importlib.metadata.version("triton"))
import triton.language, triton
from triton.runtime.jit import JITFunction
from kernels import total
print(triton.__version__, total(100), importlib.util.find_spec("triton").name)
"""
    assert said(python, folder, code) == f"{VERSION}\n{VERSION} 9900.0 triton\n"
    assert not (site_of(python) / "triton").exists()


def test_a_requirement_of_triton_is_fulfilled(python: Path, folder: Path) -> None:
    """So pip installs no Triton for GPUs beside it."""
    told = run(python, "-m", "pip", "--disable-pip-version-check", "install", "--no-index", "triton>=3.0", cwd=folder)
    assert "Requirement already satisfied: triton>=3.0" in told
    listed = run(python, "-m", "pip", "--disable-pip-version-check", "list", "--format=freeze", cwd=folder)
    assert f"triton=={VERSION}" in listed.splitlines()


def test_children_that_are_spawned(python: Path, folder: Path) -> None:
    (folder / "pool.py").write_text(
        "import multiprocessing\nfrom kernels import total\n\nif __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n        print(pool.map(total, [2, 100]))\n",
        encoding="utf-8",
    )
    assert run(python, "pool.py", cwd=folder, XDG_CACHE_HOME=str(folder / "cache")) == "[2.0, 9900.0]\n"


def test_under_pytest_and_beside_a_mere_folder(python: Path, folder: Path) -> None:
    """A folder `triton` in the working directory, as of a checkout, is no package."""
    (folder / "triton" / "python").mkdir(parents=True)
    test = "from kernels import total\n\ndef test_total():\n    assert total(100) == 9900\n"
    (folder / "test_kernels.py").write_text(test, encoding="utf-8")
    told = run(
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_kernels.py", cwd=folder, PYTHONPATH=str(folder)
    )
    assert "1 passed" in told


def test_a_triton_that_is_installed_stays(python: Path, folder: Path) -> None:
    other = folder / "other" / "triton"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("__version__ = '99.0'\n", encoding="utf-8")
    (folder / "other" / "triton-99.0.dist-info").mkdir()
    (folder / "other" / "triton-99.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: triton\nVersion: 99.0\n", encoding="utf-8"
    )
    environment = {**CLEAN, "PYTHONPATH": str(other.parent)}

    def asked(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(python), *words], env=environment, cwd=folder, capture_output=True, text=True,
                              timeout=limit(100), check=False)  # fmt: skip

    code = "import importlib.metadata as m, triton\nprint(triton.__version__, m.version('triton'), "
    code += "*[d.version for d in m.distributions() if d.name == 'triton'])"
    done = asked("-c", code)
    assert (done.returncode, done.stdout) == (0, "99.0 99.0 99.0\n"), done.stderr
    assert "and pypto-triton does nothing beside it" in done.stderr
    assert "set PYPTO_TRITON=1" in done.stderr
    environment["PYPTO_TRITON"] = "1"
    done = asked("-c", "from kernels import total; print(total(100))")
    assert (done.returncode, done.stdout, done.stderr) == (0, "9900.0\n", "")
    assert asked("-m", "pypto_triton").stdout.startswith("`import triton` gives pypto")
    environment["PYPTO_TRITON"] = "0"
    assert "serves nothing" in asked("-m", "pypto_triton").stdout
    del environment["PYPTO_TRITON"]
    done = asked("-m", "pypto_triton")
    assert done.returncode == 1
    assert "pypto-triton overwrites none" in done.stdout
    assert run(python, "-m", "pypto_triton", cwd=folder).startswith("`import triton` gives pypto")
    done = asked("-m", "pypto.compat.triton", "-c", "from kernels import total; print(total(100))")
    assert (done.returncode, done.stdout) == (0, "9900.0\n"), done.stderr


def test_it_can_be_switched_off(python: Path, folder: Path) -> None:
    code = "import importlib.util\nprint(importlib.util.find_spec('triton'))"
    assert run(python, "-c", code, cwd=folder, PYPTO_TRITON="0") == "None\n"


def test_in_a_notebook(python: Path, folder: Path) -> None:
    """A kernel of a cell, in the process of a kernel of IPython."""
    client = pytest.importorskip("jupyter_client", reason="needs ipykernel, nbclient and nbconvert")
    pytest.importorskip("ipykernel", reason="needs ipykernel, nbclient and nbconvert")
    spec = client.kernelspec.KernelSpec(argv=[str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    manager = client.KernelManager()
    manager._kernel_spec = spec
    said: list[str] = []

    def hear(message: Any) -> None:
        said.append(message["content"].get("text", "") or "\n".join(message["content"].get("traceback", ())))

    manager.start_kernel(cwd=str(folder), env=CLEAN)
    try:
        asking = manager.client()
        asking.start_channels()
        asking.wait_for_ready(timeout=limit(60))
        asking.execute_interactive(f"{KERNEL}\nprint(total(100))", timeout=limit(60), output_hook=hear)
        asking.stop_channels()
    finally:
        manager.shutdown_kernel(now=True)
    assert "".join(said).strip().endswith("9900.0")


@pytest.mark.torch
def test_torch_compile(python: Path, folder: Path) -> None:
    pytest.importorskip("torch")
    code = """
import torch
from torch.utils._triton import has_triton_package
assert has_triton_package()
from kernels import add


def doubled(x):
    out = torch.empty_like(x)
    add[(2,)](x, x, out, x.numel(), BLOCK=64)
    return out


x = torch.rand(100)
torch.testing.assert_close(doubled(x), x + x)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
y = torch.rand(4, 8)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model, backend="pypto-inductor")(y), model(y))
    torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(y), model(y))
print("same")
"""
    assert run(python, "-c", code, cwd=folder, XDG_CACHE_HOME=str(folder / "cache")) == "same\n"


def test_it_says_what_pypto_says() -> None:
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == ["pypto-jit>=0.1"]
    assert f'VERSION = "{VERSION}"' in (FOLDER / "pypto_triton" / "__init__.py").read_text(encoding="utf-8")
    assert (FOLDER / "pypto_triton.pth").read_text(encoding="utf-8").startswith("import pypto_triton")
