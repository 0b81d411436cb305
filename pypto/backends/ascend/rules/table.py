"""The rules of ops on the vector unit, by the names of the ops; an op that is not here runs its lane rule."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.rules.formulas import erf, exp, power, trig, unit
from pypto.backends.ascend.rules.kinds import Rule, ViaInstruction, ViaLaneRule, ViaScalarUnit
from pypto.ir.core import Op
from pypto.ops.math.exp import LOG2E
from pypto.ops.row import STRUCTURAL, OpRow, Reduction, Structural, Unsupported

_ARITHMETIC: Final = "i16 i32 f16 f32"  # what the vector unit adds and multiplies
_BITS: Final = "i16 u16"
_LANES: Final = ViaLaneRule()
_HALF: Final = ViaLaneRule("f16")
_EVERY: Final = ViaLaneRule("*")
_SCALAR: Final = ViaScalarUnit()
_NO_ADDRESSES: Final = (
    "an array's memory has one type there, and an address is no number; give the kernel the array in the type that is "
    "wanted, as `x.view(dtype)` of numpy and torch does"
)


def gives_nan(op: Op) -> bool:
    """Whether an extremum may be the instruction, which gives NaN where either operand is one."""
    return bool(op.attrs["propagate_nan"]) or not op.result.dtype.is_float


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "add": ViaInstruction("Add", _ARITHMETIC, narrow="f16"),
        "sub": ViaInstruction("Sub", _ARITHMETIC, narrow="f16"),
        "mul": ViaInstruction("Mul", _ARITHMETIC, narrow="f16"),
        "div": ViaInstruction("Div", "f32"),
        "maximum": ViaInstruction("Max", _ARITHMETIC, when=gives_nan, narrow="f16"),
        "minimum": ViaInstruction("Min", _ARITHMETIC, when=gives_nan, narrow="f16"),
        "and_": ViaInstruction("And", _BITS),
        "or_": ViaInstruction("Or", _BITS),
        "not_": ViaInstruction("Not", _BITS),
        "shl": ViaInstruction("ShiftLeft", ""),
        "shr": ViaInstruction("ShiftRight", ""),
        "eq": _HALF,
        "ne": _HALF,
        "lt": _HALF,
        "le": _HALF,
        "gt": _HALF,
        "ge": _HALF,
        "neg": _HALF,
        "abs": _HALF,
        "where": _EVERY,
        "cast": _EVERY,
        "bitcast": _EVERY,
        "ptr_cast": Unsupported(_NO_ADDRESSES),
        "round": ViaInstruction("Cast", "f32", mode="CAST_ROUND"),
        "sqrt": ViaInstruction("Sqrt", "f32", ulp=1.0),
        "exp": unit.formula(unit.exp, ulp=2.0),
        "exp2": unit.formula(exp.exp2, exp.exp2_narrow, exp.exp2_narrow),
        "sigmoid": unit.formula(exp.sigmoid, exp.sigmoid_f16),
        "log": unit.formula(unit.log, ulp=2.0),
        "log2": unit.formula(exp.log2, exp.log_narrow(LOG2E), exp.log_narrow(LOG2E)),
        "log10": unit.formula(None, exp.log_narrow(exp.LOG10E), exp.log_narrow(exp.LOG10E)),
        "log1p": unit.formula(exp.log1p, exp.log1p_narrow, exp.log1p_narrow),
        "tanh": unit.formula(exp.tanh, exp.tanh_narrow, exp.tanh_narrow),
        "pow": unit.formula(power.power_f32, power.power_narrow, power.power_narrow),
        "erf": unit.formula(erf.erf, erf.erf_f16),
        "erfc": unit.formula(erf.erfc, ulp=6.0),
        "normcdf": unit.formula(erf.normcdf, ulp=6.0),
        "sin": unit.formula(trig.sin_f32, trig.sin_f16, trig.sin_bf16, reach=trig.REACH),
        "cos": unit.formula(trig.cos_f32, trig.cos_f16, trig.cos_bf16, reach=trig.REACH),
        "j0": _SCALAR,
        "j1": _SCALAR,
        "y0": _SCALAR,
        "y1": _SCALAR,
        "lgamma": _SCALAR,
    }
)


def rule_for(row: OpRow) -> Rule:
    """How the backend lowers an op: by its rule here, by its lane rule, or by code of its own where there is none."""
    shared = row.lane_rule
    if isinstance(shared, Unsupported):
        return shared
    return RULES.get(row.name, STRUCTURAL if isinstance(shared, Structural | Reduction) else _LANES)
