"""Calls on arrays of another library: they enter as numpy views of their memory, and results leave as its arrays."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn

import numpy as np

from pypto.errors.graph import MixedLibraries, UntrackedGradient
from pypto.errors.launch import UndispatchedLaunch, UnsupportedArgument
from pypto.graph.capture.guards import is_array
from pypto.graph.exchange.call import Call
from pypto.graph.exchange.dlpack import library_of
from pypto.graph.exchange.libraries import library_name
from pypto.graph.tracing.arguments import leaves, mapped, path_of, positional
from pypto.runtime.tensors import active_mode, has_mode

Array = np.ndarray[Any, Any]


def foreign_call(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    """Return a call on arrays of another library as a call on numpy views.

    Raises
    ------
    MixedLibraries
        When arrays of two libraries are among the arguments.
    UntrackedGradient
        When autograd would have to differentiate the call.
    UndispatchedLaunch
        When a mode of torch would not see the call.
    UnsupportedArgument
        When the memory of an array is not the host's, or holds something else than its elements.
    """
    arrays = {path: x for path, x in leaves((args, dict(kwargs))) if is_array(x) or library_name(x)}
    if not any(library_name(x) for x in arrays.values()):
        return Call(args, dict(kwargs))
    name, parameters = getattr(function, "__name__", "the function").strip("<>"), positional(function)
    paths = {path: path_of(path, parameters) for path in arrays}
    check_libraries(name, {paths[path]: x for path, x in arrays.items()})
    if any(library_name(x) == "torch" for x in arrays.values()):
        check_tensors(name, {paths[path]: x for path, x in arrays.items()})
    library = library_of(next(iter(arrays.values())))
    views: dict[int, Array] = {}
    for path, x in arrays.items():
        if id(x) not in views:
            views[id(x)] = library.enter(x, partial(refuse, name, paths[path]))
    originals = {id(views[id(x)]): x for x in arrays.values()}
    inner_args, inner_kwargs = mapped((args, dict(kwargs)), lambda _, x: views.get(id(x), x))
    return Call(inner_args, inner_kwargs, library, originals, tuple(views.values()))


def refuse(function: str, arg: str, got: str, way: str) -> NoReturn:
    raise UnsupportedArgument(kernel=function, arg=arg, got=got, way=way)


def check_libraries(function: str, arrays: Mapping[str, Any]) -> None:
    """Refuse arrays of two libraries in one call.

    Raises
    ------
    MixedLibraries
    """
    first, *others = ((arg, library_name(x) or "numpy") for arg, x in arrays.items())
    for arg, library in others:
        if library != first[1]:
            foreign = first if first[1] != "numpy" else (arg, library)
            way = f"`np.asarray({foreign[0]})`" if foreign[1] != "torch" else f"`{foreign[0]}.numpy()`"
            plain = next((a for a, other in (first, (arg, library)) if other == "numpy"), "")
            if plain and foreign[1] == "torch":
                way += f", or `torch.from_numpy({plain})`"
            raise MixedLibraries(
                kernel=function, arg=first[0], library=first[1], other=arg, second=library, way=f"pass {way}"
            )


def check_tensors(function: str, tensors: Mapping[str, Any]) -> None:
    """Refuse tensors whose gradient would be lost, and calls that a mode of torch is to see.

    Raises
    ------
    UntrackedGradient, UndispatchedLaunch
    """
    torch = sys.modules["torch"]
    if has_mode():
        problem = "torch cannot see what a fused function computes"
        way = "pass real tensors, and call it under `torch.utils._python_dispatch._disable_current_modes()`"
        raise UndispatchedLaunch(kernel=function, mode=active_mode(), problem=problem, way=way)
    if torch.autograd.forward_ad._current_level >= 0:
        for arg, x in tensors.items():
            if torch.autograd.forward_ad.unpack_dual(x).tangent is not None:
                raise UntrackedGradient(kernel=function, arg=arg, what="has a tangent")
    if torch.is_grad_enabled():
        for arg, x in tensors.items():
            if x.requires_grad:
                raise UntrackedGradient(kernel=function, arg=arg, what="requires grad")


def outside_call(fused: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a fused function between two graphs of torch.compile, which traces this function."""
    from pypto.torch.graph.tracing import outside_call

    return outside_call(fused, args, kwargs)
