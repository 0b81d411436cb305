"""Attention of models of `transformers`, by the row `attention` of the library: ``attn_implementation="pypto"``.

After `install()`, models take that name where they are loaded, or in ``model.set_attn_implementation("pypto")``.
"""

from __future__ import annotations

import importlib
from typing import Any, Final, NoReturn

from pypto import library
from pypto.errors.library import WrongOperands

NAME: Final = "pypto"


def install() -> None:
    """Registers the attention and its masks with `transformers`, under the name ``pypto``.

    The masks are those of ``sdpa``: flags, so that padding on either side, windows and packed sequences work as there.
    """
    transformers = importlib.import_module("transformers")
    masking = importlib.import_module("transformers.masking_utils")
    transformers.AttentionInterface.register(NAME, attention_forward)
    masking.AttentionMaskInterface.register(NAME, masking.sdpa_mask)


def attention_forward(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, dropout: float = 0.0,
    scaling: float | None = None, is_causal: bool | None = None, **given: Any,
) -> tuple[Any, None]:  # fmt: skip
    """Computes attention as `transformers` calls it; groups of heads need no copies of keys and values.

    Parameters
    ----------
    module : torch.nn.Module
    query, key, value : tensor
        Of shape (batch, heads, tokens, width).
    attention_mask : tensor, optional
        Flags of the keys that are seen, or addends of the scores.
    dropout, scaling, is_causal
        As in `transformers`.
    **given
        `softcap`, `s_aux` (sinks) and `position_bias`; others mean nothing to attention.

    Raises
    ------
    WrongOperands
        For dropout, and for weights as a result.
    """
    if dropout:
        refuse(f"`dropout` is {dropout}, and it has none: call `model.eval()`, or set `attention_dropout` to 0")
    if given.get("output_attentions"):
        refuse('it keeps no weights for `output_attentions`: use `attn_implementation="eager"`')
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    bias, mask = given.get("position_bias"), attention_mask
    if mask is not None:
        mask = mask[..., : key.shape[2]]
    if mask is not None and mask.is_floating_point():
        bias, mask = mask if bias is None else bias + mask, None
    options: dict[str, Any] = {
        "scale": scaling or 0.0, "causal": int(bool(causal) and attention_mask is None and query.shape[2] > 1),
        "softcap": given.get("softcap") or 0.0, "sinks": given.get("s_aux"),
    }  # fmt: skip
    y: Any = library.attention(query, key, value, bias=bias, mask=mask, **options)
    return y.transpose(1, 2).contiguous(), None


def refuse(problem: str) -> NoReturn:
    raise WrongOperands(operator="attention", problem=problem, signature=library.rows["attention"].text)
