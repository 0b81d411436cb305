"""A word about compilations that take long, while they do."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pypto.errors import SlowCompilation
from pypto.loc import Loc

PATIENCE: Final = 5.0  # seconds
Alarm = Callable[[float, Callable[[], None]], Callable[[], None]]  # seconds and what to call; gives what cancels it


def alarm(seconds: float, call: Callable[[], None]) -> Callable[[], None]:
    """Call a function after some seconds, in a thread: the compiler may be deep inside of LLVM then."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer.cancel


@contextmanager
def watched(kernel: str, loops: tuple[Any, ...], set_alarm: Alarm) -> Iterator[None]:
    """Tell of the largest unrolled loop when a `with` block takes more than five seconds.

    Parameters
    ----------
    kernel : str
        Its name.
    loops : tuple of Unrolled
        The kernel's loops at compile time; without any, nothing is told.
    set_alarm : function
        `alarm`, or another clock.
    """
    if not loops:
        yield
        return
    largest = max(loops, key=lambda loop: loop.ops)
    size = f"{largest.iterations:,} iterations, {largest.ops:,} operations"
    text = (
        f"{kernel} takes more than {PATIENCE:g} seconds to compile: `{largest.text}` is unrolled ({size}); "
        "`pto.range` makes a loop of it, whose body is compiled once"
    )
    cancel = set_alarm(PATIENCE, lambda: tell(text, largest.loc))
    try:
        yield
    finally:
        cancel()


def tell(text: str, loc: Loc) -> None:
    """Warn at a place of the user's; where warnings are errors, which no other thread can raise, print it."""
    try:
        warnings.warn_explicit(text, SlowCompilation, loc.file, loc.line)
    except SlowCompilation:
        print(f"{loc.file}:{loc.line}: SlowCompilation: {text}", file=sys.stderr)
