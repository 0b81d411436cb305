"""The words of the kernel language for each op of Tile IR, with as few parentheses as Python needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.ir import InvalidIR
from pypto.ir.core import Op
from pypto.ir.types import DType, Elem
from pypto.ops.table import ARG_REDUCTIONS, REDUCTIONS, SCANS, TABLE

COMPARISON: Final = 1
OR: Final = 2
XOR: Final = 3
AND: Final = 4
SHIFT: Final = 5
SUM: Final = 6
PRODUCT: Final = 7
UNARY: Final = 8
ATOM: Final = 9

INFIX: Final = MappingProxyType({
    "eq": ("==", COMPARISON), "ne": ("!=", COMPARISON), "lt": ("<", COMPARISON), "le": ("<=", COMPARISON),
    "gt": (">", COMPARISON), "ge": (">=", COMPARISON), "or_": ("|", OR), "xor": ("^", XOR), "and_": ("&", AND),
    "shl": ("<<", SHIFT), "shr": (">>", SHIFT), "add": ("+", SUM), "sub": ("-", SUM), "addptr": ("+", SUM),
    "mul": ("*", PRODUCT), "div": ("/", PRODUCT), "floordiv": ("//", PRODUCT), "rem": ("%", PRODUCT),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class CallText:
    """An expression as text, and how tightly its outermost operator binds."""

    text: str
    level: int = ATOM


def atom(x: CallText, level: int) -> str:
    """The text, in parentheses if its operator binds less tightly than a level."""
    return x.text if x.level >= level else f"({x.text})"


def precedence(number: str) -> int:
    return UNARY if number.startswith("-") else ATOM


def type_text(type: Elem) -> str:
    """A type as an expression of the language."""
    return type.expression if isinstance(type, DType) else repr(type)


def number_text(value: Any, dtype: DType) -> str:
    """A constant as Python writes it; what has no literal is made of one."""
    if dtype.is_bool:
        return str(bool(value))
    if not dtype.is_float:
        return str(int(value))
    number = float(value)
    if math.isnan(number):
        return 'float("nan")'
    if math.isinf(number):
        return 'float("inf")' if number > 0 else '-float("inf")'
    return repr(number)


def axes_text(axes: Sequence[int]) -> str:
    return str(axes[0]) if len(axes) == 1 else str(tuple(axes))


def slice_text(op: Op) -> str:
    """The subscript of a static slice."""
    parts = []
    for start, size, step in zip(op.attrs["starts"], op.attrs["shape"], op.attrs["steps"], strict=True):
        stop = start + size * step
        end = "" if stop < 0 else str(stop)
        parts.append(f"{start}:{end}" + (f":{step}" if step != 1 else ""))
    return ", ".join(parts)


def keyword_text(op: Op, *names: str) -> str:
    """Attributes that are true, as keywords of a call."""
    return "".join(f", {name}=True" for name in names if op.attrs[name])


def reduction(op: Op, x: CallText) -> str:
    return f"pto.{op.name}({x.text}, axis={axes_text(op.attrs['axes'])}{keyword_text(op, 'keep_dims')})"


def scan(op: Op, x: CallText) -> str:
    return f"pto.{op.name}({x.text}, axis={op.attrs['axis']}{keyword_text(op, 'reverse')})"


def extremum(op: Op, x: CallText, y: CallText) -> str:
    return f"pto.{op.name}({x.text}, {y.text}{keyword_text(op, 'propagate_nan')})"


def dot(op: Op, *operands: CallText) -> str:
    precision = {1: "", 2: ', input_precision="bf16x3"', 3: ', input_precision="bf16x6"'}[op.attrs.get("parts", 1)]
    return f"pto.dot({', '.join(x.text for x in operands)}{precision})"


def of_program(op: Op) -> str:
    return f"pto.{op.name}({op.attrs['axis']})"


_CALLS: Final[Mapping[str, Callable[..., str]]] = MappingProxyType({
    "cast": lambda op, x: f"pto.cast({x.text}, {type_text(op.attrs['dtype'])})",
    "bitcast": lambda op, x: f"pto.bitcast({x.text}, {type_text(op.attrs['dtype'])})",
    "array_ptr": lambda op, x: x.text,
    "array_shape": lambda op, x: f"{x.text}.shape[{op.attrs['dim']}]",
    "array_stride": lambda op, x: f"{x.text}.strides[{op.attrs['dim']}]",
    "program_id": of_program,
    "num_programs": of_program,
    "arange": lambda op: f"pto.arange({op.attrs['start']}, {op.attrs['end']})",
    "reshape": lambda op, x: f"pto.reshape({x.text}, {op.attrs['shape']})",
    "broadcast_to": lambda op, x: f"pto.broadcast_to({x.text}, {op.attrs['shape']})",
    "permute": lambda op, x: f"pto.permute({x.text}, {op.attrs['dims']})",
    "slice": lambda op, x: f"{atom(x, ATOM)}[{slice_text(op)}]",
    "gather": lambda op, x, index: f"pto.gather({x.text}, {index.text}, axis={op.attrs['axis']})",
    "sort_keys": lambda op, x: f"ordering.sort_keys({x.text})",
    "dot": dot,
    "maximum": extremum,
    "minimum": extremum,
    **dict.fromkeys((*REDUCTIONS, *ARG_REDUCTIONS), reduction),
    **dict.fromkeys(SCANS, scan),
})  # fmt: skip
_PREFIX: Final = MappingProxyType({"neg": "-", "not_": "~"})


def call_text(op: Op, operands: Sequence[CallText]) -> CallText:
    """The expression of an op that is no operator between two operands.

    Raises
    ------
    InvalidIR
        For an op that the kernel language has no words for.
    """
    if op.name in _PREFIX:
        return CallText(f"{_PREFIX[op.name]}{atom(operands[0], UNARY)}", UNARY)
    if op.name in _CALLS:
        return CallText(_CALLS[op.name](op, *operands))
    return named(op, [x.text for x in operands])


def named(op: Op, words: Sequence[str]) -> CallText:
    """A call by the op's name."""
    row = TABLE[op.name]
    plain = row.elementwise and not op.attrs
    if not plain:
        raise InvalidIR(op.loc, op=op.name, problem="the kernel language has no words for it")
    module = "pto" if row.public else "libdevice"
    return CallText(f"{module}.{op.name}({', '.join(words)})")
