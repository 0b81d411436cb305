"""What stands beside the sentence encoder's kernels: weights, tokens, and the same network in numpy and torch."""

from __future__ import annotations

from minilm.model import Batch, Layer, Linear, MissingModel, Norm, Tokens, Weights, load_weights, pack, tokenize
from minilm.sentences import Sentence, load_sentences

__all__ = [
    "Batch",
    "Layer",
    "Linear",
    "MissingModel",
    "Norm",
    "Sentence",
    "Tokens",
    "Weights",
    "load_sentences",
    "load_weights",
    "pack",
    "tokenize",
]
