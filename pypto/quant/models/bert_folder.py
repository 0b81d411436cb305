"""`load_bert` reads a sentence encoder from a folder in the format of transformers: weights, sizes and tokenizer."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.errors.quant import NotRead, WrongCalibration
from pypto.quant.arrays import Array
from pypto.quant.formats.compressed_tensors import KEY, load
from pypto.quant.formats.files import load_file, read_json
from pypto.quant.layer import Layer
from pypto.quant.models.bert import LINEAR, Bert, tensors_of

CONFIG_FILE: Final = "config.json"
WEIGHTS_FILE: Final = "model.safetensors"
TOKENIZER_FILE: Final = "tokenizer.json"
POOLING_FILE: Final = "1_Pooling/config.json"
MODULES_FILE: Final = "modules.json"
SENTENCE_FILE: Final = "sentence_bert_config.json"
SIZES: Final = (
    "num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size", "max_position_embeddings",
    "type_vocab_size", "intermediate_size", "layer_norm_eps",
)  # fmt: skip
REQUIRED: Final = ("num_hidden_layers", "num_attention_heads")
# Keys of config.json with the values that the model supports.
OFFERED: Final[Mapping[str, tuple[Any, ...]]] = {
    "model_type": ("bert",), "hidden_act": ("gelu",), "position_embedding_type": ("absolute", None),
    "is_decoder": (False,), "add_cross_attention": (False,), "is_encoder_decoder": (False,),
    "chunk_size_feed_forward": (0,), "pruned_heads": ({}, None),
}  # fmt: skip
# Keys about training, text generation or heads; none affects an embedding.
DESCRIPTIVE: Final = (
    "_*", "architectures", "attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout", "dtype",
    "gradient_checkpointing", "id2label", "label2id", "initializer_range", "problem_type", "torch_dtype",
    "finetuning_task", "transformers_version", "use_cache", "tie_word_embeddings", "return_dict", "output_attentions",
    "num_labels", "output_hidden_states", "*_token_id", "directionality", "pooler_*", "torchscript", "tokenizer_class",
    "prefix", "task_specific_params", "model_max_length", KEY,
)  # fmt: skip
MODULES: Final = ("Transformer", "Pooling", "Normalize")  # files of sentence-transformers


@BOUNDARY
def load_bert(folder: str | os.PathLike[str]) -> Bert:
    """Reads a sentence encoder of the BERT family from a folder in the format of `transformers`.

    Parameters
    ----------
    folder : path
        A folder with ``config.json`` and ``model.safetensors``. If `save` wrote it with such a model, its quantised
        layers are read as dequantised floats; `load` returns the quantised layers themselves.

    Raises
    ------
    WrongCalibration
        If a file or a tensor is missing, or the folder holds another kind of model.
    NotRead
        If the model does not read a key of config.json or a tensor.

    Examples
    --------
    >>> from pypto import quant
    >>> model = quant.load_bert("all-MiniLM-L6-v2")  # doctest: +SKIP
    >>> len(model)  # doctest: +SKIP
    6
    """
    path = Path(folder)
    config = checked(path)
    tensors = read(path, WEIGHTS_FILE, load_file)
    if KEY in config:
        tensors = in_floats(path, tensors)
    check_pooling(path)
    model = Bert.of(tensors, config["num_attention_heads"], float(config["layer_norm_eps"]))
    check_sizes(path, config, model)
    return model


def in_floats(path: Path, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Reads the tensors of a folder with quantised layers, and dequantises those layers."""
    layers = load(path)
    prefixes = tuple(f"{name}." for name in layers)
    tensors_left = {name: array for name, array in tensors.items() if not name.startswith(prefixes)}
    for name, layer in layers.items():
        if name.rpartition(".")[2] not in LINEAR or layer.bias is None:
            refuse(path, f"a model of the BERT family has no layer {name}")
        tensors_left |= tensors_of(Layer(name, layer.weight.dequantize(), layer.bias))
    return tensors_left


def check_sizes(path: Path, config: Mapping[str, Any], model: Bert) -> None:
    """Refuses sizes that do not fit the tensors."""
    hidden = len(model.layers[0].up.weight) if model.layers else None
    for key, lengths in {
        "num_hidden_layers": len(model), "hidden_size": model.words.shape[1], "vocab_size": len(model.words),
        "max_position_embeddings": len(model.positions), "type_vocab_size": model.segments,
        "intermediate_size": hidden,
    }.items():  # fmt: skip
        if lengths is not None and config.get(key, lengths) != lengths:
            what = "layers" if key == "num_hidden_layers" else key
            refuse(path, f"it has tensors of {lengths} {what}, and {CONFIG_FILE} says {config[key]}")
    if model.words.shape[1] % model.heads:
        refuse(path, f"{model.heads} heads do not divide a width of {model.words.shape[1]}")


def check_pooling(path: Path) -> None:
    """Refuses models whose sentence-transformers files ask for anything but mean pooling and normalisation."""
    for module in read(path, MODULES_FILE, read_json) if (path / MODULES_FILE).is_file() else ():
        kind = str(module.get("type", "")).rpartition(".")[2] if isinstance(module, dict) else module
        if kind not in MODULES:
            refuse(path, f"{MODULES_FILE} has a module {kind}, and {', '.join(MODULES)} are offered")
    if (path / POOLING_FILE).is_file():
        for key, value in mapping_of(path, POOLING_FILE).items():
            is_mean = key == "pooling_mode_mean_tokens"
            if key.startswith("pooling_mode_") and bool(value) != is_mean:
                refuse(path, f"its {key} in {POOLING_FILE} is {value}, and the mean over the tokens is offered")
    if (path / SENTENCE_FILE).is_file() and mapping_of(path, SENTENCE_FILE).get("do_lower_case"):
        refuse(path, f"its do_lower_case in {SENTENCE_FILE} is true, and {TOKENIZER_FILE} alone is read")


def mapping_of(path: Path, name: str) -> Mapping[str, Any]:
    """Reads names and values from a file."""
    parsed: Any = read(path, name, read_json)
    if not isinstance(parsed, dict):
        refuse(path, f"{name} is no configuration")
    return dict(parsed)


def read(path: Path, name: str, reader: Callable[[Path], Any]) -> Any:
    """Reads a file of the folder."""
    file = path / name
    if not file.is_file():
        refuse(path, f"it has no {name}")
    try:
        return reader(file)
    except WrongCalibration:
        raise
    except Exception as error:  # safetensors and tokenizers raise errors of several kinds
        raise refused(path, f"{name} cannot be read: {error}") from None


def checked(path: Path) -> Mapping[str, Any]:
    """Reads the configuration, and refuses models that `Bert` does not compute."""
    given: dict[str, Any] = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, **mapping_of(path, CONFIG_FILE)}
    for key, value in {"model_type": None, **given}.items():
        if key in OFFERED and value not in OFFERED[key]:
            refuse(path, f"its {key} is {value}, and {OFFERED[key][0]} is offered")
        if not (key in OFFERED or key in SIZES or any(fnmatchcase(key, pattern) for pattern in DESCRIPTIVE)):
            way = f"it may change embeddings; if it does not, take it out of {CONFIG_FILE}"
            raise NotRead(source=f"{path / CONFIG_FILE}", what=f"the key {key}", way=way)
    for key in REQUIRED:
        if type(given.get(key)) is not int or given[key] < 1:
            refuse(path, f"{CONFIG_FILE} does not say {key}")
    eps = given["layer_norm_eps"]
    if type(eps) not in (int, float) or not 0 <= eps < math.inf:
        refuse(path, f"its layer_norm_eps is {eps}, expected a finite number from 0 on")
    return given


def refused(path: Path, what: str) -> WrongCalibration:
    way = f"give a folder of a BERT model with {CONFIG_FILE}, {WEIGHTS_FILE} and {TOKENIZER_FILE}"
    return WrongCalibration(what=f"{path} cannot be used: {what}", way=way)


def refuse(path: Path, what: str) -> NoReturn:
    raise refused(path, what)


@dataclass(frozen=True, slots=True)
class SentenceTokenizer:
    """Converts sentences to token ids of a model.

    Parameters
    ----------
    path : Path
        The folder.
    tokenizer : Tokenizer
        A tokenizer of the package `tokenizers`.
    vocabulary : int
        The rows of the model's word table.
    """

    path: Path
    tokenizer: Any
    vocabulary: int

    @classmethod
    def of(cls, folder: str | os.PathLike[str], model: Bert, longest: int) -> SentenceTokenizer:
        """Reads the tokenizer of a folder; it truncates sentences to `longest` tokens, or to the model's positions."""
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
        """Returns ids and mask, both (batch, length), int32."""
        encoded = self.tokenizer.encode_batch(list(sentences))
        ids = np.array([one.ids for one in encoded], np.int32)
        if ids.size and ids.max() >= self.vocabulary:
            refuse(self.path, f"{TOKENIZER_FILE} gives token {ids.max()}, and the model has {self.vocabulary}")
        return ids, np.array([one.attention_mask for one in encoded], np.int32)
