"""The simulated Ascend device: a toolkit in CANN's own layout, built from the C++ sources that come with the package.

What finds a real toolkit by its folder finds this one the same way: `bin/bisheng` and `bin/ccec` compile, and
`lib64/libascendcl.so` loads, launches and checks. `lib64/libnnopbase.so` runs operators of projects, which
`lib64/cmake` builds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from filelock import FileLock

from pypto.errors import PyptoError
from pypto.runtime.disk_cache.store import Unusable, check

_COMPILERS: Final = ("g++", "clang++")
_FLAGS: Final = ("-std=c++17", "-O2", "-fPIC")
_DRIVERS: Final = (("bin/bisheng", "bisheng.py"), ("bin/ccec", "bisheng.py"), ("bin/ld.lld", "linker.sh"),
                   ("tools/opbuild/op_build", "op_build.py"))  # fmt: skip
_ARCHITECTURES: Final = ("2201", "3510")
_KERNELS: Final = ("-std=c++17", "-Og", "-fPIC", "-fwrapv")  # as kernels are compiled, which such a header must match
_TIMEOUT: Final = 600


class NoSimulator(PyptoError, RuntimeError):
    """The simulated device cannot be built here; the message says what to install."""


def sources() -> Path:
    """The folder of the simulator's C++ sources: in a checkout, or in the installed package."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package.parent / "runtime" / "sim", package / "_runtime_sources" / "sim"):
        if (folder / "include" / "kernel_operator.h").is_file():
            return folder
    raise NoSimulator("the sources of the simulated Ascend device are missing: install pypto-jit anew")


def host_compiler() -> str:
    """The path of a C++ compiler.

    Raises
    ------
    NoSimulator
        When there is none.
    """
    for name in _COMPILERS:
        if path := shutil.which(name):
            return path
    raise NoSimulator(
        "the simulated Ascend device needs a C++ compiler, and none was found: install g++ or clang++ (on Debian and "
        "Ubuntu `apt-get install g++`, on Fedora `dnf install gcc-c++`). Everything else works without one"
    )


def source_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            data = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode())
            digest.update(data)
    return digest.hexdigest()[:24]


def toolkit(cache: Path, say: Callable[[str], None] = lambda text: None) -> Path:
    """The folder of the toolkit, built into a cache folder when it is not there yet.

    Parameters
    ----------
    cache : Path
        Where built toolkits are kept, one for each state of the sources and each compiler.
    say : callable
        Takes a line on what is being done, since a build takes seconds.

    Raises
    ------
    NoSimulator
        When there is no compiler, or when it fails; the message has its words.
    """
    folder, compiler = sources(), host_compiler()
    state = os.stat(compiler)  # asking it for its version would start it in every process
    version = os.path.realpath(compiler), state.st_size, state.st_mtime_ns
    name = hashlib.sha256(f"{source_hash(folder)}\0{version}\0{_FLAGS}\0{sys.executable}".encode()).hexdigest()[:24]
    kit = cache / f"ascend-sim-{name}"
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        check(cache, stat.S_ISDIR)  # what lies there is going to be run
    except Unusable as error:
        raise NoSimulator(f"the simulated Ascend device has no safe place: {error}; set PYPTO_CACHE_DIR") from None
    if kit.is_dir():  # whole, since it got its name last
        return kit
    with FileLock(f"{kit}.lock"), tempfile.TemporaryDirectory(dir=cache, prefix="ascend-sim-") as scratch:
        if not kit.is_dir():
            say("building the simulated Ascend device, once ...")
            build(folder, Path(scratch) / "toolkit", compiler)
            (Path(scratch) / "toolkit").rename(kit)
    return kit


def build(folder: Path, into: Path, compiler: str) -> None:
    """Headers, library and drivers, from the sources in a folder."""
    for part in ("include", "driver"):
        shutil.copytree(folder / part, into / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("lib64", "bin", "objects", "tools/opbuild"):
        (into / part).mkdir(parents=True)
    shutil.copytree(folder / "cmake", into / "lib64" / "cmake")
    (into / "version.info").write_text(f"Version=sim-{source_hash(folder)}\n", encoding="utf-8")
    (into / "driver" / "compiler").write_text(compiler, encoding="utf-8")
    include = f"-I{into / 'include'}"
    libraries = {"ascendcl": "src", "nnopbase": "src/op"}
    units = {name: sorted((folder / place).glob("*.cpp")) for name, place in libraries.items()}
    objects = {name: [str(into / "objects" / f"{path.stem}.o") for path in paths] for name, paths in units.items()}
    jobs = [
        [compiler, *_FLAGS, include, "-c", str(path), "-o", str(into / "objects" / f"{path.stem}.o")]
        for paths in units.values()
        for path in paths
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, [*jobs, *precompilations(into / "include", compiler)]))
    place = into / "lib64"
    run([compiler, "-shared", *objects["ascendcl"], "-ldl", "-o", str(place / "libascendcl.so")])
    links = (f"-L{place}", "-lascendcl", "-ldl", "-Wl,-rpath,$ORIGIN", "-Wl,-soname,libnnopbase.so")
    run([compiler, "-shared", *objects["nnopbase"], *links, "-o", str(place / "libnnopbase.so")])
    shutil.rmtree(into / "objects")
    for name, script in _DRIVERS:
        file = into / name
        # The driver finds its headers from its own place, and the toolkit is renamed once it is whole.
        start = f'"{sys.executable}" -I -S' if script.endswith(".py") else "/bin/sh"
        up = "/".join([".."] * name.count("/"))
        file.write_text(f'#!/bin/sh\nexec {start} "$(dirname "$0")/{up}/driver/{script}" "$@"\n', encoding="utf-8")
        os.chmod(file, 0o755)


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
    if done.returncode:
        raise NoSimulator(f"the simulated Ascend device could not be built with {command[0]}:\n{done.stderr.strip()}")


def precompilations(include: Path, compiler: str) -> Iterator[list[str]]:
    """Commands that compile the headers once for each architecture, which takes a third off a kernel's time.

    GCC finds in a folder whichever fits its flags; clang has another way, and without one it reads the headers.
    """
    if Path(compiler).name != "g++":
        return
    header = include / "kernel_operator.h"
    pch = include / "kernel_operator.h.gch"
    pch.mkdir()
    for number in _ARCHITECTURES:
        flags = [f"-D__NPU_ARCH__={number}", f"-I{include}", "-x", "c++-header", str(header), "-o", str(pch / number)]
        yield [compiler, *_KERNELS, *flags]
