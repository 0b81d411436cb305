"""Cycles and bytes of one instruction, from its row, its arguments and the chip.

Copies from and to GM have constants of their own (`rates`). `SCALAR_ACCESS` is fitted to the published scalar addition.
The others are documented figures, but for the way out of L0C, which is measured: attention of pto-isa on
one core of 910B1, 128 queries in heads of 128, takes 43.80 µs for 4096 keys and 74.54 µs for 8192, so 3556 cycles for
256 keys. Meanwhile scores leave L0C as float32, 131072 bytes, and half of a product of 128 x 128, since that is taken
away for 512 keys at most: 163840 bytes, 46.07 a cycle if the unit never rests. The slowest rate that allows this is 46;
that project's model says 42, and its traces of the vendor's simulator 52.7 at least. It is a rate of rows in matrices,
and of sums of 32 bits, whatever they are rounded to: 23 bytes of float16 a cycle, where 18.8 are published for all
cores at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pypto.backends.ascend.block.bank_conflicts import read_conflicts_with_write, reads_conflict
from pypto.backends.ascend.blockir.effects import pipe_of, row_of, views
from pypto.backends.ascend.blockir.ir import Buffer, Instr, Record, View, Word
from pypto.backends.ascend.timing.rates import LINE, MemoryRates
from pypto.backends.ascend.timing.rows import BLOCK, memory_view, rows_of

REPEAT: Final = 256  # bytes that a vector unit takes at a time
LOCAL_HEAD: Final = 50.0  # of a copy between memories of a core
SCALAR_ACCESS: Final = 8.0  # cycles of the scalar unit for an element of UB
GM_SCALAR: Final = 400.0  # and of GM
ISSUE: Final = 8.0  # cycles for the scalar unit to hand an instruction to another
# Bytes in a cycle of one core, between two memories; what comes from GM, `rates` says.
RATES: Final = MappingProxyType({
    ("UB", "GM"): 86.0, ("L0C", "L1"): 76.0,
    ("L1", "L0A"): 256.0, ("L1", "L0B"): 128.0, ("L1", "BT"): 19.0, ("UB", "UB"): 256.0, ("UB", "L1"): 60.0,
    ("L1", "GM"): 60.0, ("L1", "UB"): 60.0,
})  # fmt: skip
MMAD_HEAD: Final = 10.0
DEPTHS: Final = MappingProxyType({1: 32.0, 2: 16.0})  # along K, of what a cycle multiplies, by bytes of an element


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles that an instruction occupies its unit, cycles of latency, and the bytes that a copy moves."""

    busy: float
    latency: float
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a copy from GM: the fraction of its bytes that hit L2, and whether it bypasses L2."""

    hit: float = 0.0
    bypasses: bool = False


def cost_of(instr: Instr, numbers: tuple[Any, ...], rates: MemoryRates, source: Source | None = None) -> Cost:
    """The cost of an instruction with known arguments: for a view its stage and offset, for a record its fields."""
    pipe = pipe_of(instr)
    if pipe == "V":
        return vector(instr, numbers)
    if pipe == "M":
        return mmad(instr, numbers)
    if pipe == "S":
        return Cost(SCALAR_ACCESS, SCALAR_ACCESS)
    return copy(instr, numbers, rates, source or Source())


def vector(instr: Instr, numbers: tuple[Any, ...]) -> Cost:
    """The cost of a vector instruction, by its repeats and bank conflicts."""
    row = row_of(instr)
    repeats = repeats_of(instr, numbers)
    slow = instr.name in ("Sort32", "MrgSort")  # two pairs a cycle, however the banks lie
    each = row.cost.repeat * (2 if not slow and in_the_way(instr, numbers) else 1)
    return Cost(max(1.0, each * repeats), row.cost.head + each * repeats)


def repeats_of(instr: Instr, numbers: tuple[Any, ...]) -> float:
    """The number of repeats of 256 bytes of a vector instruction: from its arguments, or from its count of elements."""
    found = [n for n in numbers if isinstance(n, int | float) and not isinstance(n, bool)]
    if instr.name in ("Sort32", "MrgSort", "GatherMask"):
        return counted(instr, numbers)
    kinds = next(form.split() for form in row_of(instr).forms if len(form.split()) == len(instr.args))
    if "uint8_t" in kinds and not isinstance(numbers[kinds.index("uint8_t")], tuple):
        return max(1, int(numbers[kinds.index("uint8_t")] or 1))
    if "Reduce" in instr.name:
        whole = instr.name.startswith("Whole")
        return max(1, int(found[1 if whole else 0]))
    of = views(instr)[:2] if instr.name == "Cast" else views(instr)[-1:]
    wide = max(view.elem.itemsize for view in of)
    count = found[-1] if found else REPEAT // wide
    return max(1, math.ceil(float(count) * wide / REPEAT))


def counted(instr: Instr, numbers: tuple[Any, ...]) -> float:
    """The repeats of sorting and gathering instructions, from their arguments; a merge takes 128 pairs a repeat."""
    if instr.name == "Sort32":
        return float(numbers[-1])
    how = next(n for n, x in zip(numbers, instr.args, strict=True) if isinstance(x, Record))
    return float(how[1]) if instr.name == "GatherMask" else sum(how[:4]) * how[-1] / 128


def in_the_way(instr: Instr, numbers: tuple[Any, ...]) -> bool:
    """Whether operands have a bank conflict in UB."""
    row, places = row_of(instr), []
    for view, where in zip(instr.args, numbers, strict=True):
        if isinstance(view, View) and isinstance(view.of, Buffer) and view.of.address is not None:
            stage, offset = where
            places.append(view.of.address + stage * view.of.stage_bytes + offset * view.elem.itemsize)
    to, sources = places[: row.writes], places[row.writes :]
    if len(sources) > 1 and sources[0] != sources[1] and reads_conflict(sources[0], sources[1]):
        return True
    return any(a != b and read_conflicts_with_write(a, b) for a in sources for b in to)


def copy(instr: Instr, numbers: tuple[Any, ...], rates: MemoryRates, found: Source) -> Cost:
    """The cost of a copy from one memory to another."""
    if instr.name == "InitConstValue":
        return Cost(LOCAL_HEAD, LOCAL_HEAD)
    to, source = (view.space for view in views(instr)[:2])
    blocks, run = shape_of(instr, numbers)
    total = blocks * run
    if instr.name == "Fixpipe":  # takes sums of 32 bits, whatever they become
        size = max(view.elem.itemsize for view in views(instr)[:2])
        busy = total * size / views(instr)[0].elem.itemsize / (rates.from_l0c if to == "GM" else RATES[source, to])
    elif source == "GM":
        fetched = total + blocks * extra_bytes(instr, numbers, rates, found)
        busy = fetched * ((1 - found.hit) / rates.from_hbm + found.hit / rates.from_l2) + rates.row * (blocks - 1)
    else:
        busy = total / RATES.get((source, to), 60.0) + rates.row * (blocks - 1)
    if "GM" not in (to, source):
        return Cost(busy + LOCAL_HEAD, busy + LOCAL_HEAD, int(total))
    busy = max(rates.least, busy)
    return Cost(busy, busy + rates.latency, int(total))


def extra_bytes(instr: Instr, numbers: tuple[Any, ...], rates: MemoryRates, found: Source) -> float:
    """Bytes that are fetched for each row in addition to its own."""
    view = memory_view(instr)
    if view is None:
        return 0.0
    rows, run, pitch = rows_of(instr, numbers)
    start = numbers[instr.args.index(view)][1] * view.elem.itemsize
    is_unaligned = start % BLOCK or (rows > 1 and pitch % BLOCK)
    return (rates.sector if is_unaligned else 0) + (rates.short_run if found.bypasses and run < LINE else 0.0)


def shape_of(instr: Instr, numbers: tuple[Any, ...]) -> tuple[float, float]:
    """The number of rows of a copy, and the bytes of each."""
    view = views(instr)[0] if instr.name == "Fixpipe" else views(instr)[1]
    size = view.elem.itemsize
    position = next((n for n, x in enumerate(instr.args) if isinstance(x, Record)), None)
    if position is None:
        return 1, float(numbers[-1]) * size
    fields = [0 if f is None else f for f in numbers[position]]
    if instr.name == "DataCopyPad":
        return max(1, fields[0]), fields[1]
    if instr.name == "Fixpipe":
        return max(1, fields[1]), fields[0] * size
    if instr.name == "LoadData":
        return 1, loaded(fields, size)
    if instr.name == "LoadDataWithTranspose":
        return 1, max(1, fields[1]) * 512
    if len(fields) == 8:  # rows and columns, to fractals
        return max(1, fields[1]), fields[2] * size
    return max(1, fields[0]), fields[1] * 32


def loaded(fields: list[Any], size: int) -> float:
    """Bytes of a load into L0: a window of an image, a rectangle of fractals, or a strip of them."""
    if len(fields) == 7:
        return float(fields[3] * fields[4] * size)
    return float(fields[2] * fields[3] if len(fields) == 8 else max(1, fields[1])) * 512


def operations_of(numbers: tuple[Any, ...]) -> float:
    """The multiplications and additions of a matrix product."""
    m, n, k = (float(x or 0) for x in numbers[-1][:3])
    return 2 * m * n * k


def operations_per_cycle(size: int) -> float:
    """The operations of a cube core in a cycle, on operands of so many bytes; float32 takes two cycles."""
    return 2 * 16 * 16 * DEPTHS.get(size, 8.0) / (2 if size == 4 else 1)


def mmad(instr: Instr, numbers: tuple[Any, ...]) -> Cost:
    """The cost of a matrix product."""
    fields = numbers[-1]
    m, n, k = (float(x or 0) for x in fields[:3])
    a = views(instr)[1].elem
    depth = DEPTHS.get(a.itemsize, 8.0)
    steps = 2.0 if a.itemsize == 4 else 1.0  # float32 takes two cycles for 16 x 8 x 16
    cycles = MMAD_HEAD + steps * math.ceil(m / 16) * math.ceil(n / 16) * math.ceil(k / depth)
    return Cost(cycles, cycles)


def is_event(word: object) -> tuple[str, str]:
    """The two units of an event."""
    assert isinstance(word, Word)
    of, _, to = word.text.partition("_")
    return of, to
