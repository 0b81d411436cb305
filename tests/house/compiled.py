"""Compiles C helpers of the runtime to the LLVM IR that is checked in beside them, so that users need no compiler.

`python -m tests.house.compiled` writes every `.ll` that has a `.c` beside it, with clang 22: `CLANG` names the command,
such as ``clang-22`` or ``python -m ziglang cc``. Its head has the hash of the C source, its headers, and the macros
that Python defines for it: names of words in tables, and sizes of memory. What belongs to one target or one version of
clang is left out: a target, metadata, and attributes that only help to optimise.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pypto.backends import base
from pypto.backends.cpu import backend
from pypto.backends.cpu.runtime import aot
from pypto.backends.cpu.runtime.launcher import native, recipe, replay, tensors

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "python -m tests.house.compiled"
VERSION = "22."  # the LLVM of llvmlite
FLAGS = (
    "-target", "x86_64-linux-gnu", "-x", "c", "-std=c11", "-S", "-emit-llvm", "-O1", "-g0", "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops", "-fno-stack-protector", "-fno-builtin",
    "-fno-discard-value-names", "-fno-sanitize=all", "-Wall", "-Wextra", "-Werror", "-Wno-unused-command-line-argument",
)  # fmt: skip
DROPPED = re.compile(
    r"target |source_filename|; ModuleID|@llvm\.(?:compiler\.)?used|.*@llvm\.lifetime\.|attributes #|!|; Function Attrs"
)
KEPT = ("cold", "noinline", "alwaysinline", "nounwind")
HINTS = re.compile(
    r"\b(?:noundef|zeroext|signext|readonly|writeonly|readnone|nonnull|dso_local|local_unnamed_addr|unnamed_addr)\b ?"
    r"|\b(?:captures|range|dereferenceable|dereferenceable_or_null|initializes|nofpclass)\([^)]*\) ?"
)
INCLUDED = re.compile(r'^#include "(.*)"$', re.MULTILINE)
GROUP = re.compile(r"attributes (#\d+) = \{(.*)\}")


def sources() -> list[Path]:
    """The C sources of IR that is checked in."""
    return [path for path in sorted((ROOT / "pypto").rglob("*.c")) if path.with_suffix(".ll").exists()]


def definitions(source: Path) -> list[str]:
    """The macros that Python defines for a source, as arguments of a compiler."""
    launcher: dict[str, Any] = {"SHARED": native.SHARED, "KERNEL": native.KERNEL, "ENTRY": native.ENTRY,
        "REPLAY": replay.HEAD, "STEPS": recipe.STEPS, "PARAMETERS": native.PARAMETERS, "SLOTS": recipe.SLOTS,
        "GRIDS": native.GRIDS, "PLACES": native.PLACES, "INSIDE": tensors.INSIDE, "PARTS": replay.PARTS}  # fmt: skip
    libraries: dict[str, Any] = {"STATUS": [f"{name}={value}" for name, value in aot.STATUS.items()], "PAGE": base.PAGE,
        "SERIAL_BELOW": backend.SERIAL_BELOW, "MOST_THREADS": aot.MAX_THREADS,
        "FIXED_SLOTS": base.FIXED_SLOTS}  # fmt: skip
    macros = {"launcher": launcher, "aot": libraries, "aot_linux": libraries}
    return [f"-D{name}={value if isinstance(value, int | float) else ', '.join(value)}"
        for name, value in macros.get(source.stem, {}).items()]  # fmt: skip


def digest(source: Path) -> str:
    """The hash of a source with its headers and macros, as the head of its IR has it."""
    text = source.read_text(encoding="utf-8")
    headers = [source.with_name(name).read_text(encoding="utf-8") for name in INCLUDED.findall(text)]
    return hashlib.sha256("\n".join([text, *headers, *definitions(source)]).encode()).hexdigest()


def compiler() -> list[str] | None:
    """The command of clang 22; None where there is none."""
    command = shlex.split(os.environ.get("CLANG", "clang-22"))
    if not shutil.which(command[0]):
        return None
    found = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return command if f"clang version {VERSION}" in found.stdout else None


def compiled(source: Path, command: list[str]) -> str:
    """The IR of a source, with its head."""
    with TemporaryDirectory() as folder:
        made = Path(folder, "made.ll")
        flags = [*FLAGS, *definitions(source), "-o", str(made), source.name]
        found = subprocess.run([*command, *flags], capture_output=True, text=True, check=False, cwd=source.parent)
        if found.returncode:
            raise SystemExit(found.stderr)
        text = made.read_text(encoding="utf-8")
    return f"; Made from {source.name} by clang 22: `{COMMAND}`.\n; sha256 {digest(source)}\n" + plain(text)


def plain(text: str) -> str:
    """IR without what belongs to one target or version."""
    groups = {group: [word for word in KEPT if word in words.split()] for group, words in GROUP.findall(text)}
    lines = [plain_line(line, groups) for line in text.splitlines() if not DROPPED.match(line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def plain_line(line: str, groups: dict[str, list[str]]) -> str:
    """A line of IR, with the attributes of a function that mean something."""
    text = re.sub(r", !(?:llvm\.loop|srcloc) !\d+|\s+; preds = .*", "", line)
    if text.startswith(("define", "declare", "@")) or " call " in text:
        text = HINTS.sub("", text).replace(" )", ")").replace(" ,", ",")
    if text.startswith("define"):
        text = re.sub(r" (#\d+) \{", lambda found: " ".join(["", *groups[found[1]], "{"]), text)
    return re.sub(r" #\d+$", "", text)


def main() -> None:
    command = compiler()
    if command is None:
        sys.exit("no clang 22: set CLANG")
    for source in sources():
        source.with_suffix(".ll").write_text(compiled(source, command), encoding="utf-8")


if __name__ == "__main__":
    main()
