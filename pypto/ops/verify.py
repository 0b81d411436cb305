"""The rules that every function of Tile IR keeps. What holds for one op comes from its row.

Traits that count here: ``terminator`` (ends a region), ``control`` (has regions), ``variadic`` (any number of operands)
and ``declared`` (the result types are stated with the op). `infer` and `check` of a row raise `TypeError` with a
sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NoReturn

from pypto.errors.ir import InvalidIR
from pypto.ir.core import Attr, Function, Op, Region, Value
from pypto.ir.printer import attr_text
from pypto.ir.types import ArrayType, DType, PtrType, TileType
from pypto.loc import UNKNOWN
from pypto.ops.row import OpRow


def verify(function: Function, table: Mapping[str, OpRow]) -> None:
    """Check every rule.

    Raises
    ------
    InvalidIR
        For the first op, in program order, that breaks a rule.

    Examples
    --------
    >>> from pypto.ir.parser import parse_function
    >>> from pypto.ops.table import TABLE
    >>> verify(parse_function("kernel @f(%n: i32) { %0: i32 = add %n, %n yield }"), TABLE)
    """
    _Verifier(table).function(function)


_KINDS: Final[Mapping[str, Callable[[Attr], bool]]] = MappingProxyType({
    "int": lambda v: type(v) is int,
    "bool": lambda v: isinstance(v, bool),
    "str": lambda v: isinstance(v, str),
    "dtype": lambda v: isinstance(v, DType),
    "elem": lambda v: isinstance(v, DType | PtrType),
    "shape": lambda v: isinstance(v, tuple) and all(type(n) is int for n in v),
})  # fmt: skip


class _Verifier:
    def __init__(self, table: Mapping[str, OpRow]) -> None:
        self.table = table
        self.defined: set[Value] = set()
        self.visible: set[Value] = set()
        self.scope: list[Value] = []

    def function(self, function: Function) -> None:
        kernel = Op(f"@{function.name}", (), {}, (), loc=function.loc)
        names = [v.hint for v in function.args]
        if len(set(names)) < len(names) or "" in names:
            fail(kernel, f"arguments need different names, not {', '.join(names)}")
        for arg in function.args:
            if isinstance(arg.type, TileType) and arg.shape:
                fail(kernel, f"argument {arg.hint} is {arg.type}; arguments are arrays and scalars")
        self.attribute_values(kernel, function.attrs)
        self.define(kernel, function.args)
        self.ops(kernel, function.body)
        if function.body.terminator.operands:
            fail(kernel, "the body of a kernel yields no values")

    def ops(self, parent: Op, region: Region) -> None:
        for op in region.ops:
            if op.name not in self.table:
                fail(op, "there is no op of this name in the table")
            if "terminator" in self.table[op.name].traits and op is not region.ops[-1]:
                fail(op, "stands before the end of its region")
            self.op(op, self.table[op.name])
        if not region.ops or "terminator" not in self.table[region.terminator.name].traits:
            fail(parent, "a region does not end in a terminator")

    def op(self, op: Op, row: OpRow) -> None:
        for number, value in enumerate(op.operands):
            if value not in self.visible:
                fail(op, f"operand {number} is not defined before this op, or only inside another region")
        self.attributes(op, row)
        self.operand_count(op, row)
        self.results(op, row)
        if op.regions and "control" not in row.traits:
            fail(op, "has a region, but is no control flow")
        for region in op.regions:
            self.region(op, region)
        if row.check is not None:
            try:
                row.check(op)
            except TypeError as error:
                fail(op, str(error))
        self.define(op, op.results)

    def region(self, op: Op, region: Region) -> None:
        """Values of a region are visible in it alone."""
        if any(isinstance(v.type, ArrayType) for v in region.args):
            fail(op, "a region takes an array; arrays are arguments of the kernel only")
        outside = len(self.scope)
        self.define(op, region.args)
        self.ops(op, region)
        self.visible.difference_update(self.scope[outside:])
        del self.scope[outside:]

    def attributes(self, op: Op, row: OpRow) -> None:
        names = row.attributes
        if missing := [n for n in names if n not in op.attrs]:
            fail(op, f"the attribute {missing[0]} is missing")
        if unknown := [n for n in op.attrs if n not in names and n not in row.options]:
            fail(op, f"there is no attribute {unknown[0]}")
        self.attribute_values(op, op.attrs)
        for param in row.params:
            value = op.attrs.get(param.name)
            holds = _KINDS.get(param.kind)
            if param.name in op.attrs and holds and not (holds(value) or (value is None and param.default is None)):
                fail(op, f"the attribute {param.name} is {attr_text(value)}, which is no {param.kind}")

    def attribute_values(self, op: Op, attrs: Mapping[str, Attr]) -> None:
        for value in attrs.values():
            try:
                attr_text(value)
            except TypeError as error:
                fail(op, str(error))

    def operand_count(self, op: Op, row: OpRow) -> None:
        if "variadic" in row.traits:
            return
        least, most = row.operand_counts
        if not least <= len(op.operands) <= most:
            up_to = f" to {most}" if least < most else ""
            fail(op, f"has {len(op.operands)} operands, but takes {least}{up_to}")

    def results(self, op: Op, row: OpRow) -> None:
        given = tuple(v.type for v in op.results)
        if any(isinstance(t, ArrayType) for t in given):
            fail(op, "gives an array; arrays are arguments of the kernel only")
        try:
            inferred = row.infer([v.type for v in op.operands], op.attrs)
        except TypeError as error:
            fail(op, str(error))
        if given != inferred and "declared" not in row.traits:
            fail(op, f"gives ({', '.join(map(str, given))}), but its type rule gives ({', '.join(map(str, inferred))})")

    def define(self, op: Op, values: Iterable[Value]) -> None:
        for value in values:
            if value in self.defined:
                fail(op, "defines a value that is already defined elsewhere")
            self.defined.add(value)
            self.visible.add(value)
            self.scope.append(value)


def fail(op: Op, problem: str) -> NoReturn:
    raise InvalidIR(None if op.loc == UNKNOWN else op.loc, op=op.name, problem=problem)
