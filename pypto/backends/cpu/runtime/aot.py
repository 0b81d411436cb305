"""Ahead-of-time compilation: versions of a kernel, each for several feature levels, in one object without llvmlite.

Each version has an entry, ``int32_t NAME(const int64_t *grid, const int64_t *slots, int64_t threads)``, which
dispatches on the CPU, fills in the argument block, and runs all programs. `slots` are the values of the version's
slots, in order. It returns one of `STATUS`.
"""

from __future__ import annotations

import platform
import re
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.backends.base import FIXED_SLOTS, PAGE, Locality, Slot
from pypto.backends.cpu.backend import SERIAL_BELOW, programs_per_ticket
from pypto.backends.cpu.codegen.function import lower
from pypto.backends.cpu.loopir.cost import estimate
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.runtime.pool import STATE_BYTES, WORKERS, is_native, pool_text
from pypto.backends.cpu.target import CpuTarget, level_target
from pypto.errors import CompilerBug
from pypto.ir.core import Function
from pypto.ops.target import TargetConstants

STATUS: Final = MappingProxyType({"OK": 0, "BAD_GRID": 1, "NO_VERSION": 2, "NO_CPU": 3, "NO_MEMORY": 4})
_MAX_THREADS: Final = 256
_KINDS: Final = ("ptr", "shape", "stride", "scalar")
_BASELINE_LEVEL: Final = "x86-64-v2"  # of entries and pool
# CPUID bits that a level needs: ECX of leaf 1, EBX of leaf 7, ECX of leaf 0x80000001; and bits of XCR0.
_V2: Final = (1 << 0 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23, 0, 1 << 0, 0)
_V3: Final = (1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29, 1 << 3 | 1 << 5 | 1 << 8, 1 << 5, 0x6)
_V4: Final = (0, 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31, 0, 0xE6)
_PYTHON: Final = (
    ("PyGILState_Ensure", "i32", ""),
    ("PyGILState_Release", "void", "i32"),
    ("PyErr_CheckSignals", "i32", ""),
    ("PyEval_SaveThread", "ptr", ""),
    ("PyEval_RestoreThread", "void", "ptr"),
)  # of the pool: name, result and parameters
_DEFINED: Final = re.compile(r"^(define [^\n]*\S) *\{$", re.MULTILINE)
REQUIRED_CPUID: Final = MappingProxyType({"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4})


@dataclass(frozen=True, slots=True)
class KernelBody:
    """A version's code for one level."""

    level: str
    text: str
    name: str
    slots: tuple[Slot, ...]  # of its argument block, behind the fixed ones
    pages: int
    cost: float
    locality: Locality


@dataclass(frozen=True, slots=True)
class Entry:
    """A version: the symbol of its entry, and its bodies, the one with most features first."""

    symbol: str
    bodies: tuple[KernelBody, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All slots of the bodies, in order."""
        return tuple(dict.fromkeys(slot for body in self.bodies for slot in body.slots))


def is_x86() -> bool:
    """Whether this is an x86-64 machine."""
    return platform.machine().lower() in ("x86_64", "amd64")


def constants(level: str) -> TargetConstants:
    """What is known when kernels are compiled: the level, and not the machine that runs them."""
    return level_target(level).constants


def levels() -> tuple[str, ...]:
    """Feature levels that objects can be made for on this kind of machine, the lowest first."""
    return tuple(REQUIRED_CPUID) if is_x86() else ("",)


def compile_body(function: Function, level: str) -> KernelBody:
    """The LLVM IR of an optimised kernel for a level."""
    target = level_target(level)
    lowered = lower(function, target)
    unsupported = [slot.kind for slot in lowered.abi if slot.kind not in _KINDS]
    if unsupported:
        raise CompilerBug(f"{lowered.name} needs what only a launch in Python provides: {', '.join(unsupported)}")
    pages = lowered.scratch_bytes + -lowered.scratch_bytes % PAGE
    cost = estimate(function, target)
    return KernelBody(level, lowered.text, lowered.name, lowered.abi, pages, cost, lowered.locality)


def object_code(entries: Sequence[Entry], constants: dict[str, bytes]) -> bytes:
    """An object with entries and named constants.

    Raises
    ------
    CompilerBug
        When LLVM refuses the text.
    """
    import llvmlite.binding as llvm

    base = Engine(level_target(_BASELINE_LEVEL if is_x86() else ""))
    base.ready()
    llvm.initialize_native_asmparser()
    linked = base.module(entry_module_text(entries, constants), {})
    for entry in entries:
        for n, body in enumerate(entry.bodies):
            linked.link_in(kernel_module(body, symbol_of(entry, n)))
    exported = {entry.symbol for entry in entries}
    for function in linked.functions:
        if not function.is_declaration and function.name not in exported:
            function.linkage = "internal"
    linked.verify()
    code: bytes = base.machine.emit_object(linked)
    return code


def symbol_of(entry: Entry, number: int) -> str:
    """The symbol of a body."""
    return f"{entry.symbol}.body{number}"


def kernel_module(body: KernelBody, symbol: str) -> Any:
    """A body as a module of its own, optimised for its level; all but the kernel has internal linkage."""
    target = level_target(body.level)
    module = Engine(target).module(annotate_target(body.text, target), {})
    for function in module.functions:
        if not function.is_declaration:
            function.linkage = "internal"
    kernel = module.get_function(body.name)
    kernel.linkage = "external"
    kernel.name = symbol
    return module


def annotate_target(text: str, target: CpuTarget) -> str:
    """The text with a target CPU on each function, since one object has functions for several."""
    attributes = f'"target-cpu"="{target.cpu}" "target-features"="{target.features}"'
    return _DEFINED.sub(lambda line: f"{line[1]} {attributes} {{", text)


def entry_module_text(entries: Sequence[Entry], constants: dict[str, bytes]) -> str:
    """The LLVM IR around the bodies: entries, dispatch on the CPU, the pool and the constants."""
    here = Path(__file__)
    parts = [entry_text(entry) for entry in entries]
    parts += [f"@{name} = weak constant [{len(data)} x i8] {bytes_literal(data)}" for name, data in constants.items()]
    parts.append(here.with_suffix(".ll").read_text(encoding="utf-8"))
    if is_x86():
        parts.append(here.with_name("aot_x86.ll").read_text(encoding="utf-8"))
    has_pool = is_native() and sys.platform == "linux"
    parts.append(here.with_name("aot_linux.ll").read_text(encoding="utf-8") if has_pool else single_threaded_pool())
    text = "\n".join(parts)
    names = {
        "serial": SERIAL_BELOW,
        "most": _MAX_THREADS,
        "page": PAGE,
        "state": STATE_BYTES,
        "offset": WORKERS,
        "workers": 16 * _MAX_THREADS,
        "others": _MAX_THREADS - 1,
        **{level: ", ".join(f"i32 {bits}" for bits in needed) for level, needed in REQUIRED_CPUID.items()},
    }
    for name, value in names.items():
        text = text.replace(f"<{name}>", str(value))
    return deduplicate_declarations(f"{text}\n{stub_python_calls(pool_text()) if has_pool else ''}")


def stub_python_calls(pool: str) -> str:
    """The pool's text with stubs for Python's functions, which a program in C does not have.

    They handle signals in polled launches; launches of a library are not polled.
    """
    for name, kind, parameters in _PYTHON:
        result = "" if kind == "void" else " null" if kind == "ptr" else " 0"
        body = f"define internal {kind} @{name}({parameters}) {{\n  ret {kind}{result}\n}}"
        pool = pool.replace(f"declare {kind} @{name}({parameters})", body)
    return pool


def single_threaded_pool() -> str:
    """The pool where there is none: the caller runs all programs."""
    parameters = "ptr %body, ptr %block, i64 %programs, i64 %threads, i64 %least, i64 %group"
    call = "call void %body(i64 0, i64 %programs, i64 0, ptr %block)"
    return f"define internal void @share({parameters}) {{\n  {call}\n  ret void\n}}"


def deduplicate_declarations(text: str) -> str:
    """The text without repeated declarations."""
    lines = text.splitlines()
    seen: set[str] = set()
    unique = []
    for line in lines:
        if not line.startswith("declare "):
            unique.append(line)
        elif line not in seen:
            seen.add(line)
            unique.append(line)
    return "\n".join(unique)


def entry_text(entry: Entry) -> str:
    """An entry, which tries its bodies in order."""
    lines = [f"define i32 @{entry.symbol}(ptr %grid, ptr %slots, i64 %threads) {{", "start:"]
    lines += ["  %programs = call i64 @programs(ptr %grid)", "  %wrong = icmp slt i64 %programs, 0"]
    lines += ["  br i1 %wrong, label %bad, label %count", "bad:", f"  ret i32 {STATUS['BAD_GRID']}"]
    lines += ["count:", "  %empty = icmp eq i64 %programs, 0", "  br i1 %empty, label %done, label %choose"]
    lines += ["done:", "  ret i32 0", "choose:"]
    lines += ["  %level = call i32 @level()"] if is_x86() else []
    lines += ["  br label %try0"]
    for n, body in enumerate(entry.bodies):
        lines += body_lines(entry, n, body)
    lines += [f"try{len(entry.bodies)}:", f"  ret i32 {STATUS['NO_CPU']}", "}"]
    declared = [f"declare void @{symbol_of(entry, n)}(i64, i64, i64, ptr)" for n in range(len(entry.bodies))]
    return "\n".join([*lines, *declared])


def body_lines(entry: Entry, n: int, body: KernelBody) -> list[str]:
    """The part of an entry that runs one of its bodies, if the CPU has the level."""
    size = FIXED_SLOTS + len(body.slots)
    needed = int(body.level[-1]) if is_x86() else 0
    fits = f"  %fits{n} = icmp sge i32 %level, {needed}" if is_x86() else f"  %fits{n} = icmp eq i1 true, true"
    lines = [f"try{n}:", fits, f"  br i1 %fits{n}, label %fill{n}, label %try{n + 1}", f"fill{n}:"]
    lines += [f"  %block{n} = alloca [{size} x i64], align 16"]
    sources = [("grid", axis) for axis in range(3)]
    sources += [("slots", entry.slots.index(slot)) for slot in body.slots]
    for k, (source, at) in enumerate(sources):
        target = k if k < 3 else k - 3 + FIXED_SLOTS
        lines += [
            f"  %from{n}.{k} = getelementptr i64, ptr %{source}, i64 {at}",
            f"  %value{n}.{k} = load i64, ptr %from{n}.{k}",
            f"  %to{n}.{k} = getelementptr i64, ptr %block{n}, i64 {target}",
            f"  store i64 %value{n}.{k}, ptr %to{n}.{k}",
        ]
    ticket = programs_per_ticket(body.cost)
    given = f"i64 {body.pages}, double {double_literal(body.cost)}, i64 {ticket}, i64 {body.locality.encoded}"
    call = f"call i32 @run(ptr @{symbol_of(entry, n)}, ptr %block{n}, i64 %programs, i64 %threads, {given})"
    return [*lines, f"  %status{n} = {call}", f"  ret i32 %status{n}"]


def double_literal(value: float) -> str:
    """A number in LLVM IR."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def bytes_literal(data: bytes) -> str:
    """Bytes in LLVM IR."""
    return 'c"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data) + '"'
