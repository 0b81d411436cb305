"""Integer arguments that are 1 at launch: constants in Triton, and here where code depends on them.

A condition of `if` or an attribute such as the bounds of `arange` is known when it is computed from such arguments and
constants alone. The launch is asked for their values only then, and its answers become part of the guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pypto.frontend.scope import Scope
from pypto.frontend.tuples import leaves, rebuild
from pypto.frontend.values import is_index, tile_type
from pypto.ir.core import Op, Value
from pypto.ops.build import Number, computed
from pypto.ops.table import TABLE


def with_ones(scope: Scope, x: Any) -> Any:
    """`x` with Python numbers in place of the run-time scalars that are known; a tuple may have several."""
    if not scope.session.lenient or not any(isinstance(leaf, Value) for leaf in leaves(x)):
        return x
    numbers = [known_number(scope, leaf) for leaf in leaves(x)]
    return rebuild(x, iter([leaf if n is None else n for leaf, n in zip(leaves(x), numbers, strict=True)]))


def known_number(scope: Scope, x: Any) -> Number | None:
    """A scalar's value, if it is computed from constants and from integer arguments that are all 1 at launch."""
    if not isinstance(x, Value) or not scope.session.lenient:
        return None
    sources = list(sources_of(scope, x))
    if None in sources or not all(scope.session.facts.equals_one(name) for name in dict.fromkeys(sources) if name):
        return None
    return number_of(scope, x)


def sources_of(scope: Scope, x: Value) -> Iterator[str | None]:
    """Names of the integer arguments that a scalar is computed from; None for everything else but constants."""
    pending = [x]
    while pending:
        value = pending.pop()
        if value in scope.session.arguments and is_index(value):
            yield value.hint
        elif tile_type(value) is None or value.shape or value.op is None or not is_computed(value.op):
            yield None
            return
        else:
            pending += value.op.operands


def is_computed(op: Op) -> bool:
    return TABLE[op.name].elementwise if op.operands else "value" in op.attrs


def number_of(scope: Scope, x: Value) -> Number | None:
    if x in scope.session.arguments:
        return 1
    assert x.op is not None
    if x.op.operands:
        return computed(x.op, partial(number_of, scope))
    number: Number = x.op.attrs["value"]
    return number
