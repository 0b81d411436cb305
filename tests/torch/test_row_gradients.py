"""Gradients of rows through their operators: in the dtypes of the rows, in one graph, under torch.func, in training."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pypto import library
from pypto.errors.launch import RecordedArgument
from pypto.errors.library import LostGradient
from pypto.library import Close, Operator
from pypto.library.tolerance import TOLERANCES

torch = pytest.importorskip("torch")

import pypto.torch  # noqa: E402, F401
from tests.torch.rows import tensor_of  # noqa: E402

WITH = [name for name, row in library.rows.items() if row.gradient is not None]
# Edge cases where the two differ by more than a tolerance: the exact gradient is nearly 0, a sum that was rounded or a
# loss near 400 comes in, or NaN is among the numbers.
ROUGH = {
    ("rms_norm", "one row of one"), ("add_rms_norm", "float32 weights"), ("add_layer_norm", "float32 weights"),
    ("cross_entropy", "left out"), ("cross_entropy_backward", "left out"), ("varlen_attention", "neighbours"),
}  # fmt: skip
CASES = [(name, "small", str(dtype)) for name in WITH for dtype in library.rows[name].signature.main_dtypes]
CASES += [(name, case, "") for name in WITH for case in library.rows[name].edges if (name, case) not in ROUGH]
QUICK = ("rms_norm", "rope_half", "grouped_matmul", "cross_entropy", "attention", "conv_bn_relu", "topk")


def operands(row: Operator, case: str = "small", dtype: str = "") -> tuple[dict[str, Any], tuple[str, ...]]:
    """Arguments as tensors by name, and the names of those that require grad."""
    values = {n: tensor_of(x) for n, x in row.sample(np.random.default_rng(0), case, dtype).items()}
    names = tuple(n for n, x in values.items() if isinstance(x, torch.Tensor) and x.is_floating_point())
    for n in names:
        values[n].requires_grad_()
    return values, names


def results_of(row: Operator, values: dict[str, Any]) -> dict[str, Any]:
    """Results by name."""
    found = row(**values)
    return dict(
        zip((s.name for s in row.signature.outputs), found if isinstance(found, tuple) else (found,), strict=True)
    )


def doubled(values: dict[str, Any]) -> dict[str, Any]:
    """Values with floats in float64, out of autograd."""
    return {n: x.detach().double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
            for n, x in values.items()}  # fmt: skip


@pytest.mark.parametrize(("name", "case", "dtype"), CASES)
def test_gradient_of_the_operator_is_that_in_float64(name: str, case: str, dtype: str) -> None:
    """With the tolerance of the dtype of each argument, relative to the size of its gradient."""
    torch.manual_seed(0)
    row = library.rows[name]
    values, names = operands(row, case, dtype)
    results = results_of(row, values)
    incoming = {n: torch.randn_like(x) for n, x in results.items() if x.is_floating_point()}
    found = torch.autograd.grad(
        [results[n] for n in incoming], [values[n] for n in names], list(incoming.values()), allow_unused=True
    )
    exact = doubled(row.arguments(values))
    expected = row.expected({n: x.numpy() if isinstance(x, torch.Tensor) else x for n, x in exact.items()})
    exact |= {n: torch.from_numpy(np.asarray(expected[n])) for n in results}
    v = SimpleNamespace(**exact, **{f"d_{n}": x.double() for n, x in incoming.items()}, wanted=frozenset(names))
    assert row.gradient is not None
    right = row.gradient(torch, v)
    for n, x in zip(names, found, strict=True):
        assert x.dtype == values[n].dtype and x.shape == values[n].shape
        size = float(right[n].abs().mean()) + 1e-12
        allowed = TOLERANCES[{"float32": "f32", "bfloat16": "bf16", "float16": "f16"}[str(x.dtype).split(".")[1]]]
        assert isinstance(allowed, Close)
        assert not Close(2 * allowed.rtol, 2 * allowed.rtol * size).problem(x.double(), right[n]), n


def loss_of(row: Operator, fixed: dict[str, Any], names: tuple[str, ...]) -> Any:
    """A function of the tensors of some names: a sum over all results."""

    def loss(*tensors: Any) -> Any:
        found = row(**fixed, **dict(zip(names, tensors, strict=True)))
        parts = found if isinstance(found, tuple) else (found,)
        return sum(x.float().nan_to_num(0, 0, 0).sin().sum() for x in parts if x.is_floating_point())

    return loss


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in WITH])
def test_gradient_in_one_graph_and_of_a_batch(name: str) -> None:
    row = library.rows[name]
    values, names = operands(row)
    tensors = [values.pop(n) for n in names]
    loss, every = loss_of(row, values, names), tuple(range(len(names)))
    wanted = torch.autograd.grad(loss(*tensors), tensors, allow_unused=True)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    plain = [x.detach() for x in tensors]
    pairs = torch.vmap(torch.func.grad(loss, every))(*(torch.stack([torch.zeros_like(x), x]) for x in plain))
    for found in (
        torch.autograd.grad(compiled(*tensors), tensors, allow_unused=True),
        torch.func.grad(loss, every)(*plain),
        [x[1] for x in pairs],
    ):
        for x, y in zip(found, wanted, strict=True):
            rtol = 1e-4 if y.dtype == torch.float32 else 1e-2
            torch.testing.assert_close(x, y, rtol=rtol, atol=rtol * float(y.float().abs().mean()) + 1e-7)


@pytest.mark.parametrize("name", ["rms_norm", "add_layer_norm", "swiglu", "rope_half", "cross_entropy", "moe_gate"])
def test_gradient_with_two_leading_dimensions(name: str) -> None:
    row = library.rows[name]
    once, names = operands(row)
    free = [spec.name for spec in row.signature.inputs if spec.is_free]
    twice = {n: torch.stack([x, x]).detach().requires_grad_(n in names) if n in free else x for n, x in once.items()}
    loss, tensors = loss_of(row, {n: x for n, x in once.items() if n not in names}, names), [once[n] for n in names]
    both = loss_of(row, {n: x for n, x in twice.items() if n not in names}, names)
    wanted = torch.autograd.grad(loss(*tensors), tensors)
    found = torch.autograd.grad(both(*(twice[n] for n in names)), [twice[n] for n in names])
    for n, x, y in zip(names, found, wanted, strict=True):
        expected = torch.stack([y, y]) if n in free else 2 * y
        torch.testing.assert_close(x, expected, rtol=2e-2, atol=2e-2 * float(y.float().abs().mean()))


def test_rows_without_a_gradient_say_why_at_the_call() -> None:
    """Also those that write in place: nothing that they write is ever detached in silence."""
    without = [row for row in library.rows.values() if row.gradient is None]
    integers = {"quantize_static", "quantize_mxfp4", "lightning_indexer", "quantize_image"}
    for row in without:
        values, names = operands(row)
        for n in names:
            plain = {m: x.detach() if m in names and m != n else x for m, x in values.items()}
            if row.name in integers:
                assert not results_of(row, plain).popitem()[1].requires_grad
                continue
            error, why = (RecordedArgument, n) if n in row.effects else (LostGradient, row.no_gradient)
            with pytest.raises(error) as raised:
                row(**plain)
            assert why in str(raised.value), (row.name, n)


class Model(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
    """A small language model of five rows, or of torch's operations in their place."""

    def __init__(self, ours: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.ours = ours
        self.table, self.gain = torch.nn.Embedding(40, 32), torch.nn.Parameter(torch.ones(32))
        self.project, self.up = torch.nn.Linear(32, 96, bias=False), torch.nn.Linear(32, 96, bias=False)
        self.down, self.head = torch.nn.Linear(48, 32, bias=False), torch.nn.Linear(32, 40)
        angles = torch.arange(12)[:, None] / 10.0 ** torch.arange(8)
        self.cos, self.sin = torch.cat([angles, angles], 1).cos(), torch.cat([angles, angles], 1).sin()

    def forward(self, tokens: Any) -> Any:
        x = self.table(tokens)
        q, k, v = (t.view(12, 2, 16) for t in self.project(self.norm(x)).chunk(3, 1))
        q, k, v = (t.transpose(0, 1)[None] for t in (self.rope(q), self.rope(k), v))
        x = x + self.attention(q, k, v)[0].transpose(0, 1).reshape(12, 32)
        return self.head(x + self.down(self.gated(self.up(self.norm(x)))))

    def norm(self, x: Any) -> Any:
        if self.ours:
            return library.rms_norm(x, self.gain)
        return torch.nn.functional.rms_norm(x, (32,), self.gain, 1e-6)

    def rope(self, x: Any) -> Any:
        if self.ours:
            return library.rope_half(x.contiguous(), self.cos, self.sin)
        a, b = x.chunk(2, -1)
        return x * self.cos[:, None] + torch.cat([-b, a], -1) * self.sin[:, None]

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        if self.ours:
            return library.attention(q, k, v, causal=1)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def gated(self, x: Any) -> Any:
        if self.ours:
            return library.swiglu(x)
        gate, up = x.chunk(2, 1)
        return torch.nn.functional.silu(gate) * up

    def loss(self, tokens: Any, labels: Any) -> Any:
        logits = self(tokens)
        if self.ours:
            return library.cross_entropy(logits, labels).mean()
        return torch.nn.functional.cross_entropy(logits, labels)


def test_a_model_learns_as_with_operations_of_torch() -> None:
    """Five rows in a training loop: the same losses, which fall."""
    curves = []
    for ours in (True, False):
        model, curve = Model(ours), []
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        batches = np.random.default_rng(0).integers(0, 40, (4, 13))
        for step in range(40):
            text = torch.from_numpy(batches[step % 4])
            optimizer.zero_grad()
            loss = model.loss(text[:-1], text[1:])
            loss.backward()
            optimizer.step()
            curve.append(float(loss.detach()))
        curves.append(curve)
    assert np.allclose(curves[0], curves[1], rtol=1e-4)
    assert curves[0][-1] < 0.3 * curves[0][0]
