"""Tile IR as text. Reading the text back (see `parser`) and printing it again gives the same text.

The form, with locations left out::

    kernel @scale(%x: array<f32, 1>, %n: i32) attributes {noalias = true} {
      %p: ptr<f32> = array_ptr %x
      %lo: i32 = constant {value = 0}
      %step: i32 = constant {value = 1}
      %last: ptr<f32> = for %lo, %n, %step, %p { (%i: i32, %q: ptr<f32>)
        %0: ptr<f32> = addptr %q, %step
        yield %0
      }
      yield
    }
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

from pypto.ir.core import Attr, Function, Op, ProgramMap, Region, Value
from pypto.ir.types import DType, PtrType
from pypto.loc import UNKNOWN, Loc


def print_function(function: Function, locations: bool = False) -> str:
    """The text of a function.

    Parameters
    ----------
    function : Function
        What to print; it need not be valid.
    locations : bool
        Write the place in the user's source behind every op.

    Examples
    --------
    >>> from pypto.ir.core import Region, make_op
    >>> print(print_function(Function("f", Region([], [make_op("yield", (), {}, ())]))), end="")
    kernel @f() {
      yield
    }
    """
    return FunctionPrinter(locations).function(function)


def attr_text(value: Attr) -> str:
    """An attribute's value; distinct values have distinct texts (`0.0` and `-0.0`, `1`, `1.0` and `true`)."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(attr_text, value))}]"
    if isinstance(value, DType | PtrType):
        return str(value)
    if isinstance(value, int | float):
        return repr(value)
    raise TypeError(f"{value!r} cannot be an attribute; use a number, bool, string, None, dtype or a tuple of these")


def attrs_text(attrs: Mapping[str, Attr]) -> str:
    return f"{{{', '.join(f'{name} = {attr_text(attrs[name])}' for name in sorted(attrs))}}}"


def loc_text(loc: Loc) -> str:
    """A span and the calls that led there, innermost first."""
    spans = []
    for site in loc.chain:
        place = f"{json.dumps(site.file)}:{site.line}:{site.col}-{site.end_line}:{site.end_col}"
        spans.append(place + (f" in {_word(site.function)}" if site.function else ""))
    label = f"label {json.dumps(loc.label)} " if loc.label else ""
    return f"loc({label}{' at '.join(spans)})"


def _word(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def programs_text(programs: ProgramMap) -> str:
    """What a program map says beside its defaults."""
    default = ProgramMap()
    values = {field.name: getattr(programs, field.name) for field in fields(programs)}
    said = {name: value for name, value in values.items() if value != getattr(default, name)}
    return f" programs {attrs_text(said)}" if said else ""


@dataclass
class FunctionPrinter:
    """Writes one function; `names` are those that its values got."""

    locations: bool
    names: dict[Value, str] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    unnamed: int = 0

    def function(self, function: Function) -> str:
        head = f"kernel @{_word(function.name)}({self.definitions(function.args)})"
        attrs = f" attributes {attrs_text(function.attrs)}" if function.attrs else ""
        attrs += programs_text(function.programs)
        return f"{head}{attrs}{self.loc(function.loc)} {self.region(Region(ops=function.body.ops), '')}\n"

    def op(self, op: Op, indent: str) -> str:
        results = f"{self.definitions(op.results)} = " if op.results else ""
        operands = ", ".join(f"%{self.names.get(v, '?')}" for v in op.operands)
        head = " ".join(filter(None, (op.name, operands, attrs_text(op.attrs) if op.attrs else "")))
        regions = "".join(f" {self.region(region, indent)}" for region in op.regions)
        return f"{indent}{results}{head}{regions}{self.loc(op.loc)}"

    def region(self, region: Region, indent: str) -> str:
        args = f" ({self.definitions(region.args)})" if region.args else ""
        ops = "".join(f"\n{self.op(op, indent + '  ')}" for op in region.ops)
        return f"{{{args}{ops}\n{indent}}}"

    def definitions(self, values: Iterable[Value]) -> str:
        return ", ".join(f"%{self.define(v)}: {v.type}" for v in values)

    def define(self, value: Value) -> str:
        if value.hint:
            name = self.unique(re.sub(r"\W|^(?=\d)", "_", value.hint))
        else:
            name, self.unnamed = str(self.unnamed), self.unnamed + 1
        self.names[value] = name
        return name

    def unique(self, name: str) -> str:
        """The name itself if it is free, else with the least number behind it that makes it so."""
        base = name
        while name in self.used:
            self.used[base] += 1
            name = f"{base}_{self.used[base]}"
        self.used[name] = 0
        return name

    def loc(self, loc: Loc) -> str:
        return f" {loc_text(loc)}" if self.locations and loc != UNKNOWN else ""
