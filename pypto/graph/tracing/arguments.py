"""The arguments of a call: checks them against the parameters, and collects the facts that a plan depends on.

Arguments and results are pytrees: they nest arrays in dicts, lists, tuples, named tuples and dataclasses.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.launch import WrongArguments, WrongDecorator
from pypto.graph.capture.guards import is_array, is_number, is_plain
from pypto.graph.capture.scalars import plain
from pypto.graph.exchange.libraries import library_name
from pypto.graph.ir.dims import Size, Sizes
from pypto.graph.ir.node import key_of
from pypto.runtime.device_arrays import DeviceArray


class Slot:
    """The slot of an output in a result; it is a leaf, so it is no dataclass.

    Attributes
    ----------
    number : int
        The number of the output.
    is_number : bool
        Whether numpy gives a scalar there, and no array without dimensions.
    """

    __slots__ = ("is_number", "number")

    def __init__(self, number: int, is_number: bool = False) -> None:
        self.number = number
        self.is_number = is_number

    def __repr__(self) -> str:
        return f"Slot({self.number})"


def children(tree: Any) -> tuple[Any, list[tuple[str, Any]]] | None:
    """Return the constructor and the named children of a container, or None for a leaf."""
    if isinstance(tree, tuple | list):
        kind = type(tree) if hasattr(tree, "_fields") else tuple if isinstance(tree, tuple) else list
        return kind, [(str(n), x) for n, x in enumerate(tree)]
    if isinstance(tree, dict):
        return dict, [(str(name), x) for name, x in tree.items()]
    type_of_tree: Any = type(tree)
    names = fields_of(type_of_tree)
    return None if names is None else (type_of_tree, [(name, getattr(tree, name)) for name in names])


@lru_cache(maxsize=1024)
def fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the names of a dataclass's fields, or None for another class."""
    if not is_dataclass(kind) or hasattr(kind, "as_array_info"):
        return None
    return tuple(f.name for f in fields(kind) if f.init)


def leaves(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return all leaves with their paths, in order.

    Examples
    --------
    >>> leaves({"a": (1, 2), "b": 3})
    [('a.0', 1), ('a.1', 2), ('b', 3)]
    """
    items = children(tree)
    if items is None:
        return [(path, tree)]
    return [leaf for name, x in items[1] for leaf in leaves(x, f"{path}.{name}" if path else name)]


def mapped(tree: Any, change: Callable[[str, Any], Any], path: str = "") -> Any:
    """Replace the leaves of a tree."""
    parts = children(tree)
    if parts is None:
        return change(path, tree)
    kind, items = parts
    changed = [(name, mapped(x, change, f"{path}.{name}" if path else name)) for name, x in items]
    if kind is dict:
        return dict(zip(tree, (x for _, x in changed), strict=True))
    if is_dataclass(kind):
        return tree.__class__(**dict(changed))
    values = [x for _, x in changed]
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


Shapes = dict[int | str, tuple[int, ...]]  # of arrays by their `id`, and of integers by their path


def positional(function: Callable[..., Any]) -> list[str]:
    """Return the names of positional parameters, or no names for a function without a signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def path_of(place: str, parameters: Sequence[str]) -> str:
    """Return the path of an array from its position in ``(args, kwargs)``.

    Examples
    --------
    >>> path_of("0.1.ids", ["weights", "batch"]), path_of("1.scale", []), path_of("0.2", ["x"])
    ('batch.ids', 'scale', 'args.2')
    """
    kind, _, path = place.partition(".")
    if kind == "1":
        return path
    position, dot, inner = path.partition(".")
    known = int(position) < len(parameters)
    return f"{parameters[int(position)] if known else f'args.{position}'}{dot}{inner}"


Array = np.ndarray[Any, Any]
NO_SHAPES: Final[Shapes] = {}
# Keywords of other libraries, and those that numpy and this one call the same.
_OF_OTHERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "dim": ("axis",), "dims": ("axes", "axis"), "axes": ("axis",), "keepdim": ("keepdims",),
        "keep_dims": ("keepdims",), "normalized_shape": ("axis",), "epsilon": ("eps",), "attn_mask": ("mask",),
        "input": ("x", "q"), "other": ("y",), "a": ("x",), "query": ("q",), "key": ("k",), "value": ("v",),
        "num_classes": ("count",), "gamma": ("weight",), "beta": ("bias",), "scale": ("weight",),
    }
)  # fmt: skip


def keyword_meant(name: str, keywords: Collection[str]) -> str:
    """Return the parameter that a misspelt keyword, or one of another library, means, or an empty string.

    Examples
    --------
    >>> keyword_meant("dim", ("x", "axis"))
    'axis'
    """
    suggestions = difflib.get_close_matches(name, keywords, 1)
    return next((word for word in _OF_OTHERS.get(name, ()) if word in keywords), suggestions[0] if suggestions else "")


def check_fusable(function: Any) -> None:
    """Refuse to fuse a value that is no plain function, such as a kernel.

    Raises
    ------
    WrongDecorator
    """
    if hasattr(function, "run") and hasattr(function, "arg_names"):
        way = "launch the kernel in a function on arrays, and fuse that one; the plan has the launch as a step"
        given = f"the kernel `{getattr(function, '__name__', function)}`"
    elif not callable(function):
        given, way = f"a {type(function).__name__}", "write `@pto.fuse` above a function on arrays"
    else:
        return
    raise WrongDecorator(decorator="pto.fuse", given=given, wanted="a function on arrays", way=way)


def check_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that do not fit the parameters of a function.

    Raises
    ------
    WrongArguments
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(function, "__name__", "function").strip("<>")
        problem = str(error)
    else:
        return
    names = list(signature.parameters)
    unknown = next((n for n in kwargs if n not in names and f"{n!r}" in problem), "")
    meant = keyword_meant(unknown, names) if unknown else ""
    way = f"did you mean `{meant}`?" if meant else ""
    raise WrongArguments(kernel=name, problem=problem, way=way or f"its parameters are {', '.join(names) or 'none'}")


class DeviceArgument(TypeError):
    """An argument is an array on a device, and the function was asked for something on the host."""

    def __init__(self) -> None:
        super().__init__("an argument is an array on a device: pass `x.numpy()` of it, or call the function itself")


class ForeignArgument(TypeError):
    """An argument is an array of another library, which enters the call as a numpy view."""


def check_place(leaf: Any) -> None:
    """Stop at an argument that is traced, on a device, or an array of another library."""
    if getattr(type(leaf), "stands_in", False):
        raise TracedArgument
    if isinstance(leaf, DeviceArray):
        raise DeviceArgument
    if library_name(leaf):
        raise ForeignArgument("an argument is an array of another library: pass `np.asarray(x)` of it")


class TracedArgument(TypeError):
    """An argument is a traced or lazy array where a numpy array is required."""

    def __init__(self) -> None:
        super().__init__("an argument is an array of a traced function, or a lazy one: pass `np.asarray(…)` of it")


def collect(tree: Any, arrays: dict[int, Array], others: list[Any], facts: list[Any], shapes: Shapes) -> None:
    """Collect the distinct arrays of a tree, the leaves that each plan compares itself, and the facts in order.

    Facts are the structure of the tree, types and layouts of arrays, and plain values except numbers.
    """
    if is_array(tree):
        if id(tree) in arrays:
            facts.append(list(arrays).index(id(tree)))
        else:
            arrays[id(tree)] = tree
            shape = shapes.get(id(tree))
            facts.append((tree.shape, tree.dtype, tree.strides) if shape is None else (shape, tree.dtype))
        return
    check_place(tree)
    items = children(tree)
    if items is not None:
        facts.append((items[0], tuple(name for name, _ in items[1])))
        for _, x in items[1]:
            collect(x, arrays, others, facts, shapes)
    elif is_plain(tree) and not is_number(tree):
        facts.append(key_of(tree))
    else:
        others.append(tree)
        facts.append(type(tree))


def filled(tree: Any, outputs: list[Array], sizes: Sizes) -> Any:
    """Fill the structure of a result with arrays, and with scalars where numpy gives scalars."""
    if isinstance(tree, Size):
        return tree.at(sizes)
    if isinstance(tree, Slot):
        result = outputs[tree.number]
        return result[()] if tree.is_number and isinstance(result, np.ndarray) else result
    if is_dataclass(tree) or isinstance(tree, tuple | list | dict):
        return mapped(tree, lambda _, leaf: filled(leaf, outputs, sizes) if isinstance(leaf, Slot | Size) else leaf)
    return tree


def containers_in(tree: Any, parameters: list[str]) -> list[tuple[str, Any]]:
    """Return the containers among arguments, each with its name."""
    containers: list[tuple[str, Any]] = []

    def walk(path: str, x: Any) -> None:
        below = children(x)
        if below is None:
            return
        if "." in path:
            containers.append((path_of(path, parameters), x))
        for name, part in below[1]:
            walk(f"{path}.{name}" if path else name, part)

    walk("", tree)
    return containers


def random_state() -> Any:
    """Return the state of numpy's global random generator, or None if it is not imported."""
    module = sys.modules.get("numpy.random")
    if module is None:
        return None
    state = module.get_state(legacy=False)
    return state["state"]["pos"], int(state["state"]["key"][0]), state["has_gauss"]


def pinned(value: Any) -> Any:
    return tuple(map(pinned, value)) if isinstance(value, tuple) else plain(value)
