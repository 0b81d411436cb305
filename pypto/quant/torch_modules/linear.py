"""Finds the linear layers of a torch module, and replaces them by fake-quantised ones for training (QAT)."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from pypto import library
from pypto.errors.quant import StaysFloat, WrongCalibration, WrongScheme
from pypto.quant.arrays import as_array
from pypto.quant.checks import check_patterns, listed
from pypto.quant.config import Config
from pypto.quant.layer import Layer
from pypto.quant.rounding import dequantize, grid, quantize, ranges
from pypto.quant.schemes import GROUP, TOKEN, Scheme
from pypto.quant.warning import warn
from pypto.torch.graph.derivatives import first_derivative


class FakeQuantizedLinear(torch.nn.Linear):
    """A linear layer that computes as its quantised form; gradients pass through the rounding.

    `prepare` makes them. Weights are rounded to nearest on the grid of their range, as ``minmax`` does.
    """

    def __init__(self, linear: Any, config: Config) -> None:
        torch.nn.Module.__init__(self)
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.weight = linear.weight
        self.bias = linear.bias
        self.config = config
        self.scheme = json.dumps(asdict(config.weights))

    def forward(self, x: Any) -> Any:
        """Computes the layer with rounded weights, and with rounded inputs if the configuration quantises them."""
        inputs = self.config.inputs
        if inputs is not None:
            x = PassedThrough.apply(x, lambda rows: rounded_inputs(rows, inputs.group))
        weight = PassedThrough.apply(self.weight, lambda w: torch.ops.pypto.round_weight(w, self.scheme))
        return torch.nn.functional.linear(x, weight, self.bias)


class PassedThrough(torch.autograd.Function):
    """A rounding whose gradient is that of the identity (straight-through estimator; Bengio and others, 2013)."""

    @staticmethod
    def forward(ctx: Any, x: Any, rounding: Any) -> Any:
        return rounding(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, None]:
        return gradient, None


class FakeQuantize(torch.autograd.Function):
    """Rounds rows to int8, with the gradients of the rows and of their scales."""

    @staticmethod
    def forward(ctx: Any, w: Any, scale: Any) -> Any:
        ctx.save_for_backward(w, scale)
        return library.fake_quantize(w.detach(), scale.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, Any]:
        gradients: tuple[Any, Any] = first_derivative(
            library.fake_quantize_backward, "fake_quantize", *ctx.saved_tensors, gradient.contiguous()
        )
        return gradients


def fake_quantize(w: Any, scale: Any) -> Any:
    """Rounds rows of a torch tensor to int8, for training: rows and scales have gradients.

    Parameters
    ----------
    w : torch.Tensor of shape (rows, columns)
        Float32 or bfloat16.
    scale : torch.Tensor of shape (rows,), float32
        The scales; smaller ones count as 1e-4. They can be learned parameters (LSQ; Esser and others, 2020).

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


@torch.library.custom_op("pypto::round_weight", mutates_args=(), schema="(Tensor w, str scheme) -> Tensor")
def round_weight(w: Any, scheme: str) -> Any:
    """Quantises and dequantises a weight; an operator, so that graphs of torch round the weight of each run."""
    numbers, how = w.detach().float().numpy(), Scheme(**json.loads(scheme))
    scales, zeros = grid(*ranges(numbers, how), how)
    values = dequantize(quantize(numbers, scales, zeros, how), scales, zeros, how)
    return torch.from_numpy(np.ascontiguousarray(values)).to(w.dtype)


@round_weight.register_fake
def round_fake_weight(w: Any, scheme: str) -> Any:
    """Returns the result without values."""
    return torch.empty_like(w, memory_format=torch.contiguous_format)


def rounded_inputs(x: Any, group: int = 0) -> Any:
    """Quantises and dequantises inputs as int8, with a scale for each token or each group of a token.

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
    """Says whether a module is exactly a linear layer: subclasses may compute something else."""
    return type(module) in (torch.nn.Linear, FakeQuantizedLinear)


def is_transposed(module: Any) -> bool:
    """Says whether a module is transformers' `Conv1D`, a linear layer whose weight has the inputs first (GPT-2)."""
    kind = type(module)
    return (kind.__module__, kind.__name__) == ("transformers.pytorch_utils", "Conv1D")


def linear_layers(model: Any, name: str = "") -> dict[str, Any]:
    """The linear layers of a module by name; `name` is that of the module itself."""
    modules = ((".".join(filter(None, (name, path))), module) for path, module in model.named_modules())
    return {path: module for path, module in modules if is_linear(module) or is_transposed(module)}


def shape_of(module: Any) -> tuple[int, ...]:
    """Returns outputs and inputs of a linear layer."""
    shape = tuple(module.weight.shape)
    return shape[::-1] if is_transposed(module) else shape


def layer_of(name: str, module: Any) -> Layer:
    """Returns a linear layer in numpy."""
    weight = as_array(module.weight)
    bias = None if module.bias is None else as_array(module.bias.float())
    return Layer(name, weight.T if is_transposed(module) else weight, bias)


def unquantized(model: Any, name: str, quantized: Iterable[Any], config: Config) -> dict[str, int]:
    """Returns weights of products that stay in floats, with their sizes; tables and given linear layers are excluded.

    Weights whose module or parameter `Config.skip` names are left out.
    """
    left = {id(module) for module in quantized}
    counts = {}
    for path, module in model.named_modules():
        if id(module) in left or isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag):
            continue
        for part, parameter in module.named_parameters(recurse=False):
            full_name = ".".join(filter(None, (name, path)))
            full = ".".join(filter(None, (full_name, part)))
            if is_product(parameter) and not config.skips(full_name) and not config.skips(full):
                counts[full] = parameter.numel()
    return counts


def names_of(model: Any) -> list[str]:
    """Returns all names that `Config.skip` may contain: linear layers first, then all modules and parameters."""
    parameters = (name for name, _ in model.named_parameters())
    return [*linear_layers(model), *(name for name, _ in model.named_modules()), *parameters]


def is_product(parameter: Any) -> bool:
    """Says whether a parameter is a matrix, or several; vectors that are added to all rows are not."""
    return bool(parameter.ndim == 2 or (parameter.ndim > 2 and parameter.shape[0] > 1))


def floats_of(model: Any, quantized: Iterable[str]) -> dict[str, int]:
    """Returns all matrices of a model that stay in floats, with their sizes, from the names of quantised layers."""
    codes = {f"{name}.weight" if name else "weight" for name in quantized}
    parameters = model.named_parameters(remove_duplicate=False)
    return {name: one.numel() for name, one in parameters if one.ndim > 1 and name not in codes}


def warn_of_floats(counts: Mapping[str, int], total: int) -> None:
    """Say which weights stay in floats, if any do."""
    if counts:
        share = f"{sum(counts.values()) / total:.1%}"
        names = list(counts)
        warn(StaysFloat(count=len(names), share=share, names=listed(names), weights="\n".join(names)))


def prepare(model: Any, config: Config) -> Any:
    """Returns a copy of a torch module whose linear layers compute as quantised ones, for training (QAT).

    Parameters
    ----------
    model : torch.nn.Module
    config : Config
        A configuration with any scheme of weights, and int8 inputs per token or per group, or float inputs.

    Returns
    -------
    torch.nn.Module
        The copy, which shares all parameters with the model, so that training it trains the model.

    Raises
    ------
    WrongScheme
        If inputs have static scales or 8-bit floats.
    WrongCalibration
        If the module has no linear layers.
    NoSuchLayer
        If a pattern in ``config.skip`` matches nothing.

    Warns
    -----
    StaysFloat
        If other weights stay in floats and ``config.skip`` does not name them. Its ``weights`` are all their names.

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
    linear = {name: module for name, module in model.named_modules() if is_linear(module)}
    if not linear:
        raise WrongCalibration(what="the model has no linear layers", way="give a module that has some")
    check_patterns(config.skip, names_of(model))
    warn_of_floats(unquantized(model, "", linear.values(), config), sum(p.numel() for p in model.parameters()))
    for name, module in linear.items():
        if not config.skips(name):
            memo[id(module)] = FakeQuantizedLinear(module, config)
    return copy.deepcopy(model, memo)
