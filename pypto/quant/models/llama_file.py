"""`Sizes` reads the hyperparameters and rotary frequencies of a Llama model, and refuses unknown keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NoReturn

import numpy as np

from pypto.errors.quant import NotRead, WrongCalibration
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array, check_finite
from pypto.quant.formats.gguf import GGUF
from pypto.quant.models.llama_layer import NORMS

ARCHITECTURE: Final = "llama"
EMBEDDING: Final = "token_embd.weight"
HEAD: Final = "output.weight"
LAST_NORM: Final = "output_norm.weight"
ROPE_FACTORS: Final = "rope_freqs.weight"
LINEAR: Final = {
    "q": "attn_q", "k": "attn_k", "v": "attn_v", "output": "attn_output", "gate": "ffn_gate", "up": "ffn_up",
    "down": "ffn_down",
}  # fmt: skip
LOGITS: Final = "head"  # the name of the layer that computes the logits
OPTIONAL: Final = (HEAD, ROPE_FACTORS)

# Keys behind "llama." that `Sizes` reads.
READ: Final = (
    "block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.layer_norm_rms_epsilon", "attention.key_length", "attention.value_length",
    "rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.factor", "rope.scale_linear",
)  # fmt: skip
# Keys behind "llama." with the only value at which they have no effect.
NEUTRAL: Final = {
    "expert_count": 0, "expert_used_count": 0, "expert_shared_count": 0, "attention.sliding_window": 0,
    "attention.causal": True, "use_parallel_residual": False, "logit_scale": 1.0, "embedding_scale": 1.0,
    "residual_scale": 1.0, "rope.scaling.attn_factor": 1.0, "tensor_data_layout": "Meta AI original pth",
}  # fmt: skip
# Keys that describe a file; those of tokenizers are read with the tokenizer.
DESCRIPTIVE: Final = (
    "GGUF.*", "general.*", "tokenizer.*", "quantize.imatrix.*", "split.no", "split.tensors.count",
    "llama.rope.scaling.original_context_length", "llama.rope.scaling.finetuned",
)  # fmt: skip
WHOLE: Final = {"general.type": "model", "split.count": (0, 1)}  # value for a file that is a complete model


@dataclass(frozen=True, slots=True, repr=False)
class Sizes(Summary):
    """The sizes of a model, and its rotary frequencies.

    Parameters
    ----------
    blocks, width, hidden, vocabulary : int
    heads, shared : int
        The numbers of query heads, and of key and value heads.
    depth : int
        The channels of a head.
    eps : float
        The epsilon of the RMS norms.
    context : int, optional
        The context length that the model was trained for; None if the file does not state it.
    frequencies : ndarray of shape (depth / 2,), float64
        The rotary frequencies in radians per position, one for each pair of channels: those of the base, divided by the
        file's factors (as in Llama 3.1) and by the factor of linear scaling.
    """

    blocks: int
    width: int
    hidden: int
    vocabulary: int
    heads: int
    shared: int
    depth: int
    eps: float
    context: int | None
    frequencies: Array

    @classmethod
    def of(cls, file: GGUF, ignore: Sequence[str] = ()) -> Sizes:
        """Reads the sizes from a file.

        Parameters
        ----------
        file : GGUF
        ignore : sequence of str
            Names of keys and tensors that may stay unread; ``*`` stands for any text.

        Raises
        ------
        NotRead
            For a key or a tensor that no part of the model reads.
        WrongCalibration
            For another architecture, sizes that do not fit together, and missing keys and tensors.
        """
        architecture = file.metadata.get("general.architecture")
        if architecture != ARCHITECTURE:
            refuse(file, f"it holds a model of the architecture {architecture}, {ARCHITECTURE} is offered")
        given = Numbers(file)
        heads = given.integer("attention.head_count")
        rows, width = shape_of(file, EMBEDDING, 2)
        depth = given.integer("attention.key_length", width // heads)
        sizes = cls(
            blocks=given.integer("block_count"), width=width, hidden=shape_of(file, "blk.0.ffn_up.weight", 2)[0],
            vocabulary=rows, heads=heads, shared=given.integer("attention.head_count_kv", heads), depth=depth,
            eps=given.real("attention.layer_norm_rms_epsilon"), context=given.optional("context_length"),
            frequencies=frequencies(file, given, depth),
        )  # fmt: skip
        sizes.check(file, given)
        refuse_unread(file, sizes, ignore)
        return sizes

    def check(self, file: GGUF, given: Numbers) -> None:
        """Refuse sizes that do not fit together."""
        said = {
            "embedding_length": self.width, "feed_forward_length": self.hidden, "vocab_size": self.vocabulary,
            "attention.value_length": self.depth, "rope.dimension_count": self.depth,
        }  # fmt: skip
        for key, expected in said.items():
            if given.integer(key, expected) != expected:
                refuse(file, f"its {ARCHITECTURE}.{key} is {given.integer(key)}, and {expected} is offered for it")
        if self.heads % self.shared or self.depth % 2:
            what = f"{self.heads} heads of queries, {self.shared} of keys and {self.depth} channels do not go together"
            refuse(file, what)
        for name, shape in self.shapes().items():
            if name in file.tensors or name not in OPTIONAL:
                actual = shape_of(file, name, len(shape))
                if actual != shape:
                    refuse(file, f"its tensor {name} has the shape {actual}, expected {shape}")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of all tensors of the model, including optional ones."""
        rows, shared = self.heads * self.depth, self.shared * self.depth
        width, hidden = self.width, self.hidden
        block: dict[str, tuple[int, ...]] = {
            "attn_q": (rows, width), "attn_k": (shared, width), "attn_v": (shared, width), "attn_output": (width, rows),
            "ffn_gate": (hidden, width), "ffn_up": (hidden, width), "ffn_down": (width, hidden),
        } | dict.fromkeys(NORMS, (width,))  # fmt: skip
        every = {f"blk.{n}.{name}.weight": shape for n in range(self.blocks) for name, shape in block.items()}
        table = (self.vocabulary, width)
        return every | {EMBEDDING: table, HEAD: table, LAST_NORM: (width,), ROPE_FACTORS: (self.depth // 2,)}


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of the metadata, checked for their kind."""

    file: GGUF

    def integer(self, key: str, default: int | None = None) -> int:
        """Reads a positive integer."""
        return int(self.number(key, default, lambda value: isinstance(value, int) and value > 0, "a number above 0"))

    def optional(self, key: str) -> int | None:
        """Reads a positive integer, or None."""
        return self.integer(key) if f"{ARCHITECTURE}.{key}" in self.file.metadata else None

    def real(self, key: str, default: float | None = None) -> float:
        """Reads a finite number that is not negative."""
        return float(self.number(key, default, is_real, "a finite number from 0 on"))

    def number(self, key: str, default: Any, accepts: Callable[[Any], bool], kind: str) -> Any:
        """Reads a value of the metadata."""
        name = f"{ARCHITECTURE}.{key}"
        value = self.file.metadata.get(name, default)
        if value is None:
            refuse(self.file, f"it does not say {name}")
        if isinstance(value, bool) or not accepts(value):
            refuse(self.file, f"its {name} is {value}, expected {kind}")
        return value


def is_real(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def frequencies(file: GGUF, given: Numbers, depth: int) -> Array:
    """Computes the rotary frequencies, in radians per position, of each pair of channels."""
    base = given.real("rope.freq_base", 10000.0)
    if base == 0:
        refuse(file, f"its {ARCHITECTURE}.rope.freq_base is 0")
    inverse = base ** (-np.arange(0, depth, 2) / depth) / linear_factor(file, given)
    if ROPE_FACTORS not in file.tensors:
        return inverse
    factors = file.array(ROPE_FACTORS).astype(np.float64)
    check_finite(ROPE_FACTORS, "its tensor", factors)
    if factors.shape != inverse.shape or not (factors > 0).all():
        refuse(file, f"its tensor {ROPE_FACTORS} has not {len(inverse)} factors above 0")
    return inverse / factors


def linear_factor(file: GGUF, given: Numbers) -> float:
    """Returns the factor of linear rotary scaling; 1 if there is none."""
    kind = file.metadata.get(f"{ARCHITECTURE}.rope.scaling.type", "linear")
    if kind not in ("none", "linear"):
        refuse(file, f"its {ARCHITECTURE}.rope.scaling.type is {kind}, and none and linear are offered")
    if kind == "none":
        return 1.0
    factor = given.real("rope.scaling.factor", given.real("rope.scale_linear", 0.0))
    return factor or 1.0  # 0 means that there is none


def shape_of(file: GGUF, name: str, rank: int) -> tuple[int, ...]:
    """Returns the shape of a tensor in numpy's order."""
    if name not in file.tensors:
        refuse(file, f"it has no tensor {name}")
    shape = tuple(int(size) for size in file.tensors[name].shape[::-1])
    if len(shape) != rank:
        refuse(file, f"its tensor {name} has the shape {shape}")
    return shape


def refuse_unread(file: GGUF, sizes: Sizes, ignore: Sequence[str]) -> None:
    """Refuses keys and tensors that no part of the model reads."""

    def check(kind: str, name: str) -> None:
        if not any(fnmatchcase(name, pattern) for pattern in ignore):
            way = f"it may change what the model computes; if it does not, pass ignore=[{name!r}]"
            value = f" = {shortened(file.metadata[name])}" if kind == "key" else ""
            raise NotRead(source=file.path.name, what=f"the {kind} {name}{value}", way=way)

    for name, value in file.metadata.items():
        if not is_read(name, value):
            check("key", name)
    for name in sorted(file.tensors.keys() - sizes.shapes().keys()):
        check("tensor", name)


def is_read(name: str, value: Any) -> bool:
    """Says whether a key is read, or known to have no effect."""
    if name in WHOLE:
        expected = WHOLE[name]
        return value in expected if isinstance(expected, tuple) else value == expected
    if any(fnmatchcase(name, pattern) for pattern in DESCRIPTIVE):
        return True
    family, _, key = name.partition(".")
    if family != ARCHITECTURE:
        return False
    return key in READ or (key in NEUTRAL and value == NEUTRAL[key])


def shortened(value: Any) -> str:
    """Formats a value as text of limited length."""
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


def tensor_of(layer: str) -> str:
    """Returns the tensor name of a linear layer of the model."""
    number, _, part = layer.partition(".")
    return HEAD if layer == LOGITS else f"blk.{number}.{LINEAR[part]}.weight"


def refuse(file: GGUF, what: str) -> NoReturn:
    raise WrongCalibration(what=f"{file.path.name} cannot be used: {what}", way="give a GGUF file of the Llama family")
