"""Lowering of a graph of core ATen to the Tensor graph."""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors import Diagnostic
from pypto.graph.importing import imported
from pypto.graph.ir.dims import Dim, Size, hint, is_fixed
from pypto.graph.ir.locations import placed
from pypto.graph.ir.node import Node
from pypto.graph.ir.reference import apply
from pypto.graph.tracing.numpy_steps import Argument, results_of
from pypto.graph.tracing.tensor import Tensor, TensorGraph, tensor_type
from pypto.graph.tracing.trace import Traced
from pypto.graph.tracing.ufuncs import lift
from pypto.loc import UNKNOWN, Loc
from pypto.torch.aten import TABLE
from pypto.torch.aten.layout import in_order, inverse, memory_order
from pypto.torch.aten.row import IndexRange, NotLowered, Result, numpy_dtype
from pypto.torch.dynamo.memory import as_array
from pypto.torch.dynamo.sizes import Symbols
from pypto.torch.dynamo.steps import AtenStep, IndexCheck

torch: Any = importlib.import_module("torch")
Array = np.ndarray[Any, Any]
NOTHING: Final[Mapping[Any, str]] = MappingProxyType({})
# Ops whose result depends on the layout of an operand, which in a plan may be another than in torch.
LAID_OUT: Final = ("as_strided", "as_strided_scatter", "as_strided_copy")
NAMESPACES: Final = ("aten", "prims")
_FRAME: Final = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)')


@dataclass(frozen=True, slots=True)
class TorchStep:
    """An op that torch runs, and why it has no kernel."""

    op: str
    reason: str
    loc: str

    def __str__(self) -> str:
        return f"{self.op}: {self.reason}" + (f" ({self.loc})" if self.loc else "")


@dataclass(slots=True)
class Lowered:
    """A graph of ATen as a Tensor graph.

    Parameters
    ----------
    traced : Traced
    steps : list of TorchStep
        Ops that torch runs between kernels.
    """

    traced: Traced
    steps: list[TorchStep] = field(default_factory=list)
    origins: list[tuple[Any, int, int]] = field(default_factory=list)
    checks: list[tuple[int, Any, IndexCheck]] = field(default_factory=list)

    def makers(self, op: str, type: Any) -> list[Any]:
        """Return the ops of ATen that made nodes of an op and a type, the last one first."""
        numbers = [n.number for n in self.traced.graph.nodes if n.op == op and str(n.type) == str(type)]
        return [node for node, start, end in self.origins[::-1] if any(start <= n < end for n in numbers)]


def name_of(target: Any) -> tuple[str, str]:
    """Return the namespace and the name of an op without its overload."""
    if isinstance(target, torch._ops.OpOverload):
        namespace, _, name = target._schema.name.partition("::")
        return namespace, name
    return "", getattr(target, "__name__", str(target))


def location(node: Any) -> Loc | None:
    """Return the innermost line of the user's program that made a node."""
    frames = _FRAME.findall(str(node.meta.get("stack_trace") or ""))
    if not frames:
        return None
    file, line, function = frames[-1]
    return Loc(file, int(line), 0, int(line), 0, function)


class Lowering:
    """One run over the nodes of a graph.

    Parameters
    ----------
    module : torch.fx.GraphModule
        Functional ATen, as AOTAutograd gives it.
    symbols : Symbols
        The dimensions of its symbolic sizes.
    results : sequence of torch.fx.Node
        The nodes whose values are wanted.
    refused : mapping from torch.fx.Node to str
        Nodes that torch runs although they have a row, each with the reason.

    Attributes
    ----------
    origins : list of (torch.fx.Node, int, int)
        The numbers of the first node of the Tensor graph that an op made, and of the one behind its last.
    checks : list of (int, int, IndexCheck)
        Arguments that hold indices, by number, with the sizes of the axes that they count along.
    places : dict
        The numbers of the arguments, by their nodes of the Tensor graph.
    effects : list of Tensor
        Results of steps that run for their effect.
    """

    def __init__(self, module: Any, symbols: Symbols, results: Sequence[Any], refused: Mapping[Any, str]) -> None:
        self.module = module
        self.refused = refused
        self.origins: list[tuple[Any, int, int]] = []
        self.symbols = symbols
        self.wanted = results
        self.values: dict[Any, Any] = {}
        self.steps: list[TorchStep] = []
        self.effects: list[Tensor] = []
        self.checks: list[tuple[int, Any, IndexCheck]] = []
        self.places: dict[Any, int] = {}
        self.graph: TensorGraph | None = None

    def run(self, graph: Any, given: Mapping[Any, Tensor]) -> list[Any]:
        """Lower all nodes, and return the values of the wanted ones."""
        self.graph = graph
        self.values.update(given)
        self.places = {tensor.node: number for number, tensor in enumerate(given.values())}
        for node in self.module.graph.nodes:
            if node in self.values or node.op == "output":
                continue
            start = len(graph.nodes)
            with placed(location(node) or UNKNOWN):
                self.values[node] = self.value(node)
            self.origins.append((node, start, len(graph.nodes)))
        return [*(self.laid_out(node) for node in self.wanted), *self.effects]

    def laid_out(self, node: Any) -> Any:
        """Return a result in the order of dimensions that torch's has in memory."""
        value = self.values[node]
        if not isinstance(value, Tensor):
            return value
        order = memory_order(node.meta["val"])
        return value if order is None else np.transpose(value, order)

    def value(self, node: Any) -> Any:
        """Lower one node."""
        if node.op == "placeholder":  # no tensor
            value = node.meta.get("val")
            return self.symbols.size(value) if isinstance(value, int | torch.SymInt) else value
        if node.op == "get_attr":
            return self.attribute(node.target)
        if node.target is operator.getitem:
            source, number = node.args
            return self.values[source][number]
        meta = node.meta.get("val")
        if isinstance(meta, int | torch.SymInt) and not isinstance(meta, bool):
            return self.symbols.size(meta)
        if isinstance(meta, bool | float | torch.SymFloat | torch.SymBool):
            return self.number(node)
        return self.lowered(node, meta)

    def number(self, node: Any) -> Any:
        """Compute a number that is no size from the sizes of this call, for which the plan is then valid alone."""
        args = [self.pinned(x) if isinstance(x, Size) else x for x in self.mapped(node.args)]
        if node.kwargs or not all(isinstance(x, int | float) for x in args):
            raise NotLowered(f"{node.target}, which gives a number")
        return node.target(*args)

    def pinned(self, size: Any) -> int:
        """Return a size of this call, with a guard that it is the size of later ones."""
        number = hint(size)
        assert self.graph is not None and self.graph.guards is not None
        self.graph.guards.answer(size - number, "==")
        return number

    def lowered(self, node: Any, meta: Any) -> Any:
        """Lower an op by its row, or add a step in which torch runs it.

        Raises
        ------
        NotLowered
            When the result depends on the layout of an operand, and no row covers it.
        """
        args, kwargs = self.mapped(node.args), self.mapped(node.kwargs)
        results = self.results(meta)
        namespace, name = name_of(node.target)
        row = TABLE.get(name) if namespace in NAMESPACES else None
        if row is None and name in LAID_OUT:
            raise NotLowered(f"{name}, which depends on the layout of memory")
        if row is None or node in self.refused:
            return self.by_torch(node, args, kwargs, meta, self.refused.get(node, "it has no row"))
        inputs = [x.meta.get("val") if isinstance(x, torch.fx.Node) else x for x in node.args]
        offered = {"results": results, "graph": self.graph, "inputs": inputs}
        order = memory_order(meta) if row.is_elementwise else None
        try:
            if order is not None:
                args = [in_order(x, order) if isinstance(x, Tensor) else x for x in args]
            value = row.lower(*args, **kwargs, **{word: offered[word] for word in row.wants})
            if order is not None:
                value = np.transpose(value, inverse(order))
            self.check(value, results)
        except NotLowered as error:
            if name in LAID_OUT:
                raise
            return self.by_torch(node, args, kwargs, meta, str(error))
        except (Diagnostic, TypeError, AttributeError, IndexError, KeyError, ValueError) as error:
            reason = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
            return self.by_torch(node, args, kwargs, meta, str(reason).partition("\n")[0])
        for indices in row.indices(*args, **kwargs) if row.indices else ():
            self.check_indices(indices, location(node))
        return value

    def check_indices(self, indices: IndexRange, loc: Loc | None) -> None:
        """Check indices now where they are known, before the plan where they are an argument, else in a step of it."""
        source = indices.index.node
        while source.is_reshape:
            source = source.inputs[0]
        check = IndexCheck(indices.axis, indices.counts_back, loc)
        numbers = constant_value(source)
        if numbers is not None and is_fixed(indices.size):
            check(numbers, indices.size)
        elif source in self.places:
            self.checks.append((self.places[source], indices.size, check))
        else:
            graph: Any = self.graph
            inputs = [indices.index.node, lift(graph, indices.size).node]
            self.effects += results_of(graph, check, inputs, [tensor_type((), np.dtype(np.int8))])

    def attribute(self, target: str) -> Any:
        """Return a constant tensor of the module as an input, or another attribute itself."""
        value: Any = self.module
        for part in target.split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            assert self.graph is not None
            return self.graph.argument(target.replace(".", "_"), as_array(value))
        return value

    def mapped(self, tree: Any) -> Any:
        """Replace nodes in arguments by their values."""
        if isinstance(tree, torch.fx.Node):
            return self.values[tree]
        if isinstance(tree, list | tuple):
            return [self.mapped(x) for x in tree]
        return {name: self.mapped(x) for name, x in tree.items()} if isinstance(tree, dict) else tree

    def results(self, meta: Any) -> tuple[Result, ...]:
        """Return the types of a node's results."""
        values = meta if isinstance(meta, tuple | list) else [meta]
        if any(isinstance(x, torch.Tensor) and x.layout is not torch.strided for x in values):
            raise NotLowered("a sparse tensor")
        return tuple(Result(numpy_dtype(x.dtype), self.symbols.shape(x)) for x in values if isinstance(x, torch.Tensor))

    def check(self, value: Any, results: tuple[Result, ...]) -> None:
        """Refuse a value of another type than torch's."""
        values = [x for x in (value if isinstance(value, tuple | list) else [value]) if x is not None]
        if len(values) != len(results):
            raise NotLowered(f"{len(values)} results of {len(results)}")
        for x, result in zip(values, results, strict=True):
            if not isinstance(x, Tensor):
                raise NotLowered(f"a result that is a {type(x).__name__}")
            if x.dtype != result.dtype or tuple(x.node.shape) != result.shape:
                raise NotLowered(f"{x.dtype}{list(x.node.shape)} where torch has {result.dtype}{list(result.shape)}")

    def by_torch(self, node: Any, args: Any, kwargs: Any, meta: Any, reason: str) -> Any:
        """Add a step in which torch runs the op."""
        loc = location(node)
        self.steps.append(TorchStep(str(node.target), reason, "" if loc is None else str(loc)))
        tensors: list[Tensor] = []
        sizes: set[int] = set()
        graph: Any = self.graph

        def place(value: Any) -> Any:
            if isinstance(value, Tensor | Size):
                tensors.append(lift(graph, value))
                if isinstance(value, Size):
                    sizes.add(len(tensors) - 1)
                return Argument(len(tensors) - 1)
            if isinstance(value, list | tuple):
                return [place(x) for x in value]
            return {k: place(x) for k, x in value.items()} if isinstance(value, dict) else value

        places = (place(args), place(kwargs))
        if meta is None:
            return self.effect(node, places, sizes, tensors)
        if not self.results(meta):
            raise NotLowered(f"{node.target}, which gives no tensor")
        metas = list(meta) if isinstance(meta, tuple | list) else [meta]
        numbers = tuple(n for n, x in enumerate(metas) if isinstance(x, torch.Tensor))
        orders = [memory_order(metas[n]) for n in numbers]
        types = [
            tensor_type(r.shape if order is None else tuple(r.shape[n] for n in order), r.dtype)
            for r, order in zip(self.results(meta), orders, strict=True)
        ]
        step = AtenStep(str(node.target), node.target, places, sizes, dict(zip(numbers, orders, strict=True)))
        values = [
            x if order is None else np.transpose(x, inverse(order))
            for x, order in zip(results_of(graph, step, [x.node for x in tensors], types), orders, strict=True)
        ]
        if not isinstance(meta, tuple | list):
            return values[0]
        at = iter(values)
        return tuple(next(at) if n in numbers else None for n in range(len(metas)))

    def effect(self, node: Any, places: Any, sizes: set[int], tensors: Sequence[Tensor]) -> None:
        """Add a step that has no result, such as a check: its number is a result that nobody reads."""
        step = AtenStep(str(node.target), node.target, places, sizes, {})
        graph: Any = self.graph
        self.effects += results_of(graph, step, [x.node for x in tensors], [tensor_type((), np.dtype(np.int8))])


def constant_value(node: Node) -> Array | None:
    """Return the elements of an array that depends on no argument and no named size, or None."""
    if node.is_input or node.is_call or not all(map(is_fixed, node.shape)):
        return None
    if node.is_number:
        return np.asarray(node.attr("value")) if node.is_constant else None
    values = [value for value in map(constant_value, node.inputs) if value is not None]
    return apply(node.op, values, dict(node.attrs), node.type) if len(values) == len(node.inputs) else None


def lower(
    module: Any,
    arrays: Mapping[Any, Array],
    symbols: Symbols,
    results: Sequence[Any],
    name: str,
    refused: Mapping[Any, str] = NOTHING,
) -> Lowered:
    """Lower a graph for arrays like those of a call.

    Parameters
    ----------
    module : torch.fx.GraphModule
    arrays : mapping from torch.fx.Node to ndarray
        An array for each placeholder that is a tensor.
    symbols : Symbols
    results : sequence of torch.fx.Node
        The nodes whose values the plan gives.
    name : str
    refused : mapping from torch.fx.Node to str
        Nodes that torch runs, each with the reason.
    """
    lowering = Lowering(module, symbols, results, refused)
    nodes = list(arrays)
    dims: tuple[Dim, ...] = tuple(symbols.dims.values())
    shapes = [symbols.shape(node.meta["val"]) for node in nodes] if dims else []

    def run(graph: TensorGraph, tensors: list[Tensor]) -> list[Any]:
        return lowering.run(graph, dict(zip(nodes, tensors, strict=True)))

    named = {node.name: array for node, array in arrays.items()}
    return Lowered(imported(name, named, run, shapes, dims), lowering.steps, lowering.origins, lowering.checks)
