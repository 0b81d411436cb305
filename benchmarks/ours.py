"""Our side of the rows: the helpers that launch the tutorials' kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.runner import Missing
from benchmarks.tutorials import load_tutorial


def ours(name: str, function: str) -> Callable[..., Any] | Missing:
    """The helper `function` of a tutorial, or Missing with the reason."""
    try:
        found: Callable[..., Any] = getattr(load_tutorial(name), function)
    except Exception as problem:  # whatever stops a tutorial from loading, the row has to say so and the run go on
        return Missing(f"tutorials/{name}.py: {type(problem).__name__}: {problem}")
    return found
