"""Programs of numpy under numba and jax, as they are: the same functions, with that library's numpy and compiler.

What a library does not compile is missing, with its own words. jax computes on arrays of its own, which are made before
the time is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from benchmarks.peers import imported
from benchmarks.runner import Impl, Missing
from pypto.graph.tracing.arguments import mapped

Wrap = Callable[[Any], Any]


def rebound(function: Any, names: Mapping[str, Any], wrap: Wrap) -> Any:
    """A function with others of its module, each wrapped, over globals of which some are replaced."""
    scope = {**function.__globals__, **names}
    for name, value in function.__globals__.items():
        if isinstance(value, FunctionType) and value.__module__ == function.__module__:
            scope[name] = wrap(FunctionType(value.__code__, scope, name, value.__defaults__, value.__closure__))
    return scope[function.__name__]


def tried(run: Impl, name: str) -> Impl | Missing:
    """An implementation that has run once."""
    try:
        run()
    except Exception as error:  # each library has its own, and they are told
        told = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        return Missing(f"{name} does not take it as it is: {type(error).__name__}: {told[:120]}")
    return run


def jax_program(function: Any, given: tuple[Any, ...], result: Callable[[Any], Any]) -> Impl | Missing:
    """A program under jax.jit, with jax.numpy for numpy."""
    jax = imported("jax")
    if isinstance(jax, Missing):
        return jax
    made = jax.jit(rebound(function, {"np": jax.numpy}, lambda f: f))
    arrays = mapped(given, lambda _, x: jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x)
    return tried(lambda: np.asarray(result(jax.block_until_ready(made(*arrays)))), "jax")


def numba_program(function: Any, given: tuple[Any, ...], result: Callable[[Any], Any]) -> Impl | Missing:
    """A program under numba's njit, on all threads."""
    numba = imported("numba")
    if isinstance(numba, Missing):
        return numba
    made = rebound(function, {}, numba.njit(parallel=True))
    return tried(lambda: result(made(*given)), "numba")
