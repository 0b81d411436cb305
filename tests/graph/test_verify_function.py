"""`pto.verify` of a fused function: it names the first array that differs, and where, and leaves arguments alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.arrays import Dim
from pypto.errors.graph import ArrayDiffers
from pypto.errors.launch import NotLaunched
from pypto.graph.fused import Fused
from pypto.graph.plan.schedule import PlanKernel
from pypto.jit.generated import kernel_of

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 96), np.float32)
W = RNG.standard_normal((96, 300), np.float32)


def three_steps(x: Any, w: Any) -> Any:
    y = np.exp(x) / 2
    mean = y.mean(axis=0)
    z = (y - mean) @ w
    return z[::2] * 3, mean


def with_fault(fused: Fused, args: tuple[Any, ...], step: int, change: Callable[[str], str]) -> str:
    """The fused function's plan with another text in the kernel of a step; gives the kernel's name."""
    plan = fused.plan(*args)
    kernel = plan.steps[step].kernel
    assert kernel is not None
    source = change(kernel.source)
    assert source != kernel.source
    faulty = PlanKernel(kernel.name, source, kernel.form, kernel_of(source, kernel.name, kernel.sized), kernel.sized)
    plan.keep = None  # the fault is not for the cache on disk
    plan.steps = tuple(replace(s, kernel=faulty) if n == step else s for n, s in enumerate(plan.steps))
    return kernel.name


def test_what_is_right_is_a_report() -> None:
    fused = pto.fuse(three_steps)
    before = X.copy()
    found = pto.verify(fused, X, W)
    plan = fused.plan(X, W)
    assert [a.step for a in found.arrays] == [n for n, s in enumerate(plan.steps) for _ in s.writes]
    assert [a.kernel for a in found.arrays] == [s.kernel.name for s in plan.steps if s.kernel for _ in s.writes]
    assert all(a.ulp is not None and a.ulp < 40 for a in found.arrays)
    assert [a.array for a in found.results] == ["result 0", "result 1"]
    text = str(found)
    assert text.startswith(f"three_steps: {len(plan.steps)} steps compute what numpy does\n")
    assert "test_verify_function.py:" in text
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("step", [n for n, s in enumerate(pto.fuse(three_steps).plan(X, W).steps) if s.kernel])
def test_a_fault_in_a_kernel_is_found_where_it_is(step: int) -> None:
    """One element of what a step stores is wrong: the first array that differs is the one of this step."""
    fused = pto.fuse(three_steps)
    lines = fused.plan(X, W).steps[step].kernel.source.splitlines()  # type: ignore[union-attr]
    number = next(n for n, line in enumerate(lines) if line.lstrip().startswith("out0["))

    def change(source: str) -> str:
        target = lines[number].strip().partition("]")[0] + "]"
        indent = " " * (len(lines[number]) - len(lines[number].lstrip()))
        fault = f"{indent}if pto.program_id(0) == 0:\n{indent}    {target} = {target} + 1"
        return "\n".join([*lines[: number + 1], fault, *lines[number + 1 :]]) + "\n"

    name = with_fault(fused, (X, W), step, change)
    with pytest.raises(ArrayDiffers) as caught:
        pto.verify(fused, X, W)
    error = caught.value
    node = fused.plan(X, W).steps[step].writes[0]
    assert f"%{node.number}: {node.type}" in error.message
    assert f"step {step} wrote it, {name}, program (0, 0, 0) at `" in error.message
    assert "so its text is wrong" in error.message
    assert error.loc == node.loc
    assert error.fields["index"] == ", ".join("0" for _ in node.shape)
    assert float(error.fields["got"]) == pytest.approx(float(error.fields["expected"]) + 1, abs=1e-4)


def test_a_constant_that_is_wrong_is_found() -> None:
    """The line that names the constant is the line of the error, with both values and the distance in ulp."""
    fused = pto.fuse(lambda x: np.tanh(x * 0.5) + 1)
    with_fault(fused, (X,), 0, lambda source: source.replace("0.5", "0.25"))
    with pytest.raises(ArrayDiffers, match=r"element \[0, 0\] is .* in numpy \(.* ulp\); \d+ of 3840 elements differ"):
        pto.verify(fused, X)


def test_code_that_is_wrong_is_told_from_a_text_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = pto.fuse(lambda x: np.exp(x) + 1)
    kernel = fused.plan(X).steps[0].kernel
    assert kernel is not None
    run = type(kernel.kernel).execute

    def broken(self: Any, sizes: Any, values: Any) -> Any:
        done = run(self, sizes, values)
        values[1].flat[101] += 2
        return done

    monkeypatch.setattr(type(kernel.kernel), "execute", broken)
    with pto.checked(), pytest.raises(ArrayDiffers) as caught:
        pto.verify(fused, X)
    assert "so its code is wrong" in caught.value.message
    assert caught.value.fields["index"] == "1, 5"


def test_a_trace_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is not what it was when it was traced: its steps are right, and its result is not."""
    fused = pto.fuse(lambda x: x * sys.getswitchinterval())
    fused(X)
    monkeypatch.setattr(sys, "getswitchinterval", lambda: 3.0)
    with pytest.raises(ArrayDiffers, match=r"result, element .* every step computes what its nodes mean"):
        pto.verify(fused, X)


def test_arguments_that_are_written_are_compared_and_left() -> None:
    @pto.fuse
    def grown(state: Any, x: Any) -> Any:
        state["total"] += x
        x[1:, ::2] = 0
        return {"mean": state["total"].mean(), "count": 3}

    state = {"total": np.ones_like(X)}
    x = X.copy()
    found = pto.verify(grown, state, x)
    assert {a.array for a in found.results} == {"result mean", "argument state.total", "argument x"}
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(state["total"], 1)


def test_dimensions_by_name_and_views() -> None:
    n = Dim("n", 1, 100)
    fused = pto.fuse(lambda x: (x.T @ x, x.shape[0] * x[:, ::-1]), dims={"x": (n, None)})
    for size in (1, 7, 40):
        found = pto.verify(fused, X[:size].copy())
        assert len(found.results) == 2


def test_integers_are_exact_and_calls_are_skipped() -> None:
    @pto.jit
    def doubled(x: Any, y: Any) -> None:
        i = pto.program_id(0)
        y[i, :] = x[i, :] * 2

    @pto.fuse
    def f(x: Any) -> Any:
        y = np.empty_like(x)
        doubled[x.shape[0]](x, y)
        return np.argsort(y, axis=1), y > 0

    found = pto.verify(f, X)
    assert found.skipped == 1
    assert [a.largest for a in found.results] == [0, 0]
    assert "1 calls of functions are not compared" in str(found)


def test_tolerances_and_the_form_without_arguments() -> None:
    fused = pto.fuse(lambda x: np.exp(x).sum())
    verifier = pto.verify(fused, atol=0, rtol=0)
    assert "call it as verify(<lambda>)(arguments…)" in str(verifier)
    with pytest.raises(ArrayDiffers):
        for seed in range(20):
            verifier(np.random.default_rng(seed).random(5001, np.float32))
    assert pto.verify(fused, np.ones(4, np.float32), rtol=1e-3).results[0].elements == 1


def test_a_kernel_still_wants_a_grid() -> None:
    @pto.jit
    def kernel(x: Any) -> None:
        x[0] = 1.0

    with pytest.raises(NotLaunched):
        pto.verify(kernel, np.zeros(1, np.float32))


def test_the_report_shows_itself() -> None:
    html = pto.verify(pto.fuse(three_steps), X, W)._repr_html_()
    assert "three_steps: verified" in html
    assert "largest difference" in html
    assert "verify(three_steps)" in pto.verify(pto.fuse(three_steps))._repr_html_()
