"""`pto.vjp` launches a kernel, and returns a function for the vector-Jacobian product."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pypto.arguments import BOUNDARY, check_kernel, launched_kernel
from pypto.errors.gradients import WrongGradient
from pypto.gradients.kernel import AdjointKernel, adjoint

Array = np.ndarray[Any, Any]
Pullback = Callable[..., tuple[Array, ...]]


def vjp(
    kernel: Any, grid: Any = None, /, *args: Any, wrt: Iterable[str] | None = None, **given: Any
) -> tuple[tuple[Array, ...], Pullback]:
    """Launches a kernel, and returns its results with a function for the vector-Jacobian product.

    Parameters
    ----------
    kernel : Kernel
        See `adjoint` for what can be differentiated.
    grid : int, tuple or function
        As in ``kernel[grid]``.
    *args, **given
        The arguments of the launch, as numpy arrays and numbers.
    wrt : iterable of str, optional
        The arrays by which it is differentiated; by default all arrays of floats that it does not store.

    Returns
    -------
    results : tuple of ndarray
        The arrays of floats that the kernel stores, in the order of its parameters.
    pullback : callable
        Takes the gradient of a loss by each result, in the same order, or one number for results of one element. Gives
        new arrays with the gradients by each of `wrt`, in that order. It may be called any number of times.

    Raises
    ------
    NoGradient
        With the line, where the kernel cannot be differentiated.
    WrongGradient
        When a name in `wrt` is no argument, or the number of gradients is not that of the results.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def scale(x, w, y):
    ...     y[:] = x[:] * w[:]
    >>> x, w = np.arange(3, dtype=np.float32), np.full(3, 2, np.float32)
    >>> (y,), pullback = pto.vjp(scale, 1, x, w, np.empty(3, np.float32))
    >>> y
    array([0., 2., 4.], dtype=float32)
    >>> pullback(np.ones(3, np.float32))
    (array([2., 2., 2.], dtype=float32), array([0., 1., 2.], dtype=float32))
    """
    kernel = launched_kernel(kernel)
    with BOUNDARY:
        check_kernel(kernel, "pto.vjp", "a function of numpy has no gradient here: write the kernel, and launch it")
    values = dict(zip(kernel.signature.names, kernel.signature.bind(args, given), strict=True))
    trial = adjoint(kernel, tuple(float_arrays(values)))
    stored, in_place = trial.stored(grid, **values), trial.in_place(grid, **values)
    names = tuple(n for n in float_arrays(values) if n not in stored or n in in_place) if wrt is None else tuple(wrt)
    back = adjoint(kernel, names)
    inputs = {**values, **{n: values[n].copy() for n in in_place}}
    kernel[grid](**values)

    def pullback(*gradients: Any) -> tuple[Array, ...]:
        return pulled_back(back, grid, inputs, stored, gradients)

    return tuple(values[n] for n in stored), pullback


def float_arrays(values: dict[str, Any]) -> Iterable[str]:
    """The names of the numpy arrays of floats among arguments."""
    for name, x in values.items():
        if isinstance(x, np.ndarray) and (x.dtype.kind == "f" or x.dtype.name == "bfloat16"):
            yield name


def pulled_back(
    back: AdjointKernel, grid: Any, values: dict[str, Any], stored: tuple[str, ...], gradients: tuple[Any, ...]
) -> tuple[Array, ...]:  # fmt: skip
    """The gradients by the arrays of an adjoint, in new arrays."""
    if len(gradients) != len(stored):
        problem = f"{len(gradients)} gradients for {len(stored)} results"
        way = f"pass one for each of {', '.join(stored)}, in this order"
        raise WrongGradient(kernel=back.kernel.signature.kernel, problem=problem, way=way)
    incoming = {f"d_{n}": like(g, values[n]) for n, g in zip(stored, gradients, strict=True)}
    outgoing = {f"d_{n}": np.empty_like(values[n]) for n in back.wrt}
    for name in outgoing.keys() & incoming.keys():  # in place: the one that is read is written to
        outgoing[name][...] = incoming[name]
    back[grid](**values, **(incoming | outgoing))
    return tuple(outgoing.values())


def like(gradient: Any, result: Array) -> Array:
    """Returns a gradient in the dtype of its result."""
    return np.asarray(gradient, result.dtype).reshape(result.shape) if result.size == 1 else np.asarray(gradient)
