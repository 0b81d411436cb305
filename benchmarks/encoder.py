"""The sentence encoder as rows: ours, numpy, torch, torch.compile and ONNX Runtime on the same batches.

All peers compute the padding, as people write it; ours leaves it out. So there is a row of real sentences, most of
them short, and a row without any padding. All are held to the same distance from float64: products of 16 bits, which
the tutorial asks for, are enough for it. Rows beside these ask for IEEE float32, which is what the peers compute in.
Where the package with the real weights is not installed, made-up ones of the same shapes stand for them: nobody's time
depends on the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.onnx_encoder import onnx_encoder
from benchmarks.ours import ours
from benchmarks.peers import compiled_torch, torch_peers
from benchmarks.runner import Case, Impl, Missing
from benchmarks.tutorials import allow_helpers

LENGTHS: Final = (
    11, 25, 8, 43, 13, 13, 12, 12, 40, 15, 18, 13, 12, 9, 33, 14,
    11, 11, 12, 9, 32, 16, 12, 12, 9, 30, 11, 12, 7, 12, 13, 10,
)  # fmt: skip
"""Tokens of the demo's first 32 sentences."""
BATCH: Final = len(LENGTHS)
LONG: Final = 128
WORDS: Final = 30522


def encoder_flops(tokens: int, width: int = 384, hidden: int = 1536, layers: int = 6) -> float:
    """Floating-point operations of the products with weights, for tokens that are no padding."""
    return float(tokens * layers * 2 * width * (4 * width + 2 * hidden))


def real_batch() -> Any:
    """The demo's first 32 sentences, padded to the longest of 43 tokens."""
    from minilm import load_sentences, tokenize

    batch = tokenize([sentence.text for sentence in load_sentences()][:BATCH])
    assert batch.mask.sum(axis=1).tolist() == list(LENGTHS)
    return batch


def long_batch() -> Any:
    """32 texts of 128 tokens each: neighbouring sentences, cut where they are too long."""
    from minilm import load_sentences, tokenize

    sentences = [sentence.text for sentence in load_sentences()] * 2
    batch = tokenize([" ".join(sentences[i : i + 20]) for i in range(BATCH)], max_tokens=LONG)
    assert batch.mask.all()
    return batch


def made_up_batch(lengths: Sequence[int]) -> Any:
    """Any tokens, so many in each sentence."""
    from minilm import Batch

    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int32)
    ids = np.random.default_rng(len(lengths)).integers(0, WORDS, mask.shape, np.int32)
    return Batch(ids * mask, mask)


def made_up_weights(width: int = 384, hidden: int = 1536, layers: int = 6) -> Any:
    """Weights of the real ones' shapes, with which numbers stay of order one through the layers."""
    from minilm import Layer, Linear, Norm, Weights

    rng = np.random.default_rng(0)

    def numbers(*shape: int, scale: float) -> Any:
        return rng.standard_normal(shape, np.float32) * np.float32(scale)

    def linear(inputs: int, outputs: int) -> Any:
        return Linear(numbers(inputs, outputs, scale=1 / math.sqrt(inputs)), numbers(outputs, scale=0.1))

    def norm() -> Any:
        return Norm(1 + numbers(width, scale=0.1), numbers(width, scale=0.1))

    def layer() -> Any:
        attention = linear(width, 3 * width), linear(width, width), norm()
        return Layer(*attention, linear(width, hidden), linear(hidden, width), norm())

    tables = numbers(WORDS, width, scale=0.05), numbers(512, width, scale=0.02), numbers(width, scale=0.02)
    return Weights(*tables, norm(), tuple(layer() for _ in range(layers)))


def encoder_case(lengths: Sequence[int], make_batch: Callable[[], Any], precision: str = "bf16x3") -> Case:
    """Embedding a batch of sentences, whose numbers of tokens are known, with products as exact as asked for."""
    allow_helpers()
    from minilm import MissingModel, load_weights

    try:
        return batch_case(load_weights(), make_batch(), precision)
    except MissingModel:
        return batch_case(made_up_weights(), made_up_batch(lengths), precision)


def batch_case(weights: Any, batch: Any, precision: str = "bf16x3") -> Case:
    """Embedding a batch with some weights."""
    from minilm import numpy_encoder

    import pypto

    def by_torch(torch: Any) -> Mapping[str, Impl | Missing]:
        from minilm.torch_encoder import TorchEncoder

        encoder = TorchEncoder(weights)
        given = torch.from_numpy(batch.ids), torch.from_numpy(batch.mask)
        return {
            "torch": lambda: encoder.forward(*given),
            "torch.compile": compiled_torch(torch, encoder.forward, given),
        }

    peers = {
        "numpy": lambda: numpy_encoder.embed(weights, batch),
        **torch_peers(by_torch),
        "onnxruntime": onnx_encoder(weights, batch, pypto.get_num_threads()),
    }
    return Case(_ours(weights, batch, precision), peers, lambda: numpy_encoder.embed(weights, batch, np.float64))


def _ours(weights: Any, batch: Any, precision: str) -> Impl | Missing:
    make = ours("06_sentence_encoder", "Encoder")
    if isinstance(make, Missing):
        return make
    encoder = make(weights, precision)
    return lambda: encoder.embed(batch.ids, batch.mask)
