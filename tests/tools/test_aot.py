"""Kernels ahead of time: as objects and shared libraries, called from C, and loaded without a compiler."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
import pypto.aot
from pypto.backends.cpu.runtime import aot
from pypto.errors.aot import MissingFeatures, NoLinker, NotAhead, NotALibrary, NoVersion
from pypto.errors.launch import ReadOnlyArgument, RecordedArgument, RepeatedArgument, UndispatchedLaunch, WrongGrid
from pypto.tools.aot import build
from tests.patience import limit

CC = shutil.which("cc")
linked = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler for ELF")
SCALE = 3.0


@pto.jit
def axpy(x, y, out, n, a, BLOCK: pto.constexpr, MODE: pto.constexpr = "plus"):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    product = pto.exp(pto.load(x + i, mask=i < n)) * a
    other = pto.load(y + i, mask=i < n)
    pto.store(out + i, product + other if MODE == "plus" else product - other, mask=i < n)


@pto.jit
def product(x, y, out, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    out[i : i + BM, j : j + BN] = pto.dot(x[i : i + BM, :], y[:, j : j + BN])


@pto.jit
def scaled(x, factor, out):
    out[:] = (x[:].to(pto.float32) * factor * SCALE).to(out.dtype)


def example(n: int = 100, kind: Any = np.float32) -> dict[str, Any]:
    x, y, out = (np.zeros(n, kind) for _ in range(3))
    return {"x": x, "y": y, "out": out, "n": n, "a": 2.0, "BLOCK": 64}


def inputs(n: int, kind: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(n)
    return [rng.standard_normal(n).astype(kind), rng.standard_normal(n).astype(kind), np.zeros(n, kind)]


def run(command: Sequence[Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=limit(60))


def made(folder: Path, kernel: Any, versions: Sequence[Any], **options: Any) -> Any:
    """A library of a kernel, loaded."""
    path = folder / f"lib{kernel.signature.kernel}.so"
    build(kernel, versions, path, **options)
    return pypto.aot.load(path, threads=2)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if CC is None or sys.platform != "linux":
        pytest.skip("needs a C compiler for ELF")
    return made(tmp_path_factory.mktemp("ahead"), axpy, [example(), example(kind=np.float64)])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 63, 1000, 100_003])
def test_loaded_and_launched(library: Any, kind: Any, n: int) -> None:
    x, y, out = inputs(n, kind)
    mine = out.copy()
    library.axpy[lambda meta: (pto.cdiv(n, meta["BLOCK"]),)](x, y, out, n, 0.5)
    axpy[(pto.cdiv(n, 64),)](x, y, mine, n, 0.5, BLOCK=64)
    np.testing.assert_allclose(out, mine, rtol=1e-6)


def test_the_code_is_that_of_a_launch(tmp_path: Path) -> None:
    """At the same level, the results are the same to the last bit, and so they are at the least level within some."""
    if CC is None or sys.platform != "linux" or not aot.is_x86():
        pytest.skip("compares levels of x86-64 in libraries for ELF")
    x, y, out = inputs(1000)
    mine = out.copy()
    made(tmp_path, axpy, [example()], levels=["x86-64-v2"]).axpy[16](x, y, out, 1000, 1.5)
    pto.jit(axpy.function, level="x86-64-v2")[16](x, y, mine, 1000, 1.5, 64)
    np.testing.assert_array_equal(out, mine)


@linked
@pytest.mark.parametrize("size", [(33, 40, 24), (64, 64, 64)])
def test_scratch_threads_and_strides(tmp_path: Path, size: tuple[int, int, int]) -> None:
    """A product needs scratch memory for each thread; sizes that belong to the code are facts."""
    m, k, n = size
    rng = np.random.default_rng(0)
    x, y, out = rng.standard_normal((m, k)), rng.standard_normal((k, n)), np.zeros((m, n))
    x, y, out = (a.astype(np.float32) for a in (x, y, out))
    found = made(tmp_path, product, [{"x": x, "y": y, "out": out, "BM": 16, "BN": 16}])
    for _ in range(20):
        out[:] = 0
        found.product[pto.cdiv(m, 16), pto.cdiv(n, 16)](x, y, out)
        np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-4)
    wide = np.zeros((m, 2 * n), np.float32)
    found.product[pto.cdiv(m, 16), pto.cdiv(n, 16)](x, y, wide[:, :n])
    np.testing.assert_allclose(wide[:, :n], x @ y, rtol=1e-4, atol=1e-4)
    with pytest.raises(NoVersion, match=r"the size of axis 1 of `x` is|stride"):
        found.product[1, 1](x[:, :16], y[:16], out)


@linked
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.int8, np.uint16], ids=lambda k: np.dtype(k).name)
def test_types_of_arrays_and_numbers(tmp_path: Path, kind: Any) -> None:
    x, out = np.arange(1, 6).astype(kind), np.zeros(5, kind)
    factor = kind(2) if np.dtype(kind).name != "uint16" else np.float64(2)
    found = made(tmp_path, scaled, [{"x": x, "factor": factor, "out": out}])
    found.scaled[1](x, factor, out)
    assert out.astype(float).tolist() == [6.0, 12.0, 18.0, 24.0, 30.0]


def test_what_fits_no_version(library: Any) -> None:
    x, y, out = inputs(100)
    frozen = out.copy()
    frozen.flags.writeable = False
    calls: list[tuple[Any, Any, str]] = [
        ((x, y.astype(np.float16), out, 100, 1.0), NoVersion, "in version 0, `y` is an array of float32 with 1 axes"),
        ((x, y[:, None], out, 100, 1.0), NoVersion, "in version 1, `x` is an array of float64"),
        ((x, y, x, 100, 1.0), NoVersion, "an array that is written shares memory"),
        ((x, y, out, 1.5, 1.0), NoVersion, "`n` is a number of type int32"),
        ((x, y, out, 2**40, 1.0), NoVersion, "`n` is a number of type int32"),
        ((x, y, out, 100, x), NoVersion, "`a` is a number of type float32"),
        ((x, y, out, 100, 1.0, 32), NoVersion, "`BLOCK` is the constant 64"),
        ((x, y, frozen, 100, 1.0), ReadOnlyArgument, "read-only"),
        ((x, y, out, 100), TypeError, "missing `a`"),
    ]  # fmt: skip
    for arguments, kind, words in calls:
        with pytest.raises(kind, match=words):
            library.axpy[2](*arguments)
    with pytest.raises(WrongGrid):
        library.axpy[-1](x, y, out, 100, 1.0)
    library.axpy[0](x, y, out, 100, 1.0)
    assert not out.any()
    library.axpy[2](x, y, out, n=100, a=1.0, BLOCK=64)
    assert out.any()


def test_an_entry_refuses_a_grid_that_is_none(library: Any) -> None:
    version = library.axpy.versions[0]
    for grid in ((-1, 1, 1), (1, 2**31, 1), (2**31 - 1, 2**31 - 1, 2**31 - 1)):
        assert version.entry((ctypes.c_int64 * 3)(*grid), None, 1) == aot.STATUS["BAD_GRID"]
    assert version.entry((ctypes.c_int64 * 3)(0, 1, 1), None, 1) == aot.STATUS["OK"]


@linked
def test_a_cpu_without_the_features_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The levels ask for a bit that no CPU sets, as if this machine lacked a feature."""
    if not aot.is_x86():
        pytest.skip("feature levels are those of x86-64")
    reserved = {level: (bits[0] | 1 << 16, *bits[1:]) for level, bits in aot.REQUIRED_CPUID.items()}
    monkeypatch.setattr(aot, "REQUIRED_CPUID", {**reserved, "x86-64-v2": aot.REQUIRED_CPUID["x86-64-v2"]})
    x, y, out = inputs(100)
    fallen_back = made(tmp_path, axpy, [example()])
    fallen_back.axpy[2](x, y, out, 100, 1.0)
    np.testing.assert_allclose(out, np.exp(x) + y, rtol=1e-5)
    (tmp_path / "other").mkdir()
    lacking = made(tmp_path / "other", axpy, [example()], levels=["x86-64-v3", "x86-64-v4"])
    out[:] = 0
    with pytest.raises(MissingFeatures, match=r"x86-64-v4, x86-64-v3(.|\n)*--level x86-64-v2"):
        lacking.axpy[2](x, y, out, 100, 1.0)
    assert not out.any()


@linked
def test_a_process_without_llvmlite(library: Any, tmp_path: Path) -> None:
    """The loader needs no compiler; a forked child launches, too."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nsys.modules['llvmlite'] = None\nimport numpy as np, pypto.aot\n"
        f"kernel = pypto.aot.load({library.path!r}, threads=4).axpy\n"
        "x, y, out = np.ones(10**6, np.float32), np.ones(10**6, np.float32), np.zeros(10**6, np.float32)\n"
        "for _ in range(3):\n    kernel[15625](x, y, out, 10**6, 0.0)\nassert out.all()\n"
        "child = os.fork()\nif not child:\n    out[:] = 0\n    kernel[15625](x, y, out, 10**6, 0.0)\n"
        "    os._exit(0 if out.all() else 3)\n"
        "assert os.waitpid(child, 0)[1] == 0\nassert 'pypto.compile' not in sys.modules\nprint('fine')\n",
        encoding="utf-8",
    )
    done = run([sys.executable, "-W", "ignore", script])
    assert done.stdout == "fine\n", done.stderr


PROGRAM = r"""
#include <stdio.h>
#include "axpy.h"

int main(void) {
    static float x[1000], y[1000], out[1000];
    static double wide[1000], more[1000], sums[1000];
    for (int i = 0; i < 1000; ++i) { y[i] = (float)i; more[i] = i; }
    const int64_t shape[] = {1000}, stride[] = {1}, grid[] = {16, 1, 1};
    const pypto_array a = {x, PYPTO_FLOAT32, 1, shape, stride}, b = {y, PYPTO_FLOAT32, 1, shape, stride};
    const pypto_array c = {out, PYPTO_FLOAT32, 1, shape, stride};
    const pypto_array d = {wide, PYPTO_FLOAT64, 1, shape, stride}, e = {more, PYPTO_FLOAT64, 1, shape, stride};
    const pypto_array f = {sums, PYPTO_FLOAT64, 1, shape, stride};
    const int64_t wrong[] = {-1, 1, 1};
    printf("%d %d", axpy(grid, 1, &a, &b, &c, 1000, 2.0f), axpy(grid, 2, &d, &e, &f, 999, 2.0f));
    printf(" %d %d", axpy(grid, 1, &a, &b, &a, 1000, 2.0f), axpy(grid, 1, &a, &e, &c, 1000, 2.0f));
    printf(" %d\n", axpy(wrong, 1, &a, &b, &c, 1000, 2.0f));
    printf("%g %g %g %g\n", out[0], out[999], sums[998], sums[999]);
    return 0;
}
"""


@linked
@pytest.mark.parametrize(("emit", "flags"), [("object", ["-std=c99"]), ("shared", ["-x", "c++"])], ids=["c", "c++"])
def test_from_c(tmp_path: Path, emit: str, flags: list[str]) -> None:
    if "c++" in flags and shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    code = tmp_path / ("axpy.o" if emit == "object" else "axpy.so")
    files = build(axpy, [example(), example(kind=np.float64)], code, emit)
    assert files == [code, tmp_path / "axpy.h"]
    (tmp_path / "main.c").write_text(PROGRAM, encoding="utf-8")
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic-errors"]
    main = tmp_path / "main"
    files_of_c = [str(tmp_path / "main.c"), "-x", "none", str(code)]
    done = run(["cc", *strict, *flags, f"-I{tmp_path}", *files_of_c, "-o", str(main), "-pthread"])
    assert done.returncode == 0, done.stderr
    out = run([main]).stdout
    assert out == "0 0 2 2 1\n2 1001 1000 0\n"


@linked
def test_nothing_is_missing(library: Any) -> None:
    """All mathematics is in the library; what it asks for is the system's: memory, threads."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm")
    asked = {line.split()[-1].partition("@")[0] for line in run([nm, "-D", "-u", library.path]).stdout.splitlines()}
    system = {"aligned_alloc", "clock_gettime", "free", "getpid", "memset", "memcpy", "memmove", "syscall", "sysconf"}
    threads = {"pthread_create", "pthread_detach"}
    start = {"__cxa_finalize", "__gmon_start__", "_ITM_registerTMCloneTable", "_ITM_deregisterTMCloneTable"}
    assert asked <= system | threads | start
    given = run([nm, "-D", "--defined-only", library.path]).stdout
    assert {line.split()[-1] for line in given.splitlines()} == {"pypto1_axpy_0", "pypto1_axpy_1", "pypto_manifest"}


def test_an_object_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.o", "b.o"):
        build(axpy, [example()], tmp_path / name, "object", aot.levels()[:1])
    assert (tmp_path / "a.o").read_bytes() == (tmp_path / "b.o").read_bytes()
    assert (tmp_path / "a.h").read_text() == (tmp_path / "b.h").read_text()


def test_names_that_c_does_not_know(tmp_path: Path) -> None:
    from pypto.tools.aot.build import symbol

    assert symbol("größe") == "gr_u00f6_u00dfe"


@linked
def test_a_number_that_is_one_makes_a_fact(tmp_path: Path) -> None:
    found = made(tmp_path, axpy, [{**example(), "n": 1}]).axpy.versions[0]
    assert [fact for fact in found.facts if fact[0] == "one"] in ([], [("one", "n", 0, True)])
    assert not [fact for fact in made(tmp_path, axpy, [example()]).axpy.versions[0].facts if fact[0] == "one"]


def test_no_library(tmp_path: Path) -> None:
    text = tmp_path / "lib.so"
    text.write_text("no library", encoding="utf-8")
    for path, words in ((tmp_path / "nowhere.so", "no such file"), (text, "invalid ELF header|file too short|not a")):
        with pytest.raises(NotALibrary, match=words):
            pypto.aot.load(path)


@linked
def test_another_interface(tmp_path: Path) -> None:
    for name, content, words in (
        ("new", json.dumps({"abi": 99}), "version 99, and this one's is 1"), ("bad", "{", "no library of kernels"),
        ("none", None, "undefined symbol"),
    ):  # fmt: skip
        source, path = tmp_path / f"{name}.c", tmp_path / f"{name}.so"
        quoted = json.dumps(content) if content is not None else ""
        source.write_text(f"const char pypto_manifest[] = {quoted};" if quoted else "int other;", encoding="utf-8")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", path, source], check=True, timeout=limit(60))
        with pytest.raises(NotALibrary, match=words):
            pypto.aot.load(path)


def test_what_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @pto.jit
    def pair(both, out):
        out[:] = both[0][:] + both[1][:]

    x = np.zeros(4, np.float32)
    with pytest.raises(NotAhead, match="`both` is a tuple"):
        build(pair, [{"both": (x, x), "out": x.copy()}], tmp_path / "a.o", "object")
    with pytest.raises(NotAhead, match="no feature level sparc"):
        build(axpy, [example()], tmp_path / "a.o", "object", ["sparc"])
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(NoLinker, match=r"there is no /nowhere/cc(.|\n)*--emit object"):
        build(axpy, [example()], tmp_path / "a.so", "shared", aot.levels()[:1])
    assert not list(tmp_path.iterdir())


@linked
def test_the_linkers_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc -no-such-flag")
    with pytest.raises(NoLinker, match="no-such-flag"):
        build(axpy, [example()], tmp_path / "a.so", "shared", aot.levels()[:1])
    assert os.listdir(tmp_path) == []


@linked
def test_tensors_in_a_library(library: Any) -> None:
    torch = pytest.importorskip("torch")
    x, out = torch.zeros(100), torch.zeros(100)
    library.axpy[2](x, torch.ones(100), out, 100, 2.0)
    assert out.tolist() == [3.0] * 100 and (x._version, out._version) == (0, 1)
    recorded = torch.zeros(100, requires_grad=True)
    for bad, error in ((recorded, RecordedArgument), (torch.zeros(1).expand(100), RepeatedArgument)):
        with pytest.raises(error, match="axpy writes to `out`"):
            library.axpy[2](x, torch.ones(100), bad, 100, 2.0)
    with torch.utils._python_dispatch.TorchDispatchMode(), pytest.raises(UndispatchedLaunch, match="it is compiled"):
        library.axpy[2](x, x, out, 100, 2.0)
