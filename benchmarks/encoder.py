"""The sentence encoder with its real weights as rows: ours, numpy and eager torch on the same batches.

Numpy and torch compute the padding, as people write it; ours leaves it out. So there is a row of real sentences, most
of them short, and a row without any padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from benchmarks.ours import ours
from benchmarks.peers import torch_peers
from benchmarks.runner import Case, Impl, Missing
from benchmarks.tutorials import allow_helpers

BATCH: Final = 32
REAL_TOKENS: Final = 510
LONG: Final = 128


def encoder_flops(tokens: int, width: int = 384, hidden: int = 1536, layers: int = 6) -> float:
    """Floating-point operations of the products with weights, for tokens that are no padding."""
    return float(tokens * layers * 2 * width * (4 * width + 2 * hidden))


def real_batch() -> Any:
    """The demo's first 32 sentences, padded to the longest of 43 tokens."""
    from minilm import load_sentences, tokenize

    batch = tokenize([sentence.text for sentence in load_sentences()][:BATCH])
    assert batch.mask.sum() == REAL_TOKENS
    return batch


def long_batch() -> Any:
    """32 texts of 128 tokens each: neighbouring sentences, cut where they are too long."""
    from minilm import load_sentences, tokenize

    sentences = [sentence.text for sentence in load_sentences()] * 2
    batch = tokenize([" ".join(sentences[i : i + 20]) for i in range(BATCH)], max_tokens=LONG)
    assert batch.mask.all()
    return batch


def encoder_case(make_batch: Callable[[], Any]) -> Case:
    """Embedding a batch."""
    allow_helpers()
    from minilm import MissingModel, load_weights, numpy_encoder

    try:
        weights, batch = load_weights(), make_batch()
    except MissingModel as problem:
        gone = Missing(str(problem))
        return Case(gone, {"numpy": gone, "torch": gone}, lambda: None)

    def peers(_torch: Any) -> Mapping[str, Impl]:
        from minilm.torch_encoder import TorchEncoder

        encoder = TorchEncoder(weights)
        return {"torch": lambda: encoder.embed(batch)}

    return Case(
        _ours(weights, batch),
        {"numpy": lambda: numpy_encoder.embed(weights, batch), **torch_peers(peers)},
        lambda: numpy_encoder.embed(weights, batch, np.float64),
    )


def _ours(weights: Any, batch: Any) -> Impl | Missing:
    make = ours("06_sentence_encoder", "Encoder")
    if isinstance(make, Missing):
        return make
    encoder = make(weights)
    return lambda: encoder.embed(batch.ids, batch.mask)
