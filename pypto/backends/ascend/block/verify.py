"""The Block IR verifier: rules of the chip that no toolkit checks, each with the line that breaks it.

It checks addresses, live ranges, names, forms and dtypes of instructions, alignment and extent of operands, and limits
of parameters. If all of that holds, `race_checker` checks the order of the units, and `unit_flag_checker` the unit
flags. Tests run it on every kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.block.access_extents import BLOCK, access_bytes
from pypto.backends.ascend.block.allocate import ALIGNMENT
from pypto.backends.ascend.block.dependences import AccessAnalysis
from pypto.backends.ascend.block.liveness import live_ranges
from pypto.backends.ascend.block.race_checker import races
from pypto.backends.ascend.block.unit_flag_checker import unit_flag_problems
from pypto.backends.ascend.blockir.effects import form_of, names_in, pipe_of, row_of, scalars, views
from pypto.backends.ascend.blockir.instructions import CASTS, INSTRUCTIONS, RECORDS
from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    Buffer,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Record,
    View,
    While,
    Word,
    fold,
)
from pypto.backends.ascend.blockir.layouts import misplaced, of_other_chips, unkept
from pypto.backends.ascend.target import AscendTarget
from pypto.errors import CompilerBug
from pypto.ir.types import DType, float16, float32, int32, uint32

REPEAT: Final = 256  # bytes that a vector instruction works on at a time
_RANGES: Final = MappingProxyType({"uint8_t": (0, 255), "uint16_t": (0, 65535), "uint32_t": (0, (1 << 32) - 1),
                                   "int32_t": (-(1 << 31), (1 << 31) - 1), "uint64_t": (0, (1 << 64) - 1),
                                   "int8_t": (-128, 127)})  # fmt: skip
_NO_OVERLAP: Final = ("Gather", "Brcb", "WholeReduceSum", "WholeReduceMax", "WholeReduceMin", "BlockReduceSum",
                 "BlockReduceMax", "BlockReduceMin", "PairReduceSum")  # fmt: skip
_ACCUMULATING: Final = ("Add", "Sub", "Mul", "Max", "Min")
_STRIDED: Final = "BinaryRepeatParams UnaryRepeatParams"


@dataclass(frozen=True)
class Problem:
    """A rule that an item breaks."""

    text: str  # what is wrong
    line: int = 0  # the user's line, 0 where there is none

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


def verify(kernel: BlockKernel, target: AscendTarget) -> None:
    """Check a whole kernel.

    Raises
    ------
    CompilerBug
        With every rule that is broken: our lowering broke it, never the user.
    """
    broken = problems(kernel, target)
    if broken:
        raise CompilerBug(f"the Block IR of {kernel.name} breaks rules of {target.name}:\n  " + "\n  ".join(broken))


def problems(kernel: BlockKernel, target: AscendTarget) -> list[str]:
    """Return the rules that a kernel breaks, in the order of its items."""
    result = [*instruction_problems(kernel, target), *_names(kernel)]
    if all(instr.name in INSTRUCTIONS for instr in kernel.instructions()):
        result += _buffers(kernel, target)
    return list(dict.fromkeys(map(str, result))) or [*races(kernel, target), *unit_flag_problems(kernel)]


# --- memory -----------------------------------------------------------------------------------------------------------


def _buffers(kernel: BlockKernel, target: AscendTarget) -> Iterator[Problem]:
    """Check addresses and layouts of buffers, and that live buffers do not share memory."""
    for b in kernel.buffers:
        memory = target.memories[b.space]
        alignment = max(memory.alignment, ALIGNMENT.get(b.space, 0))
        yield from map(Problem, unkept(b, target))
        if b.address is None:
            yield Problem(f"the buffer {b.name} has no address")
        elif b.address % alignment:
            yield Problem(f"the buffer {b.name} begins at byte {b.address} of {b.space}, no multiple of {alignment}")
        elif b.address + b.bytes > memory.bytes:
            yield Problem(
                f"the buffer {b.name} ends at byte {b.address + b.bytes} of {b.space}, which has {memory.bytes}"
            )
    ranges = live_ranges(kernel.body) | live_ranges(kernel.cube_body)
    for a, b in combinations([b for b in kernel.buffers if b.name in ranges and b.address is not None], 2):
        if _share_memory(a, b) and ranges[a.name].overlaps(ranges[b.name]):
            yield Problem(f"the buffers {a.name} and {b.name} share memory while both are alive", ranges[b.name].line)


def _share_memory(a: Buffer, b: Buffer) -> bool:
    """Whether the addresses of two buffers overlap."""
    first = a.address or 0
    second = b.address or 0
    return a.space == b.space and first < second + b.bytes and second < first + a.bytes


# --- names ------------------------------------------------------------------------------------------------------------


def _names(kernel: BlockKernel) -> Iterator[Problem]:
    """Check the names of both parts of a kernel."""
    known = frozenset({p.name for p in kernel.params} | {"block", "blocks", "sub_block"})
    yield from _scope(kernel.body, known)
    yield from _scope(kernel.cube_body, known)


def _scope(items: tuple[Item, ...], visible: frozenset[str]) -> Iterator[Problem]:
    """Check that names are defined before they are read, in the same sequence or around it, and once in each."""
    defined_here: set[str] = set()
    for item in items:
        for name in sorted({n for value in scalars(item) for n in names_in(value)} - visible - _condition_names(item)):
            yield Problem(f"{name!r} is read and was not defined", item.line)
        match item:
            case Let():
                if item.name in defined_here:
                    yield Problem(f"{item.name!r} is defined twice", item.line)
                defined_here.add(item.name)
                visible |= {item.name}
            case Assign() if item.name not in visible:
                yield Problem(f"{item.name!r} gets a value and was not defined", item.line)
            case Loop():
                yield from _scope(item.body, visible | {item.name})
            case While():
                yield from _while_scope(item, visible)
            case If():
                yield from _scope(item.body, visible)
                yield from _scope(item.orelse, visible)


def _condition_names(item: Item) -> frozenset[str]:
    """Return the names that a while loop's test defines and its condition may read."""
    tests = item.test if isinstance(item, While) else ()
    return frozenset(x.name for x in tests if isinstance(x, Let))


def _while_scope(item: While, visible: frozenset[str]) -> Iterator[Problem]:
    """Check the two sequences of a while loop."""
    yield from _scope(item.test, visible)
    yield from _scope(item.body, visible)


# --- instructions -----------------------------------------------------------------------------------------------------


def instruction_problems(kernel: BlockKernel, target: AscendTarget) -> Iterator[Problem]:
    """Yield the rules of single instructions that a kernel breaks."""
    reader = AccessAnalysis.of(kernel)
    for instr in kernel.instructions():
        yield from (Problem(text, instr.line) for text in _instruction(instr, target, reader))


def _instruction(instr: Instr, target: AscendTarget, reader: AccessAnalysis) -> Iterator[str]:
    """Check one instruction by all rules."""
    if instr.name not in INSTRUCTIONS:
        yield f"there is no instruction {instr.name}"
        return
    try:
        kinds = form_of(instr)
    except CompilerBug as bug:
        yield str(bug)
        return
    yield from _dtypes(instr)
    yield from _numbers(instr, kinds)
    yield from misplaced(instr, kinds)
    yield from of_other_chips(instr, kinds, target)
    yield from _operand_ranges(instr, target, reader)
    yield from _instruction_rules(instr)


def _dtypes(instr: Instr) -> Iterator[str]:
    """Check the dtypes of an instruction's operands."""
    dtypes = [view.elem for view in views(instr)]
    allowed = row_of(instr).dtypes.split()
    if instr.name == "Cast":
        yield from _cast(dtypes[1].public, dtypes[0].public, instr.args[2])
    if instr.name in ("Compare", "CompareScalar") and not _compares(dtypes[1], str(instr.args[3])):
        yield f"{instr.name} has no {dtypes[1].public}"
    if instr.name == "Select" and dtypes[0] not in (float16, float32):
        yield f"Select has no {dtypes[0].public}: view it as a float of the same width"
    for dtype in dict.fromkeys(d for d in dtypes if allowed and d.public not in allowed):
        yield f"{instr.name} has no {dtype.public}, only {', '.join(allowed)}"


def _cast(source: str, target: str, mode: object) -> Iterator[str]:
    """Check that a Cast exists, and with this rounding mode."""
    if (source, target) not in CASTS:
        yield f"there is no Cast from {source} to {target} in one step"
        return
    modes = CASTS[source, target]
    if isinstance(mode, Word) and mode.text not in modes:
        yield f"a Cast from {source} to {target} does nothing with {mode.text}: it takes {' or '.join(modes)}"


def _compares(dtype: DType, mode: str) -> bool:
    """Whether a dtype can be compared: int32 only for equality."""
    return dtype in (float16, float32) or (dtype == int32 and "'EQ'" in mode)


def _numbers(instr: Instr, kinds: tuple[str, ...]) -> Iterator[str]:
    """Check numbers that the parameters' C++ types would cut."""
    for kind, value in zip(kinds, instr.args, strict=True):
        if isinstance(value, Record):
            for field, x in zip(RECORDS[kind].fields, value.fields, strict=True):
                yield from _range(f"{instr.name}: {field.name}", field.ctype, x)
            for field, x, limit in zip(RECORDS[kind].fields, value.fields, RECORDS[kind].limits, strict=False):
                if isinstance(x, int) and not 0 <= x <= limit:
                    yield f"{instr.name}: {field.name} is at most {limit}, not {x}"
        elif isinstance(value, int):
            yield from _range(instr.name, kind, value)


def _range(what: str, ctype: str, value: object) -> Iterator[str]:
    """Check a number against the range of a C++ type."""
    least, greatest = _RANGES.get(ctype, (-(1 << 64), 1 << 64))
    if isinstance(value, int) and not least <= value <= greatest:
        yield f"{what} is between {least} and {greatest}, not {value}"


def _operand_ranges(instr: Instr, target: AscendTarget, reader: AccessAnalysis) -> Iterator[str]:
    """Check that operands begin where the unit can reach them, and end inside of their buffers."""
    needs_alignment = pipe_of(instr) != "S" if views(instr) else False
    for operand, view in enumerate(views(instr)):
        offset = reader.resolve(view.offset)
        if not isinstance(view.of, Buffer) or not isinstance(offset, int):
            continue
        first = offset * view.elem.itemsize
        size = access_bytes(instr, operand, reader.resolve)
        alignment = max(BLOCK, target.memories[view.space].alignment) if needs_alignment else 1
        if row_of(instr).aligned:
            alignment = row_of(instr).aligned[operand]
        if ((view.of.address or 0) + first) % alignment:
            yield f"{instr.name}: byte {first} of {view.of.name} is no multiple of {alignment}"
        if first < 0 or first + (size or 1) > view.of.stage_bytes:
            end = first + (size or 1)
            yield f"{instr.name}: bytes {first} to {end} of {view.of.name}, which has {view.of.stage_bytes}"


def _instruction_rules(instr: Instr) -> Iterator[str]:
    """Check the rules of particular instructions."""
    record = next((x for x in instr.args if isinstance(x, Record)), None)
    if instr.name == "Mmad" and record and record.fields[0] == 1:
        yield "Mmad: one row switches to another layout: use 16"
    if instr.name == "DataCopyPad" and isinstance(instr.args[-1], Record) and len(instr.args) == 4:
        size = views(instr)[0].elem.itemsize
        if any(isinstance(x, int) and x * size > BLOCK for x in instr.args[-1].fields[1:3]):
            yield "DataCopyPad: padding is at most 32 bytes on either side"
        pads, left, right, value = instr.args[-1].fields
        if pads and size == 8 and value != 0:
            yield "DataCopyPad: elements of 64 bits are padded with 0 alone"
        if not pads and (left, right) != (0, 0):
            yield "DataCopyPad: without isPad, padding is whatever the engine has"
    if instr.name in _NO_OVERLAP and len({(view.of.name, view.stage) for view in views(instr)[:2]}) < 2:
        yield f"{instr.name}: its result may not lie where it reads"
    count = instr.args[-1] if instr.args else None  # SetAtomicNone has no arguments
    if instr.name in ("Compare", "CompareScalar") and isinstance(count, int):
        size = views(instr)[1].elem.itemsize
        if count * size % REPEAT:
            yield f"{instr.name}: {count} elements are no whole repeats of {REPEAT} bytes"
    yield from _repeat_rules(instr, record)
    if instr.name in ("Sort32", "MrgSort"):
        yield from _sort_rules(instr)


def _sort_rules(instr: Instr) -> Iterator[str]:
    """Check that a sort writes no buffer that it reads, and that it repeats at least once."""
    config, (to, *sources) = instr.args[-1], views(instr)
    if any(to.of.name == x.of.name for x in sources):
        yield f"{instr.name}: the result is in a buffer that it reads"
    repeats = config.fields[-1] if isinstance(config, Record) else config
    if isinstance(repeats, int) and not 1 <= repeats <= 255:
        yield f"{instr.name}: there are between 1 and 255 repeats, not {repeats}"
    if isinstance(config, Record):
        yield from _merge_lists(config, sources)
    elif to.elem not in (float16, float32) or [x.elem for x in sources] != [to.elem, uint32]:
        yield "Sort32: scores are float16 or float32 as the result is, indices are uint32"


def _merge_lists(config: Record, sources: list[View]) -> Iterator[str]:
    """Check the lists of a MrgSort."""
    *lengths, stops, valid, repeats = config.fields
    if valid not in (3, 7, 15) or stops:
        yield "MrgSort: the first 2, 3 or 4 lists are valid, and it goes on where one of them ends"
    step = 8 // sources[0].elem.itemsize * lengths[0] if isinstance(lengths[0], int) else 0
    side_by_side = [replace(sources[0], offset=fold("+", sources[0].offset, step * n)) for n in range(4)]
    if repeats != 1 and (valid != 15 or len(set(lengths)) > 1 or sources != side_by_side):
        yield "MrgSort: repeats take four lists of one length, one right after the other"


def _repeat_dependences(instr: Instr, record: Record) -> Iterator[str]:
    """Check that no repeat reads the result of the one before, except an accumulation into its second operand."""
    to, *sources = views(instr)
    half = len(record.fields) // 2
    repeats = instr.args[-2]
    mask = instr.args[-3]
    if repeats == 1 or not isinstance(mask, int):
        return
    for i, source in enumerate(sources, 1):
        result_strides, source_strides = ((record.fields[k], record.fields[half + k]) for k in (0, i))
        if source != to or any(not isinstance(x, int) for x in (*result_strides, *source_strides)):
            continue
        block, step = source_strides
        blocks = -(-mask * source.elem.itemsize // BLOCK)
        is_accumulation = (
            i == 2
            and 0 in (result_strides[1], step)
            and instr.name in _ACCUMULATING
            and source.elem in (float16, float32, int32)
        )
        assert isinstance(block, int) and isinstance(step, int)
        if (result_strides != source_strides or step <= (blocks - 1) * block) and not is_accumulation:
            yield f"{instr.name}: a repeat reads what the one before it wrote"


def _repeat_counts(kinds: tuple[str, ...], instr: Instr) -> tuple[object, ...]:
    """Return the numbers that say how many elements a vector instruction works on, or how often it repeats."""
    if "Reduce" in instr.name:
        return instr.args[2:4]
    if "uint8_t" in kinds:
        return (instr.args[kinds.index("uint8_t")],)
    return instr.args[-1:] if kinds[-1] in ("int32_t", "uint32_t") else ()


def _repeat_rules(instr: Instr, record: Record | None) -> Iterator[str]:
    """Check counts, strides and masks of a vector instruction."""
    kinds = form_of(instr)
    if pipe_of(instr) == "V" and 0 in _repeat_counts(kinds, instr):
        yield f"{instr.name}: a count or repeatTime of 0 is no operation on some chips alone"
    is_strided = record is not None and any(k in _STRIDED.split() for k in kinds)
    if is_strided and record is not None and record.fields[0] == 0:
        yield f"{instr.name}: dstBlkStride must not be 0"
    if is_strided and record is not None:
        yield from _repeat_dependences(instr, record)
    mask = instr.args[kinds.index("uint64_t")] if "uint64_t" in kinds else None
    if isinstance(mask, int):
        lanes = REPEAT // max(2, *(v.elem.itemsize for v in views(instr)))
        if not 1 <= mask <= lanes:
            yield f"{instr.name}: the mask is between 1 and {lanes} lanes, not {mask}"
