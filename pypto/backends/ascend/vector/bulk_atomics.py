"""Bulk atomics: atomic ops through affine pointers become tile stores, which the copy engine adds up.

It pays because a store moves whole rows, and an atomic op without it goes element by element. It is legal if no one
reads the old values, and the copy engine has the operation and the dtype.

    atomic_add(ptr + arange(64), v)      ->      tile_store(base, offset, v) {atomic = "add"}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pypto.backends.ascend.vector.handlers.atomics import DTYPES, MODES
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ops.build import OpBuilder
from pypto.passes.access import Bounds, conditions
from pypto.passes.analysis.affine import Forms
from pypto.passes.analysis.memory_effects import is_atomic
from pypto.passes.canonicalize import Simplifier
from pypto.passes.dce import dce


def raise_bulk_atomics(function: Function) -> Function:
    """Rewrite atomic ops through affine pointers as `tile_store` with an attribute ``atomic``."""
    if not any(is_atomic(op) for op in function.walk()):
        return function
    read_values = {v for op in function.walk() for v in op.operands}
    b = Simplifier(Region())
    return dce(_Raiser(b, _rule, forms=Forms(b), read=read_values).function(function))


@dataclass
class _Raiser(Rewriter[OpBuilder]):
    """The rewrite."""

    forms: Forms = field(kw_only=True)  # affine forms of pointers
    read: set[Value] = field(kw_only=True)  # values that something reads

    def region(self, old: Region) -> Region:
        """Rewrite a region with affine forms of its own."""
        outer = self.forms
        self.forms = self.forms.inside()
        new = super().region(old)
        self.forms = outer
        return new


def _rule(rewriter: _Raiser, op: Op) -> Sequence[Value] | None:
    """Rewrite one op, if it qualifies."""
    if not is_atomic(op) or not op.operands[0].shape or op.result in rewriter.read:
        return None
    pointers, value, *mask = rewriter.operands(op)
    if op.attrs["kind"] not in MODES or value.dtype.mnemonic not in DTYPES:
        return None
    pointer_form = rewriter.forms.of(pointers)
    bounds = Bounds(rewriter.forms, pointers.shape)
    for condition in conditions(rewriter.forms, mask[0]) if mask else ():
        bounds.take(condition)
    access = bounds.access(pointer_form, value, None)
    attrs = {"shape": access.shape, "masked": access.mask is not None, "atomic": op.attrs["kind"]}
    rewriter.builder.create("tile_store", access.operands, attrs)
    return [rewriter.builder.create("undef", (), {}, (op.result.type,)).result]
