"""Models compiled with `pypto-inductor` are what eager torch computes, and so are their gradients."""

# mypy: ignore-errors

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")]

from tests.torch.models_language import MODELS as LANGUAGE  # noqa: E402
from tests.torch.models_vision import MODELS as VISION  # noqa: E402

MODELS = {**LANGUAGE, **VISION}


@pytest.mark.parametrize("name", MODELS)
def test_inference(name):
    model, inputs, fast = pair(name)
    model.eval()
    fast.eval()
    with torch.no_grad():
        torch.testing.assert_close(fast(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_training(name):
    model, inputs, fast = pair(name)
    got, wanted = step(fast, fast, inputs), step(model, model, inputs)
    torch.testing.assert_close(got[0], wanted[0], rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(got[1], wanted[1], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "whisper", "swin"])
def test_bfloat16_is_as_near_to_float32_as_eager_torch_is(name):
    model, inputs, fast = pair(name)
    wanted = model(*inputs)
    narrow = [x.bfloat16() if x.is_floating_point() else x for x in inputs]
    error, usual = ((f.bfloat16()(*narrow) - wanted).abs().max() for f in (fast, model))
    assert error <= 1.5 * usual
    assert error > 0


def pair(name):
    """A model, its inputs, and a copy of it that is compiled."""
    from pypto.torch.inductor.backend import pypto_inductor

    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    fast = torch.compile(copy.deepcopy(model), backend=pypto_inductor, fullgraph=True)
    fast.train(model.training)
    return model, inputs, fast


def step(model, owner, inputs):
    """The output, and the gradients of inputs and parameters."""
    inputs = tuple(x.detach().requires_grad_(x.is_floating_point()) for x in inputs)
    out = model(*inputs)
    leaves = [x for x in (*inputs, *owner.parameters()) if x.requires_grad]
    return out.detach(), torch.autograd.grad(out.square().mean(), leaves, allow_unused=True)
