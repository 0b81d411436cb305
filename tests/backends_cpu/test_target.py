"""Targets: the host, and feature levels that are forced."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu import target as targets
from pypto.backends.cpu.target import describe, host_target
from pypto.errors import OptionError
from tests.conformance import kernels
from tests.conformance.processes import python

x86 = pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="levels are of x86-64")
SCRIPT = """
import numpy as np
import pypto as pto
from pypto.compile import session
from pypto.options import KernelOptions

@pto.jit
def kernel(x):
    x[:] = x[:] * 2

x = np.ones(5, np.float32)
kernel[1](x)
print(x.sum(), session().backend(KernelOptions()).target.level)
"""


def test_the_host_describes_itself() -> None:
    host = host_target()
    assert host == host_target("") == host_target("host")
    assert host.level == "host" and host.cpu and host.triple
    assert host.vector_bytes in (16, 32, 64) and host.registers in (16, 32)
    assert 1 << 13 <= host.caches[0] <= host.caches[1] <= host.caches[2]


@x86
@pytest.mark.parametrize(("level", "vector_bytes", "fma"), [("x86-64-v2", 16, False), ("x86-64-v3", 32, True)])
def test_levels(level: str, vector_bytes: int, fma: bool) -> None:
    target = host_target(level)
    assert (target.cpu, target.level, target.features) == (level, level, "")
    assert (target.vector_bytes, target.has_fma, target.has_half, target.has_round) == (vector_bytes, fma, fma, True)


def test_levels_of_wide_machines() -> None:
    wide = describe("any", "", "host", "x86_64-linux", {"avx512f", "avx512bw", "fma", "sse4.2"})
    assert (wide.vector_bytes, wide.registers) == (64, 32)
    assert "512" in wide.attributes
    arm = describe("any", "", "host", "aarch64-linux", {"neon"})
    assert (arm.vector_bytes, arm.registers, arm.has_fma) == (16, 32, True)


def test_products_of_bfloat16_pairs_where_they_are_faster() -> None:
    present = {"avx512f", "avx512bw", "avx512bf16", "fma"}
    assert describe("znver4", "", "host", "x86_64-linux", present).has_bf16_dot
    assert describe("znver4", "", "host", "x86_64-linux", present).has_bf16_round
    assert not describe("emeraldrapids", "", "host", "x86_64-linux", present).has_bf16_dot
    assert not describe("znver4", "", "host", "x86_64-linux", present - {"avx512bf16"}).has_bf16_dot


def test_a_virtual_machine_has_its_share_of_the_last_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_SYSFS_CACHES", str(tmp_path))
    for n, size in enumerate(("48K", "32K", "2048K", "266240K")):
        (tmp_path / f"index{n}").mkdir()
        (tmp_path / f"index{n}" / "size").write_text(f"{size}\n", encoding="utf-8")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert targets.cache_bytes() == (48 << 10, 2 << 20, 32 << 20)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert targets.cache_bytes() == (48 << 10, 2 << 20, 260 << 20)


@pytest.mark.parametrize("level", ["x86-64-v9", "avx2", "x86-64-V3", "native; rm"])
def test_unknown_levels_are_errors(level: str) -> None:
    """LLVM would end the process over a name that it does not know."""
    with pytest.raises(OptionError, match=r"unknown feature level .*known are host, x86-64-v2, x86-64-v3, x86-64-v4"):
        host_target(level)
    x = np.ones(4, np.float32)
    with pytest.raises(OptionError):
        pto.jit(level=level)(kernels.add_native.function)[1](x, x, x.copy(), 4)


@x86
def test_levels_that_the_machine_lacks_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite.binding as llvm

    features = type(llvm.get_host_cpu_features())({"sse4.2": True, "popcnt": True, "ssse3": True})
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: features)
    assert targets.host_target("x86-64-v2").vector_bytes == 16
    with pytest.raises(OptionError, match="this CPU has no avx2, fma, f16c, bmi2, so x86-64-v3 code cannot run on it"):
        targets.host_target("x86-64-v3")


@x86
@pytest.mark.parametrize(("level", "said"), [("", "host"), ("x86-64-v2", "x86-64-v2")])
def test_level_of_the_process(level: str, said: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    assert python(script, PYPTO_LEVEL=level) == f"10.0 {said}\n"


@x86
def test_levels_are_apart_in_the_cache() -> None:
    """Code for a richer CPU is never taken for one of a poorer."""
    x = np.ones(100, np.float32)
    codes = {pto.jit(level=level)(kernels.add_native.function).compile(x, x, x.copy(), 100).program.artifact.code
             for level in ("", "x86-64-v2", "x86-64-v3")}  # fmt: skip
    assert len(codes) == 3


def test_fast_math_contracts_and_the_default_does_not() -> None:
    """1 - 1.x * 1.x by one rounding or two."""

    @pto.jit
    def kernel(x, y):
        y[:] = x[:] * x[:] - 1.0

    x = np.full(64, 1 + 2.0**-12, np.float32)
    plain, fast = np.zeros_like(x), np.zeros_like(x)
    kernel[1](x, plain)
    np.testing.assert_array_equal(plain, x * x - np.float32(1))
    pto.jit(fast_math=True)(kernel.function)[1](x, fast)
    np.testing.assert_allclose(fast, plain, rtol=1e-3)
    if host_target().has_fma:
        assert (fast == 2.0**-11 + 2.0**-24).all()
