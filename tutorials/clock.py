"""A clock for the tutorials: who is how fast, taking turns in one process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any


def best_seconds(functions: Mapping[str, Callable[[], Any]], rounds: int = 7) -> dict[str, float]:
    """Least seconds of one call of each function; they take turns, so that a busy machine slows all alike.

    The variable ``ROUNDS``, where it is set, is how often at most: tests look at what is right, not at how fast it is.
    """
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(min(rounds, int(os.environ.get("ROUNDS", rounds)))):
        for name, function in functions.items():
            time.sleep(0.03)  # the threads of the one before, OpenBLAS's for one, spin for a while before they sleep
            function()  # brings its data back into the caches
            start = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def compare(what: str, functions: Mapping[str, Callable[[], Any]], work: float, unit: str, rounds: int = 7) -> None:
    """Time functions against one another and print a line for each.

    Parameters
    ----------
    what : str
        Heading, such as the shape.
    functions : mapping of str to callable
        The first one is ours; the others are said to be so many times slower or faster.
    work : float
        Bytes, floating-point operations or whatever one call gets done.
    unit : str
        Of `work`, such as "B" or "flop"; printed as G per second.
    rounds : int
        How often they take turns.
    """
    seconds = best_seconds(functions, rounds)
    ours = next(iter(seconds))
    print(what)
    for name, took in seconds.items():
        ratio = "" if name == ours else f"   {ours} is {took / seconds[ours]:.2f} times as fast"
        print(f"  {name:<8} {took * 1e3:8.3f} ms {work / took / 1e9:8.1f} G{unit}/s{ratio}")
