"""`pto.fuse`: makes a function on arrays run as fused kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from pypto.graph.fused import Fused
from pypto.graph.tracing.argument_paths import Named

if TYPE_CHECKING:
    P = ParamSpec("P")
    R = TypeVar("R")

    class FusedFunction(Fused, Generic[P, R]):
        """A fused function to a type checker: it is called as the function is, or with memory for the results."""

        @overload
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
        @overload
        def __call__(self, *args: Any, out: Any, **kwargs: Any) -> R: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


@overload
def fuse(
    function: Callable[P, R],
    /,
    *,
    precision: str = "",
    dims: Mapping[str, Sequence[Named]] | None = None,
    donate: Sequence[str] = (),
    overlap: bool = True,
    disable: Sequence[str] = (),
) -> FusedFunction[P, R]: ...
@overload
def fuse(
    *,
    precision: str = "",
    dims: Mapping[str, Sequence[Named]] | None = None,
    donate: Sequence[str] = (),
    overlap: bool = True,
    disable: Sequence[str] = (),
) -> Callable[[Callable[P, R]], FusedFunction[P, R]]: ...
def fuse(
    function: Callable[..., Any] | None = None,
    /,
    *,
    precision: str = "",
    dims: Mapping[str, Sequence[Named]] | None = None,
    donate: Sequence[str] = (),
    overlap: bool = True,
    disable: Sequence[str] = (),
) -> Any:
    """Make a function on arrays run as fused kernels.

    Parameters
    ----------
    function : callable
        On numpy arrays, or on dicts, lists, tuples and dataclasses of them. It is traced: it runs once for each new
        shape, type, layout or constant, on stand-ins that note what it does.
    precision : str
        How exact products of float32 are, see `pypto.dot`; empty, as exact as float32.
    dims : mapping from str to sequence of Dim, int or None, optional
        Dimensions by name: for an array, by its parameter or a path such as ``"batch.ids"``, a `Dim` for each dimension
        that differs from call to call, and None for the others, or a number for one that has this size. One plan serves
        all sizes of their ranges, and no kernel is compiled anew. The arrays are in C order.
    donate : sequence of str, optional
        Arguments, by parameter or path, that nobody reads after the call: results may be made in their memory.
    overlap : bool
        Whether steps run side by side that do not depend on each other, and alone would leave threads idle.
    disable : sequence of str
        Passes that this function does without, such as ``online_softmax``; `Fused.emit` shows what each pass gives.

    Returns
    -------
    Fused
        A call takes ``out=`` besides, unless the function has an argument of that name: arrays, in the form of the
        result, that it is written to; None where a new array will do.

    Raises
    ------
    WrongPass
        When `disable` names a pass that there is not, or that code would not be right without.
    WrongDims
        When an argument does not fit its dimensions by name.
    WrongOut
        When an array of `out` has another shape or type, or it, an argument given away or one that the function writes
        to overlaps another array.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> f = pto.fuse(lambda x, y: np.sqrt(x * x + y * y))
    >>> f(np.float32([3]), np.float32([4]))
    array([5.], dtype=float32)
    >>> from pypto.arrays import Dim
    >>> f = pto.fuse(lambda x: x / x.sum(), dims={"x": (Dim("n", 1, 1000),)})
    >>> plans = {f.plan(np.ones(size, np.float32)) for size in (1, 10, 1000)}
    >>> len(plans), f(np.float32([1, 3]))
    (1, array([0.25, 0.75], dtype=float32))
    """
    make = functools.partial(Fused, precision=precision, dims=dims, donate=donate, overlap=overlap, disable=disable)
    return make if function is None else make(function)


def explain(function: Callable[..., Any], *args: object, **kwargs: object) -> str:
    """What becomes of a function on arrays for arguments like these; one that is not fused is as it would be.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> print(explain(pto.fuse(lambda x: np.exp(x) + 1), np.zeros(8, np.float32)).splitlines()[0])
    plan of lambda: 1 steps, 1 kernels, arena 0 bytes of 64
    """
    return str((function if isinstance(function, Fused) else Fused(function)).plan(*args, **kwargs))
