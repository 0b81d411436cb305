"""What holds for a stretch of a program or for all of it: the interpreter, and on how many threads kernels run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pypto.runtime.mode import mode


@contextlib.contextmanager
def interpreter() -> Iterator[None]:
    """Run all kernels in the interpreter for the length of a `with` block."""
    with mode(interpret=True):
        yield


def set_num_threads(count: int) -> None:
    """Use at most `count` threads for later launches; 0 is the machine's own number."""
    from pypto.compile import session

    session().threads = int(count)


def get_num_threads() -> int:
    """Threads of a launch."""
    from pypto.compile import session

    return session().threads
