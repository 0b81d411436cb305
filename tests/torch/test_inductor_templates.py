"""Inductor's templates for products and convolutions, compiled by us, under `max_autotune`."""

# mypy: ignore-errors

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")]

FORCED = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON", "max_autotune_conv_backends": "TRITON"}
F = torch.nn.functional
CASES = {
    "product": (lambda x, y: x @ y, ((33, 45), (45, 67))),
    "columns of a transpose": (lambda x, y: x.t() @ y.t(), ((45, 130), (67, 45))),
    "product, sum and gelu": (lambda b, x, y: F.gelu(torch.addmm(b, x, y)), ((67,), (33, 300), (300, 67))),
    "what is fused before": (lambda x, y: x.relu() @ y * 2, ((70, 64), (64, 96))),
    "several products": (lambda x, y: torch.bmm(x, y).tanh(), ((3, 33, 45), (3, 45, 67))),
    "several products and a sum": (torch.baddbmm, ((3, 33, 67), (3, 33, 45), (3, 45, 67))),
    "sum of products": (lambda x, y, z, w: x @ y + z @ w, ((33, 100), (100, 67), (33, 100), (100, 67))),
    "convolution": (lambda x, w: F.relu(F.conv2d(x, w, padding=1, stride=2)), ((2, 5, 17, 19), (12, 5, 3, 3))),
    "pointwise convolution": (lambda x, w: F.conv2d(x, w) + 1, ((2, 24, 9, 11), (12, 24, 1, 1))),
}


def backend():
    from pypto.torch.inductor.backend import pypto_inductor

    return pypto_inductor


def templates(compiled):
    import pypto.torch

    return [kernel for kernel in pypto.torch.kernels(compiled) if kernel.name.startswith("triton_tem_")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_a_template_is_as_near_to_float64_as_eager_torch_is(name, dtype):
    function, shapes = CASES[name]
    inputs = [torch.randn(shape).to(dtype) for shape in shapes]
    fast = torch.compile(function, backend=backend(), options=FORCED, fullgraph=True)
    wanted = function(*(x.double() for x in inputs))
    error, usual = ((f(*inputs) - wanted).abs().max() for f in (fast, function))
    assert error <= max(2 * usual, 1e-5)
    assert templates(fast)


def test_a_product_of_bytes():
    x, y = torch.randint(-128, 128, (33, 100), dtype=torch.int8), torch.randint(-128, 128, (100, 64), dtype=torch.int8)
    fast = torch.compile(torch._int_mm, backend=backend(), options=FORCED, fullgraph=True)
    assert torch.equal(fast(x, y), x.int() @ y.int())
    assert templates(fast)


def test_what_follows_is_fused_into_the_template():
    import pypto.torch

    function, shapes = CASES["product, sum and gelu"]
    fast = torch.compile(function, backend=backend(), options=FORCED, fullgraph=True)
    fast(*map(torch.randn, shapes))
    assert [kernel.name for kernel in pypto.torch.kernels(fast)] == ["triton_tem_fused_addmm_gelu_0"]
    assert "tl.dot" in templates(fast)[0].source
    assert len(templates(fast)[0].kernel.specializations) == 1


def test_other_numbers_of_rows_need_no_new_graph():
    fast = torch.compile(lambda x, y: (x @ y).relu(), backend=backend(), options=FORCED, dynamic=True)
    y = torch.randn(45, 67)
    for rows in (40, 150, 7):
        x = torch.randn(rows, 45)
        torch.testing.assert_close(fast(x, y), (x @ y).relu(), rtol=1e-4, atol=1e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert templates(fast)


def test_the_mode_measures_candidates_of_ours_and_of_aten(capfd):
    model = torch.nn.Sequential(torch.nn.Linear(70, 130), torch.nn.GELU())
    x = torch.randn(64, 70)
    fast = torch.compile(model, backend=backend(), mode="max-autotune")
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
    told = capfd.readouterr().err
    assert "  addmm " in told
    assert "  triton_mm_" in told
    fast(x).sum().backward()


def test_a_candidate_that_cannot_be_compiled_is_not_taken(monkeypatch):
    from pypto.errors.launch import NotLaunched
    from pypto.torch.inductor import generated

    def refuse(*_):
        raise NotLaunched(kernel="x")

    monkeypatch.setattr(generated.Direct, "run", property(lambda _: refuse, lambda *_: None), raising=False)
    fast = torch.compile(lambda x, y: x @ y, backend=backend(), options={"max_autotune": True})
    x = torch.randn(64, 64)
    torch.testing.assert_close(fast(x, x), x @ x, rtol=1e-4, atol=1e-4)
    assert not templates(fast)
    forced = torch.compile(lambda x, y: x @ y, backend=backend(), options=FORCED)
    y = torch.randn(66, 64)  # of a size of its own, which Inductor has not measured
    with pytest.raises(Exception, match=r"E353.*no template .* can be compiled: (.|\n)*E\d+"):
        forced(y, x)


def test_classes_of_inductor_are_as_before():
    from torch._inductor import select_algorithm
    from torch._inductor.virtualized import V

    before = select_algorithm.TritonTemplate.kernel_type, type(V.choices)
    x = torch.randn(48, 48)  # of a size of its own: Inductor remembers that candidates failed
    torch.compile(lambda x: x @ x, backend=backend(), options=FORCED)(x)
    assert (select_algorithm.TritonTemplate.kernel_type, type(V.choices)) == before
