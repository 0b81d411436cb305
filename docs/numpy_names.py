"""Writes the table of numpy's names in ``docs/coming-from-numpy.md``: what runs as kernels, as steps of numpy, or not.

``python -m docs.numpy_names`` writes it, and a test holds the page to what it would write. Each function, method and
ufunc is fused, called, and compared with numpy; what it becomes is read from `explain`.
"""

from __future__ import annotations

import re
import types
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import pypto as pto
import pypto.arrays as pt
from docs.numpy_calls import CALLS, METHODS, NO_FUNCTION, NO_METHOD
from pypto.errors import Diagnostic

PAGE: Final = Path(__file__).parent / "coming-from-numpy.md"
PART: Final = re.compile(r"(?<=<!-- names -->\n).*?(?=<!-- end of names -->)", re.DOTALL)
KINDS: Final = {
    "kernels": "kernels, views, and constants of the plan",
    "step": "a step of numpy between kernels, which `explain` counts",
}
SPACES: Final = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}


@dataclass
class Arguments:
    """What the calls are made with: floats `x` and `v`, integers `k`, bools `b`, and a symmetric matrix `m`."""

    x: Any
    v: Any
    k: Any
    b: Any
    m: Any


def arguments() -> Arguments:
    rng = np.random.default_rng(0)
    x, square = rng.uniform(0.1, 0.9, (6, 4)), rng.uniform(0, 1, (4, 4))
    v, k, b = rng.uniform(0.1, 0.9, 8), rng.permutation(8), rng.random(8) > 0.5
    return Arguments(x, v, k, b, square @ square.T + np.eye(4))


def names_of(space: Any) -> list[str]:
    """Return the functions of a namespace that take or give arrays."""
    skipped = (type, types.ModuleType)
    found = [name for name in dir(space) if not name.startswith("_") and callable(getattr(space, name))]
    return [n for n in found if not isinstance(getattr(space, n), skipped) and n not in NO_FUNCTION]


def default_calls(function: Any) -> Iterator[Callable[[Arguments], Any]]:
    """Return the calls to try of a function without a row: of floats, integers, and bools."""
    if isinstance(function, np.ufunc) and function.nin == 2:
        yield lambda a: function(a.v, a.v[::-1])
        yield lambda a: function(a.k, a.k[::-1])
    else:
        yield lambda a: function(a.x)
        yield lambda a: function(a.k)


def call_of(space: str, name: str) -> Callable[[Arguments], Any]:
    """Return the call of a function: that of its row, or the first default one that numpy takes."""
    row = CALLS.get(f"{space}.{name}".removeprefix("numpy."))
    if row is not None:
        return row
    for call in default_calls(getattr(SPACES[space], name)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call(arguments())
        except (TypeError, ValueError):
            continue
        return call
    raise LookupError(f"{name} needs a row in docs/numpy_calls.py")


def calls() -> Iterator[tuple[str, str, Callable[[Arguments], Any]]]:
    """Return the namespace, name and call of everything that is tried."""
    for space, module in SPACES.items():
        yield from ((space, name, call_of(space, name)) for name in names_of(module))
    for name in dir(np.ndarray):
        if not name.startswith("_") and name not in NO_METHOD:
            yield "numpy.ndarray", name, METHODS.get(name) or of_attribute(name)


def of_attribute(name: str) -> Callable[[Arguments], Any]:
    """Return the read of a property, or the call of a method without arguments."""

    def call(a: Arguments) -> Any:
        value = getattr(a.x, name)
        return value() if callable(value) else value

    return call


def outcome(call: Callable[[Arguments], Any]) -> tuple[str, str]:
    """Return what a call becomes (`kernels`, `step`, `refused` or `differs`), and the reason."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = call(arguments())
        try:
            found = pto.fuse(call)(arguments())
        except Diagnostic as error:
            return "refused", reason_of(error)
        except Exception as error:
            return "differs", f"{type(error).__name__}: {error}"
        problem = difference(found, wanted)
        if problem:
            return "differs", problem
        return ("step" if " run by numpy" in pt.explain(call, arguments()) else "kernels"), ""


def reason_of(error: Diagnostic) -> str:
    """Return the reason of a refusal, without the name of what is refused."""
    return error.message.partition(" cannot be traced: ")[2] or error.message.partition(", and while")[0]


def difference(found: Any, wanted: Any) -> str:
    """Return how a result differs from numpy's, or nothing."""
    if isinstance(wanted, tuple | list):
        pairs = zip(found, wanted, strict=True)
        return next(filter(None, (difference(*pair) for pair in pairs)), "")
    a, b = np.asarray(found), np.asarray(wanted)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{a.dtype} {a.shape}, and {b.dtype} {b.shape} in numpy"
    is_same = np.allclose(a, b, rtol=1e-7, equal_nan=True) if b.dtype.kind in "fc" else np.array_equal(a, b)
    return "" if is_same else f"{a.tolist()}, and {b.tolist()} in numpy"


def outcomes() -> list[tuple[str, str, str, str]]:
    """Return the namespace, name, kind and reason of everything."""
    return [(space, name, *outcome(call)) for space, name, call in calls()]


def lines(rows: list[tuple[str, str, str, str]]) -> Iterator[str]:
    """One row of the table for each namespace and what its names become."""
    table: dict[tuple[str, str], list[str]] = defaultdict(list)
    for space, name, kind, reason in rows:
        table[space, KINDS.get(kind, f"refused: {reason}")].append(name)
    yield from ("| of | becomes | names |", "|---|---|---|")
    for space in (*SPACES, "numpy.ndarray"):
        kinds = [kind for of, kind in table if of == space]
        for kind in sorted(kinds, key=lambda x: (x.startswith("refused"), x.startswith("a step"), x)):
            yield f"| `{space}` | {kind} | {', '.join(f'`{name}`' for name in sorted(table[space, kind]))} |"
    others = ", ".join(f"`{name}`" for name in NO_FUNCTION)
    yield f"| `numpy` | no function of values: texts, files, settings, types | {others} |"


def page(rows: list[tuple[str, str, str, str]]) -> str:
    """Return the page with the table written anew."""
    part = "\n".join(["", *lines(rows), "", ""])
    return PART.sub(lambda _: part, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(outcomes()), encoding="utf-8")
