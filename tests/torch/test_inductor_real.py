"""Models with real weights: compiled once for all lengths, they say what eager torch says."""

# mypy: ignore-errors

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")]

from tests.torch.models_real import language_model, sentence_encoder  # noqa: E402


def compiled(function):
    from pypto.torch.inductor.backend import pypto_inductor

    return torch.compile(function, backend=pypto_inductor, fullgraph=True, dynamic=True)


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def test_sentences_of_two_lengths():
    encoder, batches = sentence_encoder()
    fast = compiled(encoder)
    with torch.inference_mode():
        for ids, mask in batches:
            torch.testing.assert_close(fast(ids, mask), encoder(ids, mask), rtol=1e-4, atol=1e-5)
        near = fast(*batches[1])
    assert graphs() == 1
    assert near[0] @ near[1] > near[0] @ near[2]  # a guitar is nearer to music than to the weather


def test_the_language_model_writes_the_same_words():
    """Its layers are compiled, as deep models are: one graph serves all thirty."""
    from pypto.torch.inductor.backend import pypto_inductor

    model, words = language_model()
    fast = copy.copy(model)
    fast._modules = {**model._modules, "blk": copy.deepcopy(model.blk)}
    for layer in fast.blk:
        layer.compile(backend=pypto_inductor, fullgraph=True, dynamic=True)
    prompt = ["The", "Ġcapital", "Ġof", "ĠFrance", "Ġis"]
    with torch.inference_mode():
        ids = torch.tensor([[words.index(word) for word in prompt]])
        for _ in range(6):
            wanted, got = model(ids), fast(ids)
            torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)
            assert got.argmax() == wanted.argmax()
            ids = torch.cat((ids, got.argmax(-1)[:, None]), 1)
    assert "ĠParis" in [words[n] for n in ids[0]]
    assert graphs() == 1
