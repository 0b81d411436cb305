"""Represents one call, which several versions may compute: its arguments, its results, and copies of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from pypto.ir.types import DType
from pypto.library.binding import copied
from pypto.library.tolerance import EXACT, Close, Tolerance
from pypto.runtime.arrays import array_info
from pypto.testing.close import as_numpy

Run = Callable[..., Any]
Values = dict[Any, Any]


@dataclass(slots=True)
class Call:
    """One call of an operator.

    Parameters
    ----------
    args, given
        Its arguments by position and by name.
    names : sequence of str
        The names of arguments, where `effects` names some.
    effects : sequence of str
        The arguments that are written in place.
    results : sequence of str
        The names of the results, for tolerances; empty where a function names none.
    tolerance : callable
        The tolerance of a result, from its name and dtype.
    """

    args: tuple[Any, ...]
    given: Mapping[str, Any]
    names: Sequence[str]
    effects: Sequence[str]
    results: Sequence[str]
    tolerance: Callable[[str, DType], Tolerance]
    values: Values = field(init=False)

    def __post_init__(self) -> None:
        keys: Iterable[Any] = self.names if self.effects else count()
        self.values = {**dict(zip(keys, self.args, strict=False)), **self.given}

    def prepare(self, run: Run, values: Values) -> Callable[[], Any]:
        """Returns a function that computes the results by a version."""
        args = [value for name, value in values.items() if isinstance(name, int)]
        return partial(run, *args, **{name: value for name, value in values.items() if isinstance(name, str)})

    def written(self, result: Any, values: Values) -> Values:
        """Returns the arrays and numbers in results, and the effects, by name."""
        if self.results:
            given = result if len(self.results) > 1 else (result,)
            result = dict(zip(self.results, given, strict=True))
        return {**dict(arrays(result)), **{name: values[name] for name in self.effects if name in values}}


def arrays(results: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields arrays and numbers in results, with names such as ``y`` or ``2.k``."""
    if isinstance(results, Mapping):
        pairs = list(results.items())
    elif isinstance(results, tuple | list):
        pairs = list(enumerate(results))
    else:
        if results is not None:
            yield name or "result", results
        return
    for key, value in pairs:
        yield from arrays(value, f"{name}.{key}" if name else str(key))


def nbytes(values: Values, result: Any) -> int:
    """Returns the bytes of all arrays in arguments and results."""
    parts = [*values.values(), *(result if isinstance(result, tuple) else (result,))]
    return sum(getattr(value, "nbytes", 0) for value in parts)


def copies(values: Values, names: Sequence[str] | None = None) -> Values:
    """Copies some arguments, by default all; copies of all are detached from autograd."""
    if names is not None:
        return values | {name: copied(values[name]) for name in names if name in values} if names else values
    return {name: copied(detached(value)) for name, value in values.items()}


def detached(value: Any) -> Any:
    """Detaches a tensor from its history; other values stay as they are."""
    return value.detach() if hasattr(value, "detach") else value


def write_back(values: Values, written: Values, names: Sequence[str]) -> None:
    """Copies effects from a version's private copies to the caller's arguments."""
    for name in names:
        target: Any = values.get(name)
        if hasattr(target, "copy_"):
            target.copy_(written[name])
        elif target is not None:
            target[...] = written[name]


def overwritten(call: Call, values: Values) -> str:
    """Describes an argument that a version has changed though it is no effect; empty if there is none."""
    inputs = {name: value for name, value in values.items() if name not in call.effects}
    for (name, value), (_, original) in zip(arrays(inputs), arrays({n: call.values[n] for n in inputs}), strict=True):
        if hasattr(value, "dtype") and EXACT.problem(detached(value), detached(original)):
            written = call.names[int(name)] if name.isdigit() and call.names else name
            return f"it writes to argument `{written}`, which is no effect"
    return ""


def difference(call: Call, ours: Values, right: Values) -> tuple[str, float]:
    """Compares results by name.

    Returns
    -------
    (str, float)
        A description of the first difference beyond the tolerance, empty if there is none, and the largest absolute
        difference of finite elements.
    """
    if ours.keys() != right.keys():
        return f"it returns {', '.join(ours) or 'nothing'}, and the reference {', '.join(right) or 'nothing'}", 0.0
    largest, problem = 0.0, ""
    for name, value in right.items():
        info = array_info(detached(value), "result", name) if hasattr(value, "dtype") else None
        x, y = (np.asarray(as_numpy(detached(one))) for one in (ours[name], value))
        problem = problem or described(name, call.tolerance(name, info.dtype) if info else Close(), x, y)
        if x.shape == y.shape and x.dtype.kind in "fiub":
            finite = np.isfinite(x) & np.isfinite(y)
            largest = max(largest, float(np.max(np.abs(x[finite].astype(float) - y[finite]), initial=0.0)))
    return problem, largest


def described(name: str, tolerance: Tolerance, x: Any, y: Any) -> str:
    """Describes how a result exceeds its tolerance; empty if it does not."""
    if x.shape != y.shape:
        return f"{name} has shape {x.shape}, and that of the reference has {y.shape}"
    lines = tolerance.problem(x, y).split("\n")[:2]  # how many elements differ, and the worst of them
    return f"{name} differs from the reference: {'; '.join(map(str.strip, lines))}" if lines[0] else ""
