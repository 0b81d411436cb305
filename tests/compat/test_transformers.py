"""Models of `transformers` with attention of the library: logits and gradients are those of torch's own attention."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from pypto.compat.transformers import install  # noqa: E402
from pypto.errors.library import WrongOperands  # noqa: E402


def model(kind: str = "Llama", **more: Any) -> Any:
    """A random model in the shape of a small language model, with groups of heads."""
    install()
    torch.manual_seed(0)
    sizes = {"hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2, "vocab_size": 128}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256}
    config = getattr(transformers, f"{kind}Config")(**sizes, **heads, **more)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


def logits(net: Any, implementation: str, **given: Any) -> Any:
    net.set_attn_implementation(implementation)
    return net(**given).logits


@pytest.mark.parametrize(("kind", "more"), [("Llama", {}), ("Mistral", {"sliding_window": 5}), ("Qwen3", {})])
def test_logits_with_padding_on_the_left(kind: str, more: Any) -> None:
    net, ids = model(kind, **more), torch.randint(0, 128, (3, 17))
    seen = (torch.arange(17) >= torch.tensor([0, 4, 16])[:, None]).long()
    with torch.no_grad():
        for given in ({"input_ids": ids}, {"input_ids": ids, "attention_mask": seen}):
            found, expected = (logits(net, name, **given) for name in ("pypto", "sdpa"))
            inside = given.get("attention_mask", torch.ones_like(ids)).bool()
            torch.testing.assert_close(found[inside], expected[inside], rtol=0, atol=1e-4)


def test_generation_with_a_cache() -> None:
    net, ids = model(), torch.randint(0, 128, (2, 9))
    results = []
    for name in ("pypto", "sdpa"):
        net.set_attn_implementation(name)
        results.append(net.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=0))
    assert torch.equal(*results)


def test_gradients() -> None:
    net, ids = model(), torch.randint(0, 128, (2, 9))
    gradients = []
    for name in ("pypto", "sdpa"):
        loss = logits(net, name, input_ids=ids).square().mean()
        gradients.append(torch.autograd.grad(loss, list(net.parameters())))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-3, atol=1e-5)


def test_what_is_not_supported() -> None:
    net, ids = model(attention_dropout=0.1), torch.randint(0, 128, (1, 5))
    with pytest.raises(WrongOperands, match=r"model\.eval"):
        logits(net.train(), "pypto", input_ids=ids)
