"""Values that are never NaN, and extremes whose NaN nobody sees: both save questions after NaN.

An extreme of a row of NaN alone is NaN. In attention nobody sees that: the running maximum begins at -inf and takes an
extreme in by `maximum`, which ignores NaN. So the extreme may as well be -inf there, which no maximum
takes either. Then no operand of the `maximum` is NaN, and it is one instruction. That holds as well for a positive
multiple of the extreme, such as its product with the scale of the scores.

    new = maximum(m, max(s, axis=1))     ->      ...WholeReduceMax(e, numbers)      # -inf where a row is NaN alone
                                                 Max(new, m, e)
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.vector.builder import Lowering
from pypto.ir.core import Op, Value
from pypto.ir.types import bfloat16, float16, float32
from pypto.ops.table import MOVEMENT_OPS
from pypto.passes.analysis.carried import flow_sources

EXTREMA: Final = MappingProxyType({"max": "maximum", "min": "minimum"})


def sees_no_nan(low: Lowering, extreme: Op) -> bool:
    """Whether an extreme of NaN alone may be the identity as well, for all that is done with it."""
    return is_only_subtracted(low, extreme) or is_only_merged(low, extreme)


def is_only_subtracted(low: Lowering, op: Op) -> bool:
    """Whether an extreme is only subtracted from the elements that it is the extreme of, as in softmax.

    If those are all NaN, so are the differences, whatever the extreme is.
    """
    source = op.operands[0]
    kept = tuple(1 if d in op.attrs["axes"] else n for d, n in enumerate(source.shape))

    def lies_along(v: Value) -> bool:
        return v.shape == kept or (not v.shape and math.prod(kept) == 1)

    def is_difference(v: Value, user: Op) -> bool:
        if user.name == "sub":
            return user.operands == (source, v)
        moves = user.name in ("reshape", "broadcast_to") and (lies_along(user.result) or lies_along(v))
        return moves and user.result.shape in (kept, source.shape, ()) and used_so(user.result)

    def used_so(v: Value) -> bool:
        users = low.users.get(v, [])
        return bool(users) and all(is_difference(v, user) for user in users)

    return used_so(op.result)


def is_only_merged(low: Lowering, extreme: Op) -> bool:
    """Whether an extreme is only taken in by a `maximum` (`minimum`) with values that are never NaN."""
    sources = flow_sources(low.function)

    def used_so(v: Value) -> bool:
        users = low.users.get(v, [])
        return bool(users) and all(merges(v, user) for user in users)

    def merges(v: Value, user: Op) -> bool:
        if user.name in MOVEMENT_OPS or is_multiple(user):
            return used_so(user.result)
        if user.name != EXTREMA.get(extreme.name) or user.attrs["propagate_nan"]:
            return False
        return all(x is not v and is_never_nan(x, sources) for x in user.operands if x is not v)

    return extreme.name in EXTREMA and used_so(extreme.result)


def is_multiple(op: Op) -> bool:
    """Whether an op is a product with a positive number, which leaves infinities as they are."""
    if op.name != "mul":
        return False
    known = [v.op.attrs["value"] for v in op.operands if v.op is not None and v.op.name == "constant"]
    return any(isinstance(c, float) and 0 < c < math.inf for c in known)


def is_never_nan(v: Value, sources: dict[Value, list[Value]], assumed: frozenset[Value] = frozenset()) -> bool:
    """Whether no element of a value is NaN; what a loop carries is `assumed` so while its next value is looked at."""
    if v in assumed:
        return True
    if v in sources:
        return all(is_never_nan(x, sources, assumed | {v}) for x in sources[v])
    op = v.op
    if op is None:
        return False
    if op.name == "constant":
        return not (isinstance(op.attrs["value"], float) and math.isnan(op.attrs["value"]))
    if op.name in (*MOVEMENT_OPS, "abs"):
        return all(is_never_nan(x, sources, assumed) for x in op.operands)
    if op.name == "where":
        condition, value, other = op.operands
        replaced = tests_for_nan(condition, other.op.operands[0] if is_magnitude(other) and other.op else other)
        return is_never_nan(value, sources, assumed) and (replaced or is_never_nan(other, sources, assumed))
    if op.name in EXTREMA.values() and not op.attrs["propagate_nan"]:
        return any(is_never_nan(x, sources, assumed) for x in op.operands)
    return False


def tests_for_nan(condition: Value, v: Value) -> bool:
    """Whether a condition holds where a value is NaN: the value differs from itself."""
    op = condition.op
    return op is not None and op.name == "ne" and op.operands[0] is v and op.operands[1] is v


def is_magnitude(v: Value) -> bool:
    """Whether a value is NaN where its operand is."""
    return v.op is not None and v.op.name == "abs"


def without_nan(low: Lowering, op: Op) -> Op:
    """A `maximum` (`minimum`) of values that are no NaN here, as the instruction is, which would give NaN for NaN."""
    if op.name not in EXTREMA.values() or op.attrs["propagate_nan"] or not op.result.dtype.is_float:
        return op
    sources = flow_sources(low.function)
    known = all(is_never_nan(v, sources) or is_merged_extreme(low, v) for v in op.operands)
    return replace(op, attrs={**op.attrs, "propagate_nan": True}) if known else op


def is_merged_extreme(low: Lowering, v: Value) -> bool:
    """Whether a value is an extreme that has the identity in place of NaN."""
    while v.op is not None and (v.op.name in MOVEMENT_OPS or is_multiple(v.op)):
        v = next((x for x in v.op.operands if x.op is None or x.op.name != "constant"), v.op.operands[0])
    op = v.op
    if op is None or op.name not in EXTREMA or v.dtype not in (float32, float16, bfloat16):
        return False
    return any(op.operands[0].shape[a] != 1 for a in op.attrs["axes"]) and is_only_merged(low, op)
