"""Defines the gradient of a row: a function of tensors, with a sentence about how it is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

from pypto.runtime.tensors import has_mode, why_not

Tensors = dict[str, Any]
Compute = Callable[[Any, Any], Tensors]

# Why rows have no gradient.
INTEGERS: Final = "its results are integers"
ROUNDED: Final = "its results are rounded to few bits, and it states no gradient of that; train with `fake_quantize`"
CACHES: Final = "it writes caches of inference in place, in memory that has no gradient"


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradient of a row.

    Parameters
    ----------
    text : str
        How it is computed, and what it is where the row has no derivative (a kink).
    compute : callable
        Gets torch and all values by name, and returns gradients by argument, some of which nobody may have asked for.

    Examples
    --------
    >>> from pypto import library as lib
    >>> lib.rows["rms_norm"].gradient.text
    'by the row `rms_norm_backward`'
    """

    text: str
    compute: Compute

    def __call__(self, torch: Any, v: Any) -> Tensors:
        """Returns the wanted gradients by argument, each in the dtype of its argument.

        Parameters
        ----------
        torch : module
        v : namespace
            All arguments by name (None for an absent array), all results by name, the incoming gradient `d_NAME` of
            each result with floats, and `wanted`, the names of the arguments whose gradients are asked for.
        """
        gradients = self.compute(torch, v)
        return {name: x.to(getattr(v, name).dtype) for name, x in gradients.items() if name in v.wanted}


def described(text: str) -> Callable[[Compute], Gradient]:
    """Returns a decorator that makes a gradient from a function, with a sentence about it; see `Gradient`."""
    return lambda compute: Gradient(text, compute)


def composed(forward: Compute, more: str = "") -> Gradient:
    """Makes a gradient from a composition of torch operations that computes the results; torch differentiates it.

    It computes the results again, and can itself be differentiated, vectorised and traced, as the operations can.

    Parameters
    ----------
    forward : callable
        Gets torch and the arguments by name, floats in float32 or float64; it returns results with floats by name.
    more : str
        What else is to be said about the composition.
    """

    def compute(torch: Any, v: Any) -> Tensors:
        fixed = {name: widened(torch, x) for name, x in vars(v).items()}
        names = sorted(v.wanted)

        def results(*tensors: Any) -> Tensors:
            return forward(torch, SimpleNamespace(**fixed | dict(zip(names, tensors, strict=True))))

        outputs, pullback = torch.func.vjp(results, *(fixed[name] for name in names))
        gradients = pullback({name: fixed[f"d_{name}"].to(x.dtype) for name, x in outputs.items()})
        return dict(zip(names, gradients, strict=True))

    return Gradient("torch differentiates a composition of its operations" + (more and f", {more}"), compute)


def widened(torch: Any, x: Any) -> Any:
    """Converts a tensor of floats to float32, unless it is in float64; other values stay as they are."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.dtype == torch.float64:
        return x
    return x.float()


def called(torch: Any, name: str, **arguments: Any) -> Mapping[str, Any] | None:
    """Calls a row, and returns its results by name; None where no kernel takes the dtypes of the tensors.

    Parameters
    ----------
    torch : module
    name : str
        The name of a row.
    **arguments
        The arguments of the row.
    """
    from pypto.library import rows

    row = rows[name]
    first = arguments[row.signature.inputs[0].name].dtype
    for spec in row.signature.inputs:
        x = arguments.get(spec.name)
        allowed = {getattr(torch, dtype.public) for dtype in spec.dtypes} or {first}
        if x is not None and x.dtype not in allowed:
            return None
    results = getattr(torch.ops.pypto, name)(**arguments)
    names = [spec.name for spec in row.signature.outputs]
    return dict(zip(names, (results,) if len(names) == 1 else results, strict=True))


def readable(x: Any) -> bool:
    """Says whether the elements of a tensor can be read now: it has memory, and nothing traces its operations."""
    return not has_mode() and why_not(x) is None
