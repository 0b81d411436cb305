"""Linear layers of torch on kernels, and with fake quantisation for training. Loaded beside torch only."""

from __future__ import annotations

import copy
from typing import Any

import torch

from pypto import library
from pypto.errors.quant import WrongCalibration, WrongScheme
from pypto.quant.config import Config
from pypto.quant.deploy import DeployedLayer
from pypto.quant.schemes import TOKEN, Scheme
from pypto.quant.weight import dequantize, grid, quantize, ranges


class DeployedLinear(torch.nn.Module):
    """A linear layer that runs on a kernel; it has no gradient.

    Parameters
    ----------
    layer : DeployedLayer
    """

    def __init__(self, layer: DeployedLayer) -> None:
        super().__init__()
        self.layer = layer
        # torch's fused encoder layer reads weights past `forward`, unless a module has a hook.
        self.register_forward_pre_hook(is_forward_only)

    def forward(self, x: Any) -> Any:
        """Compute the layer: (…, inputs) to (…, outputs), in the dtype of x."""
        return torch.from_numpy(self.layer(x.detach().float().numpy())).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.layer.name}, {self.layer.kind}, {self.layer.bytes} bytes"


def is_forward_only(module: Any, args: Any) -> None:
    """Refuse inputs that want a gradient."""
    if torch.is_grad_enabled() and args[0].requires_grad:
        raise WrongCalibration(
            what=f"layer {module.layer.name} is deployed, its inputs have no gradient",
            way="use torch.no_grad(), or train with quant.prepare(model, config) before",
        )


class FakeQuantizedLinear(torch.nn.Linear):
    """A linear layer that computes as it will when it is quantised; gradients pass through the rounding.

    `prepare` makes them. Weights are rounded to nearest on the grid of their range, as ``minmax`` does.
    """

    def __init__(self, linear: Any, config: Config) -> None:
        torch.nn.Module.__init__(self)
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.weight = linear.weight
        self.bias = linear.bias
        self.config = config

    def forward(self, x: Any) -> Any:
        """Compute the layer with rounded weights, and with rounded inputs where the configuration has them."""
        if self.config.inputs is not None:
            x = PassedThrough.apply(x, rounded_tokens)
        scheme = self.config.weights
        return torch.nn.functional.linear(x, PassedThrough.apply(self.weight, lambda w: rounded(w, scheme)), self.bias)


class PassedThrough(torch.autograd.Function):
    """A rounding whose gradient is that of the identity: Bengio and others, 2013."""

    @staticmethod
    def forward(ctx: Any, x: Any, rounding: Any) -> Any:
        return rounding(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
        return gradient, None


class FakeQuantize(torch.autograd.Function):
    """Rows rounded to int8, with the gradients of the rows and of their scales."""

    @staticmethod
    def forward(ctx: Any, w: Any, scale: Any) -> Any:
        ctx.save_for_backward(w, scale)
        return library.fake_quantize(w.detach(), scale.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, Any]:
        w, scale = ctx.saved_tensors
        found: tuple[Any, Any] = library.fake_quantize_backward(w.detach(), scale.detach(), gradient.contiguous())
        return found


def fake_quantize(w: Any, scale: Any) -> Any:
    """Rows of a torch tensor rounded to int8, for training: rows and scales have gradients.

    Parameters
    ----------
    w : torch.Tensor of shape (rows, columns)
        Float32 or bfloat16.
    scale : torch.Tensor of shape (rows,), float32
        At least 1e-4 is used. It can be a parameter that is learned: Esser and others, 2020.

    Returns
    -------
    torch.Tensor

    Examples
    --------
    >>> import torch
    >>> fake_quantize(torch.tensor([[0.26, 9.0]]), torch.tensor([0.05]))
    tensor([[0.2500, 6.3500]])
    """
    return FakeQuantize.apply(w, scale)


def rounded(w: Any, scheme: Scheme) -> Any:
    """A weight as its codes give it back."""
    numbers = w.detach().float().numpy()
    scales, zeros = grid(*ranges(numbers, scheme), scheme)
    return torch.from_numpy(dequantize(quantize(numbers, scales, zeros, scheme), scales, zeros, scheme)).to(w.dtype)


def rounded_tokens(x: Any) -> Any:
    """Inputs as int8 with a scale for each token gives them back."""
    rows = x.detach().float()
    most = rows.abs().amax(-1, keepdim=True)
    up = torch.where(most > 0, 127 / most, 0)
    return ((rows * up).round() * (most / 127)).to(x.dtype)


def is_linear(module: Any) -> bool:
    """Whether a module is a linear layer, and nothing else: subclasses may compute otherwise."""
    return type(module) in (torch.nn.Linear, FakeQuantizedLinear)


def prepare(model: Any, config: Config) -> Any:
    """A copy of a torch module whose linear layers compute as quantised ones, for training.

    Parameters
    ----------
    model : torch.nn.Module
    config : Config
        Weights of any scheme; inputs per token, or none.

    Returns
    -------
    torch.nn.Module
        It shares all parameters with the model, so that training it trains the model.

    Raises
    ------
    WrongScheme
        For static scales of inputs.

    Examples
    --------
    >>> from pypto import quant
    >>> trained = quant.prepare(model, quant.Config(quant.int4(group=32)))  # doctest: +SKIP
    """
    if config.inputs is not None and config.inputs.per != TOKEN:
        raise WrongScheme(what=f"`{config.inputs.name}` of inputs is not offered in training", way="use int8('token')")
    memo: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    for name, module in model.named_modules():
        if is_linear(module) and not config.skips(name):
            memo[id(module)] = FakeQuantizedLinear(module, config)
    return copy.deepcopy(model, memo)
