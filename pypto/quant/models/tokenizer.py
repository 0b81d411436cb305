"""Builds the tokenizer of a GGUF file from its vocabulary, merges and control tokens."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from pypto.errors.quant import NotRead, WrongCalibration

PREFIX: Final = "tokenizer.ggml."
# Keys behind the prefix that are read here.
READ: Final = (
    "model", "pre", "tokens", "token_type", "merges", "bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id",
    "add_bos_token", "add_eos_token",
)  # fmt: skip
# Keys with the only value at which they have no effect on byte pairs.
NEUTRAL: Final = {"add_space_prefix": False, "remove_extra_whitespaces": False}
# Keys that name tokens for other uses, and chat templates, which the caller fills in.
DESCRIPTIVE: Final = (
    f"{PREFIX}*_token_id", f"{PREFIX}scores", "tokenizer.chat_template*", "tokenizer.chat_templates",
)  # fmt: skip
CONTROL: Final = 3  # types of tokens that are found in a text before it is split
USER_DEFINED: Final = 4
ENDS: Final = ("eos", "eot", "eom")
# Control tokens that end a text whether or not a key names them.
END_TEXTS: Final = frozenset({
    "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "</s>",
})  # fmt: skip


def tokenizer_of(source: str, metadata: Mapping[str, Any]) -> Any:
    """Returns a byte-pair `Tokenizer` of the package `tokenizers`, with the vocabulary and merges of a file.

    Control tokens of a dialogue, such as ``<|im_start|>``, are one token each wherever they stand in a text.

    Raises
    ------
    WrongCalibration
        If the tokenizer is of another kind.
    NotRead
        If there are unknown keys that could change its tokens.
    """
    kind = tuple(metadata.get(PREFIX + key) for key in ("model", "pre"))
    if kind != ("gpt2", "smollm"):
        what = f"{source} cannot be used: its tokenizer is not offered: model {kind[0]}, pre {kind[1]}"
        raise WrongCalibration(what=what, way="give `ids` of your own, or a file with model gpt2 and pre smollm")
    refuse_unread(source, metadata)
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    except ImportError:
        raise WrongCalibration(what="tokenizers is not installed", way="pip install tokenizers") from None
    tokens = [str(token) for token in metadata[PREFIX + "tokens"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = [tuple(pair.split(" ")) for pair in metadata[PREFIX + "merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    types = metadata.get(PREFIX + "token_type", ())
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in of_type(tokens, types, CONTROL)])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in of_type(tokens, types, USER_DEFINED)])
    add_ends(tokenizer, source, metadata, tokens)
    return tokenizer


def of_type(tokens: list[str], types: Any, kind: int) -> list[str]:
    """Returns the tokens of a type, in order; none if the file has no types."""
    return [token for token, token_type in zip(tokens, types, strict=False) if token_type == kind]


def add_ends(tokenizer: Any, source: str, metadata: Mapping[str, Any], tokens: list[str]) -> None:
    """Makes each text begin and end with the tokens that the file asks for."""
    from tokenizers.processors import TemplateProcessing

    flags = {name: bool(metadata.get(f"{PREFIX}add_{name}_token", False)) for name in ("bos", "eos")}
    numbers: dict[str, Any] = {name: metadata.get(f"{PREFIX}{name}_token_id") for name in flags if flags[name]}
    for name, number in numbers.items():
        if not isinstance(number, int) or not 0 <= number < len(tokens):
            what = f"{source} cannot be used: {PREFIX}add_{name}_token is set, and {PREFIX}{name}_token_id is {number}"
            raise WrongCalibration(what=what, way="give `ids` of your own")
    if numbers:
        names = {name: tokens[number] for name, number in numbers.items()}
        template = [names["bos"]] * flags["bos"] + ["$A"] + [names["eos"]] * flags["eos"]
        special = [(tokens[number], number) for number in numbers.values()]
        tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=special)


def refuse_unread(source: str, metadata: Mapping[str, Any]) -> None:
    """Refuses keys of the tokenizer that could change its tokens."""
    for name, value in metadata.items():
        key = name.removeprefix(PREFIX)
        if not name.startswith("tokenizer.") or key in READ or (key in NEUTRAL and value == NEUTRAL[key]):
            continue
        if not any(fnmatchcase(name, pattern) for pattern in DESCRIPTIVE):
            way = "it may change tokens: give `ids` of your own"
            raise NotRead(source=source, what=f"the key {name}", way=way)


def ends_of(metadata: Mapping[str, Any]) -> frozenset[int]:
    """Returns the tokens that end a text: those that keys name, and well-known control tokens."""
    named = {metadata.get(f"{PREFIX}{name}_token_id") for name in ENDS}
    tokens = metadata.get(PREFIX + "tokens", ())
    types = metadata.get(PREFIX + "token_type", ())
    known = {
        number
        for number, (token, kind) in enumerate(zip(tokens, types, strict=False))
        if kind == CONTROL and token in END_TEXTS
    }
    return frozenset(int(number) for number in named if number is not None) | known
