"""Speeds up the tilings of a kernel: it skips the searches of Inductor that cannot succeed.

Inductor splits a dimension where an address divides its index, and finds out by matching the address with a sum of
quotients and remainders. A match in sympy takes up to seconds, and most addresses divide nothing: that can be seen.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

functions: Any = importlib.import_module("torch.utils._sympy.functions")
analysis: Any = importlib.import_module("torch._inductor.codegen.block_analysis")
sympy: Any = analysis.sympy

_MATCHER: Final = "match_mod_div_block_expr"


def may_split(index: Any, variable: Any) -> bool:
    """Says whether every term of an address is a quotient or remainder of the variable, or a multiple of one.

    Examples
    --------
    >>> from torch.utils._sympy.functions import FloorDiv, ModularIndexing
    >>> x = sympy.Symbol("x", integer=True)
    >>> may_split(8 * FloorDiv(x, 4) + ModularIndexing(x, 1, 4), x)
    True
    >>> may_split(8 * FloorDiv(x, 4) + x, x)
    False
    """
    return all(divides(term, variable) for term in sympy.Add.make_args(index.expand(identity=True)))


def divides(term: Any, variable: Any) -> bool:
    """Says whether a term is a quotient or remainder of the variable, times factors that do not contain it."""
    factors = [factor for factor in sympy.Mul.make_args(term) if factor.has(variable)]
    divided = (functions.FloorDiv, functions.ModularIndexing)
    return len(factors) == 1 and isinstance(factors[0], divided) and factors[0].args[0] == variable


@contextmanager
def quick() -> Iterator[None]:
    """Calls Inductor's matcher only where a match is possible; otherwise a dimension is not split."""
    owner = analysis.BlockPatternMatcher
    before = vars(owner)[_MATCHER]
    match: Callable[..., Any] = getattr(owner, _MATCHER)

    def matched(index: Any, variable: Any, numel: Any, dimensions: int) -> Any:
        return match(index, variable, numel, dimensions) if may_split(index, variable) else None

    setattr(owner, _MATCHER, staticmethod(matched))
    try:
        yield
    finally:
        setattr(owner, _MATCHER, before)
