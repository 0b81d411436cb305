"""Instruction table of Block IR: for each instruction its unit, the operands it reads and writes, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

PIPES: Final = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")
EVENTS: Final = frozenset(  # for other pairs there are barriers
    f"{of}_{to}"
    for of, targets in {
        "S": "V MTE2 MTE3",
        "V": "S V M MTE1 MTE2 MTE3",
        "M": "S V MTE1 MTE2 FIX",
        "MTE1": "V M MTE2 MTE3 FIX",
        "MTE2": "S V M MTE1 MTE3 FIX",
        "MTE3": "S V MTE1 MTE2",
        "FIX": "S M MTE1 MTE2 MTE3 FIX",
    }.items()
    for to in targets.split()
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a parameter structure: its C++ type and its default."""

    name: str
    ctype: str
    default: int = 0


@dataclass(frozen=True, slots=True)
class RecordType:
    """A parameter structure.

    A `variable` structure is set field by field, because the API's headers list its fields in another order than its
    documentation does; `variable` is its name in the text. `spelled` structures have their type written at the call,
    where overloads would be ambiguous. `limits` are the greatest values of the fields, in their order, where their
    types hold more than chips take.
    """

    name: str
    fields: tuple[Field, ...]
    variable: str = ""
    spelled: bool = False
    limits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of a vector instruction: `head`, and `repeat` for every 256 bytes."""

    head: float
    repeat: float


@dataclass(frozen=True, slots=True)
class Instruction:
    """A row of the table.

    `forms` are the ways to call it, a word for each argument: ``v`` a view, ``w`` a word, the name of a record, or the
    C++ type of a number, where ``T`` is the element type of the first view and ``S`` that of the second.
    `aligned` are the bytes that views begin at multiples of, where that is not a block of 32 for all of them.
    `pipe` is empty where the operands' places decide it. The first `writes` views are written, the others read; with
    `accumulates`, what is written is read as well. `dtypes` are those that every chip has. `places` say for each form
    where its views may lie, and how, way after way; where nothing is said, all of them are plain. `sources` is the
    structure that holds the views which are read, where the API takes them so.
    """

    name: str
    forms: tuple[str, ...]
    pipe: str
    writes: int = 1
    accumulates: bool = False
    dtypes: str = ""
    cost: Cost = Cost(24, 1)
    places: tuple[str, ...] = ()
    aligned: tuple[int, ...] = ()
    sources: str = ""


def record(
    name: str, fields: str, variable: str = "", spelled: bool = False, limits: tuple[int, ...] = ()
) -> RecordType:
    """A structure from ``name:type`` or ``name:type=default`` for each field."""
    made = []
    for text in fields.split():
        field, _, rest = text.partition(":")
        ctype, _, default = rest.partition("=")
        made.append(Field(field, ctype, int(default or 0)))
    return RecordType(name, tuple(made), variable, spelled, limits)


_BLOCKS, _BYTES, _MOST = 4095, (1 << 21) - 1, 65535
_RECORDS: Final = (
    record("BinaryRepeatParams", "dstBlkStride:uint8_t src0BlkStride:uint8_t src1BlkStride:uint8_t"
        " dstRepStride:uint8_t src0RepStride:uint8_t src1RepStride:uint8_t"),
    record("UnaryRepeatParams", "dstBlkStride:uint16_t srcBlkStride:uint16_t"
        " dstRepStride:uint8_t srcRepStride:uint8_t"),
    record("CopyRepeatParams", "dstStride:uint16_t srcStride:uint16_t dstRepeatSize:uint16_t srcRepeatSize:uint16_t",
        limits=(_MOST, _MOST, _BLOCKS, _BLOCKS)),
    record("BrcbRepeatParams", "dstBlkStride:uint16_t dstRepStride:uint16_t"),
    record("GatherMaskParams", "src0BlockStride:uint8_t repeatTimes:uint16_t src0RepeatStride:uint16_t"
        " src1RepeatStride:uint8_t"),
    record("DataCopyParams", "blockCount:uint16_t blockLen:uint16_t srcGap:uint16_t dstGap:uint16_t", spelled=True,
        limits=(_BLOCKS,)),
    record("DataCopyExtParams", "blockCount:uint16_t blockLen:uint32_t srcStride:uint32_t dstStride:uint32_t"
        " rsv:uint32_t", spelled=True, limits=(_BLOCKS, _BYTES)),
    record("DataCopyPadExtParams<T>", "isPad:bool leftPadding:uint8_t rightPadding:uint8_t paddingValue:T",
        spelled=True),
    record("Nd2NzParams", "ndNum:uint16_t nValue:uint16_t dValue:uint16_t srcNdMatrixStride:uint16_t"
        " srcDValue:uint16_t dstNzC0Stride:uint16_t dstNzNStride:uint16_t dstNzMatrixStride:uint16_t", spelled=True,
        limits=(_BLOCKS, 1 << 14, _MOST, _MOST, _MOST, 1 << 14, 1 << 14, 1 << 14)),
    record("LoadData2DParams", "startIndex:uint16_t repeatTimes:uint8_t srcStride:uint16_t dstGap:uint16_t"
        " ifTranspose:bool", variable="loadParams"),
    record("LoadData2DParamsV2", "mStartPosition:uint32_t kStartPosition:uint32_t mStep:uint16_t kStep:uint16_t"
        " srcStride:int32_t dstStride:uint16_t ifTranspose:bool sid:uint8_t", variable="loadParams"),
    record("LoadData3DParamsV2<T>", "l1H:uint16_t l1W:uint16_t channelSize:uint16_t kExtension:uint16_t"
        " mExtension:uint16_t mStartPt:uint16_t enTranspose:bool", variable="loadParams"),
    record("LoadData2dTransposeParams", "startIndex:uint16_t repeatTimes:uint8_t srcStride:uint16_t dstGap:uint16_t"
        " dstFracGap:uint16_t", variable="loadParams"),
    record("InitConstValueParams<T>", "repeatTimes:uint16_t blockNum:uint16_t dstGap:uint16_t initValue:T",
        spelled=True, limits=((1 << 15) - 1,) * 3),
    record("MmadParams", "m:uint16_t n:uint16_t k:uint16_t unitFlag:uint8_t cmatrixInitVal:bool=1 cmatrixSource:bool"
        " kDirectionAlign:bool", variable="mmadParams", limits=(4095, 4095, 4095)),
    record("FixpipeParamsV220", "nSize:uint16_t mSize:uint16_t srcStride:uint16_t dstStride:uint32_t"
        " quantPre:QuantMode_t reluEn:bool ndNum:uint16_t=1 srcNdStride:uint16_t dstNdStride:uint16_t"
        " unitFlag:uint8_t", variable="fixpipeParams", limits=(4095, 8192)),
    record("MrgSort4Info", "elementLengths[0]:uint16_t elementLengths[1]:uint16_t elementLengths[2]:uint16_t"
        " elementLengths[3]:uint16_t ifExhaustedSuspension:bool validBit:uint16_t repeatTimes:uint8_t=1",
        variable="mergeInfo", limits=(4095,) * 4),
)  # fmt: skip
RECORDS: Final = MappingProxyType({row.name: row for row in _RECORDS})

_ARITHMETIC, _FLOATS, _BITS = "int16 float16 int32 float32", "float16 float32", "int16 uint16"
_SHIFTED = "int16 uint16 int32 uint32"
_MOVED = "int16 uint16 float16 bfloat16 int32 uint32 float32"
_BINARY = ("v v v int32_t", "v v v uint64_t uint8_t BinaryRepeatParams")
_UNARY = ("v v int32_t", "v v uint64_t uint8_t UnaryRepeatParams")
_SCALAR = ("v v S int32_t", "v v S uint64_t uint8_t UnaryRepeatParams")
_CAST = ("v v w uint32_t", "v v w uint64_t uint8_t UnaryRepeatParams")
_FILL = ("v T int32_t", "v T uint64_t uint8_t uint16_t uint8_t")
_REDUCE = ("v v int32_t int32_t int32_t int32_t int32_t",)  # whole: mask, repeat; block and pair: repeat, mask


def vector(
    names: str, forms: tuple[str, ...], dtypes: str, head: float, repeat: float, accumulates: bool = False
) -> tuple[Instruction, ...]:
    cost = Cost(head, repeat)
    return tuple(Instruction(n, forms, "V", dtypes=dtypes, cost=cost, accumulates=accumulates) for n in names.split())


def scalar(names: str, *forms: str) -> tuple[Instruction, ...]:
    return tuple(Instruction(n, forms, "S", writes=0) for n in names.split())


# Cycles: the fits for 910B3 of the published cost models, less what bank conflicts add to them.
_ROWS: Final = (
    *vector("Add Sub Max Min", _BINARY, _ARITHMETIC, 22, 1),
    *vector("Mul", _BINARY, _ARITHMETIC, 23, 1),
    *vector("Div", _BINARY, _FLOATS, 31, 4),
    *vector("And Or", _BINARY, _BITS, 20, 1),
    *vector("Not", _UNARY, _BITS, 20, 1),
    *vector("MulAddDst", _BINARY, _FLOATS, 25, 1, accumulates=True),
    *vector("Axpy", _SCALAR, _FLOATS, 25, 1, accumulates=True),
    *vector("Adds", _SCALAR, _ARITHMETIC, 31, 1),
    *vector("Muls Maxs Mins", _SCALAR, _ARITHMETIC, 26, 1),
    *vector("LeakyRelu", _SCALAR, _FLOATS, 26, 1),
    *vector("ShiftLeft ShiftRight", _SCALAR, _SHIFTED, 26, 1),
    *vector("Exp Ln", _UNARY, _FLOATS, 31, 2),
    *vector("Sqrt Rsqrt Reciprocal Abs", _UNARY, _FLOATS, 28, 1),
    *vector("Relu", _UNARY, "float16 float32 int32", 24, 1),
    *vector("Duplicate", _FILL, _MOVED, 24, 1),
    *vector("Copy", ("v v uint64_t uint8_t CopyRepeatParams",), _MOVED, 24, 1),
    *vector("Cast", _CAST, "", 27, 0.9),
    *vector("Compare", ("v v v w uint32_t",), "", 26, 1),
    *vector("CompareScalar", ("v v S w uint32_t",), "", 26, 1),
    *vector("Select", ("v v v v w uint32_t", "v v v T w uint32_t"), "", 26, 1),
    *vector("WholeReduceSum", _REDUCE, _FLOATS, 46, 7),
    *vector("WholeReduceMax WholeReduceMin", (f"{_REDUCE[0]} w",), _FLOATS, 46, 7),
    *vector("BlockReduceSum BlockReduceMax BlockReduceMin PairReduceSum", _REDUCE, _FLOATS, 38, 1),
    *vector("Brcb", ("v v uint8_t BrcbRepeatParams",), _MOVED, 18, 1),
    *vector("Gather", ("v v v uint32_t uint32_t",), _MOVED, 26, 13),
    *vector("GatherMask", ("v v v bool uint32_t GatherMaskParams uint64_t&",
        "v v uint8_t bool uint32_t GatherMaskParams uint64_t&"), "", 26, 1),
    *vector("Transpose", ("v v",), "int16 uint16 float16", 26, 1),
    # A repeat of Sort32 is 32 pairs, one of MrgSort 128 of what it merges, however long the lists are.
    Instruction("Sort32", ("v v v int32_t",), "V", dtypes=f"{_FLOATS} uint32", cost=Cost(20, 16),
        aligned=(256, 128, 128)),
    Instruction("MrgSort", ("v v v v v MrgSort4Info",), "V", dtypes=_FLOATS, cost=Cost(20, 78),
        aligned=(32, 8, 8, 8, 8), sources="MrgSortSrcList"),
    Instruction("DataCopyPad", ("v v DataCopyExtParams DataCopyPadExtParams<T>", "v v DataCopyExtParams"), ""),
    Instruction("DataCopy", ("v v uint32_t", "v v DataCopyParams", "v v Nd2NzParams"), "",
        places=("", "", "L1.NZ GM.ND | L1.ZZ GM.ND")),
    Instruction("LoadData", ("v v LoadData2DParams", "v v LoadData3DParamsV2<T>", "v v LoadData2DParamsV2"), "MTE1",
        places=("L0A.ZZ L1.NZ | L0B.ZN L1.NZ", "L0A.ZZ L1.NZ | L0A.NZ L1.NZ | L0B.ZN L1.NZ",
                "L0A.NZ L1.NZ | L0B.ZN L1.NZ")),
    Instruction("LoadDataWithTranspose", ("v v LoadData2dTransposeParams",), "MTE1",
        places=("L0A.ZZ L1.NZ | L0A.ZZ L1.ZZ | L0B.ZN L1.NZ | L0B.ZN L1.ZZ",)),
    Instruction("InitConstValue", ("v InitConstValueParams<T>",), "",
        places=("L1.NZ | L1.ZZ | L0A.ZZ | L0B.ZN",)),
    Instruction("Mmad", ("v v v MmadParams", "v v v v MmadParams"), "M", accumulates=True,
        places=("L0C.NZ L0A.ZZ L0B.ZN | L0C.NZ L0A.NZ L0B.ZN",
                "L0C.NZ L0A.ZZ L0B.ZN BT.ND | L0C.NZ L0A.NZ L0B.ZN BT.ND")),
    Instruction("Fixpipe", ("v v FixpipeParamsV220",), "FIX", places=("GM.ND L0C.NZ",)),
    Instruction("SetValue", ("v T",), "S"),
    *scalar("SetFlag WaitFlag", "event int32_t"),
    *scalar("PipeBarrier", "pipe"),
    *scalar("SetAtomicAdd SetAtomicMax SetAtomicMin", "dtype"),
    *scalar("SetAtomicNone", ""),
    *scalar("SetMMLayoutTransform", "bool"),
    *scalar("CrossCoreSetFlag", "mode pipe uint16_t"),
    *scalar("CrossCoreWaitFlag", "uint16_t", "mode pipe uint16_t"),
    *scalar("SyncAll", ""),
)  # fmt: skip
INSTRUCTIONS: Final = MappingProxyType({row.name: row for row in _ROWS})
# What one Cast brings together, and how it may round, on every chip: with any other mode the instruction does nothing.
_ROUNDS: Final = "CAST_RINT CAST_FLOOR CAST_CEIL CAST_ROUND CAST_TRUNC"
_CASTS: Final = (
    ("int8 uint8", "float16", "CAST_NONE"),
    ("int16", "float16", _ROUNDS),
    ("int16 float16 bfloat16", "float32", "CAST_NONE"),
    ("int32", "int16 int64", "CAST_NONE"),
    ("int64", "int32", "CAST_NONE"),
    ("int32 int64 float32", "float32", _ROUNDS),
    ("float16", "int8 uint8 int16 int32", _ROUNDS),
    ("bfloat16", "int32", _ROUNDS),
    ("float32", "int16 int32 int64 bfloat16", _ROUNDS),
    ("float32", "float16", f"CAST_NONE CAST_ODD {_ROUNDS}"),
)
CASTS: Final = MappingProxyType({
    (a, b): tuple(modes.split()) for of, to, modes in _CASTS for a in of.split() for b in to.split()
})  # fmt: skip
EVENTS_EACH: Final = 6  # of the eight events between two units, the last two are the system's
