"""Access extents: how many bytes an instruction touches from the begin of an operand on.

The dependence analysis, the verifier and the race checker ask this. An extent is an upper bound; None stands for all
that follows, where a count depends on data.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto.backends.ascend.blockir.affine import upper_bound
from pypto.backends.ascend.blockir.effects import form_of, views
from pypto.backends.ascend.blockir.ir import Expr, Instr, Record, Scalar, View

Resolver = Callable[[Scalar], Scalar]  # replaces names by their definitions
BLOCK = 32  # bytes of the smallest unit that the engines address in local memory
_COUNTED = (
    " Add Sub Max Min Mul Div And Or Not MulAddDst Axpy Adds Muls Maxs Mins LeakyRelu ShiftLeft ShiftRight Exp Ln Sqrt"
    " Rsqrt Reciprocal Abs Relu Duplicate Cast Gather "
)
_STRIDED_FORMS = ("BinaryRepeatParams", "UnaryRepeatParams", "CopyRepeatParams")


def access_bytes(instr: Instr, operand: int, resolve: Resolver) -> int | None:
    """Return the most bytes that an instruction touches from the begin of an operand on, None for all that follow."""
    view = views(instr)[operand]
    if instr.name == "SetValue":
        return view.elem.itemsize
    if instr.name == "DataCopyPad":
        return _copy_bytes(instr, view, resolve)
    if instr.name == "Gather" and operand == 1:
        return None
    if instr.name in ("Sort32", "MrgSort"):
        return _sort_bytes(instr, operand)
    if f" {instr.name} " in _COUNTED and form_of(instr)[-1] in ("int32_t", "uint32_t"):
        count = upper_bound(resolve(_scalar(instr.args[-1])))
        return None if count is None else count * view.elem.itemsize
    return _repeat_bytes(instr, operand, resolve)


def _sort_bytes(instr: Instr, operand: int) -> int | None:
    """Return the extent of a sort's operand: 32 pairs of 8 bytes in each repeat, or as many pairs as the lists have."""
    config = instr.args[-1]
    if not isinstance(config, Record):
        each = 8 if operand == 0 else views(instr)[operand].elem.itemsize
        return 32 * each * config if isinstance(config, int) else None
    *lengths, _, _, repeats = config.fields
    if not isinstance(repeats, int) or not all(isinstance(x, int) for x in lengths):
        return None
    sizes = [8 * x for x in lengths if isinstance(x, int)]
    return sum(sizes) * repeats if operand == 0 else sum(sizes) * (repeats - 1) + sizes[operand - 1]


def _repeat_bytes(instr: Instr, operand: int, resolve: Resolver) -> int | None:
    """Return the extent of a strided operand: so many blocks in each repeat, at strides between blocks and repeats."""
    record = instr.args[-1]
    if form_of(instr)[-1] not in _STRIDED_FORMS or len({v.elem.itemsize for v in views(instr)}) > 1:
        return None
    assert isinstance(record, Record)
    field_count = len(record.fields) // 2
    numbers = (*instr.args[-3:-1], record.fields[operand], record.fields[field_count + operand])
    mask, repeats, block, step = (upper_bound(resolve(_scalar(x))) for x in numbers)
    if mask is None or repeats is None or block is None or step is None:
        return None
    blocks = -(-mask * views(instr)[operand].elem.itemsize // BLOCK)
    return ((blocks - 1) * block + (repeats - 1) * step + 1) * BLOCK


def repeat_stride_of(instr: Instr, operand: int) -> tuple[int, int] | None:
    """Return the stride between repeats and the bytes that one repeat touches, for operands in whole blocks."""
    form = form_of(instr)
    if form[-1] not in ("BinaryRepeatParams", "UnaryRepeatParams") or form[-3:-1] != ("uint64_t", "uint8_t"):
        return None
    *_, mask, _, config = instr.args
    assert isinstance(config, Record)
    step = config.fields[len(config.fields) // 2 + operand]
    size = views(instr)[operand].elem.itemsize
    if config.fields[operand] != 1 or not isinstance(step, int) or not isinstance(mask, int):
        return None
    return step * BLOCK, -(-mask * size // BLOCK) * BLOCK


def _copy_bytes(instr: Instr, view: View, resolve: Resolver) -> int | None:
    """Return the extent of a DataCopyPad's operand: rows with gaps, in UB rounded up to whole blocks."""
    sizes = instr.args[2]
    assert isinstance(sizes, Record)
    rows, length, *gaps = (upper_bound(resolve(_scalar(x))) for x in sizes.fields[:4])
    row_gap = gaps[1] if view is views(instr)[0] else gaps[0]
    if rows is None or length is None or (row_gap is None and rows > 1):
        return None
    if view.space == "GM":
        return length + (rows - 1) * (length + (row_gap or 0))
    row = -(-length // BLOCK) * BLOCK
    return row + (rows - 1) * (row + (row_gap or 0) * BLOCK)


def _scalar(value: object) -> Scalar:
    """Return an argument as a number; any other value becomes an unknown name."""
    return value if isinstance(value, int | str | Expr) else "?"
