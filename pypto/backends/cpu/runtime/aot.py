"""Ahead-of-time compilation: versions of a kernel, each for several feature levels, in one object without llvmlite.

Each version has an entry, ``int32_t NAME(const int64_t *grid, const int64_t *slots, int64_t threads)``, which
dispatches on the CPU, fills in the argument block, and runs all programs. `slots` are the values of the version's
slots, in order. It returns one of `STATUS`.
"""

from __future__ import annotations

import platform
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.backends.base import PAGE, Locality, Slot
from pypto.backends.cpu.backend import programs_per_ticket
from pypto.backends.cpu.codegen.function import lower
from pypto.backends.cpu.loopir.cost import estimate
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.runtime.pool import is_native, pool_text
from pypto.backends.cpu.target import CpuTarget, level_target
from pypto.backends.llvm.compiled import source_module
from pypto.errors import CompilerBug
from pypto.ir.core import Function
from pypto.ops.target import TargetConstants

STATUS: Final = MappingProxyType({"OK": 0, "BAD_GRID": 1, "NO_VERSION": 2, "NO_CPU": 3, "NO_MEMORY": 4})
MAX_THREADS: Final = 256
_KINDS: Final = ("ptr", "shape", "stride", "scalar")
_BASELINE_LEVEL: Final = "x86-64-v2"  # of entries and pool
# CPUID bits that a level needs: ECX of leaf 1, EBX of leaf 7, ECX of leaf 0x80000001; and bits of XCR0.
_V2: Final = (1 << 0 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23, 0, 1 << 0, 0)
_V3: Final = (1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29, 1 << 3 | 1 << 5 | 1 << 8, 1 << 5, 0x6)
_V4: Final = (0, 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31, 0, 0xE6)
_BODY: Final = "{ ptr, ptr, double, i64, i64, i64, i64, i64 }"  # `struct body` of aot.c
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
    for text in runtime_texts():
        linked.link_in(base.module(text, {}))
    if is_x86():
        linked.get_global_variable("aot_needed").linkage = "internal"
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
    """The LLVM IR of entries and of the constants."""
    needed = ", ".join(f"i32 {bits}" for row in REQUIRED_CPUID.values() for bits in row)
    parts = ["declare i32 @aot_launch(ptr, i64, ptr, ptr, i64)", *map(entry_text, entries)]
    parts += [f"@aot_needed = constant [{4 * len(REQUIRED_CPUID)} x i32] [{needed}], align 16"] * is_x86()
    parts += [f"@{name} = weak constant [{len(data)} x i8] {bytes_literal(data)}" for name, data in constants.items()]
    return "\n".join(parts)


def runtime_texts() -> list[str]:
    """The LLVM IR of what entries call: the choice of a body, with level and threads where the machine has them."""
    files = ["aot", *["aot_x86"] * is_x86(), *["aot_linux"] * is_native()]
    texts = [source_module(Path(__file__).with_name(f"{name}.c")) for name in files]
    return [*texts, pool_text()] if is_native() else texts


def entry_text(entry: Entry) -> str:
    """An entry, which gives its bodies to `aot_launch`."""
    rows, lines = [], []
    for n, body in enumerate(entry.bodies):
        symbol, count = symbol_of(entry, n), len(body.slots)
        slots = ", ".join(f"i64 {entry.slots.index(slot)}" for slot in body.slots)
        lines += [f"declare void @{symbol}(i64, i64, i64, ptr)"]
        lines += [f"@{symbol}.slots = internal constant [{count} x i64] {f'[{slots}]' if slots else 'zeroinitializer'}"]
        level = int(body.level[-1]) if is_x86() else 0
        numbers = count, level, body.pages, programs_per_ticket(body.cost), body.locality.encoded
        fields = [f"ptr @{symbol}", f"ptr @{symbol}.slots", f"double {double_literal(body.cost)}"]
        rows += [f"{_BODY} {{ {', '.join([*fields, *(f'i64 {number}' for number in numbers)])} }}"]
    table = f"[{len(rows)} x {_BODY}]"
    call = f"call i32 @aot_launch(ptr @{entry.symbol}.bodies, i64 {len(rows)}, ptr %grid, ptr %slots, i64 %threads)"
    lines += [f"@{entry.symbol}.bodies = internal constant {table} [{', '.join(rows)}]"]
    lines += [f"define i32 @{entry.symbol}(ptr %grid, ptr %slots, i64 %threads) {{"]
    return "\n".join([*lines, f"  %status = {call}", "  ret i32 %status", "}"])


def double_literal(value: float) -> str:
    """A number in LLVM IR."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def bytes_literal(data: bytes) -> str:
    """Bytes in LLVM IR."""
    return 'c"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in data) + '"'
