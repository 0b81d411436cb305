"""The suite `library`: operators of the library at their size in models, beside torch, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from benchmarks.peers import compiled_torch, imported
from benchmarks.runner import Bar, Case, Impl, Missing, Row, Suite
from pypto.library import Operator, rows
from pypto.library.timing import for_peer, tensors

BARS: Final = (Bar("torch", 1.2),)
# Dtypes of the first array that are timed, where they are not the first that the row has.
DTYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "rms_norm": ("f32", "bf16"), "layer_norm": ("f32",), "gelu": ("f32",), "gelu_tanh": ("f32",),
}  # fmt: skip
SHOWN: Final = tuple(
    (name, dtype)
    for name, operator in rows.items()
    if operator.peer is not None
    for dtype in DTYPES.get(name, (str(operator.signature.main_dtypes[0]),))
)
TOLERANCE: Final = 0.02  # of the norm of the first result; those of each element are the rows' own, and their tests'


def build(operator: Operator, dtype: str, size: str = "model") -> Case:
    """Ours and torch on equal tensors, against the float64 reference of the row."""
    torch = imported("torch")
    values = operator.sample(np.random.default_rng(0), size, dtype)
    expected = cache(lambda: next(iter(operator.expected(values).values())))
    view = partial(error, operator, expected)
    if isinstance(torch, Missing):
        return Case(partial(called, operator, operator, values), {"torch": torch}, zero, view=view)
    given = vars(tensors(torch, values))
    return Case(partial(called, operator, operator, given), peers(torch, operator, values), zero, view=view)


def called(operator: Operator, function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """What a function gives, or of an operator without results, the first array that it writes."""
    found = function(**given)
    return found if operator.signature.outputs else given[operator.effects[0]]


def zero() -> Any:
    """The error that is expected."""
    return np.zeros(())


def error(operator: Operator, expected: Callable[[], Any], result: Any) -> Any:
    """The norm of what the first result is off, over its norm; 0 where it is within the row's own tolerance."""
    first, right = result[0] if isinstance(result, tuple) else result, expected()
    norm = np.linalg.norm(np.ravel(first - right)) / np.linalg.norm(np.ravel(right))
    name = next(iter(operator.signature.outputs), None)
    own = operator.tolerance.get(name.name) if name else None
    return np.zeros(()) if norm > TOLERANCE and own and not own.problem(first, right) else norm


def peers(torch: Any, operator: Operator, values: Mapping[str, Any]) -> Mapping[str, Impl | Missing]:
    """Eager torch, and what torch.compile makes of the same function, each on tensors of its own."""
    peer = operator.peer
    assert peer is not None
    eager, compiled = (vars(for_peer(torch, operator, dict(values))) for _ in range(2))
    names = [name for name, value in eager.items() if isinstance(value, torch.Tensor)]
    numbers = {name: value for name, value in eager.items() if name not in names}

    def function(*arrays: Any) -> Any:
        return peer(torch, SimpleNamespace(**numbers, **dict(zip(names, arrays, strict=True))))

    made = compiled_torch(torch, function, [compiled[name] for name in names])
    for name in operator.effects:  # compiling ran it
        compiled[name].copy_(eager[name])
    theirs = [eager[name] for name in names]
    return {
        "torch": partial(called, operator, lambda **_: function(*theirs), eager),
        "torch.compile": made if isinstance(made, Missing) else partial(called, operator, lambda **_: made(), compiled),
    }


def row(name: str, dtype: str) -> Row:
    """A row of the suite, of a row of the library."""
    operator = rows[name]
    dims = SimpleNamespace(**operator.sizes["model"])
    shape = ", ".join(f"{key}={value}" for key, value in operator.sizes["model"].items())
    work = operator.flops(dims) if operator.flops else operator.moved(dims)
    make = partial(build, operator, dtype)
    return Row(f"{name} {dtype}", shape, max(work, 1.0), "flop", "", TOLERANCE, make, BARS, family=name)


LIBRARY: Final = Suite("library", tuple(row(name, dtype) for name, dtype in SHOWN))
