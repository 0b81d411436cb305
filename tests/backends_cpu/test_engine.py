"""LLVM behind one face: what is refused, what code may call, and what stays loaded."""

from __future__ import annotations

import ast
import ctypes
import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.runtime.pool import KERNEL, is_native, pool_object
from pypto.backends.cpu.target import host_target
from pypto.errors import CompilerBug
from tests.backends_cpu.elf import undefined_symbols
from tests.conformance.processes import ROOT
from tests.conformance.running import at_level, make_launch, quick_part
from tests.patience import limit

ALLOWED = {"memcpy", "memset", "memmove"}
PYTHON = {"PyErr_CheckSignals", "PyEval_RestoreThread", "PyEval_SaveThread", "PyGILState_Ensure", "PyGILState_Release"}
POOL = {"clock_gettime", "pthread_create", "pthread_detach", "syscall"} | PYTHON  # which runs signal handlers
ADD = """
define void @add(i64 %a, i64 %b, i64 %t, ptr %out) {{
  %sum = add i64 %a, {number}
  store i64 %sum, ptr %out
  ret void
}}
"""
SQUARES = """
define i64 @squares(i64 %n, ptr %x) {{
  %v = load <16 x {lanes}>, ptr %x
  %square = {opcode} <16 x {lanes}> %v, %v
  store <16 x {lanes}> %square, ptr %x
  %same = add i64 %n, 0
  ret i64 %same
}}
"""
CALLS_LIBM = """
declare float @expf(float)
define float @f(float %x) {
  %y = call float @expf(float %x)
  ret float %y
}
"""


@pytest.fixture
def engine() -> Engine:
    return Engine(host_target())


def call(loaded: Any, a: int) -> int:
    out = ctypes.c_int64()
    KERNEL(loaded.address)(a, 0, 0, ctypes.addressof(out))
    return out.value


def test_compile_and_call(engine: Engine) -> None:
    assert call(engine.load(engine.compile(ADD.format(number=5)), "add"), 37) == 42


def test_code_outlives_its_engine() -> None:
    engine = Engine(host_target())
    loaded = engine.load(engine.compile(ADD.format(number=2)), "add")
    del engine
    gc.collect()
    assert call(loaded, 1) == 3


@pytest.mark.parametrize(("lanes", "combined"), [("float", False), ("i32", True)])
def test_whole_registers_of_floats_need_no_combining(engine: Engine, lanes: str, combined: bool) -> None:
    module = engine.module(SQUARES.format(lanes=lanes, opcode="fmul" if lanes == "float" else "mul"), {})
    assert ("add i64 %n, 0" not in str(module)) is combined


def test_equal_names_do_not_meet(engine: Engine) -> None:
    loaded = [engine.load(engine.compile(ADD.format(number=n)), "add") for n in range(4)]
    assert [call(code, 10) for code in loaded] == [10, 11, 12, 13]


@pytest.mark.parametrize("text", ["define void @f(", "define void @f() { ret i32 0 }", "define void @f() { unknown }"])
def test_text_that_is_no_llvm_ir_is_refused(engine: Engine, text: str) -> None:
    with pytest.raises(CompilerBug, match="LLVM IR that LLVM refuses"):
        engine.compile(text)


@pytest.mark.parametrize("part", range(8))
def test_objects_that_were_cut_are_refused(engine: Engine, part: int) -> None:
    code = engine.compile(ADD.format(number=1))
    with pytest.raises(CompilerBug, match="cannot be loaded"):
        engine.load(code[: len(code) * part // 8], "add")


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"MZ" + bytes(100), bytes(4096), b"#!/bin/sh\n"])
def test_what_is_no_object_is_refused(engine: Engine, code: bytes) -> None:
    with pytest.raises(CompilerBug, match="cannot be loaded"):
        engine.load(code, "add")


def test_symbols_that_are_missing_are_refused(engine: Engine) -> None:
    """LLJIT reports what MCJIT accepts and dies of."""
    text = "declare void @no_such()\ndefine void @f() {\n  call void @no_such()\n  ret void\n}"
    with pytest.raises(CompilerBug, match="cannot be loaded"):
        engine.load(engine.compile(text), "f")
    with pytest.raises(CompilerBug, match="cannot be loaded"):
        engine.load(engine.compile(ADD.format(number=1)), "other_name")
    assert call(engine.load(engine.compile(ADD.format(number=1)), "add"), 1) == 2, "the engine goes on"


def test_no_mcjit() -> None:
    """Nothing in the package makes the engine that dies of broken objects."""
    names = set()
    for file in (ROOT / "pypto").rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert "create_lljit_compiler" in names
    assert not {"create_mcjit_compiler", "ExecutionEngine", "create_execution_engine"} & names


def test_imported_symbols_are_found(engine: Engine) -> None:
    assert undefined_symbols(engine.compile(CALLS_LIBM)) == ("expf",)
    assert undefined_symbols(engine.compile(ADD.format(number=1))) == ()
    with pytest.raises(ValueError, match="no 64-bit little-endian ELF object"):
        undefined_symbols(b"MZ")


@pytest.mark.parametrize("name", quick_part(3))
def test_kernels_call_no_library(name: str, level: str, engine: Engine) -> None:
    """No libm, no BLAS, no numpy: objects bring along all that they call."""
    launch = make_launch(name)
    code = at_level(launch.kernel, level).compile(**launch.arguments).program.artifact.code
    assert set(undefined_symbols(code)) <= ALLOWED


@pytest.mark.skipif(not is_native(), reason="the pool in LLVM IR is for Linux")
def test_the_pool_calls_threads_alone(engine: Engine) -> None:
    assert set(undefined_symbols(pool_object(engine))) == POOL


def test_threads_compile_at_once(engine: Engine) -> None:
    results: dict[int, int] = {}

    def work(n: int) -> None:
        results[n] = call(engine.load(engine.compile(ADD.format(number=n)), "add"), 100)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit(60))
    assert results == {n: 100 + n for n in range(12)}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it takes address space as Linux gives it")
def test_code_lies_near_its_constants_in_a_crowded_process() -> None:
    """One page is free, and the next ones lie 8 GB away: a process that could not bear it would end."""
    command = [sys.executable, "-m", "tests.backends_cpu.crowded"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit(120), check=False)
    assert (found.returncode, found.stdout) == (0, "5 loaded\n"), found.stderr


def test_floating_point_modes_stay_as_they_are() -> None:
    """No launch leaves subnormals flushed to zero."""
    launch = make_launch("softmax_native")
    launch.kernel[launch.grid](**launch.arguments)
    tiny = np.float32(1e-45)
    assert tiny * np.float32(1) == tiny > 0
