"""Derived gradients of kernels: against central differences in float64, on every device, the same on every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.gradients import NoGradient, WrongGradient
from tests.conformance.networks import matmul_pointers
from tests.gradients.kernels import CASES, Array, Case, layer_norm, matmul
from tests.sim.device import needs_compiler

STEP = 1e-5


def results(case: Case, inputs: dict[str, Array]) -> list[Array]:
    found = case.meaning(**inputs)
    return list(found) if isinstance(found, tuple) else [found]


def central_differences(case: Case, inputs: dict[str, Array], gradients: list[Array], name: str) -> Array:
    x = inputs[name]
    found = np.zeros(x.shape)

    def loss() -> float:
        return float(sum((r * g).sum() for r, g in zip(results(case, inputs), gradients, strict=True)))

    for place in np.ndindex(*x.shape):
        before = x[place]
        x[place] = before + STEP
        above = loss()
        x[place] = before - STEP
        found[place] = (above - loss()) / (2 * STEP)
        x[place] = before
    return found


def launch(case: Case, seed: int = 0, back: Any = None) -> tuple[Any, dict[str, Array], list[Array], dict[str, Array]]:
    """The adjoint, the inputs, the gradients that go in, and those that come out."""
    rng = np.random.default_rng(seed)
    inputs = {name: rng.normal(size=shape).astype(case.dtype) for name, shape in case.inputs.items()}
    outputs = {name: np.zeros(shape, case.dtype) for name, shape in case.outputs.items()}
    gradients = {f"d_{name}": rng.normal(size=shape).astype(case.dtype) for name, shape in case.outputs.items()}
    wrt = case.wrt or tuple(case.inputs)
    found = {name: np.full(case.inputs[name], np.nan, case.dtype) for name in wrt}
    back = back or pto.adjoint(case.kernel, wrt=wrt)
    back[case.grid](**inputs, **outputs, **case.others, **gradients, **{f"d_{n}": x for n, x in found.items()})
    return back, inputs, list(gradients.values()), found


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    case = CASES[name]
    _, inputs, gradients, found = launch(case)
    wide = {n: x.astype(np.float64) for n, x in inputs.items()}
    for n, x in found.items():
        wanted = central_differences(case, wide, [g.astype(np.float64) for g in gradients], n)
        np.testing.assert_allclose(x, wanted, rtol=0, atol=case.tolerance * np.abs(wanted).max(), err_msg=n)


@pytest.mark.parametrize("name", ["layer norm", "causal attention", "stencil", "embedding"])
def test_bits_are_the_same_for_any_number_of_threads(name: str) -> None:
    back, _, _, first = launch(CASES[name])
    before = pto.get_num_threads()
    try:
        for threads in (1, 2, 4):
            pto.set_num_threads(threads)
            for _ in range(3):
                _, _, _, again = launch(CASES[name], back=back)
                assert all(x.tobytes() == first[n].tobytes() for n, x in again.items())
    finally:
        pto.set_num_threads(before)


@pytest.mark.parametrize("name", ["softmax", "matmul", "gelu", "cross-entropy"])
def test_interpreted_gradients_are_the_same(name: str) -> None:
    _, _, _, compiled = launch(CASES[name])
    with pto.interpreter():
        _, _, _, interpreted = launch(CASES[name])
    for n, x in compiled.items():
        np.testing.assert_allclose(x, interpreted[n], rtol=1e-5, atol=1e-5 * np.abs(x).max())


def test_the_source_can_be_pasted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    back, inputs, gradients, found = launch(CASES["layer norm"])
    (tmp_path / "pasted_gradients.py").write_text(back.source)
    monkeypatch.syspath_prepend(tmp_path)
    import pasted_gradients  # type: ignore[import-not-found]

    kernel = pasted_gradients.layer_norm_adjoint_x_weight_bias
    dx = np.zeros_like(found["x"])
    partial = {n: np.zeros((4, 13), np.float32) for n in ("partial_weight", "partial_bias")}
    numbers = {"programs_0": 7, "eps": 1e-5}
    given = dict(zip(("d_y", "d_mean", "d_rstd"), gradients, strict=True))
    kernel[4](x=inputs["x"], weight=inputs["weight"], **numbers, **given, **partial, d_x=dx)
    np.testing.assert_array_equal(dx, found["x"])
    np.testing.assert_allclose(partial["partial_bias"].sum(0), found["bias"], rtol=1e-5, atol=1e-6)
    assert "sum_weight" in back.source  # the sum over programs stays in a tile


def test_explanations() -> None:
    case = CASES["causal attention"]
    arrays = [np.zeros(shape, np.float32) for shape in (*case.inputs.values(), *case.outputs.values())]
    text = pto.adjoint(case.kernel, ["q", "k"]).explain(case.grid, *arrays, **case.others)
    assert "attention_adjoint_q: blocks of programs, one after the other\n  d_q: stored once" in text
    assert "saves `m` of the loop in line" in text and "4 float32 a trip, " in text and " bytes\n" in text
    assert "saves `acc`" not in text
    assert "attention_adjoint_k: programs along axis 0, 2 of the grid, which go through the other axes" in text
    assert "d_k: added up by one program, load by load" in text


@pytest.mark.parametrize("name", ["softmax", "cross-entropy", "loss of labels", "attention", "causal attention"])
def test_maxima_that_cancel_are_not_searched(name: str) -> None:
    back, *_ = launch(CASES[name])
    assert "argmax" not in back.source


def test_maxima_that_results_depend_on_are_searched() -> None:
    back, *_ = launch(CASES["below the maximum"])
    assert "argmax" in back.source


@pto.jit
def softmax_of_rows(x, y):
    row = pto.program_id(0)
    e = pto.exp(x[row, :] - pto.max(x[row, :]))
    y[row, :] = e / pto.sum(e)


@pto.jit
def steps_of_rows(x, y):
    row = pto.program_id(0)
    y[row, :] = pto.exp(x[row, :]) * pto.floor(x[row, :])


@pytest.mark.parametrize("kernel, meaning", [
    (softmax_of_rows, CASES["softmax"].meaning), (steps_of_rows, lambda x: np.exp(x) * np.floor(x)),
])  # fmt: skip
def test_a_load_without_a_gradient_does_not_hide_another(kernel: Any, meaning: Any) -> None:
    case = Case(kernel, 5, {"x": (5, 11)}, {"y": (5, 11)}, meaning)
    back, inputs, gradients, found = launch(case)
    wide = {n: x.astype(np.float64) for n, x in inputs.items()}
    wanted = central_differences(case, wide, [g.astype(np.float64) for g in gradients], "x")
    np.testing.assert_allclose(found["x"], wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert back.source.count("d_x[") == 1  # stored once


@pytest.mark.parametrize("kernel, exponentials", [(softmax_of_rows, 0), (CASES["softmax"].kernel, 1)])
def test_stored_results_are_read_again_on_request(kernel: Any, exponentials: int) -> None:
    case = CASES["softmax"]
    rng = np.random.default_rng(5)
    x, d_y = (rng.normal(size=case.inputs["x"]).astype(np.float32) for _ in range(2))
    y, d_x = np.zeros_like(x), np.full_like(x, np.nan)
    others = case.others if exponentials else {}  # of masked elements, the quotient says nothing of the numerator
    kernel[case.grid](x, y, **others)
    back = pto.adjoint(kernel, ["x"], reuse=["y"])
    back[case.grid](x, y, **others, d_y=d_y, d_x=d_x)
    wanted = central_differences(case, {"x": x.astype(np.float64)}, [d_y.astype(np.float64)], "x")
    np.testing.assert_allclose(d_x, wanted, rtol=0, atol=case.tolerance)
    assert back.source.count("pto.exp(") == exponentials
    if not exponentials:
        with pytest.raises(WrongGradient, match="overlaps `y`"):
            back[case.grid](x, y, d_y=d_y, d_x=y)


def test_only_stored_arrays_are_reused() -> None:
    x = np.ones((5, 11), np.float32)
    with pytest.raises(WrongGradient, match="`x` is to be reused, and is no array of floats that it stores"):
        pto.adjoint(softmax_of_rows, ["x"], reuse=["x"]).derive(5, x, x.copy())


def test_reused_quotients_of_loops_save_a_product() -> None:
    case = CASES["attention"]
    rng = np.random.default_rng(6)
    inputs = {n: rng.normal(size=shape).astype(np.float32) for n, shape in case.inputs.items()}
    outputs = {n: np.zeros(shape, np.float32) for n, shape in case.outputs.items()}
    above = {f"d_{n}": rng.normal(size=shape).astype(np.float32) for n, shape in case.outputs.items()}
    case.kernel[case.grid](**inputs, **outputs, **case.others)
    found = []
    for reuse in ((), tuple(outputs)):
        back = pto.adjoint(case.kernel, list(inputs), reuse=reuse)
        gradients = {f"d_{n}": np.full(shape, np.nan, np.float32) for n, shape in case.inputs.items()}
        back[case.grid](**inputs, **outputs, **case.others, **above, **gradients)
        found.append((back.source.count("pto.dot("), gradients))
    (derived, wanted), (reused, gradients) = found
    assert reused < derived
    for n, x in gradients.items():
        np.testing.assert_allclose(x, wanted[n], rtol=0, atol=1e-5 * np.abs(wanted[n]).max())


def test_matmul_has_a_kernel_for_each_side() -> None:
    back, *_ = launch(CASES["matmul"])
    assert back.source.count("@pto.jit") == 2
    assert "programs_1" in back.source and "partial" not in back.source


def test_gradients_of_views_and_narrow_floats() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=(24, 24)).astype(np.float16)[::2, ::-1] for _ in range(2))
    b = b[:, :12].T.copy().T
    a = a[:, :12]
    g = rng.normal(size=(12, 12)).astype(np.float32)
    da, db = np.full((24, 12), 7, np.float16)[::2], np.full((12, 12), 7, np.float16)
    c = np.zeros((12, 12), np.float32)
    pto.adjoint(matmul, ["a", "b"])[2, 2](a, b, c, BM=8, BN=8, BK=8, d_c=g, d_a=da, d_b=db)
    np.testing.assert_allclose(da, g @ b.T.astype(np.float32), rtol=4e-3, atol=4e-3)
    np.testing.assert_allclose(db, a.T.astype(np.float32) @ g, rtol=4e-3, atol=4e-3)


def test_no_programs_and_no_elements() -> None:
    x, y = np.ones((2, 0, 4), np.float32)
    d = np.full((3, 4), 7, np.float32)
    back = pto.adjoint(layer_norm, ["weight"])
    none = np.zeros(0, np.float32)
    dw = np.full(4, 7, np.float32)
    back[0](x, d[0], d[1], y, none, none, 1e-5, d_y=y, d_mean=none, d_rstd=none, d_weight=dw)
    assert not dw.any()


@pto.jit
def read_again(x, y):
    x[:] = x[:] * 2
    y[:] = x[:]


@pto.jit
def through_bits(x, y):
    y[:] = pto.cast(pto.bitcast(x[:], pto.int32) + 1, pto.float32)


@pto.jit
def without_end(x, y):
    t = x[:]
    while pto.max(t) < 100:
        t = t * 2
    y[:] = t


@pto.jit
def twice(x, y):
    y[:] = x[:]
    y[:] = x[:] * 2


@pto.jit
def same_for_all(x, y):
    y[:] = x[pto.program_id(0), :]


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (read_again, "`x` is read and written in place, and an element is read after it was written"),
        (through_bits, "`cast` has no gradient: it works on the bits of a number"),
        (without_end, "how often a while loop runs is not known"),
        (twice, "an element of `y` may be stored by two statements"),
    ],
)
def test_refusals(kernel: Any, words: str) -> None:
    x, y = np.ones((2, 8), np.float32)
    gradients = {"d_x": x.copy(), "d_y": y.copy()}
    with pytest.raises(NoGradient, match=words) as error:
        pto.adjoint(kernel, wrt=["x"])[1](x, y, **gradients)
    assert "test_adjoint.py" in str(error.value)


def test_elements_that_several_programs_store() -> None:
    x, y = np.ones((3, 8), np.float32), np.ones(8, np.float32)
    back = pto.adjoint(same_for_all, ["x"])
    with pytest.raises(NoGradient, match="`y` may be stored by several programs or trips"):
        back[3](x, y, d_y=y, d_x=x.copy())
    d_x = np.full((1, 8), 7, np.float32)
    back[1](x[:1], y, d_y=y * 3, d_x=d_x)
    assert (d_x == 3).all()


def test_programs_in_a_swizzled_order() -> None:
    """As Triton's product has them: which program stores which block is no affine function of its number."""
    rng = np.random.default_rng(2)
    a, b, g = (rng.normal(size=shape).astype(np.float32) for shape in ((40, 24), (24, 32), (40, 32)))
    c, da, db = np.zeros_like(g), np.zeros_like(a), np.zeros_like(b)
    sizes = 40, 32, 24, 24, 1, 32, 1, 32, 1
    back = pto.adjoint(matmul_pointers, ["a", "b"])
    back[5 * 4](a, b, c, *sizes, BM=8, BN=8, BK=8, GROUP=2, d_c=g, d_a=da, d_b=db)
    np.testing.assert_allclose(da, g @ b.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(db, a.T @ g, rtol=1e-4, atol=1e-4)


def test_wrong_gradients_are_found_before_anything_is_written() -> None:
    x, y, g = np.ones((3, 8), np.float32)
    d = np.full(8, 7, np.float32)

    @pto.jit
    def square(x, y, n):
        y[:] = x[:] * x[:] * n

    for problem, wrt, given in (
        ("d_y is missing", ["x"], {"d_x": d}),
        ("d_n belongs to no stored array", ["x"], {"d_x": d, "d_y": g, "d_n": g}),
        (r"d_y must be an array of shape \(8,\)", ["x"], {"d_x": d, "d_y": g[:4]}),
        ("`n` is no array of floats", ["n"], {"d_n": d, "d_y": g}),
    ):
        with pytest.raises(WrongGradient, match=problem):
            pto.adjoint(square, wrt)[1](x, y, 2, **given)
    with pytest.raises(WrongGradient, match="`z` is none of its arguments"):
        pto.adjoint(square, ["z"])
    with pytest.raises(WrongGradient, match="it is no kernel"):
        pto.adjoint(square.function, ["x"])
    assert (d == 7).all()


@pto.jit
def through_integers(x, y):
    y[:] = pto.cast(pto.cast(x[:], pto.int32), pto.float32)


def test_a_gradient_that_nothing_reaches_is_zero() -> None:
    x, y, g, d = np.full((4, 8), 7, np.float32)
    pto.adjoint(through_integers, ["x"])[1](x, y, d_y=g, d_x=d)
    assert not d.any()


def test_launches_are_answered_from_the_cache_as_long_as_they_are_the_same() -> None:
    x, y, g, d = np.full((4, 8), 7, np.float32)
    back = pto.adjoint(copied, ["x"])
    for size in (8, 8, 4, 8):
        given = np.arange(size, dtype=np.float32)
        back[1](x[:size], y[:size], d_y=given, d_x=d[:size])
        np.testing.assert_array_equal(d[:size], given)
    with pytest.raises(WrongGradient, match="d_x overlaps `d_y`, which is read"):
        back[1](x, y, d_y=g, d_x=g)
    np.testing.assert_array_equal(d, np.arange(8))


@pto.jit
def copied(x, y):
    y[:] = x[:]


@pto.jit
def added_in_place(x):
    pto.atomic_add(x + pto.arange(0, 8), x[0:8])


def test_gradients_that_lie_wrong_are_found_before_anything_is_written() -> None:
    x, y, g, d = np.full((4, 8), 7, np.float32)
    back = pto.adjoint(copied, ["x"])
    frozen = d.view()
    frozen.flags.writeable = False
    for problem, d_x in (
        ("d_x overlaps `x`, which is read", x),
        ("d_x overlaps `d_y`, which is read", g),
        ("d_x is read-only", frozen),
        ("d_x is of f64, and `x` of f32", d.astype(np.float64)),
    ):
        with pytest.raises(WrongGradient, match=problem):
            back[1](x, y, d_y=g, d_x=d_x)
    with pytest.raises(NoGradient, match="`x` is read and written in place"):
        pto.adjoint(added_in_place, ["x"])[1](x, d_x=d)
    assert all((a == 7).all() for a in (x, y, g, d))


@pto.jit
def as_often_as_loaded(x, counts, y):
    total = pto.zeros((8,), pto.float32)
    for _ in range(counts[0]):
        total = pto.sin(total + x[:])
    y[:] = total


def test_a_loop_whose_trips_are_data_is_refused_before_anything_is_written() -> None:
    x, y, g, d = np.full((4, 8), 7, np.float32)
    with pytest.raises(NoGradient, match="how often this loop runs at most is not known"):
        pto.adjoint(as_often_as_loaded, ["x"])[1](x, np.array([3], np.int32), y, d_y=g, d_x=d)
    assert (d == 7).all()


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pypto.errors.advice.OffTheCube")
@pytest.mark.parametrize("name", CASES)
def test_gradients_on_the_simulated_device(name: str) -> None:
    _, _, _, wanted = launch(CASES[name])
    with pto.device("ascend-sim"):
        _, _, _, found = launch(CASES[name])
    for n, x in found.items():
        np.testing.assert_allclose(x, wanted[n], rtol=0, atol=2e-6 * np.abs(wanted[n]).max(), err_msg=n)
