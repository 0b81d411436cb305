"""Unparsing: Tile IR as the source of a kernel that one could have written.

A pass that derives a kernel hands it down as source, so that everything that works on kernels works on it, and people
can read, copy and change it. The front end makes of the text a function with the same meaning. Constants, shapes and
facts that the IR was specialized on stand in the text as numbers.

    %8: tile<100xf32> = mul %t, %t                    v = pto.sum(t * t, axis=0)
    %9: f32 = sum %8 {axes = [0], keep_dims = false}
"""

from __future__ import annotations

import keyword
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pypto.errors.ir import InvalidIR
from pypto.frontend.unparse_ops import (
    AND,
    COMPARISON,
    INFIX,
    PRODUCT,
    SUM,
    CallText,
    atom,
    call_text,
    number_text,
    precedence,
)
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import ArrayType
from pypto.ops.memory import UNBOUNDED, Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE

_WIDTH: Final = 100  # characters of an expression that stands inside another one
_PLAIN: Final = frozenset(
    {"constant", "array_ptr", "array_shape", "array_stride", "program_id", "num_programs", "broadcast_to"}
)


def unparse(function: Function, doc: str = "") -> str:
    """The source of a kernel, without its decorator.

    Parameters
    ----------
    function : Function
        Verified Tile IR whose arguments are arrays and scalars.
    doc : str, optional
        The docstring of the kernel.

    Returns
    -------
    str
        ``def NAME(ARGUMENTS):`` and its body.

    Raises
    ------
    InvalidIR
        For an op that the kernel language has no words for.
    """
    return _Unparser(function).text(doc)


@dataclass
class _Unparser:
    function: Function
    names: dict[Value, str] = field(default_factory=dict)
    inlined: dict[Value, CallText] = field(default_factory=dict)
    used_names: set[str] = field(default_factory=lambda: {"pto"})
    uses: Counter[Value] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)
    indent: int = 1

    def text(self, doc: str) -> str:
        for op in self.function.walk():
            self.uses.update(op.operands)
        arguments = ", ".join(self.name(arg) for arg in self.function.args)
        self.lines.append(f"def {self.function.name}({arguments}):")
        if doc:
            self.emit(f'"""{doc}"""')
        self.region(self.function.body)
        if len(self.lines) == 1 + bool(doc):
            self.emit("pass")
        return "\n".join(self.lines) + "\n"

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    # --- names ----------------------------------------------------------------------------------------------------

    def name(self, v: Value, wanted: str = "") -> str:
        """The variable of a value: its name in the user's source where it has one."""
        if v not in self.names:
            stem = wanted or v.hint or "t"
            stem = stem if stem.isidentifier() and not keyword.iskeyword(stem) else "t"
            self.names[v] = self.fresh(stem)
        return self.names[v]

    def fresh(self, stem: str) -> str:
        name, n = stem, 0
        while name in self.used_names:
            n += 1
            name = f"{stem}_{n}"
        self.used_names.add(name)
        return name

    def operand(self, v: Value) -> CallText:
        """The text of a value where it is used."""
        if v in self.inlined:
            return self.inlined[v]
        return CallText(self.name(v))

    def words(self, v: Value) -> str:
        return self.operand(v).text

    # --- statements -----------------------------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        for op in region.body:
            self.statement(op)

    def statement(self, op: Op) -> None:
        if op.name in ("for", "if"):
            getattr(self, f"{op.name}_statement")(op)
        elif op.name in ("tile_store", "store"):
            self.store(op)
        elif op.name.startswith("atomic_"):
            self.atomic(op)
        elif not op.results:
            raise InvalidIR(op.loc, op=op.name, problem="the kernel language has no statement for it")
        else:
            self.value(op)

    def value(self, op: Op) -> None:
        """An op with a result: a part of the expression that uses it, or a variable."""
        text = self.expression(op)
        result = op.result
        is_effect = TABLE[op.name].effect is not Effect.PURE
        once = self.uses[result] == 1 and not is_effect and len(text.text) < _WIDTH and not result.hint
        if op.name in _PLAIN or once:
            self.inlined[result] = text
        elif is_effect and not self.uses[result]:
            self.emit(text.text)
        else:
            self.emit(f"{self.name(result, self.stem(op))} = {text.text}")

    def stem(self, op: Op) -> str:
        """The name of a variable that has none in the user's source: a load is called after its array."""
        pointer = op.operands[0] if TABLE[op.name].effect is Effect.READ else None
        while pointer is not None and pointer.op is not None:
            pointer = pointer.op.operands[0] if pointer.op.operands else None
        return op.result.hint or (f"{pointer.hint}_tile" if pointer is not None else "")

    def for_statement(self, op: Op) -> None:
        region = op.regions[0]
        carried = region.args[1:]
        for arg, start, result in zip(carried, op.operands[3:], op.results, strict=True):
            name = self.name(arg, result.hint or arg.hint)
            self.emit(f"{name} = {self.typed(start)}")
            self.names[result] = name
        index = self.name(region.args[0])
        bounds = [self.words(v) for v in op.operands[:3]]
        self.emit(f"for {index} in range({range_text(bounds)}):")
        self.block(region, carried)

    def if_statement(self, op: Op) -> None:
        for result in op.results:
            self.name(result)
        self.emit(f"if {self.words(op.operands[0])}:")
        self.block(op.regions[0], op.results)
        if op.results or op.regions[1].body:
            self.emit("else:")
            self.block(op.regions[1], op.results)

    def block(self, region: Region, targets: Sequence[Value]) -> None:
        """An indented region, which ends with the assignment of what it yields."""
        self.indent += 1
        before = len(self.lines)
        self.name_updates(region, targets)
        self.region(region)
        pairs = [(self.name(t), v) for t, v in zip(targets, region.terminator.operands, strict=True)]
        pairs = [(name, v) for name, v in pairs if v in self.inlined or self.names.get(v) != name]
        if len(pairs) == 1:
            self.emit(f"{pairs[0][0]} = {self.typed(pairs[0][1])}")
        elif pairs:
            self.emit(f"{', '.join(name for name, _ in pairs)} = {', '.join(self.typed(v) for _, v in pairs)}")
        if len(self.lines) == before:
            self.emit("pass")
        self.indent -= 1

    def name_updates(self, region: Region, targets: Sequence[Value]) -> None:
        """Have the next value of a variable take its name at once, where that value alone is made of the old one."""
        for target, v in zip(targets, region.terminator.operands, strict=True):
            op = v.op
            if op is None or op.regions or op not in region.body or v in self.names or self.uses[v] != 1:
                continue
            if self.uses[target] == 1 and target in op.operands:
                self.names[v] = self.names[target]

    def typed(self, v: Value) -> str:
        """The text of a value that decides a type: a constant says which it has."""
        if v.op is not None and v.op.name == "constant":
            return self.full(v)
        return self.words(v)

    def full(self, v: Value) -> str:
        assert v.op is not None
        return f"pto.full({v.shape}, {number_text(v.op.attrs['value'], v.dtype)}, {v.dtype.expression})"

    # --- memory ---------------------------------------------------------------------------------------------------

    def store(self, op: Op) -> None:
        if op.name == "store":
            pointer, value, *masks = (self.words(v) for v in op.operands)
            masked = f", mask={masks[0]}" if masks else ""
            self.emit(f"pto.store({pointer}, {value}{masked})")
            return
        access = Access.of(op)
        assert access.value is not None
        place = self.subscript(access)
        if place and access.mask is None:
            self.emit(f"{place} = {self.typed(access.value)}")
            return
        pointer, mask = self.pointers(access)
        self.emit(f"pto.store({pointer}, {self.words(access.value)}{f', mask={mask}' if mask else ''})")

    def atomic(self, op: Op) -> None:
        pointer, value, *mask = (self.words(v) for v in op.operands)
        text = f"pto.{op.name}({pointer}, {value}{f', mask={mask[0]}' if mask else ''})"
        self.emit(f"{self.name(op.result)} = {text}" if self.uses[op.result] else text)

    def load(self, op: Op) -> CallText:
        if op.name == "load":
            pointer, *more = (self.words(v) for v in op.operands)
            extra = "".join(f", {name}={text}" for name, text in zip(("mask", "other"), more, strict=False))
            return CallText(f"pto.load({pointer}{extra})")
        access = Access.of(op)
        place = self.subscript(access)
        if place and access.mask is None and access.other is None:
            return CallText(place)
        pointer, mask = self.pointers(access)
        other = f", other={self.words(access.other)}" if access.other is not None else ""
        return CallText(f"pto.load({pointer}{f', mask={mask}' if mask else ''}{other if mask else ''})")

    def subscript(self, access: Access) -> str:
        """``x[i : i + 16, 0:100]`` where an access is a slice of an array as it lies; else nothing."""
        base = access.base.op
        if base is None or base.name != "array_ptr" or not access.shape:
            return ""
        array = base.operands[0]
        assert isinstance(array.type, ArrayType)
        if len(access.shape) != array.type.ndim:
            return ""
        for d in range(len(access.shape)):
            if not (self.is_of(access.strides[d], "array_stride", array, d)):
                return ""
            if not self.is_of(access.extents[d], "array_shape", array, d):
                return ""
        parts = [self.slice_text(v, n) for v, n in zip(access.offsets, access.shape, strict=True)]
        return f"{self.name(array)}[{', '.join(parts)}]"

    def is_of(self, v: Value, name: str, array: Value, d: int) -> bool:
        """Whether a value is the shape or stride of an array, as an op or as the number that the launch has."""
        if v.op is not None and v.op.name == name:
            return v.op.operands[0] is array and v.op.attrs["dim"] == d
        facts: Any = self.function.attrs.get("facts", ())
        return v.op is not None and v.op.name == "constant" and (name, array.hint, d, v.op.attrs["value"]) in facts

    def slice_text(self, offset: Value, size: int) -> str:
        if offset.op is not None and offset.op.name == "constant":
            start = offset.op.attrs["value"]
            return f"{start}:{start + size}"
        start = self.words(offset)
        return f"{start} : {start} + {size}"

    def pointers(self, access: Access) -> tuple[str, str]:
        """Pointers and mask of an access that is no slice."""
        base = self.words(access.base)
        conditions: list[CallText] = []
        for d in range(len(access.shape)):
            index = self.index_text(access, d)
            stride = self.operand(access.strides[d])
            base += f" + {index}" if stride.text == "1" else f" + {index} * {atom(stride, PRODUCT)}"
            if not is_within(access, d):
                conditions.append(CallText(f"{index} < {self.words(access.extents[d])}", COMPARISON))
            if not self.is_natural(access.offsets[d]):
                conditions.append(CallText(f"{index} >= 0", COMPARISON))
        if access.mask is not None:
            conditions.append(self.operand(access.mask))
        if len(conditions) == 1:
            return base, conditions[0].text
        return base, " & ".join(atom(x, AND) for x in conditions)

    def index_text(self, access: Access, d: int) -> str:
        """The indices along one dimension of an access, in its own place among the dimensions."""
        line = f"pto.arange(0, {access.shape[d]})"
        if len(access.shape) > 1:
            line += f"[{', '.join(':' if i == d else 'None' for i in range(len(access.shape)))}]"
        offset = self.operand(access.offsets[d])
        return line if offset.text == "0" else f"({atom(offset, SUM)} + {line})"

    def is_natural(self, v: Value) -> bool:
        """Whether an offset is known not to be negative."""
        return v.op is not None and v.op.name == "constant" and v.op.attrs["value"] >= 0

    # --- expressions ----------------------------------------------------------------------------------------------

    def expression(self, op: Op) -> CallText:
        if op.name in ("tile_load", "load"):
            return self.load(op)
        if op.name == "constant":
            if op.result.shape:
                return CallText(self.full(op.result))
            number = number_text(op.attrs["value"], op.result.dtype)
            return CallText(number, precedence(number))
        if op.name == "undef":
            dtype = op.result.dtype
            return CallText(f"pto.full({op.result.shape}, {number_text(0, dtype)}, {dtype.expression})")
        if op.name in INFIX:
            return self.infix(op)
        if TABLE[op.name].elementwise and len(op.operands) > 1:
            return call_text(op, [self.elementwise_operand(op, n) for n in range(len(op.operands))])
        operands = [self.operand(v) for v in op.operands]
        if op.name == "broadcast_to" and op.operands[0].tile.is_ptr:
            operands = [CallText(f"{operands[0].text} + 0", SUM)]  # an array is no pointer before something is added
        return call_text(op, operands)

    def infix(self, op: Op) -> CallText:
        symbol, level = INFIX[op.name]
        a, b = (self.elementwise_operand(op, n) for n in (0, 1))
        left = atom(a, level + (level == COMPARISON))
        return CallText(f"{left} {symbol} {atom(b, level + 1)}", level)

    def elementwise_operand(self, op: Op, n: int) -> CallText:
        """An operand without its broadcast, where the other operand brings the shape."""
        v = op.operands[n]
        others = [x for i, x in enumerate(op.operands) if i != n and x.type == v.type]
        if v.op is None or not any(is_variable(x) for x in others):
            return self.operand(v)
        if v.op.name == "broadcast_to" and any(is_variable(x) and not is_broadcast(x) for x in others):
            return self.operand(v.op.operands[0])
        if v.op.name == "constant" and v.shape and v not in self.names:
            number = number_text(v.op.attrs["value"], v.dtype)
            return CallText(number, precedence(number))
        return self.operand(v)


def is_within(access: Access, d: int) -> bool:
    """Whether a dimension of an access is known to end before the extent, as where a pointer has none."""
    offset, extent = constant_of(access.offsets[d]), constant_of(access.extents[d])
    return extent == UNBOUNDED or (offset is not None and extent is not None and offset + access.shape[d] <= extent)


def constant_of(v: Value) -> int | None:
    """The number that a scalar is, where it is a constant."""
    number = v.op.attrs["value"] if v.op is not None and v.op.name == "constant" and not v.shape else None
    return number if isinstance(number, int) else None


def range_text(bounds: Sequence[str]) -> str:
    """The arguments of `range`, as few as will do."""
    low, high, step = bounds
    if step != "1":
        return f"{low}, {high}, {step}"
    return high if low == "0" else f"{low}, {high}"


def is_variable(v: Value) -> bool:
    """Whether a value is no constant, so that it decides shape and type of what it meets."""
    return v.op is None or v.op.name != "constant"


def is_broadcast(v: Value) -> bool:
    return v.op is not None and v.op.name == "broadcast_to"
