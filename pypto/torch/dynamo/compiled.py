"""A compiled graph: a call finds the plan for the layouts and sizes of its tensors, and runs it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from pypto.errors.inductor import WrongDevice
from pypto.graph.ir.dims import Size
from pypto.graph.tracing.arguments import Slot
from pypto.torch.aten.row import NotLowered
from pypto.torch.dynamo.lowering import TorchStep
from pypto.torch.dynamo.memory import as_array, as_tensor
from pypto.torch.dynamo.report import announce
from pypto.torch.dynamo.settings import Settings
from pypto.torch.dynamo.sizes import sources_of
from pypto.torch.dynamo.versions import Version, unplanned, version_of

torch: Any = importlib.import_module("torch")
Array = np.ndarray[Any, Any]
# Ops of a graph that give a view of an argument: torch makes the view when it is a result.
VIEWS: Final = frozenset(
    ("view", "permute", "transpose", "t", "expand", "unsqueeze", "squeeze", "slice", "select", "alias", "detach",
     "as_strided", "diagonal", "reshape")
)  # fmt: skip


class CompiledGraph:
    """A graph of ATen that runs as a plan of kernels.

    Parameters
    ----------
    module : torch.fx.GraphModule
    name : str
    settings : Settings

    Attributes
    ----------
    versions : dict
        Plans by the strides of the tensors of fixed shapes, and by the symbols that are 0.
    fixed : list of int
        Which tensors have fixed shapes; others are read in C order.
    last : Version or None
        The plan of the last call, which is tried first.
    elsewhere : list of str
        Devices other than the CPU that tensors are on.
    is_ordered : bool
        Whether operations run for their effects, in an order that torch keeps.
    """

    def __init__(self, module: Any, name: str, settings: Settings) -> None:
        self._boxed_call = True  # AOTAutograd passes one list, from which the arguments are taken
        self.module = module
        self.name = name
        self.settings = settings
        nodes = list(module.graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        values = [node.meta.get("val") for node in self.inputs]
        self.tensors = [n for n, value in enumerate(values) if isinstance(value, torch.Tensor)]
        self.elsewhere = sorted({str(values[n].device) for n in self.tensors if not values[n].is_cpu})
        self.is_ordered = any(node.target is torch.ops.higher_order.with_effects for node in nodes)
        self.sources = sources_of(values)
        shapes = [values[n].shape for n in self.tensors]
        self.fixed = [n for n, shape in enumerate(shapes) if not any(isinstance(size, torch.SymInt) for size in shape)]
        self.outputs = leaves(nodes[-1].args[0])
        computed = [x for x in self.outputs if is_node(x) and not is_view(x)]
        self.wanted = list(dict.fromkeys(computed))
        self.versions: dict[Any, list[Version]] = {}
        self.last: Version | None = None
        self.lock = threading.Lock()

    @property
    def steps(self) -> list[TorchStep]:
        """The ops that torch runs, over all plans."""
        return list(dict.fromkeys(step for row in self.versions.values() for version in row for step in version.steps))

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """Run the graph on its arguments, which are taken from the list.

        Raises
        ------
        WrongDevice
            When a tensor is not on the CPU.
        RunByTorch
            When an operation has no kernel, under ``strict``.
        """
        if self.is_ordered or self.elsewhere:
            return self.unlowered(args)
        tensors = [args[n] for n in self.tensors]
        sizes = {source.name: source.read(args) for source in self.sources}
        last = self.last
        outputs = None
        if last is not None and last.serves(sizes):
            last.check(tensors, sizes)
            outputs = last.replayed(tensors, last.dims(sizes))
        if last is not None and outputs is not None:
            version = last
        else:
            arrays = [as_array(x) for x in tensors]
            arrays = [x if n in self.fixed else np.ascontiguousarray(x) for n, x in enumerate(arrays)]
            version = self.last = self.version(arrays, sizes)
            if version.plan is None:
                return self.by_torch(args)
            version.check(tensors, sizes)
            outputs = [as_tensor(x) for x in version.plan.run(arrays, version.dims(sizes))]
        values = dict(zip(self.wanted, filled(version, outputs, sizes), strict=True))
        given = dict(zip(self.inputs, args, strict=True))
        args.clear()
        return [values[x] if x in values else seen(x, given) if is_node(x) else x for x in self.outputs]

    def unlowered(self, args: list[Any]) -> Sequence[Any]:
        """Run a graph in torch that has effects, and refuse one with tensors elsewhere."""
        if self.elsewhere:
            raise WrongDevice(device=self.elsewhere[0])
        if () not in self.versions:
            version = unplanned(self.wanted, NotLowered("its operations have effects, in an order that torch keeps"))
            announce(self.name, version.steps, self.settings.strict)
            self.versions[()] = [version]
        return self.by_torch(args)

    def by_torch(self, args: list[Any]) -> Sequence[Any]:
        """Run the whole graph in torch."""
        with torch.no_grad():
            results: Sequence[Any] = self.module(*args)
        args.clear()
        return results

    def version(self, arrays: Sequence[Array], sizes: dict[str, int]) -> Version:
        """Return the plan for arrays like these, and make it where there is none."""
        key = (*(arrays[n].strides for n in self.fixed), *sorted(name for name, size in sizes.items() if size < 1))
        for version in self.versions.get(key, ()):
            if version.serves(sizes):
                return version
        with self.lock:
            given = dict(zip((self.inputs[n] for n in self.tensors), arrays, strict=True))
            version = version_of(self.module, given, sizes, self.wanted, self.name, self.settings.tune)
            announce(self.name, version.steps, self.settings.strict)
            self.versions.setdefault(key, []).append(version)
        return version


def filled(version: Version, outputs: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
    """Return the values of the wanted results."""
    values = []
    for value, order in zip(version.result, version.orders, strict=True):
        if isinstance(value, Slot):
            tensor = outputs[value.number]
            values.append(tensor if order is None else tensor.permute(order))
        else:
            values.append(value.at(sizes) if isinstance(value, Size) else value)
    return values


def seen(node: Any, given: dict[Any, Any]) -> Any:
    """Return a result that is an argument, or a view of one."""
    if node not in given:
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda x: seen(x, given))
        given[node] = node.target(*args, **kwargs)
    return given[node]


def leaves(results: Any) -> list[Any]:
    """Return the results of a graph in order, without the containers that they are in."""
    flat: list[Any] = torch.utils._pytree.tree_leaves(results, is_leaf=is_node)
    return flat


def is_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)


def is_view(node: Any) -> bool:
    """Whether a node is an argument, or a view of one by fixed sizes."""
    while node.op == "call_function":
        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or target._schema.name.partition("::")[2] not in VIEWS:
            return False
        others = [x for x in torch.fx.node.map_arg((node.args[1:], node.kwargs), lambda x: x) if is_node(x)]
        if others or not is_node(node.args[0]):
            return False
        node = node.args[0]
    return bool(node.op == "placeholder")
