"""Instructions of the innermost loops of seven kernels at each x86-64 level, beside a file that keeps them.

A loop that gets longer is a slower kernel on machines of that level, whichever machine the change was written on. The
code is compiled for fixed targets with fixed caches, and is not run: the host's own level does not matter.

    python -m tests.house.inner_loops              compare with the file; exit status 1 if a loop has changed
    python -m tests.house.inner_loops --write      keep the counts
    python -m tests.house.inner_loops --show 'softmax v3'    print one loop
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.house.texts import SETTINGS, cpu_lowered, cpu_target, recording

FILE: Final = Path(__file__).with_name("inner_loops.txt")
LEVELS: Final = ("v2", "v3", "v4")
_LABEL: Final = re.compile(r"^(\.?\w+):")
_JUMP: Final = re.compile(r"^\s+j[a-z]+\s+(\.?\w+)$")
_INSTRUCTION: Final = re.compile(r"^\s+([a-z]\w*)(?:\s+(.*))?$")
# Packed arithmetic, in AT&T's syntax: what a loop is there for. Moves, shuffles and masks are not among it.
_ARITHMETIC: Final = re.compile(
    r"^v?(add|sub|mul|div|max|min|sqrt|rcp14|scalef|round|rndscale|f(?:n?m)(?:add|sub)\d{3})p[sd]$"
    r"|^v?p(madd\w+|mull\w|add[bwdq]|dpbusd)$"
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a loop: all instructions, those of packed arithmetic, and those that read or write the stack."""

    instructions: int
    arithmetic: int
    stack: int

    @property
    def per_arithmetic(self) -> float:
        """Instructions for each of packed arithmetic: unrolling alone does not change it much."""
        return self.instructions / max(self.arithmetic, 1)


def compiled(make: Callable[[], Any]) -> Any:
    """The prepared function of the one kernel that `make` compiles."""
    with recording() as found:
        make()
    (function,) = found.values()
    return function


def floats(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def products(dtype: str) -> Any:
    from benchmarks.kernels import matmul

    sides = [np.ones((512, 512), dtype) for _ in range(2)]
    return matmul.matmul(*sides, np.ones((512, 512), "int32" if dtype == "int8" else dtype))


def kernels() -> Mapping[str, Callable[[], Any]]:
    """A launch of each kernel; inside `recording` nothing runs."""
    from benchmarks.kernels import attention, elementwise, matmul, rows

    heads = [floats(2, 512, 64) for _ in range(4)]
    return {
        "vector add": lambda: elementwise.add(floats(1 << 16), floats(1 << 16), floats(1 << 16)),
        "gelu": lambda: elementwise.gelu(floats(1 << 16), floats(1 << 16)),
        "softmax": lambda: rows.softmax(floats(64, 4096), floats(64, 4096)),
        "matmul fp32": lambda: products("float32"),
        "matmul int8": lambda: products("int8"),
        "convolution": lambda: matmul.convolution(floats(2, 64, 56, 56), floats(3, 3, 64, 64), floats(2, 64, 56, 56)),
        "attention": lambda: attention.attention(*heads, floats(2, 512)),
    }


def assembly(function: Any, level: str) -> str:
    """The assembly of a function at a level, for Linux and with the caches of the texts' targets."""
    from pypto.backends.cpu.runtime.engine import Engine
    from pypto.passes import optimize

    target = cpu_target(level)
    return Engine(target).assembly(cpu_lowered(optimize(function), target).text)


def innermost_loops(listing: str) -> Iterator[list[str]]:
    """Lines of each loop that holds no other: from a label to the last jump back to it."""
    lines = [line.split("#", 1)[0].rstrip() for line in listing.splitlines()]
    labels = {match[1]: n for n, line in enumerate(lines) if (match := _LABEL.match(line))}
    ends: dict[int, int] = {}
    for n, line in enumerate(lines):
        jump = _JUMP.match(line)
        if jump and labels.get(jump[1], n) < n:
            ends[labels[jump[1]]] = n
    for start, end in ends.items():
        if not any(start < other <= end for other in ends):
            yield lines[start : end + 1]


def counts_of(loop: Sequence[str]) -> Counts:
    found = [match for line in loop if (match := _INSTRUCTION.match(line))]
    arithmetic = sum(bool(_ARITHMETIC.match(match[1])) for match in found)
    stack = sum("(%rsp" in (match[2] or "") or "(%rbp" in (match[2] or "") for match in found)
    return Counts(len(found), arithmetic, stack)


def hot_loop(listing: str) -> list[str]:
    """The innermost loop with the most packed arithmetic: the one that the kernel's time is spent in."""
    return max(innermost_loops(listing), key=lambda loop: counts_of(loop).arithmetic)


def measured(only: str = "") -> dict[str, tuple[Counts, list[str]]]:
    """Counts and lines of the loop of each kernel and level."""
    found = {}
    for name, make in kernels().items():
        if not any(only in f"{name} {level}" for level in LEVELS):
            continue
        function = compiled(make)
        for level in LEVELS:
            if only in f"{name} {level}":
                loop = hot_loop(assembly(function, level))
                found[f"{name} {level}"] = counts_of(loop), loop
    return found


def llvm_version() -> str:
    import llvmlite.binding as llvm

    return ".".join(map(str, llvm.llvm_version_info))


def text_of(counts: Mapping[str, Counts]) -> str:
    """The file's text: LLVM's version, then a line for each loop."""
    rows = [f"{name:<16} {c.instructions:>5} {c.arithmetic:>5} {c.stack:>5}" for name, c in counts.items()]
    return "\n".join((f"LLVM {llvm_version()}: loop, instructions, arithmetic, on the stack", *rows, ""))


def read(text: str) -> tuple[str, dict[str, Counts]]:
    """LLVM's version and the counts of a file's text."""
    first, *rows = text.splitlines()
    parts = [row.rsplit(maxsplit=3) for row in rows]
    return first.split(":")[0].removeprefix("LLVM "), {p[0]: Counts(*map(int, p[1:])) for p in parts}


def changes(before: Mapping[str, Counts], now: Mapping[str, Counts]) -> list[str]:
    """A table of the loops that are not as they were, with a word about each."""
    lines = []
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if old is None or new is None:
            lines.append(f"{name:<16} {'is not in the file' if old is None else 'is in the file alone'}")
            continue
        is_worse = new.per_arithmetic > old.per_arithmetic or new.stack > old.stack
        cells = (f"{a} -> {b}" for a, b in zip(row(old), row(new), strict=True))
        lines.append(f"{name:<16} {'  '.join(f'{cell:<14}' for cell in cells)} {'WORSE' if is_worse else 'better'}")
    head = f"{'loop':<16} {'instructions':<14}  {'arithmetic':<14}  {'on the stack':<14}  {'per arithmetic':<14}"
    return [head, *lines] if lines else []


def row(counts: Counts) -> tuple[str, ...]:
    return str(counts.instructions), str(counts.arithmetic), str(counts.stack), f"{counts.per_arithmetic:.2f}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.house.inner_loops", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--show", default="")
    given = parser.parse_args(arguments)
    os.environ |= SETTINGS
    found = measured(given.show)
    counts = {name: c for name, (c, _) in found.items()}
    if given.show:
        print("\n".join(line for _, loop in found.values() for line in loop))
        return 0
    if given.write:
        FILE.write_text(text_of(counts), encoding="utf-8")
        return 0
    version, before = read(FILE.read_text(encoding="utf-8"))
    if version != llvm_version():
        print(f"the file is of LLVM {version}, this is {llvm_version()}: write it anew from the commit before")
        return 1
    table = changes(before, counts)
    print("\n".join(table) if table else f"{len(counts)} loops are as they were")
    return 1 if table else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
