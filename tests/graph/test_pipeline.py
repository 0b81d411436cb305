"""The pass lists of the graph compiler: texts before and after, passes that are switched off, errors, and a trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pypto as pto
from pypto.compile import session
from pypto.errors import OptionError
from pypto.errors.launch import WrongPass
from pypto.graph import trace
from pypto.graph.ir.node import Graph
from pypto.graph.pipeline import passes, print_ir
from pypto.graph.plan.pipeline import surroundings_of
from pypto.graph.plan.store import key_of_plan
from pypto.graph.rewrite import pipeline as rewrites
from pypto.graph.rewrite.simplify import NodeRule
from pypto.passes.manager import Pass, observed
from tests.cli.commands import called
from tests.graph.test_rewrite_passes import FUNCTIONS

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def drawn(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pypto.graph.plan.pipeline.get_num_threads", lambda: 2)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def stencil(v: Any, w: Any) -> Any:
    v = np.tanh(v * w)
    p = np.pad(v, 1)
    return 4 * v - p[2:, 1:-1] - p[1:-1, :-2]


def descended(x: Any, y: Any) -> Any:
    for _ in range(3):
        x = x - y * ((x * x).sum() / x.size)
    return np.tanh(x)


def gradient_step(d: Any, r: Any) -> Any:
    p = np.pad(d, 1)
    q = 4 * d - p[:-2, 1:-1] - p[2:, 1:-1]
    return r - q / (d * q).sum()


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.T) @ v


# A function for each pass that may be switched off, whose plan is another one without it.
CASES: Final[dict[str, Case]] = {
    "padded_windows": (stencil, (drawn(30, 40), drawn(30, 40))),
    "gather_pushdown": (lambda x, i: np.exp(x)[:, i], (drawn(8, 100), np.array([3, 70]))),
    "split_reduction": (lambda x: np.exp(x).sum(), (drawn(1 << 17),)),
    "late_division": (attention, (drawn(16, 8), drawn(24, 8), drawn(24, 8))),
    "narrow_products": (lambda x: x.astype(np.int32) @ x.astype(np.int32).T, (np.ones((4, 8), np.int8),)),
    "split_k": (lambda x, y: x @ y, (drawn(8, 8192), drawn(8192, 4))),
    "code_sinking": (stencil, (drawn(30, 40), drawn(30, 40))),
    "rematerialization": (gradient_step, (drawn(300, 300), drawn(300, 300))),
    "in_place": (descended, (drawn(300, 300), drawn(300, 300))),
    "horizontal_fusion": (lambda x, a, b: (x @ a, np.tanh(x @ b)), (drawn(8, 16), drawn(16, 16), drawn(16, 8))),
    "product_of_concat": (
        lambda x, y, w: np.concatenate([x, y], axis=1) @ w,
        (drawn(16, 8), drawn(16, 8), drawn(16, 4)),
    ),
    "product_chains": (attention, (drawn(64, 16), drawn(4096, 16), drawn(4096, 16))),
    "online_softmax": (softmax, (drawn(4, 50_000),)),
}


def changes(function: Callable[..., Any], *arrays: Any) -> dict[str, tuple[str, str]]:
    """The texts before and after each pass that changes something."""
    found: dict[str, tuple[str, str]] = {}
    texts: dict[int, str] = {}
    kept: list[Any] = []  # so that no identity is used twice

    def observer(step: Pass, before: Any, after: Any) -> None:
        old = texts.get(id(before)) or print_ir(before)
        texts[id(after)] = print_ir(after)
        kept.extend((before, after))
        if old != texts[id(after)]:
            found[step.name] = old, texts[id(after)]

    with observed(observer):
        pto.fuse(function).plan(*arrays)
    return found


def test_there_are_passes_that_can_be_printed_and_each_says_why() -> None:
    rows = passes()
    assert all(len(row.reason) > 10 for row in rows.values())
    assert all(row.optional for row in rows.values() if row.run is None)
    assert sum(row.run is not None for row in rows.values()) >= 12
    tried = {*CASES, *FUNCTIONS, "region_dedup"}
    assert tried == {name for name, row in rows.items() if row.optional}


@pytest.mark.parametrize("name", CASES)
def test_a_pass_that_is_switched_off_changes_the_plan_and_no_number(name: str) -> None:
    function, arrays = CASES[name]
    plain, without = pto.fuse(function), pto.fuse(function, disable=(name,))
    assert plain.emit("plan", *arrays) != without.emit("plan", *arrays)
    for got in (plain(*arrays), without(*arrays)):
        for a, b in zip(got if isinstance(got, tuple) else [got], as_tuple(function(*arrays)), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)
    if passes()[name].run is not None:
        with pytest.raises(OptionError, match="does not run"):
            without.emit(f"after:{name}", *arrays)


def as_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def test_groups_are_decided_afresh_where_equal_ones_share_nothing() -> None:
    x = drawn(32, 16)
    layers = lambda x: softmax(softmax(x).T)  # noqa: E731  # two groups that are equal but for their sizes
    plain, without = pto.fuse(layers), pto.fuse(layers, disable=("region_dedup",))
    assert plain.emit("plan", x) == without.emit("plan", x)


def test_fusion_leaves_a_tiling_open_that_the_next_pass_decides_on() -> None:
    before, after = changes(lambda x: np.exp(x) + 1, drawn(8))["tiling"]
    assert before == "schedule @lambda\n  group %1, %3: no tiling yet\n"
    assert after == "schedule @lambda\n  group %1, %3 stores %3: pointwise, parallel 8 by 8\n"


def test_code_sinking_moves_a_multiple_to_the_stencil_that_reads_it() -> None:
    function, arrays = CASES["code_sinking"]
    before, after = changes(function, *arrays)["code_sinking"]
    assert (
        before
        == """schedule @stencil
  group %2, %3, %5 stores %3, %5: pointwise, parallel 1200 by 300
  group %6, %7, %8, %9 stores %9: pointwise, parallel 30 by 10, parallel 40 by 40
  refused %3 into %6: a slice of it is read
  refused %5 into %7: something between them is computed elsewhere
  refused %3 into %8: a slice of it is read
"""
    )
    assert (
        after
        == """schedule @stencil
  group %2, %3 stores %3: pointwise, parallel 1200 by 300
  group %5, %6, %7, %8, %9 stores %9: pointwise, parallel 30 by 10, parallel 40 by 40
  refused %3 into %6: a slice of it is read
  refused %5 into %7: something between them is computed elsewhere
  refused %3 into %8: a slice of it is read
"""
    )


def test_rematerialization_computes_a_stencil_again() -> None:
    function, arrays = CASES["rematerialization"]
    before, after = changes(function, *arrays)["rematerialization"]
    assert before.splitlines()[1:3] == [
        "  group %3, %4, %5, %6, %7, %8, %9 stores %7, %9: rows, loop 300 by 300, whole 300",
        "  group %10, %11 stores %11: pointwise, parallel 90000 by 4096",
    ]
    assert after.splitlines()[1:3] == [
        "  group %3, %4, %5, %6, %7, %8, %9 stores %9: rows, loop 300 by 300, whole 300",
        "  group %3, %4, %5, %6, %7, %10, %11 stores %11: pointwise, parallel 300 by 1, parallel 300 by 300",
    ]


def test_steps_come_in_the_order_in_which_they_run() -> None:
    x = drawn(8, 16)
    texts = changes(lambda x: (np.concatenate([np.exp(x), x], axis=0) * 2).sum(0), x)
    before, after = texts["step_order"]
    assert before.count("group") == after.count("group") - 1, "the assembly is a step"
    assert texts["kernels"][0] == after


def test_results_are_made_in_the_buffer_of_an_operand() -> None:
    function, arrays = CASES["in_place"]
    before, after = changes(function, *arrays)["in_place"]
    added = [line for line in after.splitlines() if line not in before.splitlines()]
    assert after.startswith(before)
    assert added and all(line.startswith("in_place ") for line in added)


def test_steps_overlap() -> None:
    function, arrays = CASES["horizontal_fusion"]
    before, after = changes(function, *arrays)["horizontal_fusion"]
    assert after.replace("overlap 2\n", "") == before != after


def test_a_name_that_there_is_not_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(WrongPass) as caught:
        pto.fuse(softmax, disable=("online",))
    text = str(caught.value)
    assert text.startswith("[E317] pto.fuse cannot switch off `online`: the compiler has no such pass")
    assert "did you mean `online_softmax`? there are code_sinking, " in text
    with pytest.raises(WrongPass, match="what may be switched off is code_sinking"):
        pto.fuse(softmax, disable=("tiling",))
    with pytest.raises(OptionError, match=r"did you mean fusion\?; there are padded_windows"):
        pto.fuse(softmax).emit("after:fusio", drawn(2, 3))
    with pytest.raises(OptionError, match="there are traced, graph, schedule, plan"):
        pto.fuse(softmax).emit("llvm-ir", drawn(2, 3))


def test_the_key_of_a_plan_has_what_is_switched_off() -> None:
    traced = trace(softmax, drawn(2, 3))
    layouts, _ = surroundings_of(traced)
    keys = {key_of_plan(traced.graph, layouts, "", names) for names in ((), ("online_softmax",))}
    assert len(keys) == 2 and None not in keys


def test_passes_that_change_something_are_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session(), "settings", replace(session().settings, log="passes"))
    pto.fuse(CASES["split_reduction"][0]).plan(*CASES["split_reduction"][1])
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("pypto: ")]
    assert told[0] == "pypto: lambda after split_reduction"
    assert told[1:] == ["pypto: lambda after fusion", "pypto: lambda after kernels"]


def test_the_command_line_prints_what_a_pass_gives(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text(
        "import numpy as np\nimport pypto as pto\n\n\n@pto.fuse\ndef total(x):\n    return np.exp(x).sum()\n"
    )

    def shown(emit: str) -> str:
        return called("compile", f"{file}:total", "x=f32[262144]", "--emit", emit).output

    assert "%2: f32[256, 1024] = reshape %1" in shown("after:split_reduction")
    assert shown("schedule").startswith("schedule @total\n  group %1, %2, %3 stores %3: rows")
    assert "@pto.jit" in shown("plan")
    assert "did you mean fusion?" in shown("after:fusio").replace("\n", " ")


def test_a_trial_pass_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def halve(graph: Graph) -> Graph:
        return NodeRule(frozenset({"exp"}), lambda node, inputs: True, twice)(graph)

    def twice(graph: Graph, node: Any, inputs: Any) -> Any:
        return graph.add("exp2", *inputs, place=node.place)

    row = Pass("trial", halve, "a trial: exponentials of two in place of those of e", "exp", optional=True)
    monkeypatch.setattr("pypto.graph.rewrite.pipeline.REWRITES", (*rewrites.REWRITES, row))
    x = drawn(4)
    fused, without = pto.fuse(lambda x: np.exp(x) + 1), pto.fuse(lambda x: np.exp(x) + 1, disable=("trial",))
    assert "exp2 %0" in fused.emit("after:trial", x)
    assert "exp2" not in without.emit("graph", x)
    np.testing.assert_allclose(fused(x), np.exp2(x) + 1, rtol=1e-6)
    np.testing.assert_allclose(without(x), np.exp(x) + 1, rtol=1e-6)


def test_an_array_that_a_third_group_reads_in_another_shape_stays_stored() -> None:
    def group_norm(x: Any, weight: Any) -> Any:
        y = np.maximum(x, 0)
        groups = y.reshape(1, 2, 4, -1)
        count = np.float32(groups.shape[2] * groups.shape[3])
        mean = groups.sum(axis=(2, 3), keepdims=True) / count
        scale = weight.reshape(1, 2, 4, 1) / np.sqrt(np.square(groups - mean).sum(axis=(2, 3), keepdims=True) / count)
        return y * scale.reshape(1, 8, 1, 1) - (mean * scale).reshape(1, 8, 1, 1)

    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((1, 8, 190, 200)).astype(np.float32), rng.random(8).astype(np.float32)
    np.testing.assert_allclose(pto.fuse(group_norm)(x, weight), group_norm(x, weight), rtol=1e-4, atol=1e-5)
