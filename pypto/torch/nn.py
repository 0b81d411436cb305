"""Modules of torch whose operators are rows of `pypto.library`.

Each is a twin of a module that models have: where torch has that module, the twin has its constructor and its state
dict, so that weights load both ways. Their gradients are those of the rows.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from pypto import library
from pypto.library.signature import Pair

torch: ModuleType = importlib.import_module("torch")
nn: Any = torch.nn


def rows_of(x: Any, shape: tuple[int, ...]) -> Any:
    """Flattens the normalised dimensions to one, since the rows normalise the last dimension."""
    return x if len(shape) == 1 else x.flatten(-len(shape))


class RMSNorm(nn.RMSNorm):  # type: ignore[misc]
    """`torch.nn.RMSNorm`, by the row `rms_norm`.

    Examples
    --------
    >>> import torch, pypto.torch.nn
    >>> ours, theirs = pypto.torch.nn.RMSNorm(8), torch.nn.RMSNorm(8)
    >>> _ = ours.load_state_dict(theirs.state_dict())
    >>> torch.allclose(ours(torch.ones(2, 8)), theirs(torch.ones(2, 8)))
    True
    """

    def forward(self, x: Any) -> Any:
        """Returns x divided by its root mean square, times the weight."""
        weight = self.weight if self.weight is not None else x.new_ones(self.normalized_shape)
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        rows = rows_of(x, self.normalized_shape)
        return library.rms_norm(rows, rows_of(weight, self.normalized_shape), eps).view(x.shape)


class LayerNorm(nn.LayerNorm):  # type: ignore[misc]
    """`torch.nn.LayerNorm`, by the row `layer_norm`."""

    def forward(self, x: Any) -> Any:
        """Returns x with mean 0 and variance 1, times the weight, plus the bias."""
        shape = self.normalized_shape
        weight = self.weight if self.weight is not None else x.new_ones(shape)
        bias = self.bias if self.bias is not None else torch.zeros_like(weight)
        rows = rows_of(x, shape)
        return library.layer_norm(rows, rows_of(weight, shape), rows_of(bias, shape), self.eps).view(x.shape)


class SwiGLU(nn.Module):  # type: ignore[misc]
    """The gated linear unit of language models: `down_proj(silu(gate_proj(x)) * up_proj(x))`.

    Its state dict is that of the modules of language models, with the names `gate_proj`, `up_proj` and `down_proj`.

    Parameters
    ----------
    width : int
    hidden : int
        The width of the hidden layer.
    bias : bool
    """

    def __init__(self, width: int, hidden: int, bias: bool = False) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=bias)
        self.up_proj = nn.Linear(width, hidden, bias=bias)
        self.down_proj = nn.Linear(hidden, width, bias=bias)

    def forward(self, x: Any) -> Any:
        """Returns a tensor of the shape of x."""
        both = torch.cat([self.gate_proj(x), self.up_proj(x)], -1)
        return self.down_proj(library.swiglu(both))


class RotaryEmbedding(nn.Module):  # type: ignore[misc]
    """The rotary position embedding of queries or keys, by halves of a row: the row `rope_half`.

    Parameters
    ----------
    width : int
        The width of a head, which is even.
    base : float
        The base of the angles.
    """

    def __init__(self, width: int, base: float = 10000.0) -> None:
        super().__init__()
        exponents = torch.arange(0, width, 2, dtype=torch.float32) / width
        self.register_buffer("inv_freq", base**-exponents, persistent=False)

    def forward(self, x: Any, positions: Any = None) -> Any:
        """Returns x, rotated by the angles of its positions.

        Parameters
        ----------
        x : tensor
            Of shape (..., tokens, heads, width).
        positions : tensor of int, optional
            The positions of the tokens, of shape (tokens,) or (..., tokens); by default, they count from 0.
        """
        if positions is None:
            positions = torch.arange(x.shape[-3], device=x.device)
        angles = positions[..., None] * self.inv_freq
        angles = torch.cat([angles, angles], -1).expand(*x.shape[:-2], x.shape[-1])
        return library.rope_half(x, angles.cos(), angles.sin())


class Attention(nn.Module):  # type: ignore[misc]
    """The attention of language models with projections and rotary embedding, by the rows `rope_half` and `attention`.

    Its state dict is that of the modules of language models, with the names `q_proj`, `k_proj`, `v_proj` and `o_proj`.

    Parameters
    ----------
    width : int
    heads : int
        The heads of queries.
    groups : int
        The heads of keys and values, each of which serves `heads / groups` heads of queries; 0 means as many.
    causal : bool
    base : float
        The base of the rotary embedding; 0 means none.
    window : int
        The number of keys that a query sees; 0 means all.
    softcap : float
        The cap of scores; 0 means none.
    bias : bool
        Whether the projections to queries, keys and values have a bias.
    """

    def __init__(
        self, width: int, heads: int, groups: int = 0, *, causal: bool = True, base: float = 10000.0, window: int = 0,
        softcap: float = 0.0, bias: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.head_dim, self.causal, self.window, self.softcap = width // heads, causal, window, softcap
        shared = (groups or heads) * self.head_dim
        self.q_proj = nn.Linear(width, heads * self.head_dim, bias=bias)
        self.k_proj = nn.Linear(width, shared, bias=bias)
        self.v_proj = nn.Linear(width, shared, bias=bias)
        self.o_proj = nn.Linear(heads * self.head_dim, width, bias=False)
        self.rotary = RotaryEmbedding(self.head_dim, base) if base else None

    def forward(self, x: Any, positions: Any = None, *, mask: Any = None, bias: Any = None, first: Any = None) -> Any:
        """Returns a tensor of the shape of x.

        Parameters
        ----------
        x : tensor
            Of shape (batch, tokens, width).
        positions : tensor of int, optional
            See `RotaryEmbedding`.
        mask, bias, first : tensor, optional
            As in `pypto.library.attention`: flags of the keys that are seen, addends of the scores, and the first
            token of each sequence behind its padding on the left.
        """
        q, k, v = (each(x).unflatten(-1, (-1, self.head_dim)) for each in (self.q_proj, self.k_proj, self.v_proj))
        if self.rotary is not None:
            q, k = self.rotary(q, positions), self.rotary(k, positions)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        options: dict[str, Any] = {"causal": int(self.causal), "window": self.window, "softcap": self.softcap}
        y: Any = library.attention(q, k, v, bias=bias, mask=mask, first=first, **options)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class ConvBnRelu(nn.Sequential):  # type: ignore[misc]
    """A convolution with batch normalisation and relu; in evaluation, it is the row `conv_bn_relu`.

    Its state dict is that of `torch.nn.Sequential(Conv2d, BatchNorm2d, ReLU)`. In training it runs as those three
    modules, because the statistics of the batch are needed.

    Parameters
    ----------
    inputs, outputs : int
        The numbers of channels.
    size : int or (int, int)
        Height and width of the filters.
    stride, padding, dilation : int or (int, int)
    groups : int
        As in `torch.nn.Conv2d`.
    bias : bool
        Whether the convolution has a bias.
    """

    def __init__(
        self, inputs: int, outputs: int, size: int | Pair = 3, *, stride: int | Pair = 1, padding: int | Pair = 1,
        dilation: int | Pair = 1, groups: int = 1, bias: bool = False,
    ) -> None:  # fmt: skip
        convolution = nn.Conv2d(inputs, outputs, size, stride, padding, dilation, groups, bias)
        super().__init__(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=False))

    def forward(self, x: Any) -> Any:
        """Returns the image of activations."""
        if self.training:
            return super().forward(x)
        convolution, norm, _ = self
        gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        start = -norm.running_mean if convolution.bias is None else convolution.bias - norm.running_mean
        bias = (norm.bias + start * gain).to(x.dtype)
        weight = convolution.weight.permute(2, 3, 0, 1).contiguous()
        sizes = convolution.stride, convolution.padding, convolution.groups, convolution.dilation
        return library.conv_bn_relu(x, weight, gain.to(x.dtype), bias, *sizes)


class Sepia(nn.Module):  # type: ignore[misc]
    """The sepia filter for images of shape (n, 3, h, w), by the row `sepia`."""

    def forward(self, x: Any) -> Any:
        """Returns an image of the same shape, with colours between 0 and 1."""
        return library.sepia(x)


class MoE(nn.Module):  # type: ignore[misc]
    """A mixture of experts, each a gated linear unit, by rows of the library.

    Parameters
    ----------
    width : int
    hidden : int
        The width of the hidden layer of an expert.
    experts : int
    chosen : int
        The number of experts of a token.
    sigmoid : bool
        Whether weights are sigmoids of the logits, and not their softmax.
    """

    def __init__(self, width: int, hidden: int, experts: int, chosen: int, sigmoid: bool = False) -> None:
        super().__init__()
        self.chosen, self.sigmoid = chosen, sigmoid
        scale = width**-0.5
        self.gate = nn.Parameter(torch.empty(experts, width).uniform_(-scale, scale))
        self.gate_up_proj = nn.Parameter(torch.empty(experts, width, 2 * hidden).uniform_(-scale, scale))
        self.down_proj = nn.Parameter(torch.empty(experts, hidden, width).uniform_(-(hidden**-0.5), hidden**-0.5))

    def forward(self, x: Any) -> Any:
        """Returns a tensor of the shape of x."""
        rows = x.flatten(0, -2) if x.dim() > 1 else x[None]
        logits = library.moe_gate(rows, self.gate)
        ids, weights = library.select_experts(logits, k=self.chosen, sigmoid=int(self.sigmoid))
        y, _, position, ends = library.permute_tokens(rows, ids, experts=len(self.gate))
        hidden = library.swiglu(library.grouped_matmul(y, self.gate_up_proj, ends))
        y = library.grouped_matmul(hidden, self.down_proj, ends)
        return library.combine_experts(y, position, weights).view(x.shape)
