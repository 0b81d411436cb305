"""The LLVM IR of C helpers belongs to their sources, and LLVM reads it."""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tests.house.compiled import COMMAND, ROOT, compiled, compiler, digest, sources

SOURCES = sources()


@pytest.mark.parametrize("source", SOURCES, ids=[path.stem for path in SOURCES])
def test_ir_belongs_to_its_source(source: Path) -> None:
    text = source.with_suffix(".ll").read_text(encoding="utf-8")
    assert f"; sha256 {digest(source)}\n" in text, f"`{COMMAND}` writes it anew"
    llvm.parse_assembly(text).verify()
    command = compiler()
    if command is not None:
        assert compiled(source, command) == text


def test_there_are_sources() -> None:
    assert {"bounds.c", "crash.c", "timing.c", "pool.c", "launcher.c", "aot.c"} <= {path.name for path in SOURCES}


def test_all_ir_is_compiled() -> None:
    """No LLVM IR is written by hand, and none has markers that the oldest LLVM which is allowed reads differently."""
    found = sorted((ROOT / "pypto").rglob("*.ll"))
    assert found == [path.with_suffix(".ll") for path in SOURCES]
    assert not [path for path in found if "llvm.lifetime" in path.read_text(encoding="utf-8")]
