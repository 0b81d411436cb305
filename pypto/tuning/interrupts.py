"""Ctrl-C during a search, which is not lost where Python throws the exception away.

Python raises ``KeyboardInterrupt`` between any two instructions of the main thread. Where these are of a finaliser
(``__del__``, a callback of a weak reference) it prints the exception and goes on. A search frees many objects with
finalisers, those of LLVM among them. So the handler here notes the signal before it raises, and the search asks between
its steps.
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
    """Whether a signal came that nobody has seen as an exception."""

    pending: bool = False

    def check(self) -> None:
        """Raise ``KeyboardInterrupt`` for a signal whose own exception was thrown away."""
        if self.pending:
            raise KeyboardInterrupt

    def take(self) -> bool:
        """Whether a signal is pending; it is not any more."""
        was, self.pending = self.pending, False
        return was

    def handler(self, before: Handler) -> Handler:
        """A handler that notes the signal and then does what the one before does."""

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
    """Note Ctrl-C for the length of a `with` block.

    Only where Python's own handler would raise ``KeyboardInterrupt``: a program that handles the signal itself keeps
    its handler, and threads beside the main one get no signals.
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
