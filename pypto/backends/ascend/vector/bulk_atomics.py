"""Atomic changes of whole runs of memory: where nobody reads the old values they are stores that add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pypto.backends.ascend.vector.atomics import DTYPES, MODES
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ops.build import OpBuilder
from pypto.passes.access import Bounds, conditions
from pypto.passes.affine import Forms
from pypto.passes.canonicalize import Simplifier
from pypto.passes.dce import dce
from pypto.passes.memory_effects import is_atomic


def raise_bulk_atomics(function: Function) -> Function:
    """Atomic ops through affine pointers become `tile_store` with an attribute ``atomic``."""
    if not any(is_atomic(op) for op in function.walk()):
        return function
    read = {v for op in function.walk() for v in op.operands}
    b = Simplifier(Region())
    return dce(_Raiser(b, _rule, forms=Forms(b), read=read).function(function))


@dataclass
class _Raiser(Rewriter[OpBuilder]):
    forms: Forms = field(kw_only=True)
    read: set[Value] = field(kw_only=True)

    def region(self, old: Region) -> Region:
        outer, self.forms = self.forms, self.forms.inside()
        new = super().region(old)
        self.forms = outer
        return new


def _rule(rewriter: _Raiser, op: Op) -> Sequence[Value] | None:
    if not is_atomic(op) or not op.operands[0].shape or op.result in rewriter.read:
        return None
    pointers, value, *mask = rewriter.operands(op)
    if op.attrs["kind"] not in MODES or value.dtype.mnemonic not in DTYPES:
        return None
    form, bounds = rewriter.forms.of(pointers), Bounds(rewriter.forms, pointers.shape)
    for condition in conditions(rewriter.forms, mask[0]) if mask else ():
        bounds.take(condition)
    access = bounds.access(form, value, None)
    attrs = {"shape": access.shape, "masked": access.mask is not None, "atomic": op.attrs["kind"]}
    rewriter.builder.create("tile_store", access.operands, attrs)
    return [rewriter.builder.create("undef", (), {}, (op.result.type,)).result]
