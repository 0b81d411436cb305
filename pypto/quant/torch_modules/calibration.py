"""`ModuleCalibration` treats submodules of a torch module as blocks, and returns a copy with deployed layers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np
import torch

from pypto.errors.quant import WrongCalibration
from pypto.quant.arrays import as_array
from pypto.quant.calibrate.blocks import Block, Calibration, LinearLayers, Values, calibrate_blocks
from pypto.quant.config import Config
from pypto.quant.formats.cache import Int8Cache, KeyRanges
from pypto.quant.formats.files import load_file, save
from pypto.quant.layer import QuantizedLayer
from pypto.quant.torch_modules.attention import KEYS_FILE, Int8Attention, KeyObserver
from pypto.quant.torch_modules.deployed import deploy_module
from pypto.quant.torch_modules.linear import floats_of, layer_of, linear_layers, names_of, unquantized, warn_of_floats
from pypto.quant.torch_modules.structure import described, rebuilt, tensors

PLAN = "plan"  # a description of the arguments of all blocks, as JSON in bytes


@dataclass(slots=True)
class ModuleCalibration:
    """A calibration of a torch module; `pypto.quant.calibrate` begins one.

    ``run(*args, **kwargs)`` runs the model on a batch, and stores the inputs of its first block. ``convert()`` returns
    a copy of the model whose linear layers run on kernels; the model itself does not change.

    Attributes
    ----------
    layers : dict of str to QuantizedLayer
        The quantised layers by name, after `convert`; `pypto.quant.save` writes them.
    """

    model: Any
    blocks: Mapping[str, Any]
    calibration: Calibration
    keys: KeyRanges = field(default_factory=KeyRanges)
    layers: dict[str, QuantizedLayer] = field(default_factory=dict)

    def __enter__(self) -> ModuleCalibration:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.calibration.__exit__(kind, error, at)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch; returns the model's result."""
        return self.run(*args, **kwargs)

    @property
    def floats(self) -> dict[str, int]:
        """All weights of the model that stay in floats, with their sizes.

        They are tables, convolutions, experts in one parameter, and layers that are skipped or outside of the blocks.
        """
        names = (path for name, block in self.blocks.items() for path in linear_layers(block, name))
        return floats_of(self.model, [name for name in names if not self.calibration.config.skips(name)])

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a batch: arguments of the model; returns its result.

        Raises
        ------
        WrongCalibration
            If a block does not take the result of the previous one, or the folder holds a calibration with other data.
        """
        recorder = Recorder(list(self.blocks), KeyObserver(self.keys) if self.calibration.config.cache else None)
        with evaluated(self.model), recorder.attached(self.blocks):
            result = self.model(*args, **kwargs)
        self.calibration.run(recorder.values())
        if self.keys.largest:
            save(self.calibration.folder / KEYS_FILE, self.keys.largest)
        return result

    def convert(self, progress: Callable[[int, int], None] | None = None) -> Any:
        """Quantises all layers of the blocks, one block after the other.

        Parameters
        ----------
        progress : callable, optional
            Called after each block with the number of finished blocks and the number of all blocks.

        Returns
        -------
        torch.nn.Module
            A copy of the model, which shares everything that is not quantised.
        """
        with evaluated(self.model):
            self.layers = self.calibration.convert(progress)
        deployed = deploy_module(self.model, self.layers)
        if self.calibration.config.cache:
            self.attach_caches(deployed)
        return deployed

    def attach_caches(self, model: Any) -> None:
        """Makes attention of the blocks compute with int8 keys and values."""
        path = self.calibration.folder / KEYS_FILE
        if not path.exists():
            raise WrongCalibration(
                what="no block calls scaled_dot_product_attention, whose keys and values would be int8",
                way="use cache=False, or attention by torch.nn.functional.scaled_dot_product_attention",
            )
        cache = Int8Cache.of(KeyRanges(load_file(path)))
        modules = dict(model.named_modules())
        for name in self.blocks:
            mode = Int8Attention(name, cache)
            modules[name].register_forward_pre_hook(mode.before)
            modules[name].register_forward_hook(mode.after, always_call=True)


@dataclass(slots=True)
class Recorder:
    """Records the arguments of all blocks in one run of the model: tensors of the previous block, and all others."""

    names: Sequence[str]
    observer: KeyObserver | None = None
    plan: list[Any] = field(default_factory=list)
    given: dict[str, Any] = field(default_factory=dict)
    last: Sequence[Any] = ()

    @contextmanager
    def attached(self, blocks: Mapping[str, Any]) -> Iterator[None]:
        """Attaches hooks to the blocks."""
        handles = []
        for name, module in blocks.items():
            handles.append(module.register_forward_pre_hook(partial(self.before, name), with_kwargs=True))
            handles.append(module.register_forward_hook(self.after))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            if self.observer is not None:
                self.observer.leave()

    def before(self, name: str, module: Any, args: Any, kwargs: Any) -> None:
        """Records the arguments of a block."""
        number = len(self.plan)
        if self.names[number : number + 1] != [name]:
            refuse(f"block {name} ran as the {number + 1}. one, expected {self.names[number : number + 1]}", self.names)
        carried = {id(tensor): i for i, tensor in enumerate(self.last)}
        self.plan.append(
            {
                part: described(value, f"block {name}: {part}", partial(self.named, carried))
                for part, value in (("args", args), ("kwargs", kwargs))
            }
        )
        if number and '"carried"' not in json.dumps(self.plan[-1]):
            refuse(f"block {name} does not take what block {self.names[number - 1]} gives", self.names)
        if self.observer is not None:
            self.observer.enter(name)

    def after(self, module: Any, args: Any, result: Any) -> None:
        """Records the result of a block."""
        self.last = list(tensors(result))
        if self.observer is not None:
            self.observer.leave()

    def named(self, carried: Mapping[int, int], tensor: Any) -> Any:
        """Returns the reference to a tensor: its place in the previous block's result, or a name and its dtype."""
        form = {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}
        if id(tensor) in carried:
            return form | {"carried": carried[id(tensor)]}
        name = next((n for n, t in self.given.items() if t is tensor), f"given.{len(self.given)}")
        self.given[name] = tensor
        return form | {"name": name}

    def values(self) -> Values:
        """Returns all tensors as arrays by name."""
        if len(self.plan) < len(self.names):
            refuse(f"block {self.names[len(self.plan)]} did not run", self.names)
        plan = np.frombuffer(json.dumps(self.plan).encode(), np.uint8)
        return {PLAN: plan, **{name: as_array(tensor) for name, tensor in self.given.items()}}


def refuse(what: str, names: Sequence[str]) -> None:
    raise WrongCalibration(
        what=what, way="give blocks that run once each, in their order, one on the result of another"
    )


@dataclass(frozen=True, slots=True)
class ModuleBlocks(Sequence[Block]):
    """Submodules as blocks, made on demand: memory holds a copy of at most one block's weights."""

    modules: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.modules)

    def __getitem__(self, index: Any) -> Any:
        names = list(self.modules)
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(names)))]
        return module_block(names[index], index % len(names), self.modules[names[index]])


def module_block(name: str, number: int, module: Any) -> Block:
    """A submodule as a block; names of its layers are those in the model."""
    linears = linear_layers(module, name)
    layers = [layer_of(path, one) for path, one in linears.items()]

    def forward(values: Values, linear: LinearLayers) -> Values:
        plans = json.loads(bytes(values[PLAN]))

        def tensor(form: Mapping[str, Any]) -> Any:
            array = values[f"carried.{form['carried']}" if "carried" in form else form["name"]]
            return torch.from_numpy(array.reshape(form["shape"])).to(getattr(torch, form["dtype"]))

        args, kwargs = (rebuilt(plans[number][part], tensor) for part in ("args", "kwargs"))
        with replaced(linears, linear), torch.no_grad():
            result = module(*args, **kwargs)
        later = json.dumps(plans[number + 1 :])
        later_values = {key: value for key, value in values.items() if key == PLAN or f'"{key}"' in later}
        return later_values | {f"carried.{i}": as_array(one) for i, one in enumerate(tensors(result))}

    return Block(name, layers, forward)


@contextmanager
def replaced(modules: Mapping[str, Any], linear: LinearLayers) -> Iterator[None]:
    """Makes modules compute by a function of their name and an array."""

    def run(name: str, x: Any) -> Any:
        return torch.from_numpy(linear(name, x.detach().float().numpy())).to(x.dtype)

    # torch's fused encoder layer bypasses `forward` and reads the weights, unless a module has a hook.
    hooks = [module.register_forward_pre_hook(nothing) for module in modules.values()]
    try:
        for name, module in modules.items():
            module.forward = partial(run, name)
        yield
    finally:
        for hook, module in zip(hooks, modules.values(), strict=True):
            module.__dict__.pop("forward", None)
            hook.remove()


def nothing(module: Any, args: Any) -> None:
    """A hook that does nothing."""


@contextmanager
def evaluated(model: Any) -> Iterator[None]:
    """Runs the model in evaluation mode, without gradients."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def chosen(model: Any, blocks: Any) -> dict[str, Any]:
    """Returns the blocks of a model by name, in the order of the model or of the list."""
    modules = dict(model.named_modules())
    if blocks is None:
        return {"": model}
    if isinstance(blocks, str):
        if blocks in modules and list(modules[blocks].children()):
            children = modules[blocks].named_children()
            return {f"{blocks}.{name}" if blocks else name: child for name, child in children}
        blocks_by_name = {name: module for name, module in modules.items() if re.fullmatch(blocks, name)}
    else:
        names = {id(module): name for name, module in modules.items()}
        given = list(blocks)
        if any(id(module) not in names for module in given):
            raise WrongCalibration(what="a block is no part of the model", way="give submodules of the model")
        blocks_by_name = {names[id(module)]: module for module in given}
    if not blocks_by_name:
        raise WrongCalibration(
            what=f"no submodule is named {blocks!r}", way="name a list of blocks, or give a regular expression"
        )
    return blocks_by_name


def calibrate_module(
    model: Any, config: Config, folder: str | os.PathLike[str] | None = None, blocks: Any = None
) -> ModuleCalibration:
    """Begin a calibration of a torch module; see `pypto.quant.calibrate`."""
    modules = chosen(model, blocks)
    floats: dict[str, int] = {}
    for name, module in modules.items():
        floats |= unquantized(module, name, linear_layers(module).values(), config)
    total = sum(parameter.numel() for module in modules.values() for parameter in module.parameters())
    warn_of_floats(floats, total)
    return ModuleCalibration(model, modules, calibrate_blocks(ModuleBlocks(modules), config, folder, names_of(model)))
