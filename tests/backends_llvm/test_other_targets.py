"""The writer and the lane emitter serve any target of LLVM, without the CPU backend and instructions of x86."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pypto.backends.llvm.lane_emitter import LaneEmitter
from pypto.backends.llvm.value import VectorValue, llvm_type
from pypto.backends.llvm.writer import Writer
from pypto.ir.core import Region
from pypto.ir.types import DType, bfloat16, float16, float32, float64, int32, uint32
from pypto.ops.build import OpBuilder
from pypto.ops.table import TABLE

LANES = 16


@dataclass(frozen=True)
class Target:
    """A target for which formulas stand in for the instructions that it lacks."""

    has_fma: bool = False
    has_round: bool = False
    has_half: bool = False
    contract: str = ""


def module(op: str, dtype: DType, operands: int, target: Target) -> str:
    """A function that applies the lane rule of an op to vectors."""
    writer = Writer()
    e = LaneEmitter(writer, target)
    kind = llvm_type(dtype, LANES)
    values = [VectorValue(f"%a{i}", dtype, LANES, 0) for i in range(operands)]
    builder = OpBuilder(Region())
    tile = builder.constant(1, dtype, (LANES,))
    result = TABLE[op].lane_rule(e, builder.op(op, *[tile] * operands), *values)
    writer.line(f"ret {result.typed}")
    names = ", ".join(f"{kind} {value.text}" for value in values)
    writer.end_function(f"{result.type} @f({names})")
    return writer.text()


@pytest.mark.parametrize("target", [Target(), Target(has_fma=True, has_round=True, has_half=True)])
@pytest.mark.parametrize(
    ("op", "dtype", "operands"),
    [("exp", float32, 1), ("exp", float64, 1), ("div", float32, 2), ("floordiv", int32, 2), ("floordiv", uint32, 2)],
)
def test_rules_become_valid_llvm_without_instructions_of_x86(
    op: str, dtype: DType, operands: int, target: Target
) -> None:
    import llvmlite.binding as llvm

    text = module(op, dtype, operands, target)
    llvm.parse_assembly(text).verify()
    assert "x86" not in text


@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_narrow_floats_are_rounded_by_formulas(dtype: DType) -> None:
    import llvmlite.binding as llvm

    writer = Writer()
    e = LaneEmitter(writer, Target())
    result = e.convert(VectorValue("%a", float32, LANES, 0), dtype)
    writer.line(f"ret {result.typed}")
    writer.end_function(f"{result.type} @f({llvm_type(float32, LANES)} %a)")
    llvm.parse_assembly(writer.text()).verify()
    assert "x86" not in writer.text()
    assert "fptrunc" not in writer.text()
