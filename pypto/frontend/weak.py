"""Weak numbers: Python floats among a launch's arguments take the type of what they meet, as literals do.

In the kernel such an argument is a float32, and so is what operators make of it and of other numbers. Beside float64 it
is what it was in Python: then the argument comes in float64, and what was made of it is made again. Beside floats of 16
bits and less it does not take part in the promotion. Whether a number came from Python is asked only where it matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pypto.frontend.spec import Facts
from pypto.ir.core import Op, Value
from pypto.ir.types import float32, float64, scalar
from pypto.ops.build import OpBuilder, Operand
from pypto.ops.table import TABLE


@dataclass(slots=True)
class WeakNumbers:
    """The numbers of one build that may be weak.

    `exact` has the float64 of each argument that may be one, and `wanted` those that the kernel reads. `origins` has
    the row and the arguments from which each other one was computed.
    """

    facts: Facts
    exact: dict[Value, Value] = field(default_factory=dict)
    wanted: set[Value] = field(default_factory=set)
    origins: dict[Value, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)

    def argument(self, v: Value) -> None:
        """Note an argument of the kernel."""
        if v.type == scalar(float32):
            self.exact[v] = Value(scalar(float64), v.hint)

    def note(self, result: Any, row: str, arguments: Mapping[str, Any]) -> None:
        """Note what an operator made, where that was of weak numbers alone."""
        operands = [x for x in arguments.values() if isinstance(x, Value)]
        if isinstance(result, Value) and result.type == scalar(float32) and all(map(self.may_be, operands)):
            self.origins[result] = row, arguments

    def may_be(self, v: Value) -> bool:
        return v in self.exact or v in self.origins

    def is_weak(self, v: Any) -> bool:
        """Whether a number comes from Python alone; a fact that the compiled version depends on."""
        if not isinstance(v, Value) or not self.may_be(v):
            return False
        if v in self.origins:
            return all(self.is_weak(x) for x in self.origins[v][1].values() if isinstance(x, Value))
        return self.facts.is_weak(v.hint)

    def precise(self, b: OpBuilder, v: Value) -> Value:
        """A weak number in float64."""
        if v in self.exact:
            self.wanted.add(v)
            return self.exact[v]
        row, arguments = self.origins[v]
        precise_arguments = {name: self.precise(b, x) if isinstance(x, Value) else x for name, x in arguments.items()}
        bind = TABLE[row].bind_arguments
        assert bind is not None
        prepared = bind(b, **precise_arguments)
        return prepared if isinstance(prepared, Value) else b.emit(row, *prepared[0], **prepared[1])

    def strong(self, operands: Sequence[Operand]) -> list[Operand]:
        """Operands as promotion counts them: weak numbers beside narrower floats as Python's own."""
        others = [x for x in operands if isinstance(x, Value) and not self.may_be(x)]
        if any(x.dtype.is_float for x in others) and all(x.dtype.bits < 32 for x in others if x.dtype.is_float):
            return [1.0 if self.is_weak(x) else x for x in operands]
        return list(operands)

    def settle(self, arguments: list[Value], ops: list[Op]) -> None:
        """Let arguments that are read in float64 come in float64; at the kernel's begin stands what else it reads."""
        for n, v in enumerate(arguments):
            if v in self.wanted:
                arguments[n] = self.exact[v]
                v.op = Op("cast", (self.exact[v],), {"dtype": float32}, (v,))
                ops.insert(0, v.op)
