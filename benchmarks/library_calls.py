"""The suite `library-calls`: what a call of a library row costs at few rows, beside its kernel and beside torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from benchmarks.data import random
from benchmarks.peers import torch_peers
from benchmarks.runner import Case, Impl, Row, Suite
from pypto import library
from pypto.library import Operator

WIDTH: Final = 64
TOKENS: Final = (1, 16, 512)


def rms_norm(torch: Any, x: Any, g: Any) -> Any:
    """Root mean square normalisation by torch."""
    return torch.nn.functional.rms_norm(x, (WIDTH,), g, 1e-6)


def swiglu(torch: Any, x: Any) -> Any:
    """The gated linear unit as models write it."""
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def rope_half(torch: Any, x: Any, cos: Any, sin: Any) -> Any:
    """Rotary embedding as models write it."""
    a, b = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat([-b, a], -1) * sin[:, None]


def softmax(torch: Any, x: Any) -> Any:
    """Softmax by torch."""
    return torch.softmax(x, -1)


def arrays_of(name: str, tokens: int) -> tuple[Any, ...]:
    """Arguments of a row for a number of tokens."""
    shapes = {"rms_norm": ((tokens, WIDTH), (WIDTH,)), "swiglu": ((tokens, 2 * WIDTH),), "softmax": ((tokens, WIDTH),)}
    turned = ((tokens, 4, WIDTH), (tokens, WIDTH), (tokens, WIDTH))
    return tuple(random(*shape) for shape in shapes.get(name, turned))


def case(name: str, tokens: int, as_tensors: bool) -> Case:
    """A row's checked call, its kernel alone, and torch."""
    row, arrays = library.rows[name], arrays_of(name, tokens)
    reference = partial(expected, row, arrays)

    def by_torch(torch: Any) -> dict[str, Impl]:
        return {"torch": partial(globals()[name], torch, *map(torch.from_numpy, arrays))}

    given = arrays
    if as_tensors:
        import torch

        given = tuple(map(torch.from_numpy, arrays))
    return Case(partial(row, *given), {"kernel": alone(row, given), **torch_peers(by_torch)}, reference)


def expected(row: Operator, arrays: tuple[Any, ...]) -> Any:
    """The result in float64."""
    (result,) = row.expected(dict(zip(row.signature.names, arrays, strict=False))).values()
    return result


def alone(row: Operator, given: tuple[Any, ...]) -> Callable[[], Any]:
    """The kernel of a row without checks, on memory that is there."""
    bound = row.bind(given, {})
    (y,) = row.outputs(bound).values()
    run, values = row.unchecked(), dict(bound.values)
    (name,) = (spec.name for spec in row.signature.outputs)

    def launch() -> Any:
        run(**values, **{name: y})
        return y

    return launch


def suite_row(name: str, tokens: int, as_tensors: bool) -> Row:
    """A row of the suite; at one token, its time is barred."""
    most = 8e-6 if tokens == 1 else float("inf")
    kind, needs = ("tensors", "torch") if as_tensors else ("numpy", "")
    build = partial(case, name, tokens, as_tensors)
    return Row(f"call of {name}", f"{tokens} rows, {kind}", 1, "call", "call", 1e-4, build, (), (1,),
               "library calls", 0.0, most, needs)  # fmt: skip


ROWS: Final = tuple(
    suite_row(name, tokens, as_tensors)
    for name in ("rms_norm", "swiglu", "rope_half", "softmax")
    for tokens in TOKENS
    for as_tensors in (True, False)
)
LIBRARY_CALLS: Final = Suite("library-calls", ROWS)
