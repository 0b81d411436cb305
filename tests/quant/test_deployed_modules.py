"""Deployed torch modules keep their numbers in the state dict; what is not quantised is said."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pypto import quant  # noqa: E402
from pypto.errors.quant import FewSamples, NoSuchLayer, StaysFloat, WrongCalibration  # noqa: E402

pytestmark = pytest.mark.torch
INT8 = quant.int8("token")
CONFIGS = {
    "W4A16 ordered": quant.Config(quant.int4(group=8, symmetric=False), algorithm=quant.gptq(act_order=True)),
    "W8A16": quant.Config(),
    "W8A8 factors": quant.Config(inputs=INT8, algorithm=("smoothquant", "gptq")),
    "W8A8 groups": quant.Config(inputs=quant.int8("group", group=8)),
    "W8A8 static": quant.Config(inputs=quant.int8("tensor", symmetric=False)),
    "MXFP8": quant.Config(quant.mxfp8(), inputs=quant.mxfp8()),
    "MXFP4": quant.Config(quant.mxfp4()),
}


def model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 64, bias=False))


def rows(seed: int = 1) -> Any:
    return torch.randn(300, 64, generator=torch.Generator().manual_seed(seed))


def converted(given: Any, config: quant.Config) -> tuple[Any, Any]:
    with quant.calibrate(given, config) as run:
        run(rows())
        return run.convert(), run.layers


def outputs(module: Any) -> Any:
    with torch.no_grad():
        return module(rows(2))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_state_dict_has_all_numbers(name: str, tmp_path: Path) -> None:
    """Loaded into the layers of another model, it gives the same outputs bit for bit; nothing else changes."""
    given = model(0)
    deployed, layers = converted(given, CONFIGS[name])
    other, other_layers = converted(model(1), CONFIGS[name])
    expected, before = outputs(deployed), outputs(other)
    numpy_before = [other_layers[key](rows(2).numpy() if key == "0" else np.ones((2, 32))) for key in other_layers]
    assert not torch.equal(expected, before)
    torch.save(deployed.state_dict(), tmp_path / "a.pt")
    other.load_state_dict(torch.load(tmp_path / "a.pt", weights_only=True))
    assert torch.equal(outputs(other), expected)
    for key, y in zip(other_layers, numpy_before, strict=True):
        np.testing.assert_array_equal(other_layers[key](rows(2).numpy() if key == "0" else np.ones((2, 32))), y)
    assert sum(t.numel() * t.element_size() for t in deployed.state_dict().values()) >= sum(
        layer.weight.codes.size * layer.weight.scheme.bits // 8 for layer in layers.values()
    )
    assert torch.equal(given(rows(2)), model(0)(rows(2)))


@pytest.mark.parametrize("name", CONFIGS)
def test_other_dtypes_leave_the_numbers_of_a_layer(name: str) -> None:
    deployed = converted(model(), CONFIGS[name])[0]
    state = {key: value.clone() for key, value in deployed.state_dict().items()}
    with torch.no_grad():
        expected = deployed(rows(2).bfloat16())
        moved = copy.deepcopy(deployed).to(torch.bfloat16).half().to("cpu").bfloat16()
        assert torch.equal(moved(rows(2).bfloat16()), expected)
    assert expected.dtype == torch.bfloat16
    assert all(torch.equal(state[key], value) for key, value in moved.state_dict().items())
    with pytest.raises(WrongCalibration, match="layer 0 is deployed on kernels of the CPU, and cannot move to meta"):
        moved.to("meta")


def test_a_state_dict_of_other_layers_is_refused() -> None:
    states = {name: converted(model(), config)[0] for name, config in CONFIGS.items()}
    for name, deployed in states.items():
        for other, module in states.items():
            if name != other:
                with pytest.raises(RuntimeError, match=r"and the state dict has '|size mismatch|Missing key"):
                    module.load_state_dict(deployed.state_dict())
    with pytest.raises(RuntimeError, match="Missing key"):
        states["W8A16"].load_state_dict(model().state_dict())


@pytest.mark.parametrize("name", ["W4A16 ordered", "W8A8 factors"])
def test_files_become_a_module_again(name: str, tmp_path: Path) -> None:
    given = model()
    deployed, layers = converted(given, CONFIGS[name])
    quant.save(layers, tmp_path)
    again = quant.deploy_module(given, quant.load(tmp_path))
    assert torch.equal(outputs(again), outputs(deployed))
    with pytest.raises(NoSuchLayer, match="the model has no layer 1"):
        quant.deploy_module(given, {"1": layers["0"]})
    with pytest.raises(WrongCalibration, match=r"layer 2 has the shape \(32, 64\), and the module's is \(64, 32\)"):
        quant.deploy_module(given, {"2": layers["0"]})
    assert isinstance(given[0], torch.nn.Linear)


class Experts(torch.nn.Module):
    """Experts as one parameter of three dimensions, as DeepSeek-V3 of transformers has them, and a router."""

    def __init__(self) -> None:
        super().__init__()
        self.router = torch.nn.Linear(16, 4)
        self.gate_up = torch.nn.Parameter(torch.randn(4, 16, 32) / 4)

    def forward(self, x: Any) -> Any:
        return torch.einsum("te,eij,ti->tj", self.router(x).softmax(-1), self.gate_up, x)


class Own(torch.nn.Linear):
    """A linear layer that computes something else."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * 2


MIXED = {
    "experts": (Experts(), (8, 16), r"1 weights stay in floats, 96.8% of the numbers: gate_up"),
    "convolution": (
        torch.nn.Sequential(torch.nn.Conv2d(1, 4, 2), torch.nn.Flatten(), torch.nn.Linear(4, 2)), (3, 1, 2, 2),
        r"1 weights stay in floats, 53.3% of the numbers: 0\.weight",
    ),
    "subclass": (torch.nn.Sequential(Own(4, 4), torch.nn.Linear(4, 4)), (3, 4), r"40.0% of the numbers: 0\.weight"),
    "attention": (
        torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8),
        r"2 weights stay in floats, .*: self_attn\.in_proj_weight, self_attn\.out_proj\.weight",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_weights_that_stay_in_floats_are_named(name: str) -> None:
    """At the line of the program, once; not where `skip` has them."""
    given, shape, text = MIXED[name]
    with pytest.warns(StaysFloat, match=text) as said:
        run = quant.calibrate(given, quant.Config())
    assert [one.filename for one in said] == [__file__]
    run.__exit__(None, None, None)
    with pytest.warns(StaysFloat, match=text) as said:
        quant.prepare(given, quant.Config())
    assert [one.filename for one in said] == [__file__]
    skip = [part.strip() for part in text.partition(": ")[2].replace("\\", "").split(",")]
    with warnings.catch_warnings(), quant.calibrate(given, quant.Config(skip=skip)) as run:
        warnings.simplefilter("error")
        run(torch.ones(shape))
        assert len(run.convert() and run.layers) >= 1
        quant.prepare(given, quant.Config(skip=skip))


def test_all_weights_in_floats_are_listed() -> None:
    """Those that the warning counts, and those that it leaves out: tables, skipped layers and what is outside."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(5, 4)
            self.head = torch.nn.Linear(4, 5)
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Conv2d(1, 2, 3))
            self.layers.experts = torch.nn.ParameterList(torch.ones(2, 4, 4) for _ in range(9))

    with pytest.warns(StaysFloat, match="10 weights stay in floats") as said:
        run = quant.calibrate(Model(), quant.Config(skip=["layers.1"]), blocks="layers|none")
    run.__exit__(None, None, None)
    experts = {f"layers.experts.{n}": 32 for n in range(9)}
    warning = said[0].message
    assert isinstance(warning, StaysFloat) and set(warning.weights) == {"layers.2.weight", *experts}
    others = {"words.weight": 20, "head.weight": 20, "layers.1.weight": 16, "layers.2.weight": 18}
    assert run.floats == {**others, **experts}


def test_tables_and_added_rows_are_no_products() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(5, 4)
            self.positions = torch.nn.Parameter(torch.ones(1, 3, 4))
            self.norm = torch.nn.LayerNorm(4)
            self.up = torch.nn.Linear(4, 4)

        def forward(self, ids: Any) -> Any:
            return self.up(self.norm(self.words(ids) + self.positions))

    with warnings.catch_warnings(), quant.calibrate(Model(), quant.Config()) as run:
        warnings.simplefilter("error")
        run(torch.ones(2, 3, dtype=torch.int64))


def test_a_linear_layer_with_its_inputs_first() -> None:
    """GPT-2 of transformers has such layers."""

    def forward(self: Any, x: Any) -> Any:
        return torch.addmm(self.bias, x, self.weight)

    kind = type("Conv1D", (torch.nn.Module,), {"__module__": "transformers.pytorch_utils", "forward": forward})
    layer = kind()
    torch.manual_seed(0)
    layer.weight = torch.nn.Parameter(torch.randn(16, 24) / 4)
    layer.bias = torch.nn.Parameter(torch.randn(24))
    given = torch.nn.Sequential(layer, torch.nn.Linear(24, 4))
    with quant.calibrate(given, quant.Config(inputs=INT8)) as run:
        run(torch.randn(100, 16))
        deployed = run.convert()
    assert run.layers["0"].weight.codes.shape == (24, 16)
    x = torch.randn(50, 16)
    with torch.no_grad():
        assert 0 < quant.relative_error(given(x).numpy(), deployed(x).numpy()) < 0.02
    with pytest.warns(StaysFloat, match=r": 0\.weight"):
        quant.prepare(given, quant.Config())


def test_names_that_match_nothing_and_models_without_layers() -> None:
    given = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 4)))
    for begin in (quant.calibrate, quant.prepare):
        with pytest.raises(NoSuchLayer, match=r"the pattern '1\.2' in `skip` matches no layer; did you mean 1\.1"):
            begin(given, quant.Config(skip=["0", "1.2"]))
        with pytest.raises(WrongCalibration, match="the model has no linear layers"):
            begin(torch.nn.Sequential(torch.nn.ReLU()), quant.Config())
    # A layer outside of the blocks may be named too.
    with quant.calibrate(given, quant.Config(skip=["0"]), blocks=[given[1]]) as run:
        run(torch.ones(2, 4))
        run.convert()
    assert list(run.layers) == ["1.1"]


def test_few_rows_are_said_once() -> None:
    """At the line that converts, of the layer that needs the most rows."""
    given = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Linear(32, 32), torch.nn.Linear(32, 64))
    with quant.calibrate(given, quant.Config(algorithm="gptq"), blocks=list(given)) as run:
        run(torch.randn(20, 64))
        with pytest.warns(FewSamples) as said:
            run.convert()
    assert [str(one.message).splitlines()[0] for one in said] == [
        "[E706] layer 0: 20 rows of inputs for 64 columns are few; statistics are uncertain"
    ]
    assert said[0].filename == __file__


def test_tensors_are_quantised_as_arrays() -> None:
    linear, x = torch.nn.Linear(32, 8), torch.randn(200, 32)
    found = quant.quantize(linear.weight, x.bfloat16(), algorithm="gptq")
    weight = linear.weight.detach().numpy()
    expected = quant.quantize(weight, x.bfloat16().float().numpy(), algorithm="gptq")
    np.testing.assert_array_equal(found.codes, expected.codes)
