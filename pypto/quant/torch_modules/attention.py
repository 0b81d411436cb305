"""Int8 attention in torch modules replaces calls of `scaled_dot_product_attention` during a block's forward."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from pypto import library
from pypto.quant.formats.cache import Int8Cache, KeyRanges
from pypto.quant.torch_modules.deployed import check_deployed

KEYS_FILE: Final = "keys.safetensors"
ATTENTION: Final = torch.nn.functional.scaled_dot_product_attention
SCALE = "scale"


class Attentions(TorchFunctionMode):
    """A context that redirects calls of torch's attention to a method, with the name of the block and call."""

    def __init__(self) -> None:
        super().__init__()
        self.block: str | None = None
        self.calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is not ATTENTION or self.block is None:
            return func(*args, **given)
        name = f"{self.block}.{self.calls}"
        self.calls += 1
        return self.attend(name, *args, **given)

    def attend(self, name: str, q: Any, k: Any, v: Any, *more: Any, **kwargs: Any) -> Any:
        """Computes one call."""
        return ATTENTION(q, k, v, *more, **kwargs)

    def enter(self, block: str) -> None:
        """Begins a block."""
        self.leave()
        self.block = block
        self.calls = 0
        self.__enter__()

    def leave(self) -> None:
        """Ends a block, if one has begun."""
        if self.block is not None:
            self.block = None
            self.__exit__(None, None, None)


class KeyObserver(Attentions):
    """Observes the ranges of keys."""

    def __init__(self, ranges: KeyRanges) -> None:
        super().__init__()
        self.ranges = ranges

    def attend(self, name: str, q: Any, k: Any, v: Any, *more: Any, **kwargs: Any) -> Any:
        self.ranges(name, tokens_first(k), tokens_first(v))
        return ATTENTION(q, k, v, *more, **kwargs)


class Int8Attention(Attentions):
    """Computes attention with int8 keys and values.

    Without a mask or dropout it runs the kernel `attention_int8_cache`. With one of them torch computes it, with
    dequantised keys and values. Inputs that require a gradient are refused.
    """

    def __init__(self, block: str, cache: Int8Cache) -> None:
        super().__init__()
        self.name = block
        self.cache = cache

    def before(self, module: Any, args: Any) -> None:
        """Begins the block."""
        self.enter(self.name)

    def after(self, module: Any, args: Any, result: Any) -> None:
        """Ends the block."""
        self.leave()

    def attend(self, name: str, q: Any, k: Any, v: Any, *more: Any, **kwargs: Any) -> Any:
        check_deployed(f"attention {name}", q, k, v)
        given = dict(zip(("attn_mask", "dropout_p", "is_causal"), more, strict=False)) | kwargs
        if given.get("attn_mask") is not None or given.get("dropout_p"):
            keys, values = (heads_first(t, k) for t in self.cache(name, tokens_first(k), tokens_first(v)))
            return ATTENTION(q, keys, values, *more, **kwargs)
        keys, values, scales = self.cache.encode(name, tokens_first(k), tokens_first(v))
        codes = (torch.from_numpy(t).transpose(1, 2).contiguous() for t in (keys, values))
        key, value = codes
        y = library.attention_int8_cache(
            q.detach().contiguous(), key, torch.from_numpy(self.cache.key_scales[name]), value,
            torch.from_numpy(scales).transpose(1, 2).contiguous(),
            scale=float(given.get(SCALE) or 0), causal=int(bool(given.get("is_causal"))),
        )  # fmt: skip
        return y


def tokens_first(t: Any) -> Any:
    """Returns keys (batch, heads, tokens, depth) as an array (batch, tokens, heads, depth)."""
    return t.detach().float().transpose(1, 2).numpy()


def heads_first(array: Any, like: Any) -> Any:
    """Reverses `tokens_first`, and converts to a tensor's dtype."""
    return torch.from_numpy(array).transpose(1, 2).to(like.dtype)
