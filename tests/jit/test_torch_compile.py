"""Launches in functions that torch.compile traces."""

from __future__ import annotations

from typing import Any

import pytest

import pypto as pto
from pypto.errors.launch import WrongArguments

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

SCALE = 2.0


def axpy(x, y, out, n, a, BLOCK: pto.constexpr, MODE: pto.constexpr = "plus"):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    product = pto.load(x + i, mask=i < n) * a
    other = pto.load(y + i, mask=i < n)
    pto.store(out + i, product + other if MODE == "plus" else product - other, mask=i < n)


def halve(x):
    x[:] = x[:] / 2


def rows(x, out, COLUMNS: pto.constexpr):
    i = pto.program_id(0)
    out[i, 0:COLUMNS] = x[i, 0:COLUMNS] * SCALE


@pytest.fixture(autouse=True)
def plain(path: str) -> Any:
    if path == "python":
        pytest.skip("graphs launch as everybody does")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("launched", [False, True])
def test_a_whole_graph(backend: str, launched: bool) -> None:
    kernel, second = pto.jit(axpy), pto.jit(halve)

    def function(x: Any, y: Any, a: float) -> Any:
        out, n = torch.empty_like(x), x.numel()
        kernel[lambda meta: (pto.cdiv(n, meta["BLOCK"]),)](x, y, out, n, a, BLOCK=16)
        second[1](x)
        return out.sin() + x

    if launched:
        function(torch.ones(3), torch.ones(3), 1.0)
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    for n, a in ((40, 2.0), (41, 3.5), (50, 0.5), (40, 2.0)):
        x, y = torch.randn(n), torch.randn(n)
        theirs = x.clone()
        expected = function(theirs, y, a)
        torch.testing.assert_close(compiled(x, y, a), expected)
        torch.testing.assert_close(x, theirs)
    assert graphs() <= 4


@pytest.mark.slow
def test_inductor() -> None:
    kernel = pto.jit(axpy)

    def function(x: Any, y: Any) -> Any:
        out = torch.empty_like(x)
        kernel[4](x, y * 2, out, x.shape[0], 3.0, 16, MODE="minus")
        return out + 1

    x, y = torch.randn(50), torch.randn(50)
    try:
        found = torch.compile(function, backend="inductor", fullgraph=True)(x, y)
    except Exception as error:
        if "compiler" in str(error).lower():
            pytest.skip("inductor finds no compiler here")
        raise
    torch.testing.assert_close(found, function(x, y))


def test_a_graph_is_made_once() -> None:
    kernel = pto.jit(halve)

    @torch.compile(backend="eager", fullgraph=True)
    def function(x: Any) -> Any:
        kernel[1](x)
        return x + 1

    for n in range(4):
        x = torch.full((4,), float(2 * n))
        assert function(x).tolist() == [n + 1.0] * 4
        kernel[1](x)
    assert graphs() == 1


def test_changed_globals_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = pto.jit(rows)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def function(x: Any) -> Any:
        out = torch.zeros_like(x)
        kernel[(x.shape[0],)](x, out, 4)
        return out

    x = torch.ones(3, 4)
    assert torch.equal(function(x), x * 2)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert torch.equal(function(x), x * 5)


def test_gradients_flow_around_a_launch() -> None:
    """A launch is differentiated no more than it is outside; a backward pass finds what was overwritten."""
    kernel = pto.jit(rows)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = torch.empty_like(x)
            kernel[(x.shape[0],)](x, out, 4)
            return out

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            out = torch.empty_like(gradient)
            kernel[(gradient.shape[0],)](gradient.contiguous(), out, 4)
            return out

    def function(x: Any) -> Any:
        return (Scaled.apply(x * 3) ** 2).sum()

    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        mine, theirs = (torch.arange(8.0).reshape(2, 4).requires_grad_() for _ in range(2))
        torch.compile(function, backend=backend, fullgraph=True)(mine).backward()
        function(theirs).backward()
        torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_reading_what_requires_grad(backend: str) -> None:
    kernel = pto.jit(rows)
    weight = torch.nn.Parameter(torch.ones(2, 4))

    def function(x: Any) -> Any:
        out = torch.zeros_like(x)
        kernel[(2,)](weight, out, 4)
        return out + x

    found = torch.compile(function, backend=backend, fullgraph=True)(torch.ones(2, 4))
    assert torch.equal(found, torch.full((2, 4), 3.0)) and not found.requires_grad


def test_writing_to_what_requires_grad_is_the_same_error() -> None:
    kernel = pto.jit(halve)

    @torch.compile(backend="eager")
    def function(x: Any) -> Any:
        kernel[1](x)
        return x

    x = torch.ones(4, requires_grad=True)
    with pytest.raises(Exception, match="requires grad"):
        function(x)
    with torch.no_grad():
        assert function(x).tolist() == [0.5] * 4


def pair(both, out):
    out[:] = both[0][:] + both[1][:]


def many(out, *arrays):
    out[:] = arrays[0][:] + arrays[1][:]


def tuned(x, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] * 2


OUTSIDE: dict[str, Any] = {
    "tuples": lambda: (pto.jit(pair), lambda x, out: ((x, x), out)),
    "star": lambda: (pto.jit(many), lambda x, out: (out, x, x)),
    "tuner": lambda: (pto.autotune([pto.Config({"BLOCK": 4})], key=[])(pto.jit(tuned)), lambda x, out: (x, out)),
}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_what_no_graph_holds_breaks_it_with_a_sentence(kind: str) -> None:
    kernel, arguments = OUTSIDE[kind]()

    def function(x: Any) -> Any:
        out = torch.empty_like(x)
        kernel[(1,)](*arguments(x, out))
        return out + 1

    with pytest.raises(Exception, match="a launch with tuples"):
        torch.compile(function, backend="eager", fullgraph=True)(torch.ones(4))
    torch._dynamo.reset()
    assert torch.compile(function, backend="eager")(torch.ones(4)).tolist() == [3.0] * 4


def test_a_kernel_that_cannot_be_compiled_says_so() -> None:
    @pto.jit
    def wrong(x):
        x[:] = x[:] + unknown  # noqa: F821

    def launch(x: Any) -> None:
        wrong[1](x)

    with pytest.raises(Exception, match="unknown"):
        torch.compile(launch, backend="eager", fullgraph=True)(torch.ones(4))


@pytest.mark.parametrize("dtype", ["bfloat16", "int32", "bool"])
def test_types(dtype: str) -> None:
    kernel = pto.jit(rows)
    x = torch.ones(2, 4, dtype=getattr(torch, dtype))

    @torch.compile(backend="aot_eager", fullgraph=True)
    def function(x: Any) -> Any:
        out = torch.zeros_like(x, dtype=torch.float32)
        kernel[(2,)](x, out, 4)
        return out

    assert torch.equal(function(x), torch.full((2, 4), 2.0))


def test_what_the_operator_says_of_itself() -> None:
    """torch's own check of the operator: its schema, its meaning for fake tensors, and autograd."""
    from pypto.torch.graph.operator import launches

    kernel = pto.jit(halve)

    def launch(x: Any) -> None:
        kernel[1](x)

    torch.compile(launch, backend="eager", fullgraph=True)(torch.ones(4))
    said = next(said for said in reversed(launches().calls) if ":halve:" in said[0])
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    done = torch.library.opcheck(torch.ops.pypto.launch, (*said, [1], [], [], [torch.ones(4)], []), test_utils=checks)
    assert set(done.values()) == {"SUCCESS"}


def test_arguments_that_the_operator_does_not_take_are_not_dropped() -> None:
    """Options choose another variant, and a word that means nothing is an error, as they are outside of a graph."""
    kernel = pto.jit(halve)

    def with_option(x: Any) -> Any:
        kernel[1](x, disable=("peeling",), num_warps=4)
        return x + 1

    def with_mistake(x: Any) -> Any:
        kernel[1](x, eps=1e-5)
        return x

    assert torch.compile(with_option, backend="eager")(torch.full((4,), 2.0)).tolist() == [2.0] * 4
    with pytest.raises(WrongArguments, match="has no parameter `eps`"):
        torch.compile(with_mistake, backend="eager")(torch.ones(4))
