"""Large kernels mean what small ones do, although they are compiled in parts."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
import pytest

import pypto as pto
from benchmarks.growth import HEAD, SOURCES
from pypto.backends.cpu.loopir.fusion import MAX_OPEN_STATEMENTS
from pypto.backends.cpu.loopir.ir import Nest
from pypto.compile import Session
from tests.backends_cpu.lowering import lowered
from tests.conformance.cases import Launch
from tests.conformance.running import assert_close, make_launch, run


def kernel_of(kind: str, lines: int) -> Any:
    text, file = f"{HEAD}{SOURCES[kind](lines)}\n", f"<{kind} {lines}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "large"}
    exec(compile(text, file, "exec"), names)
    return names["kernel"]


def arrays(lines: int) -> tuple[Any, Any]:
    x = np.random.default_rng(1).random((lines // 10 + 8, 256), np.float32)
    return x, np.zeros_like(x)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("lines", [200, pytest.param(400, marks=pytest.mark.slow)])
def test_large_kernels_are_right(kind: str, lines: int) -> None:
    kernel, (x, y), (_, wanted) = kernel_of(kind, lines), arrays(lines), arrays(lines)
    with pto.interpreter():
        kernel[1](x, wanted)
    kernel[1](x, y)
    assert wanted.any()
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ("find", "collatz", "leave_early", "attention_causal", "layer_norm_backward"))
def test_parts_of_one_item_each(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a kernel is cut, inside of loops and branches too, its parts give each other what they need."""
    launch = make_launch(name)
    with pto.interpreter():
        wanted = {n: x.copy() for n, x in run(launch.kernel, make_launch(name)).items()}
    for where, size in (
        ("codegen.function.OUTLINE_ABOVE", -1),
        ("codegen.function.PART_SIZE", 0),
        ("codegen.outlining.PART_SIZE", 1),
    ):
        monkeypatch.setattr(f"pypto.backends.cpu.{where}", size)
    monkeypatch.setattr(Session, "through_cache", lambda self, backend, parts, make: make())
    assert ".part1(" in lowered(launch).text
    assert_close(run(pto.jit(launch.kernel.function), launch), wanted, 1e-4, name)


def test_nests_are_bounded() -> None:
    """What is compared with each other while it is fused does not grow with the kernel."""
    x, y = arrays(1000)
    items = lowered(Launch(kernel_of("straight", 400), 1, {"x": x, "y": y}, {})).schedule.items
    sizes = [len(item.stmts) for item in items if isinstance(item, Nest)]
    assert len(sizes) > 2 and max(sizes) == MAX_OPEN_STATEMENTS
