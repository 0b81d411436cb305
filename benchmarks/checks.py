"""The suite `checked`: what checks cost. Ours is the kernel without them, its peers are the same kernel with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pypto as pto
from benchmarks import attention, gemm, rows
from benchmarks.elementwise import ROWS as ELEMENTWISE
from benchmarks.launch import ROWS as LAUNCHES
from benchmarks.runner import Case, Impl, Missing, Row, Suite


def under(mode: Callable[[], AbstractContextManager[None]], run: Impl) -> Any:
    with mode():
        return run()


def checked_case(build: Callable[[], Case]) -> Case:
    """A case whose peers are its own kernel with all checks, and with those that do not look for races."""
    case = build()
    assert not isinstance(case.ours, Missing)
    peers = {
        "checked": partial(under, pto.checked, case.ours),
        "checked, races=False": partial(under, partial(pto.checked, races=False), case.ours),
    }
    return replace(case, peers=peers)


def titled(chosen: Sequence[Row], *titles: str) -> list[Row]:
    return [row for row in chosen if row.title in titles and 0 in row.threads]


CHOSEN: Final = (
    *titled(ELEMENTWISE, "vector add 1M", "vector add 16M", "gelu 1M", "gather 4M of 1M"),
    *titled(rows.BARRED, "softmax 4096²", "layer norm 4096²"),
    *titled(gemm.BARRED, "matmul fp32 1024³"),
    *titled(attention.BARRED, "attention 16 x 1024 x 64", "causal attention 16 x 2048 x 64"),
    LAUNCHES[0],
)
CHECKED: Final = Suite("checked", tuple(replace(r, build=partial(checked_case, r.build), bars=()) for r in CHOSEN))
