"""Refusals during a trace: numpy may wrap them in errors of its own, and the traced function may handle them."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import contextmanager

from pypto.errors import Diagnostic
from pypto.errors.graph import REFUSALS, NotTraced
from pypto.loc import Caller


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise the original error of a traced array that numpy wrapped in another error."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if "'int' object is not callable" in str(error):
            check_size_called(error)
        cause = error.__cause__ or error.__context__
        if isinstance(error, Diagnostic) or not isinstance(cause, Diagnostic):
            raise
        raise cause from None


def check_size_called(error: Exception) -> None:
    """Refuse `x.size()`, a word of torch, by name.

    Raises
    ------
    NotTraced
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    loc = None if trace is None else Caller.of(trace.tb_frame).loc()
    if loc is not None and ".size(" in linecache.getline(loc.file, loc.line):
        problem = "it is a word of torch, and this is an array of numpy"
        raise NotTraced(loc, what="`.size()`", problem=problem, way="write `x.shape`, or `x.shape[0]`") from None


@contextmanager
def unhandled() -> Iterator[None]:
    """Raise a refusal that the function itself handled: the branch that it took is not the one that numpy takes."""
    refusals: list[Diagnostic] = []
    token = REFUSALS.set(refusals)
    try:
        yield
    finally:
        REFUSALS.reset(token)
    if refusals:
        raise refusals[0]
