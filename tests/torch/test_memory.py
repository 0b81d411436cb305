"""Memory of a step of a model, and the largest batch within some memory."""

from __future__ import annotations

from typing import Any

import pytest

from pypto.errors.inductor import TooLittleMemory

torch = pytest.importorskip("torch")
nn = torch.nn


def network() -> Any:
    """A small network with a convolution, a batch norm and a head."""
    head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 16 * 16, 10))
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), head)


def test_figures_of_an_inference_step() -> None:
    import pypto.torch

    memory = pypto.torch.step_memory(nn.Linear(256, 256).eval(), torch.ones(8, 256))
    weights, rows = 4 * (256 * 256 + 256), 4 * 8 * 256
    assert (memory.weights, memory.inputs, memory.activations) == (weights, rows, rows)
    assert (memory.gradients, memory.optimizer) == (0, 0)
    assert memory.peak == weights + 2 * rows
    assert str(memory).splitlines()[-1].split() == ["peak", "280", "kB"]


def test_figures_of_a_training_step() -> None:
    import pypto.torch

    model = network()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    sample = torch.randn(4, 3, 16, 16)
    state = torch.get_rng_state()
    memory = pypto.torch.step_memory(model, sample, optimizer=torch.optim.Adam)
    parameters = sum(4 * x.numel() for x in model.parameters())
    assert memory.gradients == parameters
    assert memory.optimizer == 2 * parameters + 4 * len([*model.parameters()])  # two moments, and steps
    assert memory.activations >= 2 * 4 * 4 * 8 * 16 * 16  # what the batch norm and the ReLU keep
    assert memory.peak >= memory.weights + memory.inputs + memory.gradients + memory.optimizer
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert all(x.grad is None for x in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("training", [False, True])
def test_the_largest_batch_fits_and_one_more_does_not(training: bool) -> None:
    import pypto.torch

    model = network().train(training)
    policy: dict[str, Any] = {"optimizer": torch.optim.SGD} if training else {}
    sample = torch.randn(3, 3, 16, 16)
    batch = pypto.torch.largest_batch(model, sample, memory="2 MB", **policy)
    peaks = [pypto.torch.step_memory(model, torch.randn(n, 3, 16, 16), **policy).peak for n in (batch, batch + 1)]
    assert peaks[0] <= 2_000_000 < peaks[1]


def test_a_model_with_several_arguments_by_name() -> None:
    import pypto.torch

    model = nn.Bilinear(64, 64, 8).eval()
    sample = {"input1": torch.ones(1, 64), "input2": torch.ones(1, 64)}
    assert pypto.torch.step_memory(model, sample).inputs == 512
    assert pypto.torch.largest_batch(model, sample, memory=10**6) > 1


def test_a_machine_without_the_memory_ends_the_search() -> None:
    import pypto.torch

    class Greedy(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x * 2 if len(x) <= 5 else x + torch.empty(1 << 60)

    assert pypto.torch.largest_batch(Greedy().eval(), torch.ones(1, 64), memory="1 GB") == 5


def test_too_little_memory_is_refused() -> None:
    import pypto.torch

    with pytest.raises(
        TooLittleMemory, match=r"a step of Linear with one sample takes 265 kB, and 100 kB is the limit"
    ):
        pypto.torch.largest_batch(nn.Linear(256, 256), torch.ones(1, 256), memory="100 kB")
    with pytest.raises(ValueError, match="no size"):
        pypto.torch.largest_batch(nn.Linear(8, 8), torch.ones(1, 8), memory="much")
