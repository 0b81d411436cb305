"""Target constants: `pto.target` in kernels, in the interpreter, for chips, ahead of time, and on the host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import target as facts
from pypto.backends.base import Backend
from pypto.errors.frontend import NoAttribute, NoTargetFact
from pypto.ops.target import FACTS, TargetConstants
from pypto.runtime.mode import mode
from pypto.runtime.places import HostDevice
from pypto.tools.aot import build

CHIPS = ("ascend910b2", "ascend950")


@pto.jit
def numbers(y: Any) -> None:
    y[0] = pto.target.cores
    y[1] = facts.vector_bytes
    y[2] = 1 if pto.target.has_exp2 else 0


@pto.jit
def strips(x: Any, y: Any) -> None:
    WIDTH = pto.target.vector_bytes // 4
    for i in range(pto.program_id(0) * WIDTH, x.shape[0], pto.target.cores * WIDTH):
        y[i : i + WIDTH] = x[i : i + WIDTH] + 1


@pto.jit
def cubes(y: Any) -> None:
    y[0] = pto.target.cube_cores


def run(kernel: Any, count: int = 3, grid: int = 1) -> list[float]:
    y = np.zeros(count, np.float32)
    kernel[grid](y)
    return y.tolist()


def test_facts_are_those_of_the_host_in_kernels_and_in_the_interpreter() -> None:
    expected = [pto.target.cores, pto.target.vector_bytes, 1]
    assert run(numbers) == expected
    assert run(pto.interpret(numbers)) == expected
    assert pto.target.name == "cpu" and pto.target.l2_bytes > 1 << 16


def test_facts_are_sizes_of_tiles_and_bounds_of_loops() -> None:
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    strips[pto.target.cores](x, y)
    assert np.array_equal(y, x + 1)
    version = strips.compile(x, y)
    assert not any("target" in kind for kind, _, _ in version.guard)  # a constant asks nothing of a launch


@pytest.mark.parametrize("chip", CHIPS)
def test_facts_are_those_of_the_chip_that_is_compiled_for(chip: str) -> None:
    wanted, y = pto.target(chip), np.zeros(3, np.float32)
    constants = [
        op.attrs["value"] for op in numbers.compile(y, target=chip).program.function.walk() if op.name == "constant"
    ]
    assert {wanted.cores, wanted.vector_bytes} <= set(constants) and wanted.has_exp2 is False
    assert numbers.compile(y) is not numbers.compile(y, target=chip)


def test_predictions_are_made_with_the_facts_of_the_chip() -> None:
    x = np.zeros(1 << 16, np.float32)
    found = pto.simulate(strips, "ascend910b2")[pto.target("ascend910b2").cores](x, x.copy())
    assert found.target == "ascend910b2" and found.seconds > 0


def test_a_fact_that_a_backend_does_not_give_is_refused_at_its_line() -> None:
    with pytest.raises(NoTargetFact, match=r"the target cpu has no fact `cube_cores`") as caught:
        cubes[1](np.zeros(1, np.float32))
    assert caught.value.loc is not None and caught.value.loc.function == "cubes"
    assert "it has name, cores, l2_bytes, vector_bytes, has_exp2" in str(caught.value)
    with pytest.raises(NoTargetFact):
        _ = pto.target.cube_cores
    assert cubes.compile(np.zeros(1, np.float32), target="ascend910b2") is not None


def test_an_unknown_fact_is_refused_with_the_one_that_may_be_meant() -> None:
    @pto.jit
    def misspelt(y: Any) -> None:
        y[0] = pto.target.core  # type: ignore[attr-defined]

    with pytest.raises(NoAttribute, match=r"did you mean `pto.target.cores`"):
        misspelt[1](np.zeros(1, np.float32))
    with pytest.raises(AttributeError, match=r"did you mean `pto.target.cores`"):
        _ = pto.target.core  # type: ignore[attr-defined]


def test_a_backend_that_gives_no_facts_has_its_name_alone() -> None:
    class Silent:
        name = "silent"
        constants = Backend.constants

    device = HostDevice("silent", Silent())
    with mode(device=device):
        assert pto.target() == TargetConstants(name="silent")
        with pytest.raises(NoTargetFact, match="it has name, has_exp2;"):
            _ = pto.target.cores


def test_libraries_know_the_level_and_not_the_machine(tmp_path: Path) -> None:
    @pto.jit
    def width(y: Any) -> None:
        y[0] = pto.target.vector_bytes

    y = np.zeros(3, np.float32)
    assert build(width, [{"y": y}], tmp_path / "width.o", "object", ["x86-64-v3"])
    with pytest.raises(NoTargetFact, match="the target cpu has no fact `cores`"):
        build(numbers, [{"y": y}], tmp_path / "numbers.o", "object", ["x86-64-v3"])


def test_every_fact_is_documented() -> None:
    text = type(pto.target).__doc__ or ""
    assert all(f"    {name} : " in text for name in FACTS)
    assert set(FACTS) <= set(type(pto.target).__annotations__)


PROGRAM = """
import numpy as np, pypto as pto
@pto.jit
def cores(y):
    y[0] = pto.target.cores
y = np.zeros(1, np.float32)
cores[1](y)
print(int(y[0]))
"""


def test_a_stored_kernel_is_not_used_where_a_fact_differs(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    for threads in ("1", "2", "1"):
        environment = {"PYPTO_CACHE_DIR": str(tmp_path), "PYPTO_NUM_THREADS": threads, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run([sys.executable, file], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [threads]
