"""Surrounds launches of a kernel that is checked or prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from pypto.debug.checked import Checking, Sizes
from pypto.debug.printed import Printing
from pypto.runtime.owners import OwnerStore


def watch_of(program: Any, infos: Mapping[str, Any], checked: bool, store: OwnerStore) -> Callable[..., Any]:
    """Returns the context of launches of one compiled version, for arguments of the same kinds."""
    checking = Checking.of(program, infos, store).watched if checked else None
    printing = Printing.of(program.artifact).watched if program.artifact.prints else None
    one = checking or printing
    if one is None or checking is None or printing is None:
        return one or (lambda *_: nullcontext())

    @contextmanager
    def both(slots: list[int], grid: Sizes, addresses: Sequence[int], threads: int) -> Iterator[None]:
        """Combines checks and prints: the output is printed before an error of a check is raised."""
        with printing(slots, grid, addresses, threads), checking(slots, grid, addresses, threads):
            yield

    return both
