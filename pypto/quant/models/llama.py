"""Llama models are read from GGUF files, calibrated block by block, and evaluated by their perplexity."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

import numpy as np

from pypto import library
from pypto.arguments import BOUNDARY
from pypto.errors.quant import WrongCalibration
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array, check_finite
from pypto.quant.calibrate.blocks import Block, LinearLayers, Progress, Values, float_layer
from pypto.quant.checks import check_layers, check_range
from pypto.quant.formats.cache import Int8Cache, KeyRanges
from pypto.quant.formats.gguf import GGUF, read_gguf
from pypto.quant.layer import Layer
from pypto.quant.models.llama_file import ARCHITECTURE, EMBEDDING, HEAD, LAST_NORM, LINEAR, LOGITS, Sizes, tensor_of
from pypto.quant.models.llama_folder import METADATA, read_folder
from pypto.quant.models.llama_layer import (
    NORMS,
    attention,
    forward,
    fused_sequences,
    rms_norm,
    rotation,
)
from pypto.quant.models.tokenizer import ends_of, tokenizer_of
from pypto.quant.tensor import GroupedWeight

ROWS: Final = 256  # tokens whose logits are in memory at the same time
Cache = Callable[[str, Array, Array], tuple[Array, Array]]


@dataclass(frozen=True, slots=True, repr=False)
class Llama(Summary, Sequence[Block]):
    """A model of the Llama family: a sequence of blocks whose weights are read when a block is used.

    Parameters
    ----------
    file : GGUF
        The file. All its keys and tensors must be read, or known to have no effect.
    cache : callable, optional
        Maps the name of a block and its keys and values, both (batch, tokens, heads, depth), to the keys and values
        that attention reads, in order to simulate a cache of fewer bits. `KeyRanges` and `Int8Cache` become a part of
        the fused forward pass.
    ignore : sequence of str
        Names of keys and tensors that may stay unread; ``*`` matches any text.
    context : int, optional
        The length of the longest sequence in tokens; by default, the file states it.

    Raises
    ------
    NotRead
        If no part of the model reads a key or a tensor.
    WrongCalibration
        If the architecture is another one, sizes do not fit together, or keys or tensors are missing.

    Attributes
    ----------
    sizes : Sizes
    tokenizer : Tokenizer
        Of the package `tokenizers`.
    """

    file: GGUF
    cache: Cache | None = None
    ignore: Sequence[str] = ()
    context: int | None = None
    sizes: Sizes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", Sizes.of(self.file, self.ignore))
        if self.context is None:
            object.__setattr__(self, "context", self.sizes.context)

    def array(self, name: str) -> Array:
        """Returns a tensor of the file in float32.

        Raises
        ------
        NotFinite
            If it has NaN or infinity.
        """
        array = self.file.array(name)
        check_finite(name, "its tensor", array)
        return array

    def weight(self, name: str) -> GroupedWeight:
        """Returns the codes, scales and minima of a tensor, which must be finite."""
        weight = self.file.weight(name)
        for numbers in (weight.scales, weight.minima):
            if numbers is not None:
                check_finite(name, "its tensor", numbers)
        return weight

    @property
    def layer_names(self) -> tuple[str, ...]:
        """Names of all linear layers, in the order in which they compute."""
        return (*(f"{number}.{part}" for number in range(len(self)) for part in LINEAR), LOGITS)

    def __len__(self) -> int:
        return self.sizes.blocks

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.block(index % len(self))

    def __iter__(self) -> Iterator[Block]:
        return (self.block(number) for number in range(len(self)))

    def block(self, number: int) -> Block:
        """Returns a block, with its weights in float32."""
        read = self.array
        layers = [Layer(f"{number}.{part}", read(f"blk.{number}.{name}.weight")) for part, name in LINEAR.items()]
        norms = {name: read(f"blk.{number}.{name}.weight") for name in NORMS}

        names = {part: f"{number}.{part}" for part in LINEAR}

        def run(values: Values, linear: LinearLayers) -> Values:
            x, eps = values["x"], self.sizes.eps
            rotary = rotation(self.sizes.frequencies, np.arange(x.shape[1]))
            products, cache = linear.products(names), self.cache
            if products is None or not isinstance(cache, KeyRanges | Int8Cache | None):
                stored = None if cache is None else partial(cache, str(number))
                attend = partial(attention, rotary=rotary, cache=stored)
                return {
                    "x": forward(x, lambda parts, x: [linear(names[part], x) for part in parts], attend, norms, eps)
                }
            of_block = None if cache is None else cache.of_block(str(number))
            x, inputs, seen = fused_sequences(x, products, norms, rotary, eps, linear.is_observed, of_block)
            linear.observe({names[part]: t for part, t in inputs.items()})
            if cache is not None:
                cache.note(str(number), seen)
            return {"x": x}

        return Block(str(number), layers, run)

    def rows(self, ids: Any) -> Array:
        """Looks up embeddings of tokens of any shape.

        Raises
        ------
        WrongCalibration
            If a token is not in the vocabulary, or is not an integer.
        NotFinite
        """
        numbers = integers(ids)
        check_range("token", numbers, self.sizes.vocabulary)
        rows = self.file.rows(EMBEDDING, numbers)
        check_finite(EMBEDDING, "its tensor", rows)
        return rows

    def embed(self, ids: Array) -> Values:
        """Computes the inputs of the first block for tokens (batch, tokens).

        Raises
        ------
        WrongCalibration
            If there are more tokens than the context, or tokens that `rows` refuses.
        """
        numbers = integers(ids)
        if numbers.ndim != 2 or not numbers.size:
            refuse(f"tokens have the shape {numbers.shape}", "give (batch, tokens): one sequence is ids[None]")
        self.check_length(numbers.shape[1])
        return {"x": self.rows(numbers)}

    def check_length(self, tokens: int) -> None:
        """Refuses a sequence that is longer than the context."""
        if self.context is not None and tokens > self.context:
            what = f"{tokens} tokens are longer than the context of {self.context} that the model was trained for"
            refuse(what, "give fewer, or pass a larger `context` to load_llama, and see what the results are worth")

    @property
    def head_name(self) -> str:
        """The name of the logits' tensor; the embeddings' tensor if the file has none (tied embeddings)."""
        return HEAD if HEAD in self.file.tensors else EMBEDDING

    @property
    def head(self) -> Array:
        """The weight of the logits (vocabulary, width)."""
        return self.array(self.head_name)

    @property
    def tokenizer(self) -> Any:
        """The byte-pair tokenizer with the vocabulary and merges of the file."""
        return tokenizer_of(self.file.path.name, self.file.metadata)

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end a text."""
        return ends_of(self.file.metadata)

    def beside(self, layers: Collection[str]) -> dict[str, Array]:
        """Returns the tensors outside of some layers, under their names in the file; for `pypto.quant.save`.

        Raises
        ------
        NoSuchLayer
            For a layer that the model has not.
        """
        check_layers(layers, self.layer_names)
        quantized = {tensor_of(name) for name in layers}
        return {
            name: self.array(name)
            for name in self.sizes.shapes()
            if name in self.file.tensors and name not in quantized
        }

    @property
    def settings(self) -> dict[str, Any]:
        """All keys of the file except its header."""
        keys = {name: value for name, value in self.file.metadata.items() if not name.startswith("GGUF.")}
        return {"model_type": ARCHITECTURE, METADATA: keys}

    def windows(self, text: str, length: int = 512) -> Array:
        """Tokenises a text into windows (windows, length), int32; the last, shorter window is left out.

        Raises
        ------
        WrongCalibration
            If the text has fewer tokens than one window.
        """
        ids = np.array(self.tokenizer.encode(text).ids, np.int32)
        if len(ids) < length:
            what = f"a text of {len(ids)} tokens has no window of {length}"
            raise WrongCalibration(what=what, way="give a longer text, or a smaller length")
        return ids[: len(ids) // length * length].reshape(-1, length)

    def perplexity(
        self,
        ids: Array,
        layers: Mapping[str, Callable[[Array], Array]] | None = None,
        batch: int = 8,
        progress: Progress | None = None,
    ) -> float:
        """Computes ``exp`` of the mean negative log-likelihood of all but the first token of each window.

        Parameters
        ----------
        ids : ndarray of shape (windows, tokens), int32
        layers : mapping of str to callable, optional
            Quantised or deployed layers by name, ``"head"`` for the logits; the others stay in floats.
        batch : int
            The number of windows that are computed together.
        progress : callable, optional
            Called after each block with the number of finished blocks and the number of all blocks.

        Returns
        -------
        float

        Raises
        ------
        NoSuchLayer
            For names of layers that the model has not.
        WrongCalibration
            If windows have less than two tokens, or more than the context.
        NotFinite
            If weights or logits have NaN or infinity.
        """
        check_layers(layers or {}, self.layer_names)
        ids = integers(ids)
        if ids.ndim != 2 or not len(ids) or ids.shape[1] < 2:
            refuse(
                f"windows of the shape {ids.shape} have no perplexity", "give (windows, tokens), of two tokens or more"
            )
        count = len(range(0, len(ids), batch))
        values = [self.embed(ids[i * batch : (i + 1) * batch]) for i in range(count)]
        for number, block in enumerate(self):
            chosen = {layer.name: layers[layer.name] for layer in block.layers if layers and layer.name in layers}
            values = [block.run(value, chosen) for value in values]
            if progress is not None:
                progress(number + 1, len(self))
        head = layers[LOGITS] if layers and LOGITS in layers else float_layer(Layer(LOGITS, self.head))
        norm = self.array(LAST_NORM)
        total = 0.0
        for i, value in enumerate(values):
            x = rms_norm(value["x"][:, :-1], norm, self.sizes.eps).reshape(-1, len(norm))
            total += surprise(x, head, ids[i * batch : (i + 1) * batch, 1:].ravel())
        return float(np.exp(total / (ids.size - len(ids))))


def surprise(x: Array, head: Callable[[Array], Array], targets: Array) -> float:
    """Sums the negative log-likelihoods of the targets, in float64."""
    total = 0.0
    for start in range(0, len(x), ROWS):
        logits = head(x[start : start + ROWS])
        check_finite(LOGITS, "its output", logits)
        total += float(library.cross_entropy(logits, targets[start : start + ROWS]).sum(dtype=np.float64))
    return total


def integers(ids: Any) -> Array:
    """Converts tokens to an array of integers."""
    numbers = np.asarray(ids)
    if numbers.dtype.kind not in "iu" and numbers.size:
        refuse(f"tokens are {numbers.dtype}", "give integers")
    return numbers.astype(np.int64) if not numbers.size else numbers


@BOUNDARY
def load_llama(
    path: str | os.PathLike[str], cache: Cache | None = None, ignore: Sequence[str] = (), context: int | None = None
) -> Llama:
    """Reads a model of the Llama family from a GGUF file, or from a folder that `save` wrote with such a model.

    Parameters
    ----------
    path : path
        The path. A folder's quantised layers are read as dequantised floats; `load` returns the quantised layers
        themselves.
    cache, ignore, context
        Arguments of `Llama`.

    Raises
    ------
    WrongCalibration
        If the file cannot be read, or holds another kind of model.
    NotRead
        If no part of the model reads a key or a tensor.

    Examples
    --------
    >>> from pypto import quant
    >>> model = quant.load_llama("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
    >>> model.perplexity(model.windows(text))  # doctest: +SKIP
    18.5
    """
    file = read_folder(path) if os.path.isdir(path) else read_gguf(path)
    return Llama(file, cache, ignore, context)


def refuse(what: str, way: str) -> NoReturn:
    raise WrongCalibration(what=what, way=way)
