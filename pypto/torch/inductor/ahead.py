"""Compiles kernels ahead in worker processes, while Inductor writes the next ones.

When Inductor writes the first call of a kernel, its specialisation is known: dtypes and ranks of buffers, and which of
them share memory. This process builds Tile IR, and a worker compiles it to machine code in the disk cache. The first
launch finds it there, waits for the worker that is compiling it, or compiles it itself.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from queue import SimpleQueue
from types import SimpleNamespace
from typing import IO, Any, Final

from pypto.compile import session
from pypto.errors import PyptoError
from pypto.torch.inductor import contract
from pypto.torch.inductor.jobs import Job, job_for

_APART: Final = 1 << 40  # bytes between invented addresses


class Workers:
    """A pool of processes that compile kernels.

    The processes get jobs in turns. Each ends after its last job, once the pool is closed.

    Parameters
    ----------
    count : int
        Processes.
    """

    def __init__(self, count: int) -> None:
        self.count, self.processes, self.sent = count, list[Worker](), list[Job]()

    def start(self) -> None:
        """Starts the processes, since jobs come soon."""
        text = f"import sys; sys.path[:] = {sys.path!r}; from pypto.torch.inductor.worker import work; work()"
        settings, silent = session().settings, subprocess.DEVNULL
        env = {**os.environ, "PYPTO_CACHE_DIR": settings.cache_dir, "PYPTO_LEVEL": settings.level}
        while len(self.processes) < self.count:
            command = [sys.executable, "-c", text]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=silent, stderr=silent, env=env, start_new_session=True
            )
            self.processes.append(Worker(process))

    def compile(self, body: str, arguments: list[Any], graph: Any) -> None:
        """Passes a kernel to a worker, given the expression that builds it, and the arguments of a call in a graph.

        A kernel with a problem, or whose arguments are not known, is left to the first launch, which raises the error.
        """
        from pypto.torch.inductor.load import unlisted

        given = stand_ins(arguments, graph)
        if given is None:
            return
        kernel = eval(body, {"async_compile": SimpleNamespace(triton=unlisted)})
        with suppress(PyptoError):
            job = job_for(kernel.kernel, kernel.place(*given)[1])
            if job is not None:
                self.take(job)

    def take(self, job: Job) -> None:
        """Passes a job to the next worker."""
        self.start()
        self.processes[len(self.sent) % self.count].jobs.put(job)
        self.sent.append(job)

    def close(self) -> None:
        """Accepts no more jobs, without waiting for those in the queues."""
        for process in self.processes:
            process.jobs.put(None)

    def wait(self) -> None:
        """Waits until all jobs are done."""
        for process in self.processes:
            process.thread.join()


class Worker:
    """A process, and a thread that feeds it, since a pipe holds little until the process reads."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.jobs = process, SimpleQueue[Job | None]()
        self.thread = threading.Thread(target=self.feed, daemon=True)
        self.thread.start()

    def feed(self) -> None:
        """Passes jobs to the process. If the process has ended, launches compile the remaining kernels."""
        with suppress(OSError):
            for job in iter(self.jobs.get, None):
                pickle.dump(job, self.pipe)
                self.pipe.flush()
        with suppress(OSError):
            self.pipe.close()
        self.process.wait()

    @property
    def pipe(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin


# The workers of the graph that is being compiled.
WORKERS: Final[ContextVar[Workers | None]] = ContextVar("WORKERS", default=None)


@contextmanager
def workers(threads: int) -> Iterator[None]:
    """Provides workers during a `with` block, as many as `threads` leave beside this process.

    Workers finish the jobs that they have when the block ends. The block has no workers without a disk cache, on a
    single core, or with a torch that lacks the internal names which describe a call.
    """
    count = min(threads, session().most_threads) - 1
    if not contract.tells_of_calls() or count < 1 or WORKERS.get() is not None or session().settings.cache != "rw":
        yield
        return
    pool = Workers(count)
    token = WORKERS.set(pool)
    try:
        yield
    finally:
        WORKERS.reset(token)
        pool.close()


@dataclass(frozen=True)
class StandIn:
    """A placeholder for a buffer that does not exist yet, with the attributes that a launch reads."""

    address: int
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        return self.strides


def stand_ins(arguments: list[Any], graph: Any) -> list[Any] | None:
    """Returns placeholders for the buffers of a call, and its numbers; None if Inductor does not describe them."""
    roots: dict[str, int] = {}
    values = [stand_in(x, graph, roots) if isinstance(x, str) else hint(x, graph) for x in arguments]
    return None if any(x is None for x in values) else values


def stand_in(name: str, graph: Any, roots: dict[str, int]) -> StandIn | None:
    """Returns a placeholder for a buffer, at an address relative to that of the buffer of which it is a view."""
    buffer = graph.try_get_buffer(name)
    if buffer is None:
        return None
    layout = buffer.get_layout()
    view = getattr(layout, "view", None)
    root, offset = (name, 0) if view is None else (view.get_name(), hint(view.get_layout().offset, graph))
    base = roots.setdefault(root, _APART * (len(roots) + 1))
    sizes, strides = (tuple(hint(n, graph) for n in of) for of in (layout.size, layout.stride))
    return StandIn(base + offset * layout.dtype.itemsize, layout.dtype, sizes, strides)


def hint(number: Any, graph: Any) -> Any:
    """Returns a number as it is, and for an expression the number that Inductor expects."""
    number = getattr(number, "inner_expr", number)
    return number if isinstance(number, int | float) else int(graph.sizevars.optimization_hint(number))
