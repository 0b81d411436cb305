"""Code generation of one instruction: the call of the API, and statements before it that fill its parameter records."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.effects import form_of, views
from pypto.backends.ascend.blockir.instructions import INSTRUCTIONS, RECORDS, RecordType
from pypto.backends.ascend.blockir.ir import Argument, Expr, Instr, Read, Record, Scalar, View, Word
from pypto.backends.ascend.emit.cxx import CTYPES, Names, argument, place, scalar, tensor, tensor_type
from pypto.errors import CompilerBug
from pypto.ir.types import float8_e4m3fn, float8_e5m2, named

ENUMERATIONS = {"CAST": "RoundMode", "VSEL": "SELMODE", "ORDER": "ReduceOrder"}
PRODUCT_TYPES: Final = MappingProxyType({float8_e4m3fn: "fp8_e4m3fn_t", float8_e5m2: "fp8_e5m2_t"})  # of Mmad alone
TEMPLATE = ("event", "pipe", "mode", "dtype")


def call(instr: Instr, names: Names) -> list[str]:
    """Emit the statements of an instruction, the call last."""
    if instr.name == "SetValue":
        return [_set_value(instr, names)]
    kinds = form_of(instr)
    before, written, template = [], [], list(_output_types(instr))
    for kind, value in zip(kinds, instr.args, strict=True):
        if kind in TEMPLATE:
            template.append(_template(kind, value))
        elif isinstance(value, Record):
            lines, text = _record(RECORDS[kind], value, instr, names)
            before += lines
            written.append(text)
        else:
            written.append(_argument(kind, value, instr, names))
    if together := INSTRUCTIONS[instr.name].sources:
        first, last = INSTRUCTIONS[instr.name].writes, len(views(instr))
        written[first:last] = [f"{together}<{tensor_type(views(instr)[0].elem)}>({', '.join(written[first:last])})"]
    angle = f"<{', '.join(template)}>" if template else ""
    return [*before, f"{instr.name}{angle}({', '.join(written)});"]


def _set_value(instr: Instr, names: Names) -> str:
    view, value = instr.args
    assert isinstance(view, View) and isinstance(value, bool | int | float | str | Expr | Read)
    return f"{tensor(view, names, bare=True)}.SetValue({place(view, names)}, {_number('T', value, instr, names)});"


def _output_types(instr: Instr) -> Iterator[str]:
    """Yield the template arguments of Fixpipe: types of its operands, and the layout of what it writes."""
    if instr.name == "Fixpipe":
        yield from (tensor_type(view.elem) for view in views(instr))
        yield "CFG_ROW_MAJOR" if views(instr)[0].space == "GM" else "CFG_NZ"


def _template(kind: str, value: Argument) -> str:
    text = value.text if isinstance(value, Word) else str(value)
    dtype = named(text) if kind == "dtype" else None
    return f"HardEvent::{text}" if kind == "event" else tensor_type(dtype) if dtype else text


def _argument(kind: str, value: Argument, instr: Instr, names: Names) -> str:
    if isinstance(value, View):
        ctype = PRODUCT_TYPES.get(value.elem) if instr.name == "Mmad" else None  # to all other instructions, bytes
        return tensor(value, names) + (f".ReinterpretCast<{ctype}>()" if ctype else "")
    if isinstance(value, Word):
        return word(value)
    if isinstance(value, Record):
        raise CompilerBug(f"{instr.name} has a record where it takes {kind}")
    text, ctype = _number(kind, value, instr, names), _ctype(kind, instr)
    deduced = kind in ("T", "S") and ctype not in ("float", "int32_t", "bool")  # a literal would make it another type
    return text if not deduced or text.startswith("static_cast") else f"static_cast<{ctype}>({text})"


def word(value: Word) -> str:
    """Qualify a constant of the API with its enumeration."""
    begin = value.text.split("_")[0]
    if begin in ("LT", "GT", "EQ", "LE", "GE", "NE"):
        return f"CMPMODE::{value.text}"
    return f"{ENUMERATIONS[begin]}::{value.text}" if begin in ENUMERATIONS else value.text


def _number(kind: str, value: Scalar, instr: Instr, names: Names) -> str:
    if kind.endswith("&"):
        return scalar(value, names).text
    if instr.name in ("SetFlag", "WaitFlag") and not isinstance(value, int):
        return f"static_cast<TEventID>({scalar(value, names).text})"
    ctype = _ctype(kind, instr)
    text = argument(value, ctype, names)
    # A template finds its type by the tensor and by the number, which must agree.
    if kind in ("T", "S") and isinstance(value, str | Expr | Read):
        code = scalar(value, names)
        return f"static_cast<{ctype}>({text})" if code.text == text and CTYPES[code.dtype.mnemonic] != ctype else text
    exact = not isinstance(value, int) or kind not in ("T", "S") or ctype in ("int32_t", "float")
    return text if exact or text.startswith("static_cast") else f"static_cast<{ctype}>({text})"


def _ctype(kind: str, instr: Instr) -> str:
    """Return the C++ type of a number: its own kind, or the element type of an operand."""
    if kind in ("T", "S"):
        found = views(instr)
        return tensor_type(found[min(1, len(found) - 1) if kind == "S" else 0].elem)
    return kind


def _record(kind: RecordType, value: Record, instr: Instr, names: Names) -> tuple[list[str], str]:
    """Emit a parameter record: statements before the call, and the argument."""
    element = tensor_type(views(instr)[0].elem)
    if kind.variable:
        return _by_name(kind, value, instr, names)
    fields = zip(kind.fields, value.fields, strict=True)
    texts = ", ".join(_field(f.ctype, x, instr, names) for f, x in fields)
    return [], f"{kind.name.replace('<T>', f'<{element}>') if kind.spelled else ''}{{{texts}}}"


def _field(ctype: str, value: Scalar | Word, instr: Instr, names: Names) -> str:
    if isinstance(value, Word):
        return word(value)
    if ctype == "bool" and isinstance(value, int):
        return "true" if value else "false"
    return _number(ctype, value, instr, names)


def _by_name(kind: RecordType, value: Record, instr: Instr, names: Names) -> tuple[list[str], str]:
    """Emit a record as a variable, with assignments to the fields that differ from their defaults."""
    name = names.fresh(kind.variable)
    written = kind.name.replace("<T>", f"<{tensor_type(views(instr)[0].elem)}>")
    lines = [f"{written} {name};"]
    for field, x in zip(kind.fields, value.fields, strict=True):
        if isinstance(x, int) and x == field.default and field.ctype != "QuantMode_t":
            continue
        if field.ctype == "QuantMode_t" and not isinstance(x, Word):
            continue
        lines.append(f"{name}.{field.name} = {_field(field.ctype, x, instr, names)};")
    return lines, name
