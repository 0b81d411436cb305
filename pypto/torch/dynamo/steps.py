"""Ops that torch runs between the kernels of a plan."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from pypto.errors.graph import IndexOutside
from pypto.graph.tracing.numpy_steps import filled
from pypto.loc import Loc
from pypto.torch.dynamo.memory import as_array, as_tensor

torch: Any = importlib.import_module("torch")
Array = np.ndarray[Any, Any]


class AtenStep:
    """An ATen op that torch runs as a step of the plan.

    Parameters
    ----------
    name : str
    function : callable
        The op, or a higher-order op.
    args : tuple
        Its positional and keyword arguments, with an `Argument` for each tensor and each size that a call knows.
    sizes : set of int
        Which of these are sizes.
    orders : mapping from int to tuple of int or None
        Which of its results are tensors, each with the order of its dimensions in memory where that is not C order.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, Any],
        sizes: Collection[int],
        orders: Mapping[int, tuple[int, ...] | None],
    ) -> None:
        self.function = function
        self.args = args
        self.sizes = sizes
        self.orders = orders
        self.__qualname__ = name

    def __call__(self, *arrays: Array) -> Sequence[Array]:
        values = [int(x) if n in self.sizes else as_tensor(x) for n, x in enumerate(arrays)]
        args, kwargs = filled(self.args, values)
        with torch.no_grad():
            result = self.function(*args, **kwargs)
        if not self.orders:
            return [np.zeros((), np.int8)]
        results = result if isinstance(result, tuple | list) else [result]
        tensors = {number: as_array(results[number]) for number in self.orders}
        return [x if self.orders[n] is None else np.transpose(x, self.orders[n]) for n, x in tensors.items()]


class IndexCheck:
    """A check of indices in front of a gather, which as a kernel reads zeros outside of its axis.

    Parameters
    ----------
    axis : int
    counts_back : bool
        Whether a negative index counts from the end.
    loc : Loc or None
        The user's line.
    """

    __qualname__ = "check of indices"

    def __init__(self, axis: int, counts_back: bool, loc: Loc | None) -> None:
        self.axis = axis
        self.counts_back = counts_back
        self.loc = loc

    def __call__(self, index: Array, size: Any) -> Sequence[Array]:
        self.check(int(index.min()) if index.size else 0, int(index.max()) if index.size else -1, int(size))
        return [np.zeros((), np.int8)]

    def check(self, low: int, high: int, size: int) -> None:
        """Refuse a least or greatest index outside of an axis.

        Raises
        ------
        IndexOutside
        """
        if low < (-size if self.counts_back else 0) or high >= size:
            raise IndexOutside(self.loc, index=high if high >= size else low, axis=self.axis, size=size)
