"""The real weights of the sentence encoder, as blocks for calibration, and its embeddings with some layers replaced."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.tutorials import allow_helpers

allow_helpers()

from minilm import MissingModel, load_sentences, load_weights, tokenize  # noqa: E402
from minilm.blocks import blocks, embed, embedded  # noqa: E402

__all__ = ["blocks", "embed", "embedded", "real"]


def real() -> tuple[Any, Any]:
    """The real weights, and the tokens of the tutorial's sentences; skips where they are not installed."""
    try:
        return load_weights(), tokenize([sentence.text for sentence in load_sentences()])
    except MissingModel as error:
        pytest.skip(str(error))
