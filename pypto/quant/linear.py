"""Linear layers of torch on kernels, and with fake quantisation for training. Loaded beside torch only."""

from __future__ import annotations

import copy
from typing import Any

import torch

from pypto import library
from pypto.errors.quant import WrongCalibration, WrongScheme
from pypto.quant.config import Config
from pypto.quant.deploy import DeployedLayer
from pypto.quant.schemes import GROUP, TOKEN, Scheme
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
        inputs = self.config.inputs
        if inputs is not None:
            x = PassedThrough.apply(x, lambda rows: rounded_inputs(rows, inputs.group))
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


def rounded_inputs(x: Any, group: int = 0) -> Any:
    """Inputs as int8 gives them back, with a scale for each token, or for so many neighbours of a token.

    Examples
    --------
    >>> rounded_inputs(torch.tensor([[127.0, 0.4, 1.0, 0.0]]), group=2)
    tensor([[127., 0., 1., 0.]])
    """
    rows = x.detach().float()
    width = rows.shape[-1]
    size = group or width
    parts = torch.nn.functional.pad(rows, (0, -width % size)).unflatten(-1, (-1, size))
    most = parts.abs().amax(-1, keepdim=True)
    up = torch.where(most > 0, 127 / most, 0)
    return ((parts * up).round() * (most / 127)).flatten(-2)[..., :width].to(x.dtype)


def is_linear(module: Any) -> bool:
    """Whether a module is a linear layer, and nothing else: subclasses may compute otherwise."""
    return type(module) in (torch.nn.Linear, FakeQuantizedLinear)


def prepare(model: Any, config: Config) -> Any:
    """A copy of a torch module whose linear layers compute as quantised ones, for training.

    Parameters
    ----------
    model : torch.nn.Module
    config : Config
        Weights of any scheme; inputs in int8 per token or per group, or none.

    Returns
    -------
    torch.nn.Module
        It shares all parameters with the model, so that training it trains the model.

    Raises
    ------
    WrongScheme
        For static scales of inputs, and for inputs in floats of eight bits.

    Examples
    --------
    >>> from pypto import quant
    >>> trained = quant.prepare(model, quant.Config(quant.int4(group=32)))  # doctest: +SKIP
    """
    inputs = config.inputs
    if inputs is not None and (inputs.per not in (TOKEN, GROUP) or inputs.format is not None):
        way = "use quant.int8('token'), or quant.int8('group', group=64)"
        raise WrongScheme(what=f"`{inputs.name}` of inputs is not offered in training", way=way)
    memo: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    for name, module in model.named_modules():
        if is_linear(module) and not config.skips(name):
            memo[id(module)] = FakeQuantizedLinear(module, config)
    return copy.deepcopy(model, memo)
