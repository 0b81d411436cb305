"""`pto.fuse`: compiles a function on arrays to fused kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from pypto.arguments import BOUNDARY
from pypto.graph.fused import Fused
from pypto.graph.tracing.named_dims import Dims

if TYPE_CHECKING:
    P = ParamSpec("P")
    R = TypeVar("R")

    class FusedFunction(Fused, Generic[P, R]):
        """The type of a fused function for type checkers: it takes the function's arguments and `out`."""

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
    dims: Dims | None = None,
    donate: Sequence[str] = (),
    overlap: bool = True,
    disable: Sequence[str] = (),
) -> FusedFunction[P, R]: ...
@overload
def fuse(
    *,
    precision: str = "",
    dims: Dims | None = None,
    donate: Sequence[str] = (),
    overlap: bool = True,
    disable: Sequence[str] = (),
) -> Callable[[Callable[P, R]], FusedFunction[P, R]]: ...
def fuse(
    function: Callable[..., Any] | None = None,
    /,
    *,
    precision: str = "",
    dims: Dims | None = None,
    donate: Sequence[str] = (),
    overlap: bool = True,
    disable: Sequence[str] = (),
) -> Any:
    """Compile a function on arrays to fused kernels.

    Parameters
    ----------
    function : callable
        A function of numpy arrays, or of dicts, lists, tuples and dataclasses of them. Tracing runs it once for each
        new shape, type, layout or constant, on stand-ins that record its operations.
    precision : str
        The precision of float32 products, see `pypto.dot`; an empty string means full float32 precision.
    dims : mapping from str to sequence of Dim, int or None, or to Dim, optional
        Named dimensions by parameter or path, such as ``"batch.ids"``: for each dimension of an array in C order, a
        `Dim` if its size differs from call to call, a number if it is fixed, or None if each size has its own plan. A
        `Dim` alone is for an integer, such as the end of a slice. One plan serves all sizes in the ranges.
    donate : sequence of str, optional
        Arguments, by parameter or path, that the caller does not read after the call: results may use their memory.
    overlap : bool
        Whether independent steps run at the same time if each of them alone would leave threads idle.
    disable : sequence of str
        Passes to switch off, such as ``online_softmax``; `Fused.emit` shows the result of each pass.

    Returns
    -------
    Fused
        The compiled function. A call also takes ``out=``, unless the function has an argument of that name: the
        arrays that receive the results, in the structure of the result, with None for a new array.

    Raises
    ------
    WrongPass
        When `disable` names an unknown pass, or one that correct code needs.
    WrongDims
        When an argument does not fit its named dimensions.
    WrongOut
        When an array of `out` has the wrong shape or type, or when an array of `out`, a donated argument or an
        argument that the function writes to overlaps another array.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> pto.fuse(lambda x, y: np.sqrt(x * x + y * y))(np.float32([3]), np.float32([4]))
    array([5.], dtype=float32)
    >>> from pypto.arrays import Dim
    >>> f = pto.fuse(lambda x: x / x.sum(), dims={"x": (Dim("n", 1, 1000),)})
    >>> plans = {f.plan(np.ones(size, np.float32)) for size in (1, 10, 1000)}
    >>> len(plans), f(np.float32([1, 3]))
    (1, array([0.25, 0.75], dtype=float32))
    """
    make = functools.partial(Fused, precision=precision, dims=dims, donate=donate, overlap=overlap, disable=disable)
    with BOUNDARY:
        return make if function is None else make(function)


def explain(function: Callable[..., Any], *args: object, **kwargs: object) -> str:
    """Explain the plan of a function for arguments like these; a plain function is fused for the explanation.

    Behind the steps, it says which loops have no kernel, and why, and which branches on values compute both sides.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> print(explain(pto.fuse(lambda x: np.exp(x) + 1), np.zeros(8, np.float32)).splitlines()[0])
    plan of lambda: 1 steps, 1 kernels, arena 0 bytes of 64
    """
    fused = function if isinstance(function, Fused) else Fused(function)
    with BOUNDARY:
        version = fused.version_for(args, kwargs)[0]
    return "\n".join([str(version.plan), *(f"  {note}" for note in version.traced.notes)])
