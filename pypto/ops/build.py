"""Builds ops by name: constants, casts, broadcasts and promotion as the language defines them, and typed results."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from pypto.errors.language import ConstantOutOfRange, NoBroadcast, OpTypeError
from pypto.ir.builder import Builder
from pypto.ir.core import Attr, Op, Value
from pypto.ir.types import DType, Elem, TileType, float16, float32, float64, int1, int32, int64, uint64
from pypto.ops.casts import cast_value
from pypto.ops.table import TABLE

Number = bool | int | float
Operand = Value | Number


class OpBuilder(Builder):
    """A `Builder` that knows the op table."""

    # Whether, as under Triton, casts to float8 give the greatest number for what is larger, and stored numbers wrap.
    lenient = False

    def op(self, name: str, *operands: Value, **attrs: Attr) -> Op:
        """Append an op; its result types follow from the row."""
        row = TABLE[name]
        try:
            types = row.infer([v.type for v in operands], attrs)
        except TypeError as error:
            raise OpTypeError(self.loc, op=name, problem=str(error)) from None
        return self.create(name, operands, dict(attrs), types)

    def emit(self, name: str, *operands: Value, **attrs: Attr) -> Value:
        """The only result of a new op."""
        return self.op(name, *operands, **attrs).result

    def constant(self, number: Number, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
        """A typed constant; a Python number that the type cannot hold is an error."""
        low, high = dtype.integer_range
        if dtype.kind == "bits":
            return self.cast(self.constant(float(number), float32, shape), dtype)
        if not dtype.is_float:
            if not low <= number <= high and not dtype.is_bool:
                raise ConstantOutOfRange(self.loc, number=number, dtype=dtype, low=low, high=high)
            number = bool(number) if dtype.is_bool else int(number)
        else:
            number = float(number)
        return self.create("constant", (), {"value": number}, (TileType(shape, dtype),)).result

    def value(self, x: Operand, dtype: DType | None = None) -> Value:
        """`x` itself, or the constant that a Python number becomes on its own."""
        return x if isinstance(x, Value) else self.constant(x, dtype or weak_dtype(x))

    def element(self, x: Operand, dtype: DType) -> Value:
        """`x` as an element of memory: a value is cast to the type, and a number is a constant of it.

        A number that the type cannot hold is an error; under `lenient` it is cast like a value of a wider type.
        """
        if not isinstance(x, Value):
            wraps = self.lenient and dtype.is_int and not dtype.is_bool
            x = self.constant(x, weak_dtype(x) if wraps else dtype)
        return self.cast(x, dtype)

    def cast(self, v: Value, dtype: Elem) -> Value:
        return cast_value(self, v, dtype)

    def broadcast(self, v: Value, shape: tuple[int, ...]) -> Value:
        """`v` in the given shape, by numpy's rules."""
        if v.shape == shape:
            return v
        if len(v.shape) < len(shape) and v.shape:
            v = self.emit("reshape", v, shape=(1,) * (len(shape) - len(v.shape)) + v.shape)
        return self.emit("broadcast_to", v, shape=shape)

    def align(self, values: list[Value]) -> list[Value]:
        """All values broadcast to their common shape."""
        shape: tuple[int, ...] = ()
        for v in values:
            merged = merge_shapes(shape, v.shape)
            if merged is None:
                raise NoBroadcast(self.loc, a=shape, b=v.shape)
            shape = merged
        return [self.broadcast(v, shape) for v in values]

    def strong(self, operands: Sequence[Operand]) -> Sequence[Operand]:
        """Operands as promotion counts them; a front end may know that some are weak."""
        return operands

    def promote(self, operands: list[Operand], floating: bool = False) -> list[Value]:
        """Values of one dtype and shape; `floating` turns integers into float32 first (`/`, `exp`, …)."""
        dtype = common_dtype(self.strong(operands))
        if floating and not dtype.is_float:
            dtype = float64 if any(isinstance(x, Value) and x.dtype == float64 for x in operands) else float32
        return self.align([self.cast(x, dtype) if isinstance(x, Value) else self.constant(x, dtype) for x in operands])


def weak_dtype(number: Number) -> DType:
    """The type that a Python number has when nothing else decides."""
    if isinstance(number, bool):
        return int1
    if isinstance(number, float):
        return float32
    if -(2**31) <= number < 2**31:
        return int32
    return int64 if number < 2**63 else uint64


def merge_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """Common shape by numpy's rules, or None."""
    a, b = (1,) * (len(b) - len(a)) + a, (1,) * (len(a) - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(a, b, strict=True)):
        return None
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


def common_dtype(operands: Sequence[Operand]) -> DType:
    """Promotion: kind, then width, then float16 over bfloat16, then unsigned over signed. Python numbers are weak."""
    dtypes = [float16 if x.dtype.kind == "bits" else x.dtype for x in operands if isinstance(x, Value)]
    numbers = [x for x in operands if not isinstance(x, Value)]
    result = functools.reduce(join_dtypes, dtypes) if dtypes else weak_dtype(numbers[0])
    return max([result, *map(weak_dtype, numbers)], key=lambda dtype: rank(dtype)[0])


def rank(dtype: DType) -> tuple[int, int, bool, bool]:
    """Promotion order of a dtype."""
    kind = 0 if dtype.is_bool else 1 if dtype.is_int else 2
    return kind, dtype.bits, dtype.mnemonic == "f16", dtype.kind == "uint"


def join_dtypes(a: DType, b: DType) -> DType:
    """The type of an operation on two. Two floats of 8 bits meet in float16, such a float and an integer in float32."""
    kinds = {a.kind, b.kind}
    if a != b and {a.bits, b.bits} == {8} and kinds == {"float"}:
        return float16
    if min(a.bits, b.bits) == 8 and any(x.bits == 8 and x.is_float for x in (a, b)) and kinds & {"int", "uint"}:
        return float32
    return max(a, b, key=rank)


def computed(op: Op, number_of: Callable[[Value], Number | None]) -> Number | None:
    """The value of an elementwise op's result by its row's reference, where the number of each operand is known."""
    row = TABLE[op.name]
    if not row.elementwise or row.reference is None:
        return None
    numbers = [number_of(v) for v in op.operands]
    if None in numbers or op.result.dtype.kind == "bits":
        return None
    dtype = op.result.dtype
    with np.errstate(all="ignore"):
        arrays = [np.array([n], v.dtype.numpy) for n, v in zip(numbers, op.operands, strict=True)]
        (result,) = np.asarray(row.reference(op, *arrays)).astype(dtype.numpy)
    if not dtype.is_float:
        return bool(result) if dtype.is_bool else int(result)
    # The bits of a NaN can carry a meaning (`bitcast`), which a constant would lose.
    return None if math.isnan(result) else float(result)
