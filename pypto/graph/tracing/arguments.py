"""The arguments of a call: checks them against the parameters, and collects the facts that a plan depends on."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.launch import WrongArguments, WrongDecorator
from pypto.graph.capture.kinds import is_array, is_number, is_plain
from pypto.graph.ir.node import key_of
from pypto.graph.tracing.argument_paths import Shapes
from pypto.graph.tracing.pytree import children

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
    if getattr(type(tree), "stands_in", False):
        raise TracedArgument
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
