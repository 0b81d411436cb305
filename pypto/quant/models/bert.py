"""Sentence encoders of the BERT family map token ids to embeddings; for calibration they are sequences of blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

import numpy as np

from pypto.errors.quant import NotRead, WrongCalibration
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array, as_array, check_finite
from pypto.quant.calibrate.blocks import Block, LinearLayers, Values
from pypto.quant.checks import check_layers, check_range
from pypto.quant.layer import Layer
from pypto.quant.models.bert_layer import PARTS, BertLayer, Norm, add_norm, forward, fused_forward

WORDS: Final = "embeddings.word_embeddings.weight"
POSITIONS: Final = "embeddings.position_embeddings.weight"
SEGMENTS: Final = "embeddings.token_type_embeddings.weight"
# Tensors that do not affect embeddings: position numbers, and heads behind the encoder.
BEHIND: Final = ("embeddings.position_ids", "pooler.dense.*", "cls.*", "classifier.*", "qa_outputs.*")
# Linear layers of a block, and their names in transformers; layers with the same inputs are merged into one.
LINEAR: Final = {
    "qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "output": ("attention.output.dense",), "up": ("intermediate.dense",), "down": ("output.dense",),
}  # fmt: skip
NORMS: Final = ("attention.output.LayerNorm", "output.LayerNorm")


@dataclass(frozen=True, slots=True, repr=False)
class Bert(Summary, Sequence[Block]):
    """A sentence encoder of the BERT family: a sequence of blocks with its embedding tables and pooling.

    Tokens of all sentences lie one after the other, without padding. The activation is GELU with the error function; an
    embedding is the mean over the tokens of a sentence, as a unit vector.

    Parameters
    ----------
    words : ndarray of shape (vocabulary, width)
    positions : ndarray of shape (longest, width)
        The sum of the position embeddings and the embedding of the first segment.
    norm : Norm
        The layer norm of the embeddings.
    layers : tuple of BertLayer
    heads : int
    eps : float
        The epsilon of all norms.
    segments : int
        The rows of the segment table, of which only the first is used.
    """

    words: Array
    positions: Array
    norm: Norm
    layers: tuple[BertLayer, ...]
    heads: int
    eps: float = 1e-12
    segments: int = 2

    @classmethod
    def of(cls, tensors: Mapping[str, Any], heads: int, eps: float = 1e-12) -> Bert:
        """Builds a model from its tensors, under the names that `transformers` gives them.

        Parameters
        ----------
        tensors : mapping of str to array
            Tensors of a safetensors file, or the ``state_dict()`` of a torch module; names may have a prefix.
        heads : int
            The number of attention heads: ``num_attention_heads`` of the configuration.
        eps : float
            ``layer_norm_eps`` of the configuration.

        Raises
        ------
        WrongCalibration
            If a tensor is missing.
        NotRead
            If there is a tensor that the encoder does not read.
        NotFinite
        """
        read = Tensors.of(tensors)
        segments = read(SEGMENTS)
        positions = read(POSITIONS) + segments[0]
        layers = tuple(read.layer(str(number), name) for number, name in enumerate(read.layers()))
        model = cls(read(WORDS), positions, read.norm("embeddings.LayerNorm"), layers, heads, eps, len(segments))
        read.refuse_unread()
        return model

    @property
    def layer_names(self) -> tuple[str, ...]:
        """Names of all linear layers, in the order in which they compute."""
        return tuple(one.name for layer in self.layers for one in layer.linear)

    def beside(self, layers: Collection[str]) -> dict[str, Array]:
        """Returns the tensors outside of some layers, under the names of transformers; for `pypto.quant.save`.

        Raises
        ------
        NoSuchLayer
            For a layer that the model has not.
        """
        check_layers(layers, self.layer_names)
        segments = np.zeros((self.segments, self.words.shape[1]), np.float32)  # the first is added to the positions
        tensors = {WORDS: self.words, POSITIONS: self.positions, SEGMENTS: segments}
        norms = {"embeddings.LayerNorm": self.norm}
        for number, layer in enumerate(self.layers):
            layer_norms = (layer.attention_norm, layer.norm)
            norms |= {f"encoder.layer.{number}.{name}": norm for name, norm in zip(NORMS, layer_norms, strict=True)}
            for one in layer.linear:
                tensors |= {} if one.name in layers else tensors_of(one)
        tensors |= {f"{name}.weight": norm.weight for name, norm in norms.items()}
        return tensors | {f"{name}.bias": norm.bias for name, norm in norms.items()}

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration of such a model in transformers."""
        return {
            "model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute",
            "num_hidden_layers": len(self), "num_attention_heads": self.heads, "layer_norm_eps": self.eps,
        }  # fmt: skip

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self.block(number) for number in range(*index.indices(len(self)))]
        return self.block(range(len(self))[index])

    def __iter__(self) -> Iterator[Block]:
        return (self.block(number) for number in range(len(self)))

    def inputs(self, ids: Array, mask: Array) -> Values:
        """Returns the inputs of the first block.

        Parameters
        ----------
        ids, mask : ndarray of shape (batch, length), integers
            Token ids, and a mask that is 1 for tokens and 0 for padding.

        Returns
        -------
        dict
            ``x`` of shape (tokens, width), and ``starts`` of shape (batch + 1,).
        """
        x, positions, starts = self.lookup(ids, mask)
        return {"x": add_norm(x, positions, self.norm, self.eps), "starts": starts}

    def lookup(self, ids: Array, mask: Array) -> tuple[Array, Array, Array]:
        """Looks up the embeddings of the tokens that are not padding, and finds where each sentence begins."""
        sentences, positions = np.nonzero(mask)
        counts = np.bincount(sentences, minlength=len(ids))
        if not counts.all():
            raise WrongCalibration(what=f"sentence {counts.argmin()} has no token", way="leave it out")
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        tokens = ids[sentences, positions]
        check_range("token", tokens, len(self.words))
        check_range("position", positions, len(self.positions))
        return self.words[tokens], self.positions[positions], starts

    @property
    def no_embeddings(self) -> Array:
        """The embeddings of no sentences."""
        return np.zeros((0, self.words.shape[1]), np.float32)

    def block(self, number: int) -> Block:
        """Returns a layer as a block for calibration."""
        layer = self.layers[number]

        names = {part: getattr(layer, part).name for part in PARTS}

        def run(values: Values, linear: LinearLayers) -> Values:
            starts = values["starts"]
            given = values["x"], starts, int(np.diff(starts).max()), self.heads, self.eps
            products = linear.products(names)
            if products is None:
                functions: dict[str, Any] = {part: partial(linear, name) for part, name in names.items()}
                return {**values, "x": forward(replace(layer, **functions), *given)}
            x, inputs = fused_forward(replace(layer, **products), *given, linear.is_observed)
            linear.observe({names[part]: t for part, t in inputs.items()})
            return {**values, "x": x}

        return Block(str(number), layer.linear, run)

    def embed(self, ids: Array, mask: Array, layers: Mapping[str, Callable[[Array], Array]] | None = None) -> Array:
        """Computes embeddings (batch, width) of sentences; `layers` replaces some layers by quantised or deployed ones.

        Raises
        ------
        NoSuchLayer
            For names of layers that the model has not.
        """
        check_layers(layers or {}, self.layer_names)
        if not len(ids):
            return self.no_embeddings
        values = self.inputs(ids, mask)
        for block in self:
            values = block.run(
                values, {one.name: layers[one.name] for one in block.layers if layers and one.name in layers}
            )
        return pooled(values["x"], values["starts"])


def pooled(x: Array, starts: Array) -> Array:
    """Mean pooling: averages the tokens of each sentence, and scales the result to length 1."""
    total = np.add.reduceat(x, starts[:-1])
    total /= np.sqrt(np.einsum("bw,bw->b", total, total))[:, None]
    return total


@dataclass(frozen=True, slots=True)
class Tensors:
    """Tensors by their names behind a prefix."""

    tensors: Mapping[str, Any]
    prefix: str
    used: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, tensors: Mapping[str, Any]) -> Tensors:
        """Finds the prefix, which is the text before the name of the word table."""
        words = next((name for name in tensors if name.endswith(WORDS)), WORDS)
        return cls(tensors, words.removesuffix(WORDS))

    def __call__(self, name: str) -> Array:
        full = self.prefix + name
        if full not in self.tensors:
            raise WrongCalibration(what=f"there is no tensor {full}", way="give those of a model of the BERT family")
        self.used.add(full)
        array = np.ascontiguousarray(as_array(self.tensors[full]), np.float32)
        check_finite(full, "its tensor", array)
        return array

    def layers(self) -> list[str]:
        """Returns the names of the layers, in order from 0 on."""
        start = f"{self.prefix}encoder.layer."
        numbers = {name.removeprefix(start).split(".")[0] for name in self.tensors if name.startswith(start)}
        count = next(number for number in range(len(numbers) + 1) if str(number) not in numbers)
        return [f"encoder.layer.{number}" for number in range(count)]

    def refuse_unread(self) -> None:
        """Refuses tensors that the encoder does not read, except those of heads behind it."""
        for name in self.tensors:
            local = name.removeprefix(self.prefix)
            if name not in self.used and not any(fnmatchcase(local, pattern) for pattern in BEHIND):
                way = "it may change embeddings; if it does not, leave it out of the tensors"
                raise NotRead(source="the model", what=f"the tensor {name}", way=way)

    def norm(self, name: str) -> Norm:
        """Returns a layer norm."""
        return Norm(self(f"{name}.weight"), self(f"{name}.bias"))

    def linear(self, prefix: str, *names: str) -> Layer:
        """Returns a linear layer, or several with the same inputs merged into one."""
        weight = np.concatenate([self(f"{name}.weight") for name in names])
        return Layer(prefix, weight, np.concatenate([self(f"{name}.bias") for name in names]))

    def layer(self, prefix: str, name: str) -> BertLayer:
        """Returns a transformer layer."""
        qkv, output, up, down = (
            self.linear(f"{prefix}.{part}", *(f"{name}.{one}" for one in names)) for part, names in LINEAR.items()
        )
        attention, last = (self.norm(f"{name}.{norm}") for norm in NORMS)
        return BertLayer(qkv, output, attention, up, down, last)


def tensors_of(layer: Layer) -> dict[str, Array]:
    """Returns the tensors of a linear layer under the names of transformers."""
    number, _, part = layer.name.partition(".")
    names = [f"encoder.layer.{number}.{name}" for name in LINEAR[part]]
    tensors: dict[str, Array] = {}
    arrays: dict[str, Any] = {"weight": layer.weight, "bias": layer.bias}
    for kind, numbers in arrays.items():
        parts = np.split(numbers, len(names))
        tensors |= {f"{name}.{kind}": part for name, part in zip(names, parts, strict=True)}
    return tensors
