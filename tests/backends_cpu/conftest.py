"""Loop IR in, Loop IR out."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from pypto.backends.cpu.loopir.ir import Schedule
from pypto.backends.cpu.loopir.printer import print_loops
from tests.backends_cpu.loop_texts import schedule_of

Becomes = Callable[[Callable[[Schedule], Schedule], str, str, str], None]


@pytest.fixture
def becomes() -> Becomes:
    """Asserts that a pass makes one text of Loop IR of another, for the kernel whose Tile IR is given."""

    def check(run: Callable[[Schedule], Schedule], kernel: str, before: str, after: str) -> None:
        text = print_loops(run(schedule_of(kernel, before)))
        assert text.splitlines() == dedent(after).lstrip("\n").splitlines()

    return check
