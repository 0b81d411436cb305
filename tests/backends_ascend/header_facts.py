"""Structures and enumerations as headers have them: a program prints them, for our headers and for the public ones."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.instructions import EVENTS, PIPES, RECORDS, Field, RecordType
from pypto.backends.ascend.emit.ascendc import POSITIONS
from tests.backends_ascend.public_headers import Headers
from tests.patience import limit

INCLUDE: Final = Path(__file__).parents[2] / "runtime" / "sim" / "include"
ENUMERATIONS: Final = MappingProxyType({
    "HardEvent": tuple(sorted(EVENTS)),
    "TPosition": tuple(POSITIONS.values()),
    "RoundMode": tuple(f"CAST_{x}" for x in ["NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD"]),
    "CMPMODE": ("LT", "GT", "EQ", "LE", "GE", "NE"),
    "SELMODE": ("VSEL_CMPMASK_SPR", "VSEL_TENSOR_SCALAR_MODE", "VSEL_TENSOR_TENSOR_MODE"),
    "ReduceOrder": tuple(f"ORDER_{x}" for x in ["VALUE_INDEX", "INDEX_VALUE", "ONLY_VALUE", "ONLY_INDEX"]),
    "CacheMode": ("CACHE_MODE_DISABLE", "CACHE_MODE_NORMAL"),
})  # fmt: skip
TOP: Final = """#include "kernel_operator.h"
#include <cstdio>
using namespace AscendC;
template <typename T>
void show(const char* name, T value) {
    const char* kind = std::is_same_v<T, bool> ? "bool" : std::is_unsigned_v<T> ? "uint" : "int";
    std::printf("%s %s%d %lld\\n", name, kind, int(sizeof(T)), static_cast<long long>(value));
}
int main() {
"""


def fields(record: RecordType) -> Iterator[Field]:
    """Those whose type is the structure's own, and the headers', not the compiler's."""
    return (x for x in record.fields if x.ctype not in ("T", "QuantMode_t"))


def program() -> str:
    lines = [f"(void)PIPE_{pipe};" for pipe in PIPES]
    for record in RECORDS.values():
        made = f"{record.name.replace('<T>', '<int32_t>')}()"
        lines += (f'show("{record.name}.{x.name}", {made}.{x.name});' for x in fields(record))
    for name, words in ENUMERATIONS.items():
        lines += (f'show("{name}::{word}", static_cast<int>({name}::{word}));' for word in words)
    return "\n".join((TOP, *lines, "}\n"))


def printed(flags: Sequence[str], folder: Path) -> list[str]:
    """What the program says that is compiled with these flags."""
    source, out = folder / "facts.cpp", folder / "facts"
    source.write_text(program(), encoding="utf-8")
    subprocess.run(["g++", "-w", "-O1", *flags, str(source), "-o", str(out)], check=True, timeout=limit(120))
    return subprocess.run([str(out)], check=True, capture_output=True, text=True, timeout=limit(10)).stdout.splitlines()


def ours(arch: int, folder: Path) -> list[str]:
    """The simulated device's headers."""
    return printed(["-std=c++17", f"-I{INCLUDE}", f"-D__NPU_ARCH__={arch}"], folder)


def theirs(root: Path, arch: int, folder: Path) -> list[str]:
    """The public headers."""
    headers = Headers(root, arch, "VEC", folder)
    headers.complaints(program())
    return printed([*headers.flags, "-include", f"{folder}/builtins.h"], folder)
