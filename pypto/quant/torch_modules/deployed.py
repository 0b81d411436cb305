"""`DeployedLinear` runs a linear layer of torch on a kernel; its arrays are buffers, so that a state dict has them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from pypto.errors.launch import UndispatchedLaunch
from pypto.errors.quant import WrongCalibration
from pypto.quant.checks import check_layers
from pypto.quant.deploy import DeployedLayer, deployed
from pypto.quant.layer import QuantizedLayer
from pypto.quant.torch_modules.linear import linear_layers, shape_of
from pypto.runtime.tensors import active_mode, is_dispatched, is_recorded

FORM = "form"  # the buffer that describes the others


class DeployedLinear(torch.nn.Module):
    """A linear layer that runs on a CPU kernel; it has no gradient.

    The arrays that the kernel reads, such as codes and scales, are buffers: copies of the layer's arrays. They keep
    their dtypes when the module is cast. A state dict loads only into a layer of the same kind.

    Parameters
    ----------
    layer : DeployedLayer
    """

    def __init__(self, layer: DeployedLayer) -> None:
        super().__init__()
        product: Any = layer.run
        arrays = product.arrays()
        self.empty = replace(layer, run=product.with_arrays(dict.fromkeys(arrays)))
        self.dtypes = {name: array.dtype for name, array in arrays.items()}
        for name, array in arrays.items():
            self.register_buffer(name, torch.from_numpy(plain(array).copy()))
        text = f"{product.form} {layer.kind}{product.constant}"
        self.register_buffer(FORM, torch.tensor(list(text.encode()), dtype=torch.uint8))
        # torch's fused encoder layer bypasses `forward` and reads the weights, unless a module has a hook.
        self.register_forward_pre_hook(nothing)

    @property
    def layer(self) -> DeployedLayer:
        """The layer with the current numbers of the buffers."""
        buffers: dict[str, Any] = self._buffers
        arrays = {name: buffers[name].numpy().view(dtype) for name, dtype in self.dtypes.items()}
        product: Any = self.empty.run
        return replace(self.empty, run=product.with_arrays(arrays))

    def forward(self, x: Any) -> Any:
        """Computes the layer: (…, inputs) to (…, outputs), in the dtype of x."""
        check_deployed(f"layer {self.empty.name}", x)
        return torch.from_numpy(self.layer(x.detach().float().numpy())).to(x.dtype)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        buffers: dict[str, Any] = self._buffers
        for name, buffer in buffers.items():
            moved = fn(buffer)
            if not moved.is_cpu:
                what = f"layer {self.empty.name} is deployed on kernels of the CPU, and cannot move to {moved.device}"
                raise WrongCalibration(what=what, way="move the other modules alone, or deploy the layers elsewhere")
            if moved.dtype == buffer.dtype:
                buffers[name] = moved
        return self

    def _load_from_state_dict(self, state: Any, prefix: str, *others: Any) -> None:
        given, buffer = state.get(prefix + FORM), self._buffers[FORM]
        if given is not None and text_of(given) != text_of(buffer):
            errors = others[-1]
            errors.append(f"{prefix[:-1]} is {text_of(buffer)!r}, and the state dict has {text_of(given)!r}")
            return
        super()._load_from_state_dict(state, prefix, *others)

    def extra_repr(self) -> str:
        return f"{self.empty.name}, {self.empty.kind}, {self.empty.bytes} bytes"


def nothing(*_: Any) -> None:
    """A hook that changes nothing."""


def check_deployed(what: str, *tensors: Any) -> None:
    """Refuses inputs that require a gradient, and torch modes that would not see the kernels."""
    if any(map(is_recorded, tensors)):
        raise WrongCalibration(
            what=f"{what} is deployed, its inputs have no gradient",
            way="use torch.no_grad(), or train with quant.prepare(model, config) before",
        )
    if is_dispatched(tensors):
        problem, way = "it computes on arrays, which a mode would not see", "trace or count the model before `convert`"
        raise UndispatchedLaunch(kernel=what, mode=active_mode(), problem=problem, way=way)


def plain(array: Any) -> Any:
    """Returns an array in a dtype of numpy itself: 8-bit floats become bytes."""
    return array if array.dtype.isbuiltin == 1 else array.view(np.uint8)


def text_of(form: Any) -> str:
    """Decodes the text in a buffer of bytes."""
    return bytes(form.cpu().to(torch.uint8).tolist()).decode(errors="replace")


def deploy_module(model: Any, layers: Mapping[str, QuantizedLayer | DeployedLayer]) -> Any:
    """Returns a copy of a torch module whose linear layers, some or all, run on kernels.

    Parameters
    ----------
    model : torch.nn.Module
        The model, which does not change.
    layers : mapping of str to QuantizedLayer or DeployedLayer
        Layers by the name of the submodule, as in `ModuleCalibration.layers` and from `pypto.quant.load`.

    Returns
    -------
    torch.nn.Module
        The copy, in evaluation mode. It shares everything that is not replaced with the model.

    Raises
    ------
    NoSuchLayer
        If a name is not that of a linear layer of the model.
    WrongCalibration
        If a layer has other inputs or outputs than the module.

    Examples
    --------
    >>> import torch
    >>> from pypto import quant
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    >>> with quant.calibrate(model, quant.Config()) as run:
    ...     _ = run(torch.ones(1, 4))
    ...     _ = run.convert()
    >>> type(quant.deploy_module(model, run.layers)[0]).__name__
    'DeployedLinear'
    """
    linears = linear_layers(model)
    check_layers(layers, linears)
    memo: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    for name, layer in layers.items():
        check_shape(name, layer, shape_of(linears[name]))
        deployed_layer = layer if isinstance(layer, DeployedLayer) else deployed(name, layer)
        memo[id(linears[name])] = DeployedLinear(deployed_layer)
    return copy.deepcopy(model, memo).eval()


def check_shape(name: str, layer: QuantizedLayer | DeployedLayer, shape: tuple[int, ...]) -> None:
    """Refuses a layer of another size than its module."""
    given = layer.shape if isinstance(layer, DeployedLayer) else layer.weight.codes.shape
    if tuple(given) != shape:
        what = f"layer {name} has the shape {tuple(given)}, and the module's is {shape}"
        raise WrongCalibration(what=what, way="give the layers of this model")
