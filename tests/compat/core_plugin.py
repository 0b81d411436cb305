"""A plugin of pytest that runs Triton's own tests on pypto: fixtures they ask for, a sample of cases, and a log.

The environment says which: CORE_SAMPLE cases are drawn with CORE_SEED, of which every CORE_PARTS-th from CORE_PART on
is run; CORE_LOG gets a line of JSON for each.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pypto.compat.triton import install

install()

PART_OF_ALL = 7  # the argument of a conversion's test that says which


def number(name: str) -> int:
    return int(os.environ[name])


@pytest.fixture
def device() -> str:
    return "cpu"


@pytest.fixture
def fresh_knobs() -> Iterator[Any]:
    from triton._internal_testing import _fresh_knobs_impl  # type: ignore[import-not-found]

    fresh, undo = _fresh_knobs_impl()
    yield fresh()
    undo()


@pytest.fixture
def with_allocator() -> None:
    """Nothing in a kernel asks for memory."""


@pytest.fixture
def fresh_triton_cache(tmp_path: Path) -> str:
    return str(tmp_path)


def pytest_configure(config: pytest.Config) -> None:
    for marker in ("interpreter", "cpu"):
        config.addinivalue_line("markers", f"{marker}: of Triton's own")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The sample is drawn of all cases, then the part of it."""
    generator = random.Random(number("CORE_SEED"))
    drawn = {*generator.sample(range(len(items)), min(number("CORE_SAMPLE"), len(items)))}
    note({"cases": len(items)})
    chosen = [item for n, item in enumerate(items) if n in drawn]
    items[:] = chosen[number("CORE_PART") :: number("CORE_PARTS")]
    note({"chosen": [name(item) for item in items]})
    for module in {item.module for item in items if isinstance(item, pytest.Function)}:
        compare_numbers(module)


def compare_numbers(module: Any) -> None:
    """Where Triton's fork for CPUs refuses what pypto computes, a file compares numbers, as it does on GPUs.

    Of the 256 parts of all float32 that are converted on GPUs, every 16th is converted here, as in the fork.
    """
    if hasattr(module, "downcast_test"):
        convert = module.downcast_test
        module.is_cpu = lambda: False
        module.downcast_test = lambda *args, **named: args[PART_OF_ALL] % 16 or convert(*args, **named)
    if hasattr(module, "FALLBACK_SUPPORTED_REDUCE_DTYPES"):
        dtypes = {getattr(module.tl, x) for x in module.tma_dtypes}
        integers = {x for x in dtypes if x.is_int()}
        arithmetic, bitwise = (
            dict.fromkeys(("add", "min", "max"), dtypes),
            dict.fromkeys(("and", "or", "xor"), integers),
        )
        module.FALLBACK_SUPPORTED_REDUCE_DTYPES = arithmetic | bitwise


def name(item: pytest.Item) -> str:
    return item.nodeid.rpartition("::")[2] if "[" not in item.nodeid else item.nodeid.split("::", 1)[1]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        error = call.excinfo
        reason = f"{error.typename}: {str(error.value).strip().splitlines()[:1]}" if error else ""
        note({"case": name(item), "outcome": report.outcome, "reason": re.sub(r"\d+", "#", reason)[:160]})
    return report


def note(row: dict[str, Any]) -> None:
    with Path(os.environ["CORE_LOG"]).open("a", encoding="utf-8") as log:
        log.write(json.dumps(row) + "\n")
