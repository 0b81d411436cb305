"""The sentence encoder with its real weights as rows: ours, numpy and eager torch on the same batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from benchmarks.ours import ours
from benchmarks.peers import torch_peers
from benchmarks.runner import Case, Impl, Missing
from benchmarks.tutorials import allow_helpers

BATCH: Final = 32
LENGTHS: Final = (32, 128)


def encoder_flops(batch: int, length: int, width: int = 384, hidden: int = 1536, layers: int = 6) -> float:
    """Floating-point operations of the matrix products, padding included."""
    projections = 2 * width * (4 * width + 2 * hidden)
    return float(batch * length * layers * (projections + 4 * length * width))


def encoder_case(length: int) -> Case:
    """Embedding `BATCH` sentences, padded or cut to `length` tokens."""
    allow_helpers()
    from minilm import MissingModel, load_weights, numpy_encoder

    try:
        weights, batch = load_weights(), make_batch(length)
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
    try:
        encoder = make(weights)
    except Exception as problem:  # as for a kernel that fails in its row: say so and go on
        return Missing(f"Encoder: {type(problem).__name__}: {problem}")
    return lambda: encoder.embed(batch.ids, batch.mask)


def make_batch(length: int) -> Any:
    """`BATCH` texts of neighbouring sentences whose longest fills `length` tokens; the others are padded."""
    from minilm import load_sentences, tokenize

    sentences = [sentence.text for sentence in load_sentences()]
    joined = max(1, length // 16)
    texts = [" ".join((sentences * 2)[i : i + joined]) for i in range(BATCH)]
    batch = tokenize(texts, max_tokens=length)
    assert batch.ids.shape == (BATCH, length), "the sentences are too short for this row"
    return batch
