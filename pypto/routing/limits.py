"""Limits the time of a version: it runs on another thread, and its caller waits no longer than the limit.

A thread cannot be stopped from outside. One that does not return in time keeps its core, its copies of arguments and
its results until it returns, if ever; it ends then, and its results are dropped. `Threads.stuck` counts such threads.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any

Task = Callable[[], None]


class TimeLimit(TimeoutError):
    """The error that a version did not return within its time."""


class Worker:
    """A thread that runs tasks until it gets None; it keeps no process alive."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[Task | None] = SimpleQueue()
        Thread(target=self.loop, name="pypto-route", daemon=True).start()

    def loop(self) -> None:
        while (task := self.tasks.get()) is not None:
            task()


@dataclass(slots=True)
class Threads:
    """A pool of threads for calls with a time limit: idle threads, and the number of those that are stuck."""

    idle: list[Worker] = field(default_factory=list)
    stuck: int = 0
    lock: Lock = field(default_factory=Lock)

    def run(self, function: Callable[[], Any], seconds: float) -> Any:
        """Calls a function in this context on another thread.

        Raises
        ------
        TimeLimit
            When it has not returned after so many seconds.
        """
        with self.lock:
            worker = self.idle.pop() if self.idle else Worker()
        answer: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        context, state = contextvars.copy_context(), torch_state()

        def task() -> None:
            try:
                with state:
                    answer.put((True, context.run(function)))
            except BaseException as error:  # whatever it is, the caller gets it
                answer.put((False, error))

        worker.tasks.put(task)
        try:
            returned, result = answer.get(timeout=seconds)
        except Empty:
            self.abandon(worker)
            raise TimeLimit(f"no result after {seconds:g} s") from None
        except BaseException:  # the caller was interrupted
            self.abandon(worker)
            raise
        with self.lock:
            self.idle.append(worker)
        if not returned:
            raise result
        return result

    def abandon(self, worker: Worker) -> None:
        """Abandons a thread: it is stuck until it returns, and then it ends."""
        with self.lock:
            self.stuck += 1
        worker.tasks.put(self.released)
        worker.tasks.put(None)

    def released(self) -> None:
        with self.lock:
            self.stuck -= 1


def torch_state() -> contextlib.AbstractContextManager[None]:
    """Returns a context that gives another thread this thread's grad mode, where torch is loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return contextlib.nullcontext()
    return grad_mode(torch, torch.is_grad_enabled(), torch.is_inference_mode_enabled())


@contextlib.contextmanager
def grad_mode(torch: Any, grad: bool, inference: bool) -> Iterator[None]:
    """Sets torch's grad mode and inference mode for this thread."""
    with torch.inference_mode(inference), torch.set_grad_enabled(grad):
        yield
