"""Every row of the library is an operator of torch, under all that transforms programs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pypto import library
from pypto.errors.gradients import NoGradient
from pypto.errors.launch import UntransformedOperator
from pypto.errors.library import LostGradient, OperandShape

torch = pytest.importorskip("torch")

import pypto.torch  # noqa: E402, F401
from tests.torch.rows import positional, recorded_sample, results, sample  # noqa: E402

CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
FLOAT8 = {"mx_matmul"}  # torch's check of schemas multiplies copies of the arguments, and cannot multiply float8
QUICK = ("rms_norm", "w4a16_matmul", "adamw")


def named(names: tuple[str, ...] = QUICK) -> list[Any]:
    """Rows as parameters; others than the quick ones are slow."""
    return [pytest.param(name, marks=[] if name in names else [pytest.mark.slow]) for name in library.rows]


def operands() -> tuple[Any, Any]:
    return torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)


def loss(x: Any, g: Any) -> Any:
    return (library.rms_norm(x, g) ** 2).sum()


def torch_loss(x: Any, g: Any) -> Any:
    return (torch.nn.functional.rms_norm(x, (8,), g, 1e-6) ** 2).sum()


@pytest.mark.parametrize("name", named())
def test_opcheck(name: str) -> None:
    """Trained where it has a gradient; torch's check adds all results up, the first of which must have floats."""
    row = library.rows[name]
    values = (sample if name == "select_experts" else recorded_sample)(row)
    checks = [check for check in CHECKS if check != "test_schema" or name not in FLOAT8]
    found = torch.library.opcheck(getattr(torch.ops.pypto, name).default, positional(row, values), test_utils=checks)
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", named())
def test_one_graph(name: str) -> None:
    row = library.rows[name]
    values, wanted = sample(row), sample(row)
    compiled = torch.compile(row, fullgraph=True, backend="aot_eager")
    found = results(row, compiled(**values), values)
    for a, b in zip(found, results(row, row(**wanted), wanted), strict=True):
        assert a.dtype == b.dtype and torch.equal(a.float(), b.float())


def test_a_schema_says_what_is_written_and_what_may_be_left_out() -> None:
    schema = str(torch.ops.pypto.mla_prolog_quant.default._schema)
    assert "Tensor(a!) kv_cache, Tensor(b!) kr_cache, Tensor(c!) kv_scale, Tensor? smooth=None" in schema
    assert str(torch.ops.pypto.gelu.default._schema) == 'pypto::gelu(Tensor x, *, str version="") -> Tensor'


def test_gradients_of_a_row_are_those_of_torch() -> None:
    """Called as a row, as an operator, under torch.func, and in one graph."""
    x, g = operands()
    wanted = torch.autograd.grad(torch_loss(x, g), (x, g))
    for function in (loss, lambda x, g: (torch.ops.pypto.rms_norm(x, g) ** 2).sum()):
        torch.testing.assert_close(torch.autograd.grad(function(x, g), (x, g)), wanted)
    a, b = x.detach(), g.detach()
    torch.testing.assert_close(torch.func.grad(loss, argnums=(0, 1))(a, b), wanted)
    value, pullback = torch.func.vjp(loss, a, b)
    torch.testing.assert_close(pullback(torch.ones_like(value)), wanted)
    for backend in ("eager", "aot_eager"):
        compiled = torch.compile(loss, fullgraph=True, backend=backend)
        torch.testing.assert_close(torch.autograd.grad(compiled(x, g), (x, g)), wanted)


@pytest.mark.parametrize("dims", [(0, None), (1, None), (0, 0), (None, 0)])
def test_vmap(dims: tuple[Any, ...]) -> None:
    """A batch of rows is one call; a batch of weights is a loop."""
    x = torch.randn(4, 3, 8) if dims[0] is not None else torch.randn(4, 8)
    g = torch.randn(4 if dims[0] == 0 else x.shape[dims[0] or 0], 8) if dims[1] is not None else torch.randn(8)
    wanted = torch.vmap(lambda x, g: torch.nn.functional.rms_norm(x, (8,), g, 1e-6), dims)(x, g)
    torch.testing.assert_close(torch.vmap(library.rms_norm, dims)(x, g), wanted)
    per_sample = torch.vmap(torch.func.grad(loss), dims)(x, g)
    torch.testing.assert_close(per_sample, torch.vmap(torch.func.grad(torch_loss), dims)(x, g))


def test_vmap_of_what_is_written() -> None:
    cache, rows = torch.zeros(2, 4, 3), torch.randn(2, 1, 3)

    def updated(cache: Any, rows: Any) -> Any:
        library.scatter_update(cache, torch.tensor([2]), rows)
        return cache + 0

    torch.vmap(updated)(cache, rows)
    assert torch.equal(cache[:, 2], rows[:, 0]) and not cache[:, 0].any()
    with pytest.raises(UntransformedOperator, match="`cache` is not batched"):
        torch.vmap(updated, (None, 0))(cache[0], rows)


def test_vmap_of_an_optimiser() -> None:
    """A batch of parameters along another axis than the first: each is updated in place."""
    batch = [torch.rand(6, 3) for _ in range(4)]
    single = [x.clone() for x in batch]

    adamw = library.rows["adamw"]

    def step(*parameters: Any) -> Any:
        adamw(*parameters, t=2)
        return parameters[0] + 0

    updated = torch.vmap(step, 1, 1)(*batch)
    for n in range(3):
        member = [x[:, n].contiguous() for x in single]
        adamw(*member, t=2)
        for x, y in zip(batch, member, strict=True):
            assert torch.equal(x[:, n], y)
    assert torch.equal(updated, batch[0])


def test_sizes_may_change() -> None:
    compiled = torch.compile(library.swiglu, fullgraph=True, backend="aot_eager", dynamic=True)
    for shape in ((4, 16), (5, 32), (1, 2)):
        x = torch.randn(shape)
        assert torch.equal(compiled(x), library.swiglu(x))


def test_wrong_sizes_are_errors_of_the_fake_too() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), pytest.raises(OperandShape):
        library.rms_norm(torch.empty(4, 8), torch.empty(7))


def test_what_has_no_gradient_is_refused_everywhere() -> None:
    x = torch.randn(4, 8, requires_grad=True)
    for call in (library.quantize_per_token, torch.ops.pypto.quantize_per_token):
        with pytest.raises(LostGradient, match="`x` requires grad"):
            call(x)
    with pytest.raises(LostGradient):
        torch.func.grad(lambda x: library.quantize_per_token(x)[1].sum())(x.detach())
    with pytest.raises(UntransformedOperator, match="forward mode"):
        torch.func.jvp(library.silu, (x.detach(),), (x.detach(),))


def test_a_gradient_penalty_is_never_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gradient may call a row that has none: that is no error before it is differentiated."""
    x, g = operands()

    def penalty(loss: Any) -> Any:
        first = torch.autograd.grad(loss(x, g), (x, g), create_graph=True)
        return torch.autograd.grad(sum((d**2).sum() for d in first), (x, g))

    torch.testing.assert_close(penalty(loss), penalty(torch_loss))
    monkeypatch.setattr(library.rows, "_registered", {})
    by_scales = replace(
        library.rows["silu"],
        name="silu_by_scales",
        gradient=lambda torch, v: {"x": v.d_y * library.quantize_per_token(v.x)[1][:, None]},
    )
    row = library.register(by_scales)
    (first,) = torch.autograd.grad(row(x).sum(), x, create_graph=True)
    with pytest.raises(NoGradient, match="quantize_per_token"):
        (first**2).sum().backward()


def torch_norm(x: Any, g: Any) -> Any:
    return torch.nn.functional.rms_norm(x, (8,), g, 1e-6)


def scale_derivative(norm: Any, x: Any, g: Any) -> Any:
    """The derivative by s of the derivative by t of sum(t * norm(s * x, g)): both levels see the row."""

    def inner(s: Any) -> Any:
        return torch.func.grad(lambda t: (t * norm(s * x, t * g)).sum())(s)

    return torch.func.grad(inner)(torch.tensor(2.0))


def test_levels_of_transforms() -> None:
    """Each level of torch.func, and autograd outside of them, differentiates a row."""
    x, g = operands()

    def by_weight(norm: Any) -> Any:
        return torch.func.grad(lambda g: (norm(x, g) * x).sum())(g)

    torch.testing.assert_close(by_weight(library.rms_norm), by_weight(torch_norm))
    found, wanted = (scale_derivative(norm, x.detach(), g.detach()) for norm in (library.rms_norm, torch_norm))
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)

    def through(norm: Any) -> Any:
        """The inner level does not differentiate the row, and the outer one does."""
        inner = torch.func.grad(lambda t, s: (t * norm(s * x.detach(), g.detach())).sum())
        return torch.func.grad(lambda s: inner(torch.tensor(1.0), s))(torch.tensor(2.0))

    torch.testing.assert_close(through(library.rms_norm), through(torch_norm), atol=1e-4, rtol=1e-4)


def test_a_mode_sees_a_row() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    x, g = (t.detach() for t in operands())
    graph = make_fx(library.rms_norm)(x, g)
    assert [node.target for node in graph.graph.nodes if node.op == "call_function"] == [
        torch.ops.pypto.rms_norm.default
    ]
    assert torch.equal(graph(2 * x, g), library.rms_norm(2 * x, g))


def test_effects_are_seen_by_autograd() -> None:
    """A backward pass that needs a cache as it was is an error."""
    weight, cache = torch.ones(3, requires_grad=True), torch.zeros(4, 3)
    product = cache * weight
    torch.ops.pypto.scatter_update(cache, torch.tensor([1]), torch.ones(1, 3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_a_row_of_the_user_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.rows, "_registered", {})
    row = library.rows["silu"]
    library.register(replace(row, name="silu_of_a_test"))
    x = torch.randn(2, 4)
    assert torch.equal(torch.ops.pypto.silu_of_a_test(x), row(x))
    library.register(
        replace(row, name="silu_of_a_test", text="y[t, d] f32 -> z[t, d]", reference=row.reference), replace=True
    )
    assert "Tensor y" in str(torch.ops.pypto.silu_of_a_test.default._schema)


def test_leading_dimensions_are_free() -> None:
    """In a graph with symbolic sizes, under vmap, and in a gradient whose rows lie apart."""
    x, g = torch.randn(2, 3, 8), torch.randn(8)
    expected = library.rms_norm(x.view(6, 8), g).view(2, 3, 8)
    compiled = torch.compile(library.rms_norm, fullgraph=True, backend="aot_eager", dynamic=True)
    for given in (x, x[:, :2], x[0], x[0, 0]):
        torch.testing.assert_close(compiled(given, g), library.rms_norm(given, g))
    assert torch.equal(torch.vmap(library.rms_norm, (0, None))(x, g), expected)
    assert torch.equal(torch.vmap(torch.vmap(library.rms_norm, (0, None)), (0, None))(x, g), expected)
    with pytest.raises(Exception, match=r"OperandShape.*\[t..., d\]"):  # Dynamo raises an error of its own
        torch.compile(library.add_rms_norm, fullgraph=True, backend="aot_eager")(x, x[0], g)
    x.requires_grad_()
    view = x.transpose(0, 1)[:, 1:]
    (found,) = torch.autograd.grad((library.rms_norm(view, g) * expected.transpose(0, 1)[:, 1:]).sum(), x)
    wanted = torch.nn.functional.rms_norm(view, (8,), g, 1e-6) * expected.transpose(0, 1)[:, 1:]
    torch.testing.assert_close(found, torch.autograd.grad(wanted.sum(), x)[0])
