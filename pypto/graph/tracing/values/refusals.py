"""Refusals during a trace: numpy may wrap them in errors of its own, and the traced function may handle them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pypto.errors import Diagnostic
from pypto.errors.graph import REFUSALS


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise the original error of a traced array that numpy wrapped in another error."""
    try:
        yield
    except (TypeError, ValueError) as error:
        cause = error.__cause__ or error.__context__
        if isinstance(error, Diagnostic) or not isinstance(cause, Diagnostic):
            raise
        raise cause from None


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
