"""torch.compile(backend="pypto"): models beside eager torch, forward and backward, with sizes that change."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import pypto.torch  # noqa: E402
from pypto.errors import PyptoWarning  # noqa: E402
from pypto.errors.inductor import RunByTorch, WrongDevice, WrongSetting  # noqa: E402
from pypto.torch.dynamo.compiled import CompiledGraph  # noqa: E402
from pypto.torch.dynamo.settings import Settings, settings  # noqa: E402
from tests.torch.models_language import Projected  # noqa: E402

nn = torch.nn
STRICT = {"strict": True}


def mlp() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def image_net() -> Any:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mlp": (mlp, lambda: torch.randn(5, 8)),
    "attention": (Projected, lambda: torch.randn(2, 7, 16)),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0), lambda: torch.randn(3, 2, 32)),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 4)),
        lambda: torch.randint(0, 10, (3, 4)),
    ),
    "image": (image_net, lambda: torch.randn(2, 3, 16, 16)),
    "channels last": (image_net, lambda: torch.randn(2, 3, 16, 16).to(memory_format=torch.channels_last)),
}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


def gradients(model: Any, run: Any, x: Any) -> list[Any]:
    """A result and the gradients of all parameters."""
    model.zero_grad()
    y = run(x)
    (y * torch.cos(torch.arange(y.numel())).reshape(y.shape)).sum().backward()
    return [y.detach(), *(p.grad.clone() for p in model.parameters())]


@pytest.mark.filterwarnings("ignore::pypto.errors.PyptoWarning")
@pytest.mark.parametrize("name", MODELS)
def test_models_train_as_in_eager_torch(name: str) -> None:
    make, given = MODELS[name]
    model, x = make(), given()
    fast = torch.compile(model, backend="pypto", fullgraph=True)
    wanted, found = gradients(model, model, x), gradients(model, fast, x)
    scale = max(float(g.abs().max()) for g in wanted)
    torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-6 * scale)
    assert [y.stride() for y in found] == [y.stride() for y in wanted]


def test_steps_of_training_are_those_of_eager_torch() -> None:
    """Calls after the second one are replays, which read the parameters where they lie."""
    curves = []
    for compiled in (False, True):
        torch.manual_seed(1)
        model, x, y = mlp(), torch.randn(16, 8), torch.randn(16, 4)
        run = torch.compile(model, backend="pypto", options=STRICT) if compiled else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(6):
            loss = (run(x) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        curves.append(losses)
    torch.testing.assert_close(torch.tensor(curves[1]), torch.tensor(curves[0]), rtol=1e-5, atol=1e-6)
    assert curves[1][-1] < curves[1][0]


def test_tensors_of_other_layouts_are_read_as_they_are() -> None:
    fast = torch.compile(lambda x: torch.softmax(x, 1) + 1, backend="pypto", options=STRICT)
    x = torch.randn(6, 5)
    for _ in range(3):
        for given in (x, x.t().contiguous().t(), torch.randn(6, 10)[:, ::2]):
            torch.testing.assert_close(fast(given), torch.softmax(given, 1) + 1)


def test_a_graph_without_tensors_runs_again_and_again() -> None:
    fast = torch.compile(lambda: torch.arange(5) * 2.0, backend="pypto", options=STRICT)
    for _ in range(4):
        torch.testing.assert_close(fast(), torch.arange(5) * 2.0)


GATHERS: dict[str, Callable[[Any, Any], Any]] = {
    "index": lambda x, i: x[i] + 1,
    "embedding": lambda x, i: nn.functional.embedding(i, x) * 2,
    "gather": lambda x, i: torch.gather(x, 0, i[:, None]) * 2,
    "computed": lambda x, i: x.index_select(0, i * 1) * 2,
}


@pytest.mark.parametrize("name", GATHERS)
def test_an_index_out_of_range_is_an_error_in_every_call(name: str) -> None:
    x, right = torch.arange(6.0).reshape(3, 2), torch.tensor([2, 0])
    fast = torch.compile(GATHERS[name], backend="pypto", options=STRICT)
    for _ in range(4):
        torch.testing.assert_close(fast(x, right), GATHERS[name](x, right))
        with pytest.raises(IndexError, match=r"index 3 is out of bounds for axis 0 with size 3") as caught:
            fast(x, torch.tensor([1, 3]))
        assert "test_compile_backend.py" in str(caught.value)


def test_positions_beyond_a_table_are_an_error() -> None:
    table = torch.arange(12.0).reshape(6, 2)
    fast = torch.compile(lambda x, t: x + t[torch.arange(x.shape[0])], backend="pypto", dynamic=True)
    for length in (4, 6):
        torch.testing.assert_close(fast(torch.zeros(length, 2), table), table[:length])
    with pytest.raises(IndexError, match="index 6 is out of bounds"):
        fast(torch.zeros(7, 2), table)


def test_a_negative_index_counts_back_where_it_does_in_torch() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    fast = torch.compile(lambda x, i: x[i] + 1, backend="pypto", options=STRICT)
    torch.testing.assert_close(fast(x, torch.tensor([-3, -1])), x[torch.tensor([-3, -1])] + 1)
    with pytest.raises(IndexError, match="index -4 is out of bounds"):
        fast(x, torch.tensor([-4, 0]))


def test_a_transformer_block_has_no_step_of_torch() -> None:
    model = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0)
    fast = torch.compile(model, backend="pypto", options=STRICT)
    x = torch.randn(3, 2, 32)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes_of_torch_compile(mode: str) -> None:
    x = torch.randn(4, 9)
    fast = torch.compile(lambda x: torch.softmax(x, 1) * 2, backend="pypto", mode=mode)
    torch.testing.assert_close(fast(x), torch.softmax(x, 1) * 2)


def test_bfloat16_under_autocast() -> None:
    model, x = mlp(), torch.randn(5, 8)
    fast = torch.compile(model, backend="pypto", options=STRICT)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        wanted, found = model(x), fast(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("causal", [True, False])
def test_one_plan_serves_all_lengths(causal: bool) -> None:
    made: list[CompiledGraph] = []

    def backend(graph: Any, inputs: Any) -> Any:
        from torch._functorch.aot_autograd import aot_module_simplified

        from pypto.torch.dynamo.backend import decompositions

        def compiled(module: Any, given: Any) -> Any:
            made.append(CompiledGraph(module, "forward", Settings(strict=True)))
            return made[-1]

        return aot_module_simplified(graph, inputs, fw_compiler=compiled, decompositions=decompositions())

    make: Any = Projected
    model = make(causal)
    fast = torch.compile(model, backend=backend, dynamic=True)
    with torch.no_grad():
        for length in (4, 8, 7, 33):
            x = torch.randn(2, length, 16)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-5, atol=1e-5)
    assert len(made) == 1
    assert sum(map(len, made[0].versions.values())) == 1


def test_numbers_that_are_computed_from_sizes() -> None:
    def resized(x: Any) -> Any:
        return nn.functional.interpolate(x, size=(x.shape[-1] * 2,), mode="linear") + x.sum() / x.shape[-1]

    fast = torch.compile(resized, backend="pypto", dynamic=True)
    for length in (4, 7, 9, 7):
        x = torch.rand(1, 2, length)
        torch.testing.assert_close(fast(x), resized(x))


def test_results_that_are_views_of_arguments_stay_views() -> None:
    fast = torch.compile(lambda x: (x.t(), x + 1), backend="pypto")
    x = torch.randn(3, 4)
    turned, _ = fast(x)
    turned[0, 0] = 7
    assert x[0, 0] == 7


def test_arguments_are_updated_in_place() -> None:
    def step(x: Any, y: Any) -> Any:
        x.mul_(2).add_(y)
        return x.sum()

    x, y = torch.randn(4, 5), torch.randn(4, 5)
    wanted = x * 2 + y
    total = torch.compile(step, backend="pypto")(x, y)
    torch.testing.assert_close(x, wanted)
    torch.testing.assert_close(total, wanted.sum())


def test_what_torch_runs_is_named_once_counted_and_reported() -> None:
    fast = torch.compile(lambda x: torch.special.i0(x) * 2, backend="pypto")
    x = torch.rand(9)
    with pytest.warns(PyptoWarning, match=r"aten\.i0\.default: it has no row \(.*test_compile_backend.py:\d+"):
        torch.testing.assert_close(fast(x), torch.special.i0(x) * 2)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PyptoWarning)
        torch.compile(lambda x: torch.special.i0(x) * 2, backend="pypto")(x)
    lines = [line for line in pypto.torch.report().remarks if "aten.i0" in line]
    assert lines
    assert "aten.i0" in pypto.torch.report().json()


def test_strict_refuses_what_torch_would_run() -> None:
    fast = torch.compile(torch.special.i0, backend="pypto", options=STRICT)
    with pytest.raises(RunByTorch, match=r"aten\.i0"):
        fast(torch.rand(4))


@pytest.mark.filterwarnings("ignore::pypto.errors.PyptoWarning")
def test_a_graph_that_cannot_be_lowered_runs_in_torch() -> None:
    fast = torch.compile(lambda x: (x + 1).to_sparse().to_dense(), backend="pypto")
    x = torch.randn(3, 3)
    torch.testing.assert_close(fast(x), x + 1)


@pytest.mark.filterwarnings("ignore::pypto.errors.PyptoWarning")
def test_checks_run_although_they_have_no_result() -> None:
    fast = torch.compile(torch.linalg.inv, backend="pypto")
    x = torch.eye(3) * 2
    torch.testing.assert_close(fast(x), x / 4)
    with pytest.raises(RuntimeError, match="singular"):
        fast(torch.zeros(3, 3))


@pytest.mark.filterwarnings("ignore::pypto.errors.PyptoWarning")
def test_random_numbers_are_those_of_eager_torch() -> None:
    def noisy(x: Any) -> Any:
        return torch.rand_like(x) + nn.functional.dropout(x, 0.5)

    x = torch.ones(50)
    torch.manual_seed(3)
    wanted = noisy(x)
    fast = torch.compile(noisy, backend="pypto")
    fast(x)
    torch.manual_seed(3)
    torch.testing.assert_close(fast(x), wanted)


def test_modes_and_options_that_do_not_exist_are_named() -> None:
    assert settings(None, "max-autotune").tune
    for options, mode in (({"stric": True}, None), ({"strict": 1}, None), ({}, "fastest")):
        with pytest.raises(WrongSetting, match="pypto cannot be given"):
            settings(options, mode)


def test_tensors_elsewhere_are_refused() -> None:
    fast = torch.compile(torch.exp, backend="pypto")
    with pytest.raises(WrongDevice, match="meta"):
        fast(torch.ones(3, device="meta"))
