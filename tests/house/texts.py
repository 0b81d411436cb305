"""Hashes of everything that the compiler generates, to show that a change of its sources changes no code.

``python -m tests.house.texts FILE`` writes a line for each text, ``name target mode what hash``, sorted. Kernels are
those of the conformance suite, the benchmarks, the performance guide, the tutorials and the Ascend suite, as
`recording` finds them; targets are named here, so that the host's CPU does not matter. Scratch bytes are a number, not
a hash. A kernel that a target refuses has the hash of the message.

``--compare FILE`` prints what is different from a file and exits with 1 where something is; ``--only 'tutorials/*'``
takes the names that a pattern matches. The file of the repository is ``tests/house/texts.sha256.gz``.
"""

from __future__ import annotations

import argparse
import fnmatch
import gzip
import hashlib
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.listing import listing
from pypto.backends.ascend.pipeline import lowered
from pypto.backends.ascend.target import ascend_target
from pypto.backends.cpu.listing import print_schedule
from pypto.backends.cpu.lower import lower
from pypto.backends.cpu.target import CpuTarget, describe
from pypto.errors import Diagnostic
from pypto.passes import optimize
from tests.house.recording import ROOT, SOURCES, Recorded

SSE4: Final = frozenset({"sse4.2", "popcnt", "ssse3"})
AVX2: Final = SSE4 | {"avx2", "fma", "f16c", "bmi2"}
AVX512: Final = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
SHORT: Final = AVX512 | {"avx512vnni", "avx512bf16"}
X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
CACHES: Final = (32 << 10, 1 << 20, 32 << 20)
DIGITS: Final = 12  # of a hash: one of a million texts hides a change with a chance of 10^-9
PARTS: Final = MappingProxyType({"ascend": 4, "benchmarks": 4, "conformance": 3})  # processes of a source
MODES: Final = MappingProxyType({"plain": (), "checked": ("checked",), "profile": ("profile",)})
CHIPS: Final = ("ascend910b2", "ascend950")


def cpu(name: str, level: str, triple: str, features: frozenset[str], tiles: bool = False) -> CpuTarget:
    """A CPU whose caches, and whose right to use tiles, are not those of the host."""
    return replace(describe(name, "", level, triple, set(features)), caches=CACHES, has_tiles=tiles)


CPUS: Final[Mapping[str, CpuTarget]] = MappingProxyType({
    "x86-64-v2": cpu("x86-64-v2", "x86-64-v2", X86, SSE4),
    "x86-64-v3": cpu("x86-64-v3", "x86-64-v3", X86, AVX2),
    "x86-64-v4": cpu("x86-64-v4", "x86-64-v4", X86, AVX512),
    "znver4": cpu("znver4", "host", X86, SHORT),
    "sapphirerapids": cpu("sapphirerapids", "host", X86, SHORT, tiles=True),
    "aarch64": cpu("cortex-a76", "host", ARM, frozenset({"neon"})),
})  # fmt: skip


def digest(text: str, kernel: Recorded) -> str:
    """The hash of a text, wherever the repository and the kernel's file lie."""
    own = Path(kernel.built.loc.user.file).parent
    for folder in (ROOT, own) if own.is_absolute() else (ROOT,):
        text = text.replace(f"{folder}{os.sep}", "")
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def on_cpu(kernel: Recorded, name: str, mode: str) -> Iterator[tuple[str, str]]:
    target = replace(CPUS[name], contract=" contract" * kernel.fast_math)
    made = lower(optimize(kernel.prepared(*MODES[mode])), target)
    yield "llvm", digest(made.text, kernel)
    yield "abi", digest(repr(made.abi), kernel)
    yield "scratch", str(made.scratch_bytes)
    yield "loop-ir", digest(print_schedule(made.schedule), kernel)


def on_chip(kernel: Recorded, name: str) -> Iterator[tuple[str, str]]:
    block, text = lowered(optimize(kernel.prepared()), ascend_target(name))
    yield "block-ir", digest(listing(block), kernel)
    yield "ascend-c", digest(text, kernel)


def lines(kernel: Recorded, name: str, target: str, mode: str) -> list[str]:
    try:
        found = list(on_cpu(kernel, target, mode) if target in CPUS else on_chip(kernel, target))
    except Diagnostic as refused:
        found = [("refused", digest(str(refused), kernel))]
    return [f"{name} {target} {mode} {what} {value}" for what, value in found]


def texts(source: str, part: int, parts: int, pattern: str) -> list[str]:
    """The lines of every so-manieth kernel of a source. Those of the Ascend suite are lowered for CPUs in one mode."""
    found: list[str] = []
    for kernel in SOURCES[source]()[part::parts]:
        name = f"{source}/{kernel.name}"
        if not fnmatch.fnmatchcase(name, pattern):
            continue
        modes = list(MODES)[: 1 if source == "ascend" else None]
        for target in CPUS:
            for mode in modes:
                found += lines(kernel, name, target, mode)
        for chip in CHIPS:
            found += lines(kernel, name, chip, "plain")
    return found


def tasks(pattern: str) -> list[tuple[str, int, int, str]]:
    """What processes do, the longest first: sources that have names which the pattern may match."""
    literal = re.split(r"[*?\[]", pattern)[0]
    wanted = [s for s in SOURCES if f"{s}/".startswith(literal) or literal.startswith(f"{s}/")]
    wanted.sort(key=lambda source: -PARTS.get(source, 1))
    return [(source, part, PARTS.get(source, 1), pattern) for source in wanted for part in range(PARTS.get(source, 1))]


@contextmanager
def settings(folder: str) -> Iterator[None]:
    """Settings of the processes: none of the user's, and a cache in which nothing has been tuned yet."""
    before = dict(os.environ)
    own = {"PYPTO_CACHE_DIR": folder, "PYPTO_LAUNCHER": "python", "PYPTO_NUM_THREADS": "2", "CI": "1", "ROUNDS": "1"}
    for name in [name for name in before if name.startswith("PYPTO_")]:
        del os.environ[name]
    os.environ.update(own)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def generate(pattern: str = "*", processes: int = 2) -> list[str]:
    """All lines, sorted."""
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        settings(folder),
        ProcessPoolExecutor(processes, mp_context=spawn, max_tasks_per_child=1) as pool,
    ):
        made = [pool.submit(texts, *task) for task in tasks(pattern)]
        return sorted(line for task in made for line in task.result())


def read(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()


def write(path: Path, found: Iterable[str]) -> None:
    """Bytes that depend on the lines alone."""
    data = "".join(f"{line}\n" for line in found).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def differences(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """What was there and is not, is new, or changed, a line each."""
    before, after = (dict(line.rsplit(" ", 1) for line in side) for side in (old, new))
    found = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            found.append(f"{key}: {before.get(key, 'not there')} → {after.get(key, 'not there')}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.house.texts", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, help="file to write; compressed where it ends with .gz")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="print what is different from FILE")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of kernels, such as 'conformance/*'")
    parser.add_argument("--processes", type=int, default=2, help="how many at once")
    given = parser.parse_args()
    start = time.perf_counter()
    found = generate(given.only, given.processes)
    print(f"{len(found)} texts in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if given.file is not None:
        write(given.file, found)
    elif given.compare is None:
        print("\n".join(found))
    if given.compare is None:
        return 0
    old = [line for line in read(given.compare) if fnmatch.fnmatchcase(line.split(" ", 1)[0], given.only)]
    different = differences(old, found)
    print("\n".join([*different, f"{len(different)} of {len(found)} texts are different"]))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
