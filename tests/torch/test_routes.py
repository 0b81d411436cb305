"""Routes from torch: rows on tensors, functions of `pypto.torch.op` with their gradients, and compiled models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import pypto as pto
from pypto import library as lib
from pypto.errors.routing import VersionDemoted
from pypto.routing import Routes

torch = pytest.importorskip("torch")


@pto.jit
def square(x: Any, y: Any) -> None:
    y[:] = x[:] * x[:]


@pto.jit
def power(x: Any, y: Any) -> None:
    t = x[:]
    y[:] = t * t


@pytest.fixture
def routes() -> Iterator[Routes]:
    routes = Routes()
    yield routes
    routes.clear()
    row = lib.rows["rms_norm"]
    object.__setattr__(row, "implementations", tuple(i for i in row.implementations if i.version != "faulty"))


def test_the_doors_are_one() -> None:
    import pypto.routing
    import pypto.torch

    assert pypto.torch.routes is pypto.routing.routes
    assert pypto.torch.report().rows == pypto.routing.report().rows


def test_a_wrong_version_of_a_row_on_bfloat16_tensors(routes: Routes) -> None:
    x, g = torch.randn(4, 64).bfloat16(), torch.ones(64).bfloat16()
    right = lib.rms_norm(x, g)

    def wrong(y: Any, **_: Any) -> None:
        y.fill_(0.5)

    routes["rms_norm"].register("faulty", wrong).ab({"faulty": 1.0})
    with pytest.warns(VersionDemoted, match="differs from the reference"):
        assert all(torch.equal(lib.rms_norm(x, g), right) for _ in range(3))


def test_kernels_as_functions_keep_their_gradients(routes: Routes) -> None:
    import pypto.torch

    f = routes.register("square", "1.0", pypto.torch.op(square, grid=1, outputs={"y": "x"}))
    f.register("2.0", pypto.torch.op(power, grid=1, outputs={"y": "x"})).ab({"1.0": 0.5, "2.0": 0.5}, shadow=0.5)
    for _ in range(6):
        x = torch.arange(3.0, requires_grad=True)
        f(x).sum().backward()
        assert x.grad.tolist() == [0, 2, 4]
    assert (f.versions["2.0"].calls, f.versions["2.0"].answers, f.versions["2.0"].compared) == (3, 1, 2)


def test_out_of_memory_in_torch_and_another_thread(routes: Routes) -> None:
    def greedy(x: Any) -> Any:
        assert not torch.is_grad_enabled()
        return torch.empty(1 << 60)

    f = routes.register("f", "1.0", torch.relu).register("2.0", greedy).ab({"2.0": 1.0}, limit=30, failures=2)
    x = torch.tensor([-1.0, 2.0])
    with pytest.warns(VersionDemoted, match="out of memory"), torch.no_grad():
        assert all(f(x).tolist() == [0, 2] for _ in range(3))
    assert dict(f.versions["2.0"].failures) == {"out of memory": 2, "demoted": 1}


def test_a_compiled_model_asks_the_route_at_each_call(routes: Routes) -> None:
    model = torch.compile(lambda x, g: lib.rms_norm(x, g) + 1, backend="eager")
    x, g = torch.randn(4, 64), torch.ones(64)
    with torch.no_grad():
        right = model(x, g)
        route = routes["rms_norm"].monitor()
        assert all(torch.equal(model(x, g), right) for _ in range(3))
    assert route.versions["rows"].calls == 3


def test_operators_in_graphs_and_gradients_ask_the_route(routes: Routes) -> None:

    def wrong(y: Any, **_: Any) -> None:
        y.fill_(3)

    x, g = torch.randn(4, 64, requires_grad=True), torch.ones(64)
    right = lib.rms_norm(x, g)
    right.sum().backward()
    gradient, x.grad = x.grad, None
    route = routes["rms_norm"].register("faulty", wrong).ab({"faulty": 1.0})
    with pytest.warns(VersionDemoted, match="different"):
        result = lib.rms_norm(x, g)
    result.sum().backward()
    assert torch.equal(result, right)
    assert torch.equal(x.grad, gradient)
    with torch.no_grad():
        assert torch.equal(torch.ops.pypto.rms_norm(x, g, 1e-6), right)
        compiled = torch.compile(lambda x: lib.rms_norm(x, g) + 1, backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(x), right + 1)
    assert route.versions["faulty"].calls == 3
