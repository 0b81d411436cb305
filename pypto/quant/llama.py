"""Language models of the Llama family out of GGUF files, as blocks for calibration, and their perplexity."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto import library
from pypto.errors.quant import WrongCalibration
from pypto.quant.blocks import Block, Linear, Progress, Values
from pypto.quant.gguf import GGUF, read_gguf
from pypto.quant.tokens import check_range
from pypto.quant.weight import Array, Layer

LINEAR: Final = {
    "q": "attn_q", "k": "attn_k", "v": "attn_v", "output": "attn_output", "gate": "ffn_gate", "up": "ffn_up",
    "down": "ffn_down",
}  # fmt: skip
ARCHITECTURE: Final = "llama"
EMBEDDING: Final = "token_embd.weight"
HEAD: Final = "output.weight"
ROWS: Final = 256  # tokens whose logits are in memory at once
Cache = Callable[[str, Array, Array], tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class Llama(Sequence[Block]):
    """A model of the Llama family: a sequence of blocks whose weights are read when a block is asked for.

    Parameters
    ----------
    file : GGUF
    cache : callable, optional
        From the name of a block, keys and values, both (batch, tokens, heads, depth), to those that attention reads;
        stands for a cache of fewer bits.

    Attributes
    ----------
    tokenizer : Tokenizer
        Of the package `tokenizers`.
    """

    file: GGUF
    cache: Cache | None = None

    def number(self, key: str) -> Any:
        """A number of the file's metadata."""
        name = f"{ARCHITECTURE}.{key}"
        if name not in self.file.metadata:
            refuse(self.file, f"it does not say {name}")
        return self.file.metadata[name]

    @property
    def heads(self) -> tuple[int, int]:
        """Heads of queries, and of keys and values."""
        return int(self.number("attention.head_count")), int(self.number("attention.head_count_kv"))

    def __len__(self) -> int:
        return int(self.number("block_count"))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.block(index % len(self))

    def __iter__(self) -> Iterator[Block]:
        return (self.block(number) for number in range(len(self)))

    def block(self, number: int) -> Block:
        """A block, with its weights in float32."""
        read = self.file.array
        layers = [Layer(f"{number}.{part}", read(f"blk.{number}.{name}.weight")) for part, name in LINEAR.items()]
        norms = [read(f"blk.{number}.{part}_norm.weight") for part in ("attn", "ffn")]

        def forward(values: Values, linear: Linear) -> Values:
            x = values["x"]
            x = x + self.attention(str(number), self.norm(x, norms[0]), linear)
            t = self.norm(x, norms[1])
            gate = linear(f"{number}.gate", t)
            hidden = library.silu(gate.reshape(-1, gate.shape[-1])).reshape(gate.shape)
            hidden *= linear(f"{number}.up", t)
            return {"x": x + linear(f"{number}.down", hidden)}

        return Block(str(number), layers, forward)

    def norm(self, x: Array, weight: Array) -> Array:
        """RMS norm."""
        eps = float(self.number("attention.layer_norm_rms_epsilon"))
        return library.rms_norm(x.reshape(-1, len(weight)), weight, eps=eps).reshape(x.shape)

    def attention(self, name: str, x: Array, linear: Linear) -> Array:
        """Causal attention with rotary positions, whose heads of keys and values are shared by several of queries."""
        batch, length, _ = x.shape
        heads, shared = self.heads
        q, k, v = (linear(f"{name}.{part}", x) for part in "qkv")
        q = self.rotate(q.reshape(batch, length, heads, -1))
        k = self.rotate(k.reshape(batch, length, shared, -1))
        v = v.reshape(batch, length, shared, -1)
        if self.cache is not None:
            k, v = self.cache(name, k, v)
        q, k, v = (np.ascontiguousarray(t.transpose(0, 2, 1, 3)) for t in (q, k, v))
        y = library.attention(q, k, v, causal=1)
        return linear(f"{name}.output", y.transpose(0, 2, 1, 3).reshape(batch, length, -1))

    def rotate(self, x: Array) -> Array:
        """Rotary positions; neighbours are pairs, as GGUF orders the weights of this family."""
        angles = self.angles(x.shape[1], x.shape[3])
        cos, sin = (f(angles).astype(np.float32)[None, :, None, :] for f in (np.cos, np.sin))
        even = x[..., 0::2]
        odd = x[..., 1::2]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)

    def angles(self, length: int, depth: int) -> Array:
        """Of the first positions and the pairs of a head: (length, depth / 2), float64."""
        if int(self.file.metadata.get(f"{ARCHITECTURE}.rope.dimension_count", depth)) != depth:
            refuse(self.file, "rotary positions of a part of each head are not offered")
        base = float(self.file.metadata.get(f"{ARCHITECTURE}.rope.freq_base", 10000.0))
        return np.outer(np.arange(length), base ** (-np.arange(0, depth, 2) / depth))

    def rows(self, ids: Any) -> Array:
        """Embeddings of tokens of any shape.

        Raises
        ------
        WrongCalibration
            For a token that the model has not.
        """
        numbers = np.asarray(ids)
        check_range("token", numbers, len(self.file.tensor(EMBEDDING).data))
        return self.file.rows(EMBEDDING, numbers)

    def embed(self, ids: Array) -> Values:
        """Inputs of the first block for tokens (batch, tokens)."""
        return {"x": self.rows(ids)}

    @property
    def head_name(self) -> str:
        """The tensor of the logits; that of the embeddings where the file has none of its own."""
        return HEAD if HEAD in self.file.tensors else EMBEDDING

    @property
    def head(self) -> Array:
        """The weight of the logits (vocabulary, width)."""
        return self.file.array(self.head_name)

    @property
    def tokenizer(self) -> Any:
        """Byte pairs with the vocabulary and merges of the file."""
        metadata = self.file.metadata
        if metadata.get("tokenizer.ggml.model") != "gpt2" or metadata.get("tokenizer.ggml.pre") != "smollm":
            refuse(self.file, "its tokenizer is not offered; give `ids` of your own")
        try:
            from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        except ImportError:
            raise WrongCalibration(what="tokenizers is not installed", way="pip install tokenizers") from None
        vocabulary = {token: number for number, token in enumerate(metadata["tokenizer.ggml.tokens"])}
        merges = [tuple(pair.split(" ")) for pair in metadata["tokenizer.ggml.merges"]]
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def windows(self, text: str, length: int = 512) -> Array:
        """A text as tokens (windows, length), int32; the last, shorter window is left out.

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
        """``exp`` of the mean negative log-likelihood of each window's tokens but its first.

        Parameters
        ----------
        ids : ndarray of shape (windows, tokens), int32
        layers : mapping of str to callable, optional
            Quantised or deployed layers by name; the others stay as they are.
        batch : int
            Windows that are computed at once.
        progress : callable, optional
            Gets the number of blocks that are done, and of all, after each block.

        Returns
        -------
        float
        """
        count = len(range(0, len(ids), batch))
        values = [self.embed(ids[i * batch : (i + 1) * batch]) for i in range(count)]
        for number, block in enumerate(self):
            chosen = {layer.name: layers[layer.name] for layer in block.layers if layers and layer.name in layers}
            values = [block.run(value, chosen) for value in values]
            if progress is not None:
                progress(number + 1, len(self))
        weight = self.head
        norm = self.file.array("output_norm.weight")
        total = 0.0
        for i, value in enumerate(values):
            x = self.norm(value["x"][:, :-1], norm).reshape(-1, weight.shape[1])
            total += surprise(x, weight, ids[i * batch : (i + 1) * batch, 1:].ravel())
        return float(np.exp(total / (ids.size - len(ids))))


def surprise(x: Array, weight: Array, targets: Array) -> float:
    """The sum of the negative log-likelihoods of the targets, in float64."""
    total = 0.0
    for start in range(0, len(x), ROWS):
        logits = x[start : start + ROWS] @ weight.T
        total += float(library.cross_entropy(logits, targets[start : start + ROWS]).sum(dtype=np.float64))
    return total


def load_llama(path: str | os.PathLike[str], cache: Cache | None = None) -> Llama:
    """A model of the Llama family out of a GGUF file.

    Raises
    ------
    WrongCalibration
        If the file cannot be read, or holds another kind of model.

    Examples
    --------
    >>> from pypto import quant
    >>> model = quant.load_llama("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
    >>> model.perplexity(model.windows(text))  # doctest: +SKIP
    18.5
    """
    file = read_gguf(path)
    found = file.metadata.get("general.architecture")
    if found != ARCHITECTURE:
        refuse(file, f"it holds a model of the architecture {found}, {ARCHITECTURE} is offered")
    return Llama(file, cache)


def refuse(file: GGUF, what: str) -> None:
    raise WrongCalibration(what=f"{file.path.name} cannot be used: {what}", way="give a GGUF file of the Llama family")
