"""Mixed kernels of toolkits before 8.5: two names, two objects that are linked, and the address of the flags."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.toolchain.mixed_parts import mixed_part, takes_sync_address
from pypto.backends.ascend.toolchain.toolchain import Toolchain
from pypto.errors import CompilerBug
from pypto.errors.device import NotCompiled
from pypto.runtime.acl import AclError, opened
from tests.runtime.simulated import folder, new_device

needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
HEAD = '#include "kernel_operator.h"\nusing namespace AscendC;\n'
KERNEL = """extern "C" __global__ __mix__(1, 2) __aicore__ void k(int32_t) {
    InitSocState();
    if ASCEND_IS_AIC { CrossCoreSetFlag<2, PIPE_FIX>(0); }
    if ASCEND_IS_AIV { CrossCoreWaitFlag(0); }
    PipeBarrier<PIPE_ALL>();
}
"""


@pto.jit
def scaled_product(x, w, scale, out, BM: pto.constexpr):
    i = pto.program_id(0) * BM
    found = pto.dot(x[i : i + BM, :], w[:, :])
    out[i : i + BM, :] = pto.exp(found * scale[0])


def launched(binary: bytes, arguments: bytes) -> None:
    acl = opened(folder() / "lib64" / "libascendcl.so")
    try:
        function = acl.load(binary, "mix").function("k")
        acl.launch(function, 1, arguments)
        acl.synchronize()
    finally:
        acl.close()


def linked(place: Path, *texts: tuple[str, str]) -> subprocess.CompletedProcess[str]:
    """Objects of texts, each with its architecture, and what the linker says of them together."""
    objects = []
    for number, (text, core) in enumerate(texts):
        source, made = place / f"{number}.asc", place / f"{number}.o"
        source.write_text(HEAD + text, encoding="utf-8")
        compiler = [str(folder() / "bin" / "ccec"), "-x", "cce", f"--cce-aicore-arch=dav-c220-{core}", "-c"]
        done = subprocess.run([*compiler, str(source), "-o", str(made)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        objects.append(str(made))
    command = [str(folder() / "bin" / "ld.lld"), "-m", "aicorelinux", *objects, "-o", str(place / "k.bin")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_address_is_for_mixed_kernels_of_910b() -> None:
    assert takes_sync_address("mix", "dav-2201")
    assert not takes_sync_address("vector", "dav-2201")
    assert not takes_sync_address("mix", "dav-3510")


def test_lines_keep_their_numbers() -> None:
    for core, suffix in (("cube", "_mix_aic"), ("vec", "_mix_aiv")):
        made = mixed_part(KERNEL, core, "dav-2201").splitlines()
        assert len(made) == len(KERNEL.splitlines())
        assert f"void k{suffix}(GM_ADDR sync_address, int32_t) {{" in made[0]
    head = "__mix__(1, 2) __aicore__ void"
    made = mixed_part(f"{head} k() {{\nInitSocState();\n", "vec", "dav-2201")
    first = f"{head} k_mix_aiv(GM_ADDR sync_address) {{"
    assert made == f"{first}\nSetSyncBaseAddr((uint64_t)sync_address); InitSocState();\n"
    assert mixed_part(KERNEL, "vec", "dav-3510") == KERNEL.replace("void k(", "void k_mix_aiv(")


def test_text_of_another_form_is_refused() -> None:
    for text in (KERNEL.replace("__mix__(1, 2)", "__vector__"), KERNEL.replace("InitSocState();", "")):
        with pytest.raises(CompilerBug, match="a mixed kernel has"):
            mixed_part(text, "cube", "dav-2201")


@needs_compiler
@pytest.mark.parametrize("chip", ["ascend910b2", "ascend950"])
def test_a_mixed_kernel_runs(chip: str) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 32, 32)).astype(np.float16)
    scale, out = np.full(1, 0.125, np.float32), np.zeros((32, 32), np.float32)
    device = new_device("cce", lower_to_text, chip)
    with device:
        version = scaled_product.compile(x, w, scale, out, BM=16)
        code = device.backend.code(version.program.artifact)
        assert (code.kind, code.takes_sync_address) == ("mix", chip == "ascend910b2")
        scaled_product[(2,)](x, w, scale, out, BM=16)
    np.testing.assert_allclose(out, np.exp(x.astype(np.float32) @ w.astype(np.float32) * 0.125), rtol=1e-3)


@needs_compiler
def test_two_objects_with_one_symbol_are_refused(tmp_path: Path) -> None:
    done = linked(tmp_path, (KERNEL, "cube"), (KERNEL, "vec"))
    assert done.returncode == 1
    assert "ld.lld: error: duplicate symbol: k" in done.stderr.splitlines()
    other = KERNEL.replace("void k(", "void j(")
    assert linked(tmp_path, (KERNEL, "cube"), (other, "vec")).returncode == 0
    assert linked(tmp_path).stderr == "ld.lld: error: no input files\n"


@needs_compiler
def test_a_part_without_its_name_or_its_other_half_is_refused(tmp_path: Path) -> None:
    chain = Toolchain(folder(), "cce")
    kernel = tmp_path / "k.asc"
    chain.write_sources(kernel, HEAD + KERNEL, "mix", "dav-2201")
    cube = (tmp_path / "k.cube.asc").read_text(encoding="utf-8")
    (tmp_path / "k.cube.asc").write_text(cube.replace("k_mix_aic", "k"), encoding="utf-8")
    command, *_ = chain.commands(kernel, tmp_path / "k.bin", "mix", "dav-2201")
    with pytest.raises(NotCompiled, match="needs a name that ends in _mix_aic"):
        chain.run(command, KERNEL, "k", "")
    (tmp_path / "k.cube.asc").write_text(cube, encoding="utf-8")
    chain.run(command, KERNEL, "k", "")
    chain.run(chain.link([str(tmp_path / "k.cube.o")], tmp_path / "k.bin"), KERNEL, "k", "")
    with pytest.raises(AclError, match="k_mix_aiv is missing"):
        launched((tmp_path / "k.bin").read_bytes(), bytes(16))


@needs_compiler
def test_flags_need_their_address(monkeypatch: pytest.MonkeyPatch) -> None:
    binary = Toolchain(folder(), "cce").compile(HEAD + KERNEL, "k", "mix", "dav-2201")
    acl = opened(folder() / "lib64" / "libascendcl.so")
    launched(binary, acl.sync_address().to_bytes(8, "little") + bytes(8))
    with pytest.raises(AclError, match="not the address that aclrtGetHardwareSyncAddr gives"):
        launched(binary, bytes(16))

    def without_address(text: str, core: str, arch: str) -> Any:
        return mixed_part(text, core, arch).replace("SetSyncBaseAddr((uint64_t)sync_address);", "(void)sync_address;")

    monkeypatch.setattr("pypto.backends.ascend.toolchain.toolchain.mixed_part", without_address)
    binary = Toolchain(folder(), "cce").compile(HEAD + KERNEL, "k", "mix", "dav-2201")
    with pytest.raises(AclError, match="calls SetSyncBaseAddr first"):
        launched(binary, bytes(16))
