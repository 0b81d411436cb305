"""Ctrl-C during a search: a handler records the signal, so that it is not lost in a finaliser.

Python raises ``KeyboardInterrupt`` between any two instructions of the main thread. In a finaliser (``__del__``, a
callback of a weak reference) it prints the exception and continues. A search frees many objects with finalisers, as
LLVM's are. So the handler records the signal before it raises, and the search checks the record between its steps.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


@dataclass
class Interrupts:
    """Records whether a signal arrived whose exception was lost."""

    pending: bool = False

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` for a signal whose exception was lost."""
        if self.pending:
            raise KeyboardInterrupt

    def take(self) -> bool:
        """Clear a pending signal, and tell whether there was one."""
        was, self.pending = self.pending, False
        return was

    def handler(self, before: Handler) -> Handler:
        """Return a handler that records the signal and then calls the previous handler."""

        def handle(number: int, frame: FrameType | None) -> Any:
            self.pending = True
            return None if in_finaliser(frame) else before(number, frame)

        return handle


def in_finaliser(frame: FrameType | None) -> bool:
    """Whether a frame runs below a `__del__`, which throws exceptions away and prints them."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


@contextmanager
def noting_interrupts() -> Iterator[Interrupts]:
    """Record Ctrl-C within a `with` block.

    This replaces only Python's default handler: a program with its own handler keeps it, and threads other than the
    main thread get no signals.
    """
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts.handler(signal.default_int_handler))
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
