"""The runtime library: our prototypes, numbers and structures, those of the public headers, and those of ctypes.

`ASCENDCL_PUBLIC_HEADERS` names the folder that holds the public `acl/acl.h`.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.toolchain.rtc import _FUNCTIONS as COMPILING
from pypto.runtime.acl import _FUNCTIONS as CALLED
from pypto.runtime.acl import LoadOption, LoadOptions
from pypto.tools.project import write_project
from tests.patience import limit

OURS: Final = Path(__file__).parents[2] / "runtime" / "sim" / "include"
TEXT: Final = (OURS / "acl" / "acl.h").read_text(encoding="utf-8")
PUBLIC: Final = os.environ.get("ASCENDCL_PUBLIC_HEADERS", "")
PROTOTYPES: Final = re.findall(r"^(?:aclError|const char\*) \w+\([^;]*\);", TEXT, re.MULTILINE)
FOLDERS: Final = [
    pytest.param(OURS, id="ours", marks=pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")),
    pytest.param(Path(PUBLIC), id="public", marks=pytest.mark.skipif(
        not PUBLIC, reason="ASCENDCL_PUBLIC_HEADERS names no public headers of the runtime library")),
]  # fmt: skip


@pto.jit
def double(x, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] * 2.0


def numbers() -> dict[str, int]:
    """The values of enumerations."""
    found = {}
    for body in re.findall(r"enum\s*\w*\s*\{(.*?)\}", TEXT, re.DOTALL):
        value = -1
        for word in body.split(","):
            name, _, said = word.strip().partition(" = ")
            value = int(said) if said else value + 1
            found[name] = value
    return found


def structures() -> dict[str, list[str]]:
    """The fields of structures."""
    found = re.findall(r"typedef struct (\w+) \{(.*?)\}", TEXT)
    return {name: re.findall(r"(\w+)(?:\[\d+\])?;", body) for name, body in found}


def declared_again(change: tuple[str, str] = ("", "")) -> str:
    """What our header declares, behind another one: C lets nothing be declared in two ways."""
    asserted = [f'static_assert({name} == {value}, "{name}");' for name, value in numbers().items()]
    sizes = [f'static_assert(sizeof({name}::{field}) > 0 && offsetof({name}, {field}) < sizeof({name}), "{name}");'
             for name, fields in structures().items() for field in fields]  # fmt: skip
    load = [f"static_assert(sizeof(aclrtBinaryLoadOption) == {ctypes.sizeof(LoadOption)});",
            f"static_assert(offsetof(aclrtBinaryLoadOption, value) == {LoadOption.value.offset});",
            f"static_assert(sizeof(aclrtBinaryLoadOptions) == {ctypes.sizeof(LoadOptions)});"]  # fmt: skip
    again = "\n".join(PROTOTYPES).replace(*change) if change[0] else "\n".join(PROTOTYPES)
    head = ['#include "acl/acl.h"', "#include <cstddef>", f'extern "C" {{\n{again}\n}}']
    return "\n".join([*head, *asserted, *sizes, *load, ""])


def errors(folder: Path, *sources: Path) -> str:
    beside = [f"-I{source.parents[up] / place}" for source in sources for up, place in ((0, "host"), (1, "test"))]
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-fsyntax-only", *beside, "-isystem", folder, *sources]
    return subprocess.run(
        list(map(str, command)), check=False, capture_output=True, text=True, timeout=limit(120)
    ).stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_prototypes_numbers_and_structures(folder: Path, tmp_path: Path) -> None:
    assert len(PROTOTYPES) >= 32 and len(numbers()) >= 20 and len(structures()) >= 5
    file = tmp_path / "again.cpp"
    file.write_text(declared_again(), encoding="utf-8")
    assert errors(folder, file) == ""
    file.write_text(declared_again(("uint32_t numBlocks", "uint64_t numBlocks")), encoding="utf-8")
    assert "aclrtLaunchKernelWithHostArgs" in errors(folder, file)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_project_compiles(folder: Path, tmp_path: Path) -> None:
    x = np.zeros(256, np.float32)
    write_project(tmp_path / "made", double, (1,), "ascend910b2", {"x": x, "out": x.copy(), "BLOCK": 256})
    sources = sorted((tmp_path / "made" / "launch").rglob("*.cpp"))
    assert len(sources) == 2
    assert errors(folder, *sources) == ""


def test_ctypes_has_the_same_parameters() -> None:
    calls = (text.partition("(") for text in PROTOTYPES)
    texts = {before.split()[-1].lstrip("*"): parameters for before, _, parameters in calls}
    for name, parameters in CALLED.items():
        wanted = [] if texts[name].startswith("void)") else texts[name].removesuffix(");").split(",")
        assert len(wanted) == len(parameters), name
        for text, ctype in zip(wanted, parameters, strict=True):
            assert ctypes.sizeof(ctype) == size_of(text), (name, text)
    assert not COMPILING.keys() & CALLED.keys()


def size_of(parameter: str) -> int:
    pointers = ("*", "Handle ", "aclrtStream ", "aclrtEvent ")
    if any(word in f"{parameter} " for word in pointers) or "size_t" in parameter:
        return 8
    return 4
