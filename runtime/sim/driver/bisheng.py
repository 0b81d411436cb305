#!/usr/bin/env python3
"""`bisheng` and `ccec` of the simulated device: the documented command lines, answered by a C++ compiler of the host.

The source is compiled as it stands, against the headers beside this file. What a loader must know of every kernel, and
how its arguments lie, is written by this driver into a second file that includes the source.
"""

from __future__ import annotations

import os
import re
import sys

VERSION = "1"
ARCHITECTURES = {"dav-2201": "2201", "dav-c220": "2201", "dav-c220-vec": "2201", "dav-c220-cube": "2201",
                 "dav-3510": "3510", "dav-c310": "3510", "dav-c310-vec": "3510", "dav-c310-cube": "3510"}  # fmt: skip
KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+(?:(__vector__|__cube__|__mix__\s*\(\s*1\s*,\s*(\d)\s*\))\s+)?__aicore__\s+void\s+(\w+)\s*\('
)
KINDS = {"__cube__": 0, "__vector__": 1}
WARNINGS = ("-Werror=overflow", "-Werror=narrowing", "-Werror=return-type")
ALL_WARNINGS = ("-Wall", "-Wextra", "-Woverflow", "-Wconversion", "-Werror")  # with ASCSIM_WARNINGS=error
TAKES_VALUE = ("-x", "-o", "-include", "-mllvm", "-I", "-L", "-D", "-l", "-Xhost-start", "-Xhost-end")

# Objects are joined by a linker, so each has its records in one section, and what all have is weak.
HEAD = """#include "kernel_operator.h"
#include "{source}"
extern "C" {{
extern const ascsim::Entry* const __start_ascsim_table[] __attribute__((weak));
extern const ascsim::Entry* const __stop_ascsim_table[] __attribute__((weak));
extern const int ascsim_arch_number __attribute__((weak)) = __NPU_ARCH__;
__attribute__((weak)) void ascsim_entries(const ascsim::Entry* const** begin, const ascsim::Entry* const** end) {{
    *begin = __start_ascsim_table, *end = __stop_ascsim_table;
}}
}}
"""
RECORD = """namespace ascsim_call {{
static void call_{name}(const void* args) {{ run(&::{name}, args); }}
static const ascsim::Entry entry_{name}{{
    "{name}", {kind}, {ratio}, bytes_of(&::{name}), &call_{name}, {part}, nullptr}};
static const ascsim::Entry* const at_{name} __attribute__((section("ascsim_table"), used)) = &entry_{name};
}}
"""
SUFFIXES = {"cube": ("_mix_aic", 1), "vec": ("_mix_aiv", 2)}


class Command:
    """What the flags say."""

    def __init__(self) -> None:
        self.source, self.output, self.architecture = "", "a.out", ""
        self.optimize, self.standard = "-Og", "-std=c++17"
        self.passed: list[str] = []

    @property
    def core(self) -> str:
        """The kind of core whose part of mixed kernels this compiles, or nothing."""
        is_part = "-D__MIX_CORE_MACRO__=1" in self.passed
        return self.architecture.rpartition("-")[2] if is_part else ""


def parse(arguments: list[str]) -> Command:
    """The command that a toolkit's compiler would see; flags for its back end alone mean nothing here."""
    command, rest = Command(), iter(arguments)
    for flag in rest:
        if flag in ("-x", "-mllvm", "-L", "-l"):
            next(rest, None)
        elif flag == "-o":
            command.output = next(rest, "")
        elif flag in ("-I", "-D", "-include"):
            value = next(rest, "")
            command.passed += [flag, value] if flag != "-include" or os.path.exists(value) else []
        elif flag.startswith(("--npu-arch=", "--cce-aicore-arch=")):
            command.architecture = flag.partition("=")[2]
        elif re.fullmatch(r"-O[0-3s]", flag):
            command.optimize = flag if flag == "-O0" else "-Og"  # a kernel calls a library; half of -O1's time
        elif flag.startswith("-std="):
            command.standard = flag
        elif flag.startswith(("-I", "-D", "-W", "-f")):
            command.passed.append(flag)
        elif not flag.startswith("-"):
            command.source = flag
    return command


def entries(text: str, core: str) -> str:
    """The records of a source's kernels.

    With a `core`, the source is compiled as one of the two parts of mixed kernels, and each name says which.

    Raises
    ------
    ValueError
        When a part's name has no suffix: the runtime would not find the kernel.
    """
    found = KERNEL.findall(re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL))
    records = []
    for kind, ratio, name in found:
        number, part = KINDS.get(kind, 2 if kind else 1), 0
        if core:
            suffix, part = SUFFIXES[core]
            if not name.endswith(suffix):
                raise ValueError(f"the {core} part of the mixed kernel {name} needs a name that ends in {suffix}")
        records.append(RECORD.format(name=name, kind=number, ratio=ratio or 1, part=part))
    return "".join(records)


def main(arguments: list[str]) -> int:
    if "--version" in arguments:
        print(f"bisheng of the simulated Ascend device, version {VERSION}")
        return 0
    command = parse(arguments)
    if not command.source or not os.path.exists(command.source):
        print(f"bisheng: error: no such file: {command.source!r}", file=sys.stderr)
        return 1
    if command.architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        print(f"bisheng: error: unknown architecture {command.architecture!r}; known are {known}", file=sys.stderr)
        return 1
    folder = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    with open(os.path.join(folder, "driver", "compiler"), encoding="utf-8") as file:
        compiler = os.environ.get("ASCSIM_CXX") or file.read()
    try:
        with open(command.source, encoding="utf-8") as file:
            unit = HEAD.format(source=os.path.abspath(command.source)) + entries(file.read(), command.core)
    except ValueError as error:
        print(f"bisheng: error: {error}", file=sys.stderr)
        return 1
    warnings = ALL_WARNINGS if os.environ.get("ASCSIM_WARNINGS") == "error" else WARNINGS
    run = [compiler, command.standard, command.optimize, "-c" if "-c" in arguments else "-shared", "-fPIC", *warnings,
           f"-D__NPU_ARCH__={ARCHITECTURES[command.architecture]}", "-isystem", os.path.join(folder, "include"),
           *command.passed, "-x", "c++", "-", "-o", command.output]  # fmt: skip
    give(unit)
    os.execvp(compiler, run)  # which takes less time than to start a process and to wait


def give(text: str) -> None:
    """Let whoever follows in this process read a text as its input."""
    file = os.memfd_create("unit")
    os.write(file, text.encode())
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
