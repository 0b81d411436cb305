#!/usr/bin/env python3
"""Compiles the kernel of an operator's project for the simulated device: one binary for each tiling key.

Usage: op_kernel.py SOURCE TYPE FUNCTION UNIT FOLDER OPTIONS...
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile

UNITS = {"ascend910b": "dav-2201", "ascend910_93": "dav-2201", "ascend950": "dav-3510"}
KINDS = {"KERNEL_TYPE_AIV_ONLY": "__vector__", "KERNEL_TYPE_AIC_ONLY": "__cube__",
         "KERNEL_TYPE_MIX_AIC_1_1": "__mix__(1, 1)", "KERNEL_TYPE_MIX_AIC_1_2": "__mix__(1, 2)"}  # fmt: skip
KEY = re.compile(r"\bTILING_KEY_IS\s*\(\s*(\d+)(?:[uU]?[lL]{0,2})\s*\)")
KIND = re.compile(r"\bKERNEL_TASK_TYPE\s*\(\s*(\d+)(?:[uU]?[lL]{0,2})\s*,\s*(\w+)\s*\)")
DEFAULT = re.compile(r"\bKERNEL_TASK_TYPE_DEFAULT\s*\(\s*(\w+)\s*\)")


class Refused(ValueError):
    """The source is no kernel of an operator; the message says why."""


def kinds(text: str) -> dict[str, str]:
    """The kind of cores of each tiling key."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    usual = DEFAULT.search(code)
    named = dict(KIND.findall(code))
    keys = list(dict.fromkeys(KEY.findall(code))) or ["0"]
    found = {key: named.get(key, usual[1] if usual else "KERNEL_TYPE_AIV_ONLY") for key in keys}
    if unknown := [kind for kind in found.values() if kind not in KINDS]:
        raise Refused(f"{unknown[0]} is none of {', '.join(KINDS)}")
    return {key: KINDS[kind] for key, kind in found.items()}


def compile_key(
    source: str, text: str, function: str, kind: str, key: str, unit: str, binary: str, options: tuple[str, ...]
) -> None:
    """Compile the source with one tiling key; the kernel gets the name under which it is looked for."""
    head = re.compile(rf'extern\s+"C"\s+__global__\s+__aicore__\s+void\s+{re.escape(function)}\s*\(')
    if len(head.findall(text)) != 1:
        raise Refused(f'there must be one `extern "C" __global__ __aicore__ void {function}(`')
    name = os.path.basename(binary).removesuffix(".bin")
    named = head.sub(f'extern "C" __global__ {kind} __aicore__ void {name}(', text)
    tools = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "bin")
    with tempfile.TemporaryDirectory() as scratch:
        unit_file, made = os.path.join(scratch, f"{name}.cpp"), os.path.join(scratch, f"{name}.o")
        with open(unit_file, "w", encoding="utf-8") as file:
            file.write(named)
        flags = [f"--npu-arch={UNITS[unit]}", "-O2", "-std=c++17", *options, f"-DTILING_KEY_VAR={key}"]
        folder = os.path.dirname(os.path.realpath(source))
        subprocess.run(
            [f"{tools}/bisheng", "-x", "asc", *flags, f"-I{folder}", "-c", unit_file, "-o", made], check=True
        )
        subprocess.run([f"{tools}/ld.lld", made, "-o", binary], check=True)


def main(source: str, kind_of_op: str, function: str, unit: str, folder: str, *options: str) -> int:
    if unit not in UNITS:
        print(f"op_kernel: error: {unit} is none of {', '.join(UNITS)}", file=sys.stderr)
        return 1
    with open(source, encoding="utf-8") as file:
        text = file.read()
    os.makedirs(folder, exist_ok=True)
    try:
        for key, kind in kinds(text).items():
            compile_key(
                source, text, function, kind, key, unit, os.path.join(folder, f"{kind_of_op}_{key}.bin"), options
            )
    except Refused as error:
        print(f"op_kernel: error: {source}: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
