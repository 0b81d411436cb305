"""How a fused function is called: arguments that do not fit its parameters."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.launch import WrongArguments, WrongDecorator

# Keywords of other libraries, and those that numpy and this one call the same.
_OF_OTHERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "dim": ("axis",), "dims": ("axes", "axis"), "axes": ("axis",), "keepdim": ("keepdims",),
        "keep_dims": ("keepdims",), "normalized_shape": ("axis",), "epsilon": ("eps",), "attn_mask": ("mask",),
        "input": ("x", "q"), "other": ("y",), "a": ("x",), "query": ("q",), "key": ("k",), "value": ("v",),
        "num_classes": ("count",), "gamma": ("weight",), "beta": ("bias",), "scale": ("weight",),
    }
)  # fmt: skip


def keyword_meant(name: str, taken: Collection[str]) -> str:
    """The parameter that a keyword of another library, or a misspelt one, stands for; empty if there is none.

    Examples
    --------
    >>> keyword_meant("dim", ("x", "axis"))
    'axis'
    """
    near = difflib.get_close_matches(name, taken, 1)
    return next((word for word in _OF_OTHERS.get(name, ()) if word in taken), near[0] if near else "")


def check_fusable(function: Any) -> None:
    """Refuse what is no function on arrays.

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
