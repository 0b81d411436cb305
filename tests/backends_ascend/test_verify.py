"""The rules of a whole kernel: each has a kernel that breaks it, and what is said of that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pypto.backends.ascend.block.allocate import allocate
from pypto.backends.ascend.block.insert_sync import sync
from pypto.backends.ascend.block.verify import problems, verify
from pypto.backends.ascend.blockir.effects import views
from pypto.backends.ascend.blockir.instructions import RECORDS
from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    Buffer,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Record,
    View,
    While,
    Word,
)  # fmt: skip
from pypto.backends.ascend.target import AscendTarget, ascend_target
from pypto.errors import CompilerBug
from pypto.ir.types import bfloat16, float16, float32, int8, int16, int32, int64, uint8, uint32
from tests.backends_ascend.kernels import X, Y, event, load, scaled, store, summed, ub

B2, A5 = ascend_target("ascend910b2"), ascend_target("ascend950")
A, B = replace(ub("a", 128), address=0), replace(ub("b", 128), address=512)
C = replace(ub("c", 256, dtype=uint8), address=1024)
HALF = replace(ub("h", 128, dtype=float16), address=2048)
NARROW = replace(ub("n", 128, dtype=bfloat16), address=4096)
WHOLE = replace(ub("w", 128, dtype=int32), address=8192)
SHORT = replace(ub("i", 128, dtype=int16), address=20480)
WIDE, LONG = replace(ub("l", 32, dtype=int64), address=28672), Param("long", int64, True)
BYTES = replace(ub("s", 128, dtype=int8), address=16384)
PAIRS = replace(ub("p", 128), address=24576 + 128)
BITS = View(WHOLE, dtype=uint32)
SORT = Instr("Sort32", (View(PAIRS), View(A), BITS, 1), 2)
SUMS = Buffer("sums", "L0C", float32, 256, address=0, layout="NZ")
LEFT = Buffer("left", "L0A", float16, 512, address=0, layout="ZZ")
RIGHT = Buffer("right", "L0B", float16, 512, address=0, layout="ZN")
PANEL = Buffer("panel", "L1", float16, 1024, address=0, layout="NZ")
WORDS = replace(PANEL, name="words", dtype=float32, address=4096, layout="ZZ")
FLAT = replace(LEFT, name="flat", layout="NZ")  # as 3510 has it
NO_PAD = Record((0, 0, 0, 0))
UNUSED = (0,) * (len(RECORDS["MmadParams"].fields) - 5)
FILL = Instr("Duplicate", (View(A), 0.0, 128), 1)
EXP = Instr("Exp", (View(B), View(A), 128), 2)
BARRIER = Instr("PipeBarrier", (Word("PIPE_V"),))
LOAD, STORE = load(View(A), View(X), 128, 3), store(View(Y), View(B), 128, 4)


def exp(*args: object) -> Instr:
    return Instr("Exp", (View(B), View(A), *args), 2)  # type: ignore[arg-type]  # what is wrong may be of any type


def wait(pair: str, number: int = 0) -> tuple[Instr, Instr]:
    return event("SetFlag", pair, number), event("WaitFlag", pair, number)


def sort32(index: View, repeats: int) -> Instr:
    return Instr("Sort32", (View(PAIRS), View(A), index, repeats), 2)


def merge(*how: int) -> Instr:
    """Of lists of 32 pairs; the first one begins where the last number says."""
    fields, begin = how[:7], sum(how[7:])
    lists = tuple(View(A, begin + 64 * k if begin == 0 else begin) for k in range(2))
    return Instr("MrgSort", (View(B), *lists, *lists, Record(fields)), 2)


BROKEN: dict[str, tuple[tuple[Item, ...], str]] = {
    "no such instruction": ((Instr("Sine", (View(A), View(A), 64), 2),), "line 2: there is no instruction Sine"),
    "pairs that no memory is aligned for": ((SORT,), "Sort32: byte 0 of p is no multiple of 256"),
    "indices of another type": ((sort32(View(B), 1),), "Sort32: scores are float16 or float32 as the result is"),
    "scores that lie where the result does": ((Instr("Sort32", (View(A), View(A), BITS, 1), 2),),
        "Sort32: the result is in a buffer that it reads"),
    "no repeats of a sort": ((sort32(BITS, 0),), "Sort32: there are between 1 and 255 repeats, not 0"),
    "a list alone": ((merge(32, 0, 0, 0, 0, 1, 1),), "MrgSort: the first 2, 3 or 4 lists are valid"),
    "a merge that stops": ((merge(32, 32, 0, 0, 1, 3, 1),), "it goes on where one of them ends"),
    "repeats of unequal lists": ((merge(32, 32, 32, 8, 0, 15, 2),), "MrgSort: repeats take four lists of one length"),
    "repeats of lists apart": ((merge(16, 16, 16, 16, 0, 15, 2),), "MrgSort: repeats take four lists of one length"),
    "a list of 4096": ((merge(4096, 8, 0, 0, 0, 3, 1),), "MrgSort: elementLengths[0] is at most 4095, not 4096"),
    "a list between pairs": ((merge(8, 8, 0, 0, 0, 3, 1, 3),), "MrgSort: byte 12 of a is no multiple of 8"),
    "no such form": ((exp(),), "Exp is not called with"),
    "a repeat of 300": ((exp(64, 300, Record((1, 1, 8, 8))),), "Exp is between 0 and 255, not 300"),
    "a stride of 256": ((exp(64, 1, Record((1, 1, 256, 8))),), "dstRepStride is between 0 and 255, not 256"),
    "a stride of no blocks": ((exp(64, 1, Record((0, 1, 8, 8))),), "dstBlkStride must not be 0"),
    "a mask of more than the lanes": ((exp(65, 1, Record((1, 1, 8, 8))),), "between 1 and 64 lanes, not 65"),
    "too many blocks": ((Instr("DataCopyPad", (View(A), View(X), Record((4096, 4, 0, 0, 0)), NO_PAD)),),
                        "blockCount is at most 4095, not 4096"),
    "a block too long": ((Instr("DataCopyPad", (View(A), View(X), Record((1, 1 << 21, 0, 0, 0)), NO_PAD)),),
                         "blockLen is at most 2097151"),
    "too much padding": ((Instr("DataCopyPad", (View(A), View(X), Record((1, 4, 0, 0, 0)), Record((1, 0, 9, 0)))),),
                         "padding is at most 32 bytes"),
    "bfloat16 arithmetic": ((Instr("Exp", (View(NARROW), View(NARROW), 64), 2),), "line 2: Exp has no bfloat16"),
    "a cast that takes two steps": ((Instr("Cast", (View(BYTES), View(A), Word("CAST_RINT"), 64)),),
                                    "no Cast from float32 to int8 in one step"),
    "a cast with a mode that it has not": ((Instr("Cast", (View(SHORT), View(WHOLE), Word("CAST_RINT"), 64)),),
        "a Cast from int32 to int16 does nothing with CAST_RINT: it takes CAST_NONE"),
    "a cast with a mode that some chips have not": (
        (Instr("Cast", (View(C), View(HALF), Word("CAST_NONE"), 64)),), "from float16 to uint8 does nothing with"),
    "a repeat that reads what the one before it wrote": (
        (Instr("Add", (View(A), View(A), View(B), 64, 2, Record((1, 1, 1, 0, 0, 8)))),),
        "Add: a repeat reads what the one before it wrote"),
    "a count of nothing": ((exp(0),), "Exp: a count or repeatTime of 0 is no operation on some chips alone"),
    "a repeat of nothing": ((exp(64, 0, Record((1, 1, 8, 8))),), "Exp: a count or repeatTime of 0"),
    "padding of 64 bits": (
        (Instr("DataCopyPad", (View(WIDE), View(LONG), Record((1, 8, 0, 0, 0)), Record((1, 0, 3, 5)))),),
        "elements of 64 bits are padded with 0 alone"),
    "padding that the engine chooses": (
        (Instr("DataCopyPad", (View(A), View(X), Record((1, 4, 0, 0, 0)), Record((0, 0, 7, 0)))),), "without isPad"),
    "blocks of what they are made of": ((Instr("Brcb", (View(A), View(A), 1, Record((1, 8)))),),
                                        "Brcb: its result may not lie where it reads"),
    "too many rows to fractals": (
        (Instr("DataCopy", (View(PANEL), View(X), Record((1, 16385, 16, 0, 16, 16, 1, 0)))),),
        "DataCopy: nValue is at most 16384, not 16385"),
    "a result of too many columns": (
        (Instr("Fixpipe", (View(Y), View(SUMS), Record((4096, 16, 16, 16, Word("NoQuant"), 0, 1, 0, 0, 0)))),),
        "Fixpipe: nSize is at most 4095, not 4096"),
    "bytes in a block each": ((Instr("Brcb", (View(C), View(C), 1, Record((1, 8)))),), "Brcb has no uint8"),
    "an order of integers": ((Instr("CompareScalar", (View(C), View(WHOLE), 0, Word("LT"), 64)),),
                             "CompareScalar has no int32"),
    "a choice of integers": ((Instr("Select", (View(WHOLE), View(C), View(WHOLE), View(WHOLE),
                                               Word("VSEL_TENSOR_TENSOR_MODE"), 64)),), "Select has no int32"),
    "a comparison of part of a repeat": ((Instr("CompareScalar", (View(C), View(A), 0.0, Word("LT"), 100)),),
                                         "100 elements are no whole repeats"),
    "an operand between blocks": ((Instr("Exp", (View(B, 4), View(A), 64)),), "byte 16 of b is no multiple of 32"),
    "an operand past the end": ((Instr("Exp", (View(B, 64), View(A), 128)),), "bytes 256 to 768 of b, which has 512"),
    "one row on the cube": ((Instr("Mmad", (View(SUMS), View(LEFT), View(LEFT), Record((1, 16, 16, 0, 1, *UNUSED)))),),
                            "one row switches to another layout"),
    "a name from nowhere": ((Instr("Duplicate", (View(A), "s", 64), 5),), "line 5: 's' is read and was not defined"),
    "a name from another side": ((If(True, (Let("s", int32, 1),)), Let("t", int32, "s")), "'s' is read and was not"),
    "a name of another while": (
        (While((Let("s", int32, 1),), "s", ()), While((Let("t", int32, 1),), "t", (Let("u", int32, "s"),))),
        "'s' is read and was not defined"),
    "a sum of nothing": ((Instr("WholeReduceSum", (View(B), View(A), 64, 0, 1, 1, 8)),),
        "WholeReduceSum: a count or repeatTime of 0"),
    "a name twice": ((Let("s", int32, 1), Let("s", int32, 2)), "'s' is defined twice"),
    "a value for no name": ((Assign("s", 1),), "'s' gets a value and was not defined"),
    "a read before the copy is done": ((LOAD, EXP),
        "line 2: a read of UB after a write by line 3 needs an event MTE2_V"),
    "a store before the result is there": ((FILL, BARRIER, EXP, STORE), "needs an event V_MTE3"),
    "an input overwritten too early": ((FILL, LOAD), "a write of UB after a write by line 1 needs an event V_MTE2"),
    "vector instructions that depend on each other": ((FILL, EXP), "needs PipeBarrier<PIPE_V>"),
    "an iteration that overtakes the one before": (
        (Loop("i", 0, 4, 1, (LOAD, *wait("MTE2_V"), EXP)),),
        "a write of UB after a read by line 2 needs an event V_MTE2"),
    "an event set twice": ((wait("S_V")[0], wait("S_V")[0]), "event S_V 0 is set twice"),
    "an event that nobody sets": ((wait("S_V")[1],), "event S_V 0 is waited for and was not set"),
    "an event that is left over": ((wait("S_V")[0],), "event S_V 0 is set and nothing waits for it"),
    "an event of one side": ((FILL, If("p", (wait("V_S")[0],)), wait("V_S")[1]),
        "event V_S 0 is waited for and was not set"),
    "an event's number": (wait("S_V", 8), "between 0 and 7, not 8"),
    "a scalar that comes too soon": ((Instr("SetValue", (View(A, 3), 1.0)), EXP), "needs an event S_V"),
    "two loads into one place": ((LOAD, LOAD), "needs PipeBarrier<PIPE_MTE2>"),
}  # fmt: skip


ALL = (A, B, C, HALF, NARROW, WHOLE, SHORT, WIDE, BYTES, SUMS, LEFT, PANEL)


def kernel(*body: Item, buffers: tuple[Buffer, ...] = ALL) -> BlockKernel:
    return BlockKernel("k", "vector", (X, Y), buffers, (Let("p", int32, 1), *body))


@pytest.mark.parametrize("target", [B2, A5])
@pytest.mark.parametrize("what", [what for what in BROKEN if what.startswith("a cast")])
def test_casts_that_no_chip_has(what: str, target: AscendTarget) -> None:
    body, message = BROKEN[what]
    assert any(message in text for text in problems(kernel(*body), target))


def test_extremes_may_be_carried_in_the_second_operand() -> None:
    carried = Instr("Max", (View(A), View(B), View(A), 64, 2, Record((1, 1, 1, 0, 8, 0))))
    assert not any("a repeat reads" in text for text in problems(kernel(carried), B2))
    assert any("a repeat reads" in text for text in problems(kernel(replace(carried, name="Div")), B2))


@pytest.mark.parametrize("what", BROKEN)
def test_broken_rules(what: str) -> None:
    body, message = BROKEN[what]
    found = problems(kernel(*body), B2)
    assert any(message in text for text in found), found


BUFFERS = {
    "no address": (replace(A, address=None), "the buffer a has no address"),
    "not aligned": (replace(A, address=16), "begins at byte 16 of UB, no multiple of 32"),
    "not aligned in L0C": (replace(SUMS, address=512), "begins at byte 512 of L0C, no multiple of 1024"),
    "past the end": (replace(A, address=188000), "ends at byte 188512 of UB, which has 188160"),
}


@pytest.mark.parametrize("what", BUFFERS)
def test_places_of_buffers(what: str) -> None:
    buffer, message = BUFFERS[what]
    assert any(message in text for text in problems(kernel(buffers=(buffer,)), B2))


def test_what_lives_together_shares_no_memory() -> None:
    over = replace(B, address=256)
    k = kernel(FILL, BARRIER, Instr("Exp", (View(over), View(A), 64), 2), buffers=(A, over))
    assert "line 2: the buffers a and b share memory while both are alive" in problems(k, B2)


LAYOUTS = {
    "L0A of 3510 on 2201": (FLAT, B2, "the buffer flat is NZ, and L0A of ascend910b2 has ZZ"),
    "L0A of 2201 on 3510": (LEFT, A5, "the buffer left is ZZ, and L0A of ascend950 has NZ"),
    "strips of words on 3510": (WORDS, A5, "the buffer words is ZZ, and L1 of ascend950 has NZ"),
    "rows in L1": (replace(PANEL, layout="ND"), B2, "the buffer panel is ND, and L1 of ascend910b2 has NZ or ZZ"),
    "fractals in UB": (replace(A, layout="NZ"), B2, "the buffer a is NZ, and UB of ascend910b2 has ND"),
    "a right operand in another order": (replace(RIGHT, layout="ZZ"), A5, "the buffer right is ZZ, and L0B"),
    "sums in rows": (replace(SUMS, layout="ND"), B2, "the buffer sums is ND, and L0C of ascend910b2 has NZ"),
}


@pytest.mark.parametrize("what", LAYOUTS)
def test_layouts_of_buffers(what: str) -> None:
    buffer, target, message = LAYOUTS[what]
    assert any(message in text for text in problems(kernel(buffers=(buffer,)), target))


def moved(name: str, to: Buffer | Param, source: Buffer | Param, *fields: int) -> Instr:
    return Instr(name, (View(to), View(source), Record(fields)))


def product(left: Buffer, right: Buffer, align: int = 0) -> Instr:
    return Instr("Mmad", (View(SUMS), View(left), View(right), Record((16, 16, 16, 0, 1, 0, align))))


def zeros(to: Buffer) -> Instr:
    return Instr("InitConstValue", (View(to), Record((1, 1, 0, 0))))


STRIPS, IMAGE, WHOLE_PANEL = (0, 1, 1, 0, False), (1, 16, 16, 16, 16, 0, False), (0, 0, 1, 1, 1, 1, False, 0)
SUMS_TO, ROWS_TO, SQUARES = (16, 16, 16, 16, 0, 0, 1, 0, 0, 0), (1, 16, 16, 0, 16, 16, 1, 0), (0, 1, 1, 0, 0)
# An instruction, the chip, and what is said: nothing where it is as that chip has it.
OPERANDS = {
    "a load of strips": (moved("LoadData", LEFT, PANEL, *STRIPS), B2, ""),
    "a load of strips as NZ": (moved("LoadData", FLAT, PANEL, *STRIPS), A5,
        "LoadData takes L0A.ZZ L1.NZ or L0B.ZN L1.NZ, not L0A.NZ L1.NZ"),
    "a load of strips of an operand in strips": (moved("LoadData", LEFT, WORDS, *STRIPS), B2, "not L0A.ZZ L1.ZZ"),
    "a load of an image": (moved("LoadData", FLAT, PANEL, *IMAGE), A5, ""),
    "a load of an image of strips": (moved("LoadData", LEFT, WORDS, *IMAGE), B2, "not L0A.ZZ L1.ZZ"),
    "a load of a panel": (moved("LoadData", FLAT, PANEL, *WHOLE_PANEL), A5, ""),
    "a load of a panel as ZZ": (moved("LoadData", LEFT, PANEL, *WHOLE_PANEL), B2, "not L0A.ZZ L1.NZ"),
    "a load of a panel on 2201": (moved("LoadData", RIGHT, PANEL, *WHOLE_PANEL), B2,
        "ascend910b2 has no LoadData2DParamsV2"),
    "strips turned on 3510": (moved("LoadData", RIGHT, PANEL, 0, 1, 1, 0, True), A5, "are of LoadData2DParamsV2"),
    "squares turned": (moved("LoadDataWithTranspose", LEFT, WORDS, *SQUARES), B2, ""),
    "squares turned into L0A of 3510": (moved("LoadDataWithTranspose", FLAT, PANEL, *SQUARES), A5, "not L0A.NZ L1.NZ"),
    "zeros in L0B": (zeros(RIGHT), B2, ""),
    "zeros in L0B of 3510": (zeros(RIGHT), A5, "ascend950 fills L1 only"),
    "zeros in L0A of 3510": (zeros(FLAT), A5, "not L0A.NZ"),
    "zeros in L0C": (zeros(SUMS), B2, "not L0C.NZ"),
    "a product": (product(LEFT, RIGHT), B2, ""),
    "a product of 3510": (product(FLAT, RIGHT), A5, ""),
    "a product of two left operands": (product(LEFT, LEFT), B2, "not L0C.NZ L0A.ZZ L0A.ZZ"),
    "a product of a panel": (product(PANEL, RIGHT), A5, "not L0C.NZ L1.NZ L0B.ZN"),
    "a product of whole squares": (product(FLAT, RIGHT, 1), A5, "ascend950 has no kDirectionAlign"),
    "sums to GM": (moved("Fixpipe", Y, SUMS, *SUMS_TO), B2, ""),
    "operands to GM": (moved("Fixpipe", Y, LEFT, *SUMS_TO), B2, "Fixpipe takes GM.ND L0C.NZ, not GM.ND L0A.ZZ"),
    "rows to fractals": (moved("DataCopy", PANEL, X, *ROWS_TO), B2, ""),
    "rows to strips": (moved("DataCopy", WORDS, X, *ROWS_TO), B2, ""),
    "rows to strips of more than 16": (moved("DataCopy", WORDS, X, 1, 16, 16, 0, 16, 32, 1, 0), B2,
        "rows become ZZ in strips of 16, not of 32"),
    "rows to fractals in L0A": (moved("DataCopy", LEFT, X, *ROWS_TO), B2, "not L0A.ZZ GM.ND"),
    "fractals as rows": (Instr("DataCopy", (View(PANEL), View(X), 16)), B2, "DataCopy takes ND, not L1.NZ GM.ND"),
    "vector instructions on sums": (Instr("Exp", (View(B), View(SUMS), 64)), B2, "Exp takes ND, not UB.ND L0C.NZ"),
}  # fmt: skip


@pytest.mark.parametrize("what", OPERANDS)
def test_layouts_of_operands(what: str) -> None:
    instr, target, message = OPERANDS[what]
    buffers = tuple({view.of.name: view.of for view in views(instr) if isinstance(view.of, Buffer)}.values())
    found = problems(kernel(instr, buffers=buffers), target)
    assert any(message in text for text in found) if message else found == []


@pytest.mark.parametrize("target", [B2, A5])
@pytest.mark.parametrize("make", [scaled, summed, lambda: scaled(1), lambda: scaled(3)])
def test_whole_kernels_break_none(make: object, target: object) -> None:
    assert callable(make)
    assert problems(sync(allocate(make(), B2), B2), B2) == []


def test_a_broken_kernel_is_a_bug_of_ours() -> None:
    with pytest.raises(CompilerBug, match=r"(?s)breaks rules of ascend910b2.*PipeBarrier<PIPE_V>"):
        verify(kernel(FILL, EXP), B2)


def test_chips_that_order_vector_instructions() -> None:
    assert problems(kernel(FILL, EXP, buffers=(A, B)), A5) == []


@pytest.mark.parametrize(("second", "step", "met"), [(64, 16, False), (56, 16, True), (72, 16, True), (64, 15, True)])
def test_pieces_of_rows_meet_only_where_they_overlap(second: int, step: int, met: bool) -> None:
    """Two instructions write 64 columns each of eight rows, without a barrier between them."""
    source, made = Buffer("source", "UB", float32, 1152, address=0), Buffer("made", "UB", float32, 1152, address=8192)
    pieces = (
        Instr("Muls", (View(made, at), View(source, at), 2.0, 64, 8, Record((1, 1, each, 16))))
        for at, each in ((0, 16), (second, step))
    )
    fill = Instr("Duplicate", (View(source), 1.0, 1152))
    body = (fill, Instr("PipeBarrier", (Word("PIPE_V"),)), *pieces)
    found = problems(replace(kernel(*body), buffers=(source, made)), ascend_target("ascend910b2"))
    assert bool(found) is met
    assert all("PipeBarrier<PIPE_V>" in problem for problem in found)
