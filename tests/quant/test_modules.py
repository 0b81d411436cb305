"""Torch modules: calibration block by block, a deployed copy, an int8 cache, and training with rounded weights."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from pypto import quant  # noqa: E402
from pypto.errors.gradients import NoGradient  # noqa: E402
from pypto.errors.launch import UndispatchedLaunch  # noqa: E402
from pypto.errors.quant import FewSamples, WrongCalibration, WrongScheme  # noqa: E402
from pypto.quant.formats import files  # noqa: E402

pytestmark = pytest.mark.torch
F = torch.nn.functional
CONFIGS = {
    "W8A8": quant.Config(inputs=quant.int8("token"), algorithm=("smoothquant", "gptq")),
    "W4A16": quant.Config(quant.int4(group=16), algorithm="gptq"),
    "W8A8C8": quant.Config(inputs=quant.int8("token"), cache=True),
    "W8A8 groups": quant.Config(inputs=quant.int8("group", group=16)),
}


class Attention(torch.nn.Module):
    """A block of attention and a hidden layer, with a mask or a causal one."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Any, *, mask: Any = None, causal: bool = False) -> tuple[Any, None]:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.down(F.relu(self.up(x))), None


class Model(torch.nn.Module):
    """Blocks with something before, between and behind them."""

    def __init__(self, count: int = 3) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(20, 32)
        self.layers = torch.nn.ModuleList(Attention() for _ in range(count))
        self.head = torch.nn.Linear(32, 5)

    def forward(self, ids: Any, mask: Any = None, causal: bool = False) -> Any:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, mask=mask, causal=causal)[0]
        return self.head(x)


def model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return Model()


def ids(seed: int = 1) -> Any:
    return torch.randint(0, 20, (6, 40), generator=torch.Generator().manual_seed(seed))


def size(module: Any) -> int:
    """Bytes of a state dict."""
    return sum(tensor.numel() * tensor.element_size() for tensor in module.state_dict().values())


def converted(given: Any, config: quant.Config, folder: Path | None = None, **kwargs: Any) -> tuple[Any, Any]:
    with quant.calibrate(given, config, folder, blocks="layers") as run, warnings.catch_warnings():
        warnings.simplefilter("ignore", FewSamples)
        for seed in range(2):
            run(ids(seed), **kwargs)
        return run.convert(), run.layers


@pytest.mark.parametrize("name", CONFIGS)
def test_a_deployed_copy_computes_nearly_the_same(name: str) -> None:
    given = model()
    before = {key: value.clone() for key, value in given.state_dict().items()}
    deployed, layers = converted(given, CONFIGS[name], causal=True)
    assert list(layers)[:2] == ["layers.0.qkv", "layers.0.out"]
    assert len(layers) == 12
    kinds = {type(module).__name__ for module in deployed.layers.modules()}
    assert "DeployedLinear" in kinds
    assert "Linear" not in kinds
    with torch.no_grad():
        exact, found = given(ids(5), causal=True), deployed(ids(5), causal=True)
    lost = quant.relative_error(exact.numpy(), found.numpy())
    assert 0 < lost < (0.1 if name == "W4A16" else 0.02)
    # The model is as it was, and shares what is not quantised.
    assert all(torch.equal(before[key], value) for key, value in given.state_dict().items())
    assert deployed.head.weight is given.head.weight
    assert given.training
    assert not any(module._forward_pre_hooks or "forward" in module.__dict__ for module in given.modules())


def test_layers_are_those_of_the_same_model_in_numpy() -> None:
    """Each block sees what the quantised ones before it give."""
    given = model()
    _, layers = converted(given, CONFIGS["W4A16"])
    with torch.no_grad():
        x = [given.words(ids(seed)) for seed in range(2)]
    for number, block in enumerate(given.layers):
        seen = np.concatenate([t.numpy().reshape(-1, 32) for t in x])
        name = f"layers.{number}.qkv"
        expected = quant.quantize(block.qkv.weight.detach().numpy(), seen, quant.int4(group=16), "gptq")
        assert np.mean(layers[name].weight.codes != expected.codes) < 0.01
        for part in ("qkv", "out", "up", "down"):
            linear = getattr(block, part)
            weight = torch.from_numpy(layers[f"layers.{number}.{part}"].weight.dequantize())
            linear.weight = torch.nn.Parameter(weight)
        with torch.no_grad():
            x = [block(t)[0] for t in x]


@pytest.mark.parametrize("stop", ["block-001.safetensors", "batch-00001.002.safetensors"])
def test_a_calibration_that_was_stopped_goes_on(stop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = converted(model(), CONFIGS["W8A8C8"])[1]
    write = files.write

    def limited(path: Path, data: bytes) -> None:
        if path.name == stop:
            raise KeyboardInterrupt
        write(path, data)

    monkeypatch.setattr(files, "write", limited)
    with pytest.raises(KeyboardInterrupt):
        converted(model(), CONFIGS["W8A8C8"], tmp_path)
    monkeypatch.setattr(files, "write", write)
    found = converted(model(), CONFIGS["W8A8C8"], tmp_path)[1]
    for name, layer in expected.items():
        np.testing.assert_array_equal(found[name].weight.codes, layer.weight.codes)
    # Nothing of the batches but the inputs of the last block is left.
    assert {path.name.split(".")[1] for path in tmp_path.glob("batch-*.safetensors")} == {"002"}


def test_attention_reads_an_int8_cache() -> None:
    """With and without a mask it computes on the same codes; without `cache` it does not."""
    given = model()
    none = quant.Config(skip=["*"], cache=True)
    deployed = converted(given, none, causal=True)[0]
    causal = torch.ones(40, 40, dtype=torch.bool).tril()
    with torch.no_grad():
        exact = given(ids(5), causal=True)
        kernel = deployed(ids(5), causal=True)
        masked = deployed(ids(5), mask=causal)
    lost = quant.relative_error(exact.numpy(), kernel.numpy())
    assert 1e-4 < lost < 0.02
    # A code of a later block may be the other one of two that are equally near.
    assert quant.relative_error(kernel.numpy(), masked.numpy()) < 0.1 * lost
    again = pickle.loads(pickle.dumps(deployed))
    with torch.no_grad():
        np.testing.assert_array_equal(again(ids(5), causal=True), kernel)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_deployed_module_is_pickled(dtype: Any) -> None:
    deployed = converted(model().to(dtype), CONFIGS["W8A8"])[0]
    again = pickle.loads(pickle.dumps(deployed))
    with torch.no_grad():
        y = deployed(ids(5))
        assert y.dtype == dtype
        assert torch.equal(again(ids(5)), y)


@pytest.mark.parametrize("blocks", ["layers", r"layers\.\d", None, "list"])
def test_blocks_are_named_or_listed(blocks: Any) -> None:
    given = model()
    names = {None: [""]}.get(blocks, ["layers.0", "layers.1", "layers.2"])
    with quant.calibrate(given, quant.Config(), blocks=list(given.layers) if blocks == "list" else blocks) as run:
        assert list(run.blocks) == names
        run(ids())
        assert size(run.convert()) < 0.5 * size(given)
        assert len(run.layers) == (13 if blocks is None else 12)


def test_the_encoder_of_torch() -> None:
    """Its fused path reads weights past the layers: neither calibration nor the copy takes it."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    given = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(4, 10, 32)
    config = replace(CONFIGS["W8A8"], skip=["*.self_attn*"])
    with quant.calibrate(given, config, blocks="layers") as run, warnings.catch_warnings():
        warnings.simplefilter("ignore", FewSamples)
        run(x)
        deployed = run.convert()
    assert list(run.layers) == [f"layers.{i}.linear{j}" for i in range(2) for j in (1, 2)]
    with torch.no_grad():
        assert 0 < quant.relative_error(given(x).numpy(), deployed(x).numpy()) < 0.02


def test_what_cannot_be_calibrated() -> None:
    given = model()
    with pytest.raises(WrongCalibration, match="no submodule is named 'layer'"):
        quant.calibrate(given, quant.Config(), blocks="layer")
    with pytest.raises(WrongCalibration, match="a block is no part of the model"):
        quant.calibrate(given, quant.Config(), blocks=[torch.nn.Linear(2, 2)])
    with (
        quant.calibrate(given, quant.Config(), blocks=[given.layers[1], given.layers[0]]) as run,
        pytest.raises(WrongCalibration, match=r"block layers\.0 ran as the 1\. one"),
    ):
        run(ids())
    with (
        quant.calibrate(given, quant.Config(), blocks=[given.layers[0], given.layers[2]]) as run,
        pytest.raises(WrongCalibration, match=r"block layers\.2 does not take what block layers\.0 gives"),
    ):
        run(ids())
    deployed = converted(given, quant.Config())[0]
    with pytest.raises(WrongCalibration, match=r"layer layers\.0\.qkv is deployed"):
        deployed(ids())


def test_arguments_that_cannot_be_kept() -> None:
    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4)])

        def forward(self, x: Any) -> Any:
            return self.layers[0](x)

    given = Wrapped()
    with (
        quant.calibrate(given, quant.Config(), blocks="layers") as run,
        pytest.raises(WrongCalibration, match=r"block layers\.0: args\[0\] is a object, which cannot be kept"),
    ):
        run(object())


@pytest.mark.parametrize(
    "config",
    [
        quant.Config(quant.int4(group=8)),
        quant.Config(inputs=quant.int8("token")),
        quant.Config(inputs=quant.int8("group", group=4)),
    ],
)
def test_gradients_pass_through_the_rounding(config: quant.Config) -> None:
    """The result is that of the quantised layer; the gradient that of its numbers, taken as constants."""
    torch.manual_seed(0)
    given = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Linear(8, 3))
    trained = quant.prepare(given, config)
    x = torch.randn(20, 16, requires_grad=True)
    with quant.calibrate(given, config) as run:
        run(x)
        layers = run.convert() and run.layers
    hidden = layers["0"](x.detach().numpy())
    np.testing.assert_allclose(trained(x).detach(), layers["1"](hidden), rtol=0, atol=1e-5)
    trained(x).square().sum().backward()
    w = [layers[name].weight.dequantize().astype(np.float64) for name in "01"]
    rows = layers["0"].rounded(x.detach().numpy()).astype(np.float64)
    g = 2 * trained(x).detach().double().numpy()
    np.testing.assert_allclose(given[0].weight.grad, (g @ w[1]).T @ rows, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(given[1].weight.grad, g.T @ layers["1"].rounded(hidden), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(x.grad, g @ w[1] @ w[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_a_graph_of_a_prepared_module_rounds_the_weights_of_each_run(mode: str) -> None:
    torch.manual_seed(0)
    trained = quant.prepare(torch.nn.Linear(8, 4), quant.Config(quant.int4(group=4)))
    x, first = torch.randn(3, 8), dict(trained.named_parameters())

    def run(parameters: dict[str, Any], x: Any) -> Any:
        return torch.func.functional_call(trained, parameters, (x,))

    graph = make_fx(run, tracing_mode=mode)(first, x)
    later = {name: 1.7 * value for name, value in first.items()}
    for parameters in (first, later):
        torch.testing.assert_close(graph(parameters, x), run(parameters, x), rtol=0, atol=0)


def test_a_prepared_module_is_exported() -> None:
    trained = quant.prepare(torch.nn.Linear(8, 4), quant.Config(quant.int4(group=4), inputs=quant.int8("token")))
    x = torch.randn(3, 8)
    exported = torch.export.export(trained, (x,)).module()
    torch.testing.assert_close(exported(x), trained(x), rtol=0, atol=0)


def test_training_regains_what_rounding_loses() -> None:
    torch.manual_seed(0)
    given = torch.nn.Linear(32, 8)
    config = quant.Config(quant.int4())
    x = torch.randn(512, 32) @ torch.randn(32, 32)
    with torch.no_grad():
        y = given(x)
    trained = quant.prepare(given, config)
    optimizer = torch.optim.Adam(trained.parameters(), 1e-4)
    lost = []
    for _ in range(200):
        loss = F.mse_loss(trained(x), y)
        lost.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert min(lost) < 0.8 * lost[0]
    for inputs in (quant.int8("tensor"), quant.fp8(per="token")):
        with pytest.raises(WrongScheme, match="of inputs is not offered in training"):
            quant.prepare(given, quant.Config(inputs=inputs))


def test_scales_have_gradients() -> None:
    """Against the definition in float64, with numbers beyond the ends and a scale below the least one."""
    rng = np.random.default_rng(0)
    w = torch.tensor(rng.standard_normal((5, 33)), dtype=torch.float32, requires_grad=True)
    scale = torch.tensor([0.01, 0.02, 0.03, 0.05, 1e-6], requires_grad=True)
    g = torch.tensor(rng.standard_normal((5, 33)), dtype=torch.float32)
    y = quant.fake_quantize(w, scale)
    (y * g).sum().backward()
    s = np.maximum(scale.detach().double().numpy(), 1e-4)[:, None]
    u = w.detach().double().numpy() / s
    r = np.rint(u)
    inside = (r >= -128) & (r <= 127)
    np.testing.assert_allclose(y.detach(), np.clip(r, -128, 127) * s, rtol=1e-5)
    np.testing.assert_allclose(w.grad, g.double().numpy() * inside, rtol=1e-5)
    expected = (g.double().numpy() * (np.clip(r, -128, 127) - u * inside)).sum(1)
    np.testing.assert_allclose(scale.grad[:4], expected[:4], rtol=1e-3, atol=1e-2)
    assert scale.grad[4] == 0


def test_second_derivatives_of_rounding_are_an_error() -> None:
    w, scale = torch.randn(3, 8, requires_grad=True), torch.full((3,), 0.05)
    (first,) = torch.autograd.grad((quant.fake_quantize(w, scale) ** 2).sum(), w, create_graph=True)
    with pytest.raises(NoGradient, match="fake_quantize cannot be differentiated here"):
        (first**2).sum().backward()


def test_deployed_layers_lose_no_gradient_and_no_launch() -> None:
    """Whether an input is given by name or not; attention on an int8 cache as a linear layer."""
    from pypto.quant.formats.cache import Int8Cache, KeyRanges
    from pypto.quant.torch_modules.attention import Int8Attention
    from pypto.quant.torch_modules.deployed import DeployedLinear

    layer = quant.QuantizedLayer("up", quant.quantize(np.eye(8, dtype=np.float32)))
    module = DeployedLinear(quant.deploy({"up": layer})["up"])
    attention = Int8Attention("0", Int8Cache.of(KeyRanges()))
    plain, recorded = torch.ones(1, 2, 3, 8), torch.ones(1, 2, 3, 8, requires_grad=True)
    assert torch.equal(module(x=plain), plain)
    calls = (
        lambda: module(recorded),
        lambda: module(x=recorded),
        lambda: attention.attend("0.0", plain, plain, recorded),
    )
    for call in calls:
        with pytest.raises(WrongCalibration, match="is deployed, its inputs have no gradient"):
            call()
    for function in (module, lambda x: attention.attend("0.0", x, x, x)):
        with pytest.raises(UndispatchedLaunch, match="it computes on arrays"):
            make_fx(function)(plain)
