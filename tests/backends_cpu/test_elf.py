"""Objects are loaded without LLVM as its linker loads them; what is not known is left to the linker."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

from pypto.backends.cpu import host
from pypto.backends.cpu.runtime import elf
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.target import host_target
from pypto.errors import CompilerBug

here = pytest.mark.skipif(not elf.is_loadable(Engine(host_target()).compile("")), reason="objects of other machines")

TEXT = """
@table = internal constant [4 x i64] [i64 2, i64 3, i64 5, i64 7]
@count = internal global i64 0
@start = internal global i64 40
@itself = internal global ptr @start
declare i64 @labs(i64)
define i64 @pick(i64 %n) {
  %place = getelementptr [4 x i64], ptr @table, i64 0, i64 %n
  %x = load i64, ptr %place
  ret i64 %x
}
define i64 @next(i64 %n) {
  %old = load i64, ptr @count
  %new = add i64 %old, %n
  store i64 %new, ptr @count
  %home = load ptr, ptr @itself
  %first = load i64, ptr %home
  %sum = add i64 %new, %first
  ret i64 %sum
}
define i64 @distance(i64 %n) {
  %x = call i64 @labs(i64 %n)
  ret i64 %x
}
"""
_I64 = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


@here
def test_constants_data_and_calls_of_the_process() -> None:
    addresses, image = elf.load_object(Engine(host_target()).compile(TEXT), ("pick", "next", "distance"))
    pick, count, distance = map(_I64, addresses)
    assert [pick(n) for n in range(4)] == [2, 3, 5, 7]
    assert [count(1), count(2)] == [41, 43]
    assert distance(-9) == 9
    other, _image = elf.load_object(Engine(host_target()).compile(TEXT), ("next",))
    assert _I64(other[0])(5) == 45  # with data of its own
    assert image.fixed % 4096 == 0


@here
@pytest.mark.parametrize("symbol", ["missing", "labs"])
def test_a_missing_symbol_is_left_to_the_linker(symbol: str) -> None:
    engine = Engine(host_target())
    code = engine.compile(TEXT)
    with pytest.raises(elf.Unsupported):
        elf.load_object(code, (symbol,))
    with pytest.raises(CompilerBug):
        engine.load(code, "missing")


@here
def test_an_unknown_relocation_is_left_to_the_linker() -> None:
    code = bytearray(Engine(host_target()).compile(TEXT))
    row = next(s for s in elf.sections_of(bytes(code)) if s.kind == 4)
    struct.pack_into("<I", code, row.offset + 8, 250)
    with pytest.raises(elf.Unsupported):
        elf.load_object(bytes(code), ("pick",))


@here
def test_a_broken_object_is_left_to_the_linker() -> None:
    code = Engine(host_target()).compile(TEXT)
    rng = np.random.default_rng(0)
    for _ in range(200):
        cut = code[: int(rng.integers(64, len(code)))]
        with pytest.raises(elf.Unsupported):
            elf.load_object(cut, ("pick", "nowhere"))


def test_the_host_is_what_llvm_says_it_is() -> None:
    kept: dict[object, bytes] = {}

    def remember(key, make):
        if key not in kept:
            kept[key] = make()
        return kept[key]

    asked = host.ask_llvm()
    assert [host.host_cpu(remember), host.host_cpu(remember)] == [asked, asked]
    assert len(kept) == bool(host.cpu_kind())


def test_the_kind_of_a_cpu_is_the_first_ones_without_its_speed(tmp_path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: X\ncpu MHz\t: 3000\nflags\t: fma\n\nprocessor\t: 1\nflags\t: sse\n")
    assert host.cpu_kind(file) == "model name\t: X\nflags\t: fma\n"
    assert host.cpu_kind(tmp_path / "none") == ""
