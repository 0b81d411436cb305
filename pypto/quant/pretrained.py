"""Sentence encoders out of folders in the form of `transformers`: weights, sizes and tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from pypto.errors.quant import WrongCalibration
from pypto.quant.bert import Bert
from pypto.quant.blocks import load_file, read_json
from pypto.quant.weight import Array

CONFIG_FILE: Final = "config.json"
WEIGHTS_FILE: Final = "model.safetensors"
TOKENIZER_FILE: Final = "tokenizer.json"
OFFERED: Final = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
REQUIRED: Final = ("num_hidden_layers", "num_attention_heads")


def load_bert(folder: str | os.PathLike[str]) -> Bert:
    """A sentence encoder of the BERT family out of a folder in the form of `transformers`.

    Parameters
    ----------
    folder : path
        Has ``config.json`` and ``model.safetensors``.

    Raises
    ------
    WrongCalibration
        If a file or a tensor is missing, or the folder holds another kind of model.

    Examples
    --------
    >>> from pypto import quant
    >>> model = quant.load_bert("all-MiniLM-L6-v2")  # doctest: +SKIP
    >>> len(model)  # doctest: +SKIP
    6
    """
    path = Path(folder)
    config = checked(path, read(path, CONFIG_FILE, read_json))
    tensors = read(path, WEIGHTS_FILE, load_file)
    model = Bert.of(tensors, int(config["num_attention_heads"]), float(config.get("layer_norm_eps", 1e-12)))
    if len(model) != config["num_hidden_layers"]:
        refuse(path, f"it has tensors of {len(model)} layers, and {CONFIG_FILE} says {config['num_hidden_layers']}")
    return model


def read(path: Path, name: str, reader: Callable[[Path], Any]) -> Any:
    """What a file of the folder holds."""
    file = path / name
    if not file.is_file():
        refuse(path, f"it has no {name}")
    try:
        return reader(file)
    except WrongCalibration:
        raise
    except Exception as error:  # safetensors and tokenizers raise what they like
        raise refused(path, f"{name} cannot be read: {error}") from None


def checked(path: Path, config: Any) -> Mapping[str, Any]:
    """The configuration of a model that `Bert` computes."""
    if not isinstance(config, dict):
        refuse(path, f"{CONFIG_FILE} is no configuration")
    given = {"position_embedding_type": "absolute"} | config
    for key, offered in OFFERED.items():
        if given.get(key) != offered:
            refuse(path, f"its {key} is {given.get(key)}, and {offered} is offered")
    for key in REQUIRED:
        if not isinstance(given.get(key), int):
            refuse(path, f"{CONFIG_FILE} does not say {key}")
    return given


def refused(path: Path, what: str) -> WrongCalibration:
    way = f"give a folder of a BERT model with {CONFIG_FILE}, {WEIGHTS_FILE} and {TOKENIZER_FILE}"
    return WrongCalibration(what=f"{path} cannot be used: {what}", way=way)


def refuse(path: Path, what: str) -> NoReturn:
    raise refused(path, what)


@dataclass(frozen=True, slots=True)
class SentenceTokenizer:
    """Sentences as token ids of a model.

    Parameters
    ----------
    path : Path
        The folder.
    tokenizer : Tokenizer
        Of the package `tokenizers`.
    vocabulary : int
        Rows of the model's table of words.
    """

    path: Path
    tokenizer: Any
    vocabulary: int

    @classmethod
    def of(cls, folder: str | os.PathLike[str], model: Bert, longest: int) -> SentenceTokenizer:
        """That of a folder; sentences of more tokens than `longest`, or than the model has positions, are cut."""
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise WrongCalibration(what="tokenizers is not installed", way="pip install tokenizers") from None
        path = Path(folder)
        tokenizer = read(path, TOKENIZER_FILE, lambda file: Tokenizer.from_file(str(file)))
        tokenizer.enable_padding()
        tokenizer.enable_truncation(min(longest, len(model.positions)))
        return cls(path, tokenizer, len(model.words))

    def __call__(self, sentences: Sequence[str]) -> tuple[Array, Array]:
        """Ids and mask, both (batch, length), int32."""
        encoded = self.tokenizer.encode_batch(list(sentences))
        ids = np.array([one.ids for one in encoded], np.int32)
        if ids.size and ids.max() >= self.vocabulary:
            refuse(self.path, f"{TOKENIZER_FILE} gives token {ids.max()}, and the model has {self.vocabulary}")
        return ids, np.array([one.attention_mask for one in encoded], np.int32)
