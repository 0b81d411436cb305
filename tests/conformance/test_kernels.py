"""Every kernel of the collection: numpy, the interpreter and the CPU agree."""

from __future__ import annotations

import pytest

import pypto as pto
from tests.conformance.running import ALL, assert_close, at_level, make_launch, run
from tests.conftest import ALL_LEVELS

ON_OLD_MACHINES = ("add_native_f16", "softmax_native", "attention_causal", "matmul_f16", "quantize", "calls_gelu",
                   "reduce_f16", "integers_i64", "box", "find")  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_interpreter_agrees_with_numpy(name: str) -> None:
    launch = make_launch(name)
    assert_close(run(pto.interpret(launch.kernel), launch), launch.expected, launch.tolerance, name)


@pytest.mark.parametrize("level", ALL_LEVELS[2:], indirect=True)
@pytest.mark.parametrize("name", ON_OLD_MACHINES)
def test_cpu_without_newer_instructions(name: str, level: str) -> None:
    launch = make_launch(name)
    found = run(at_level(launch.kernel, level), launch)
    assert_close(found, launch.expected, launch.tolerance, f"{name} against numpy")


@pytest.mark.parametrize("name", ALL)
def test_cpu_agrees_with_numpy_and_interpreter(name: str, level: str) -> None:
    launch, again = make_launch(name), make_launch(name)
    found = run(at_level(launch.kernel, level), launch)
    assert_close(found, launch.expected, launch.tolerance, f"{name} against numpy")
    assert_close(found, run(pto.interpret(again.kernel), again), launch.tolerance, f"{name} against the interpreter")
