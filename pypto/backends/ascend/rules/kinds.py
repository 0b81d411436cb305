"""How the vector unit computes an elementwise op: by its lane rule, one instruction, a formula, or the scalar unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pypto.ir.core import Op
from pypto.ir.types import DType, bfloat16, float16, float32
from pypto.ops.row import LaneRule, Structural, Unsupported


@dataclass(frozen=True, slots=True)
class ViaLaneRule:
    """The vector unit runs the op's lane rule, and each step of it becomes a vector instruction.

    `narrow` lists the floats of 16 and 8 bits that the rule computes with directly ("*": all). Others are converted to
    float32 before it and rounded after it.
    """

    narrow: str = ""


@dataclass(frozen=True, slots=True)
class ViaInstruction:
    """Ascend has one instruction for the op. Where it does not apply, Ascend runs the op's lane rule.

    The instruction applies if its operands have one of `dtypes` and `when` holds; without dtypes, a backend's own rules
    say where.
    """

    name: str  # of the instruction
    dtypes: str  # operand dtypes that it takes, separated by spaces
    mode: str = ""  # its rounding mode
    ulp: float = 0.0  # documented float32 error, where larger than the row's
    when: Callable[[Op], bool] | None = None  # a further condition on the op
    narrow: str = ""  # as for `ViaLaneRule`


@dataclass(frozen=True, slots=True)
class ViaFormula:
    """Ascend computes the op by a formula on the functions of its vector unit: Exp, Ln, Sqrt, Div.

    A formula is written against a `formulas.unit.FunctionUnit`. A kernel with ``disable="unit_functions"`` runs the
    lane rule instead.

    Parameters
    ----------
    f32 : LaneRule or None
        On float32 lanes; None: the lane rule. Floats of 16 bits without a formula of their own are converted before it
        and rounded after it.
    f16 : LaneRule or None
        On float16 lanes: right to one unit in the last place of float16. It may give float32, which is then rounded.
    bf16 : LaneRule or None
        For bfloat16, on float32 lanes: right to one unit in the last place of bfloat16.
    ulp : float
        Largest error in float32, in units in the last place.
    reach : float
        Largest size of an argument that the formulas for float32 and bfloat16 are right for. A chunk with a larger one
        runs the lane rule.
    """

    f32: LaneRule | None
    f16: LaneRule | None = None
    bf16: LaneRule | None = None
    ulp: float = 4.0
    reach: float = math.inf

    def for_dtype(self, dtype: DType) -> LaneRule | None:
        """The formula for operands of a dtype; None where the lane rule is run."""
        return {float32: self.f32, float16: self.f16 or self.f32, bfloat16: self.bf16 or self.f32}.get(dtype)


@dataclass(frozen=True, slots=True)
class ViaScalarUnit:
    """Ascend runs the op's lane rule on the scalar unit, element by element, with software float64.

    It is slow. It is needed where a pair of float32 (48 bits) has too few digits for the op's error bound.
    """


Rule = ViaInstruction | ViaFormula | ViaLaneRule | ViaScalarUnit | Structural | Unsupported
