"""What stands beside the sentence encoder's kernels: weights, tokens, and the same network in numpy and torch."""

from __future__ import annotations

from minilm.model import Batch, Layer, Linear, MissingModel, Norm, Weights, load_weights, tokenize
from minilm.sentences import Sentence, load_sentences

__all__ = [
    "Batch",
    "Layer",
    "Linear",
    "MissingModel",
    "Norm",
    "Sentence",
    "Weights",
    "load_sentences",
    "load_weights",
    "tokenize",
]
