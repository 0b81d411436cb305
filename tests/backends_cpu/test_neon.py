"""ARM: what is compiled for NEON, read as assembly, and run where there is an emulator."""

from __future__ import annotations

import functools
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.compile import Session, session
from pypto.ir.types import DType
from pypto.ops.row import OpRow
from tests.backends_cpu.elf import undefined_symbols
from tests.backends_cpu.emulated import Arena, CrossEngine, EmulatedBackend, can_emulate, neon_target
from tests.backends_cpu.lowering import lowered
from tests.conformance.cases import Launch
from tests.conformance.running import assert_close, at_level, make_launch, quick_part
from tests.conformance.sources import define
from tests.ops.rows import ELEMENTWISE, calls, takes
from tests.ops.samples import operands
from tests.ops.test_elementwise import assert_agree, kernel_text, outputs

LEVEL = "neon"
SIZE = 203

# What the loops must be made of: instructions on whole registers, with how many of them there are at least.
WHOLE_REGISTERS = {
    "add_native": {"fadd.4s": 6, "ldp": 4},
    "add_native_f64": {"fadd.2d": 8, "ldp": 4},
    "softmax_native": {"fmla.4s": 40, "fdiv.4s": 4},
    "calls_gelu": {"fmla.4s": 40, "fmul.4s": 20},
    "matmul_native": {"fmla.4s": 150},
    "batched_dot_f64": {"fmla.2d": 80},
    "batched_dot_i8": {"mla.4s": 48},
    "attention_causal": {"fmla.4s": 200},
}

emulated = pytest.mark.skipif(not can_emulate(), reason="needs qemu-aarch64 and aarch64-linux-gnu-gcc")


@functools.cache
def engine() -> CrossEngine:
    return CrossEngine(neon_target())


def instructions(assembly: str) -> Counter[str]:
    """How often each instruction stands in a listing; one on vector registers has their shape in its name."""
    return Counter(map("".join, re.findall(r"^\t([a-z][a-z0-9]*)(?:\tv\d+(\.\d*[bhsd]))?", assembly, re.MULTILINE)))


@pytest.mark.parametrize("name", WHOLE_REGISTERS)
def test_loops_work_on_whole_registers(name: str) -> None:
    text = lowered(make_launch(name), neon_target()).text
    found = instructions(engine().assembly(text))
    assert {i: n for i, n in WHOLE_REGISTERS[name].items() if found[i] < n} == {}, found
    assert not {"fmadd", "fmsub", "blr"} & found.keys(), "products of single numbers, or calls into somewhere"


@pytest.mark.parametrize("name", quick_part(3))
def test_nothing_is_wanted_from_elsewhere(name: str) -> None:
    assert undefined_symbols(engine().compile(lowered(make_launch(name), neon_target()).text)) == ()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedBackend]:
    """In place of the machine's own backend for kernels of the level "neon", which keep it once they are compiled."""
    shared: Session = session()
    with Arena() as arena, pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("neon")
        backend = EmulatedBackend(neon_target(), 1, lambda name, make: make(), folder=folder, arena=arena)
        patch.setitem(shared.backends, (LEVEL, False), backend)
        patch.setitem(shared.__dict__, "launcher", None)  # native code would call what only the emulator can run
        yield backend


def run(launch: Launch, arena: Arena) -> dict[str, Any]:
    arena.clear()
    arrays = {name: x for name, x in launch.arguments.items() if isinstance(x, np.ndarray)}
    arguments = {**launch.arguments, **arena.holding(arrays)}
    at_level(launch.kernel, LEVEL)[launch.grid](**arguments)
    return {name: arguments[name].copy() for name in launch.expected}


@emulated
@pytest.mark.parametrize("name", quick_part(3))
def test_kernels_run(name: str, machine: EmulatedBackend) -> None:
    launch = make_launch(name)
    assert_close(run(launch, machine.arena), launch.expected, launch.tolerance, f"{name} on NEON against numpy")


@emulated
@pytest.mark.parametrize("name", ["add_native", "attention_causal"])
def test_kernels_that_time_themselves_run(name: str, machine: EmulatedBackend) -> None:
    """Without room for events, since their memory is not the emulator's."""
    launch = make_launch(name)
    with pto.profile(limit=0) as prof:
        found = run(launch, machine.arena)
    assert_close(found, launch.expected, launch.tolerance, f"{name}, timed, on NEON against numpy")
    assert prof.problems == []


def check_row(row: OpRow, dtype: DType, arena: Arena) -> None:
    tried = calls(row, dtype)
    arrays = operands(zlib.crc32(f"{row.name} {dtype}".encode()), dtype, len(tried[0].types), SIZE, row.domain)
    wanted = outputs(tried, SIZE)
    pto.interpret(define(kernel_text(tried, False)))[1](*arrays, *wanted)
    arena.clear()
    held = arena.holding({str(i): x for i, x in enumerate([*arrays, *outputs(tried, SIZE)])})
    define(kernel_text(tried, False), LEVEL)[1](*held.values())
    for call, found, right in zip(tried, list(held.values())[len(arrays) :], wanted, strict=True):
        assert_agree(found, right, call, "NEON against interpreter")


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda row: row.name)
def test_elementwise_ops_run(row: OpRow, machine: EmulatedBackend) -> None:
    for dtype in takes(row):
        check_row(row, dtype, machine.arena)
