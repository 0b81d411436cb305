"""Adjoints of ops: what the column `adjoint` of a row holds, and the expressions that adjoint rules are written in.

The adjoint of an op takes the gradient of a scalar loss by the op's result to the gradients by its operands. A rule is
written in `Expression`, which builds ops of Tile IR, so that the same rule serves every IR whose builder emits rows.

    mul: lambda op, x, y, result, gradient: (gradient * y, gradient * x)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pypto.ir.core import Op, Value
from pypto.ir.types import DType, float32

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

Number = int | float
# (op, operands…, result, gradient of the result) -> the gradient of each operand; None for one that has none
AdjointRule = Callable[..., "Sequence[Expression | None]"]


@dataclass(frozen=True, slots=True)
class NoAdjoint:
    """No gradient goes through the op; `reason` says why, after "`name` has no gradient: "."""

    reason: str


@dataclass(frozen=True, slots=True)
class BySweep:
    """The reverse sweep has code of its own for the op, since it is about memory, control flow or programs."""


BY_SWEEP = BySweep()
OF_INTEGERS = NoAdjoint("it is an operation on integers")
OF_TRUTH = NoAdjoint("its result is a truth value")
OF_INDICES = NoAdjoint("its result is an index")
OF_BITS = NoAdjoint("it works on the bits of a number")
Adjoint = AdjointRule | NoAdjoint | BySweep


def gradient_dtype(dtype: DType) -> DType:
    """The dtype of gradients of a value: its own; float32 for floats of 16 and 8 bits, whose sums it is to keep."""
    return float32 if dtype.is_float and dtype.bits < 32 else dtype


@dataclass(frozen=True, slots=True)
class Expression:
    """A value under construction, with the operators of the language.

    Binary operators take expressions of one shape and dtype, or a number.
    """

    builder: OpBuilder
    value: Value

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    # --- ops ------------------------------------------------------------------------------------------------------

    def op(self, name: str, *others: Expression | Number, **attrs: Any) -> Expression:
        """The result of an op on this expression and others."""
        operands = (self.number(x).value if isinstance(x, int | float) else x.value for x in others)
        return Expression(self.builder, self.builder.emit(name, self.value, *operands, **attrs))

    def number(self, x: Number) -> Expression:
        """A number in the shape and dtype of this expression."""
        return Expression(self.builder, self.builder.constant(x, self.dtype, self.shape))

    def zero(self) -> Expression:
        return self.number(0)

    def __add__(self, other: Expression | Number) -> Expression:
        return self.op("add", other)

    def __radd__(self, other: Number) -> Expression:
        return self.number(other).op("add", self)

    def __sub__(self, other: Expression | Number) -> Expression:
        return self.op("sub", other)

    def __rsub__(self, other: Number) -> Expression:
        return self.number(other).op("sub", self)

    def __mul__(self, other: Expression | Number) -> Expression:
        return self.op("mul", other)

    def __rmul__(self, other: Number) -> Expression:
        return self.number(other).op("mul", self)

    def __truediv__(self, other: Expression | Number) -> Expression:
        return self.op("div", other)

    def __rtruediv__(self, other: Number) -> Expression:
        return self.number(other).op("div", self)

    def __neg__(self) -> Expression:
        return self.op("neg")

    def __lt__(self, other: Expression | Number) -> Expression:
        return self.op("lt", other)

    def __le__(self, other: Expression | Number) -> Expression:
        return self.op("le", other)

    def __gt__(self, other: Expression | Number) -> Expression:
        return self.op("gt", other)

    def __ge__(self, other: Expression | Number) -> Expression:
        return self.op("ge", other)

    def equals(self, other: Expression | Number) -> Expression:
        return self.op("eq", other)

    def where(self, condition: Expression, other: Expression | Number = 0) -> Expression:
        """This expression where a condition holds, and another elsewhere."""
        otherwise = self.number(other) if isinstance(other, int | float) else other
        return condition.op("where", self, otherwise)

    # --- shapes ---------------------------------------------------------------------------------------------------

    def reshape(self, shape: tuple[int, ...]) -> Expression:
        return self if shape == self.shape else self.op("reshape", shape=shape)

    def broadcast_to(self, shape: tuple[int, ...]) -> Expression:
        return self if shape == self.shape else self.op("broadcast_to", shape=shape)

    def permute(self, dims: tuple[int, ...]) -> Expression:
        return self.op("permute", dims=dims)

    def sum(self, axes: tuple[int, ...], keep_dims: bool = False) -> Expression:
        return self.op("sum", axes=axes, keep_dims=keep_dims) if axes else self

    def spread(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Expression:
        """A reduced expression in the shape that it had before the reduction along some axes."""
        reduced_shape = tuple(1 if d in axes else n for d, n in enumerate(shape))
        return self.reshape(reduced_shape).broadcast_to(shape)

    def cast(self, dtype: DType) -> Expression:
        return self if dtype == self.dtype else Expression(self.builder, self.builder.cast(self.value, dtype))


def apply_adjoint(
    rule: AdjointRule, builder: OpBuilder, op: Op, values: Sequence[Value]
) -> Sequence[Expression | None]:
    """The gradients of an op's operands.

    `values` are the operands, the result and the gradient of the result. Narrow floats are widened first, so that a
    rule computes in the dtype of the gradient.
    """
    expressions = [Expression(builder, v) for v in values]
    return rule(op, *(x.cast(gradient_dtype(x.dtype)) for x in expressions))
